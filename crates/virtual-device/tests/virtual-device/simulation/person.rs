//! Actions of people: they wake the device, even twice, ask, continue speaking, interrupt, cough,
//! fall silent, leave and return. Not for the device's reaction, nor for checking the audio.

use std::time::Duration;

use hearken_proto::device::ListenMode;
use hearken_virtual_device::firmware::Event;

use super::home::{Home, Over};
use super::vendors::{Utters, lock};

/// Time without any message from the server, while an answer is expected, after which it is a
/// fault: the longest deadlines, of the model and of the synthesiser, end before.
const PATIENCE: Duration = Duration::from_secs(100);
/// Time limit for the hello, the greeting or the microphone.
const SOON: Duration = Duration::from_secs(12);
/// From the end of speech to the end of its utterance, with network latency.
const ENDS_AFTER: Duration = Duration::from_millis(1_100);
/// From the end of speech to its transcript, with the slowest recogniser that does not fail.
const DECIDED_AFTER: Duration = Duration::from_millis(3_500);
const WAKE_WORD: &str = "hi esp";

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Has people use the device.
pub(crate) async fn live(home: &mut Home) {
    while home.now() < home.plan.length {
        home.come_back();
        // The reason for the end of a visit was checked when it occurred.
        visit(home).await.ok();
        let pause =
            if home.dice.chance(300) { home.dice.ms(1, 300) } else { home.dice.ms(2_500, 15_000) };
        home.leave_alone(pause).await;
    }
    home.end().await;
}

async fn visit(home: &mut Home) -> Result<(), Over> {
    // The simulation ends in any state.
    let length = home.plan.length;
    let early = if home.dice.chance(250) { home.dice.ms(0, 60_000) } else { length };
    home.walks_away = Some(length.min(home.now() + early));
    if home.plan.mode == ListenMode::Manual {
        push_to_talk(home).await?;
    } else {
        approach(home).await?;
        for _ in 0..home.dice.between(1, 6) {
            converse(home).await?;
        }
    }
    part(home).await
}

/// Ends a conversation in one of several ways.
async fn part(home: &mut Home) -> Result<(), Over> {
    let limit = home.plan.settings.device.no_voice_timeout;
    match home.dice.between(0, 9) {
        0..4 => {
            // The server says farewell and closes.
            home.note(|| "person: stops speaking".into());
            home.may_close = true;
            while home.quiet_for().min(home.silent_for()) < limit + PATIENCE {
                home.pass(SOON).await?;
            }
            home.fault("the server does not close a quiet connection");
        }
        4..7 if home.listens() => home.act(Event::Button),
        _ => home.walk_away(),
    }
    home.pass(Duration::ZERO).await
}

/// Wakes the device with a word or the button, until it listens.
async fn approach(home: &mut Home) -> Result<(), Over> {
    let way = home.dice.between(0, 9);
    let word = match way {
        0..5 => {
            // The device stores the audio from before.
            home.alert = true;
            home.linger(0, 1_500).await?;
            home.voice(ms(600), false);
            home.pass(ms(700)).await?;
            home.alert = false;
            home.hush();
            Some(WAKE_WORD)
        }
        5 => Some("Words 0."),
        6 => Some("hi \"esp\""),
        _ => None,
    };
    let before = home.counts().replies;
    match (way, word) {
        (9, _) => home.act(Event::Button),
        (_, word) => home.act(Event::Wake { word: word.map(str::to_owned) }),
    }
    if home.dice.chance(100) {
        home.linger(10, 1_500).await?;
        home.act(Event::Wake { word: word.map(str::to_owned) });
    }
    listening(home).await?;
    // A greeting or an answer follows, unless a second wake word cancelled it.
    if way < 6 && home.dice.chance(600) {
        let deadline = home.now() + ms(3_000);
        home.until(deadline, |h| h.counts().replies > before || h.speaks()).await?;
        if home.speaks() {
            answered(home, before).await?;
        }
    }
    Ok(())
}

/// Waits until the microphone is open.
async fn listening(home: &mut Home) -> Result<(), Over> {
    loop {
        let deadline = home.now() + SOON;
        if home.until(deadline, Home::listens).await? {
            return Ok(());
        }
        if !home.speaks() {
            home.fault(format!("the microphone stays closed: {:?}", home.state()));
            return Err(Over);
        }
        if home.quiet_for() > PATIENCE {
            home.fault("stuck in speaking");
            home.walk_away();
            return Err(Over);
        }
    }
}

/// Speaks for this long. False if the microphone closed meanwhile.
async fn say(home: &mut Home, length: Duration) -> Result<bool, Over> {
    home.voice(length, true);
    let deadline = home.now() + length;
    let closed = home.until(deadline, |h| !h.listens()).await?;
    home.hush();
    Ok(!closed)
}

/// Waits for the reply after the first `before`. True if it came, false if the server heard nothing.
async fn answered(home: &mut Home, before: u64) -> Result<bool, Over> {
    let deaf = lock(&home.world).deaf;
    loop {
        let deadline = home.now() + ms(5_000);
        let over = home
            .until(deadline, |h| h.counts().replies > before || lock(&h.world).deaf > deaf)
            .await?;
        if home.counts().replies > before {
            return Ok(true);
        }
        if over {
            return Ok(false);
        }
        if home.quiet_for() > PATIENCE && home.silent_for() > PATIENCE {
            let stuck = if home.speaks() { "stuck in speaking" } else { "no answer" };
            home.fault(stuck);
            home.walk_away();
            return Err(Over);
        }
    }
}

/// One utterance and its answer, in auto and realtime mode.
async fn converse(home: &mut Home) -> Result<(), Over> {
    listening(home).await?;
    let deadline = home.now() + ms(4_000);
    home.until(deadline, |h| !h.speaks()).await?;
    home.linger(200, 3_000).await?;
    if home.dice.chance(100) {
        cough(home, ms(1_000)).await?;
    }
    if !home.listens() {
        return Ok(());
    }
    let mut before = home.counts().replies;
    let (words, unheard, deaf) = {
        let world = lock(&home.world);
        (world.words, world.unheard(), world.deaf)
    };
    let over_a_reply = home.speaks();
    let length = home.dice_ms(400, 6_000);
    if !say(home, length).await? {
        // The device started to speak at that moment; the person will repeat it.
        answered(home, before).await?;
        return Ok(());
    }
    if over_a_reply {
        let deadline = home.now() + ms(2_000);
        home.until(deadline, |h| !h.speaks()).await?;
        before = home.counts().replies;
        let world = lock(&home.world);
        if world.deaf > deaf || world.unheard() > unheard {
            // Nothing was understood, and the reply continued.
            return Ok(());
        }
    }
    match home.dice.between(0, 9) {
        0 => {
            // They continue before the answer.
            home.linger(750, 2_500).await?;
            if home.listens() && !home.speaks() {
                let length = home.dice_ms(400, 3_000);
                say(home, length).await?;
            }
        }
        1 if home.listens() => {
            home.linger(100, 2_000).await?;
            home.act(Event::Wake { word: Some(WAKE_WORD.into()) });
            return Ok(());
        }
        2..6 => return interrupt(home, before).await,
        _ => return patient(home, before, words, unheard).await,
    }
    answered(home, before).await?;
    Ok(())
}

/// Waits for the answer to the last words, given the numbers of earlier words and failures.
async fn patient(home: &mut Home, before: u64, words: u32, unheard: u32) -> Result<(), Over> {
    let came = answered(home, before).await?;
    let world = lock(&home.world);
    let passed_on = world.words == words || world.asked >= world.words;
    // If a part was lost, the server asks the person to repeat all of it; while the recogniser is
    // about to fail for earlier speech, words are pending.
    let excused = world.unheard() > unheard || world.failing > 0;
    drop(world);
    if came && !passed_on && !excused {
        home.fault("words were recognised and never answered");
    }
    Ok(())
}

/// Waits until the reply plays or is over, or the server heard nothing.
async fn replies(home: &mut Home, before: u64) -> Result<(), Over> {
    let deaf = lock(&home.world).deaf;
    let done = |h: &Home| h.speaks() || h.counts().replies > before || lock(&h.world).deaf > deaf;
    loop {
        // The transcript of the server is no event of the device: it is polled.
        let deadline = home.now() + ms(5_000);
        if home.until(deadline, done).await? {
            return Ok(());
        }
        if home.quiet_for() > PATIENCE && home.silent_for() > PATIENCE {
            home.fault("no answer");
            return Err(Over);
        }
    }
}

/// Waits until the reply has played for a while, and interrupts it.
async fn interrupt(home: &mut Home, before: u64) -> Result<(), Over> {
    replies(home, before).await?;
    home.linger(0, 6_000).await?;
    if !home.speaks() {
        answered_or_idle(home, before).await?;
        return Ok(());
    }
    let realtime = home.plan.mode == ListenMode::Realtime;
    match home.dice.between(0, 5) {
        0 => home.act(Event::Button),
        1 => home.act(Event::Wake { word: Some(WAKE_WORD.into()) }),
        3 if realtime => mutter(home, before).await?,
        2 if realtime => {
            cough(home, DECIDED_AFTER).await?;
            answered_or_idle(home, before).await?;
        }
        _ if realtime => {
            let cut = home.counts().replies;
            let deaf = lock(&home.world).deaf;
            let length = home.dice_ms(500, 2_500);
            say(home, length).await?;
            let deadline = home.now() + DECIDED_AFTER;
            let ended = |h: &Home| h.counts().replies > cut;
            if !home.until(deadline, ended).await? {
                // Nothing was understood, or they spoke over the end of the reply.
                let failed = lock(&home.world).excuses(deaf);
                if home.speaks() && !failed {
                    home.fault("a person who speaks over the reply is not heard");
                }
                return answered_or_idle(home, before).await;
            }
            answered_or_idle(home, cut + 1).await?;
        }
        _ => {
            answered_or_idle(home, before).await?;
        }
    }
    Ok(())
}

/// A backchannel or a noise: the reply pauses and continues.
async fn mutter(home: &mut Home, before: u64) -> Result<(), Over> {
    let noise = home.dice.chance(500);
    lock(&home.world).utters = if noise { Utters::Noise } else { Utters::Backchannel };
    let length = home.dice_ms(400, 1_500);
    say(home, length).await?;
    let over = home.pass(DECIDED_AFTER).await;
    lock(&home.world).utters = Utters::Words;
    over?;
    answered_or_idle(home, before).await
}

/// Coughs and is silent for this long: a reply continues, at once or after a pause.
async fn cough(home: &mut Home, silent: Duration) -> Result<(), Over> {
    let length = home.dice_ms(60, 170);
    home.voice(length, false);
    home.pass(silent).await
}

/// The reply may be over by now.
async fn answered_or_idle(home: &mut Home, before: u64) -> Result<(), Over> {
    if home.speaks() {
        answered(home, before).await?;
    }
    Ok(())
}

/// A conversation with the button held while speaking.
async fn push_to_talk(home: &mut Home) -> Result<(), Over> {
    for _ in 0..home.dice.between(1, 6) {
        if home.listens() {
            home.act(Event::TalkReleased);
        }
        home.act(Event::TalkPressed);
        listening(home).await?;
        let before = home.counts().replies;
        if home.dice.chance(100) {
            // Pressed by mistake: there is no answer, and nothing gets stuck.
            home.act(Event::TalkReleased);
            home.linger(50, 2_000).await?;
            continue;
        }
        home.linger(0, 400).await?;
        let length = home.dice_ms(400, 9_000);
        say(home, length).await?;
        home.act(Event::TalkReleased);
        match home.dice.between(0, 9) {
            // They press again before the answer.
            0 => home.linger(0, 2_500).await?,
            1..4 => interrupt_by_button(home, before).await?,
            _ => {
                answered(home, before).await?;
            }
        }
        home.linger(100, 3_000).await?;
    }
    Ok(())
}

/// Presses a button during the reply: to stop it, or to say something else.
async fn interrupt_by_button(home: &mut Home, before: u64) -> Result<(), Over> {
    replies(home, before).await?;
    home.linger(0, 5_000).await?;
    if home.speaks() && home.dice.chance(400) {
        home.act(Event::Button);
        home.pass(ENDS_AFTER).await?;
    }
    Ok(())
}
