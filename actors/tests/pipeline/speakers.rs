//! Speakers: names and memories of people with known voices, learning a voice, and ignoring others.
//! Not for distinguishing voices.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::sync::Arc;
use std::time::Duration;

use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_dialogue::people::{People, SpeakerSettings};
use hearken_dialogue::testkit::people::{MemoryPeople, ScriptedVoices, people};
use hearken_dialogue::testkit::{AsrAct, LlmAct, TtsAct};
use hearken_dialogue::tools::{ToolPolicies, ToolPolicy};
use hearken_ports::PersonStore as _;

use crate::{freeze, ms, next_turn_works, prompts, shown, start, transcripts};

pub(crate) const ANNA: Option<usize> = Some(1);
pub(crate) const BEN: Option<usize> = Some(2);

/// Server with speaker recognition, and one device.
pub(crate) struct Home {
    pub(crate) pipeline: TestPipeline,
    pub(crate) people: People,
    store: Arc<MemoryPeople>,
    voices: Arc<ScriptedVoices>,
}

impl Home {
    async fn new(settings: SpeakerSettings) -> Self {
        Self::listening(settings, 3, "auto").await
    }

    async fn listening(settings: SpeakerSettings, tries: u32, mode: &str) -> Self {
        freeze();
        let (people, store, voices) = people(settings);
        let mut pipeline = PipelineSettings::default();
        pipeline.speculation.tries = tries;
        let mut pipeline = TestPipeline::connect_knowing(pipeline, people.clone());
        pipeline.greet(1).await;
        start(&pipeline, mode);
        pipeline.forget();
        Self { pipeline, people, store, voices }
    }

    /// Creates a server that knows Anna.
    pub(crate) async fn with_anna(settings: SpeakerSettings, mode: &str) -> Self {
        let home = Self::listening(settings, 3, mode).await;
        home.enrol(ANNA, "Anna").await;
        home
    }

    /// Learns a person's voice from recordings.
    pub(crate) async fn enrol(&self, voice: Option<usize>, name: &str) {
        self.voices.hears(voice);
        let recordings = vec![vec![100; 40_000]; 3];
        self.people.enrol_recordings(name, recordings).await.unwrap();
    }

    /// A person says this for two seconds, and is silent; the recogniser takes this long. Without a
    /// voice, the speaker embedder is busy.
    pub(crate) async fn speaks(
        &self,
        voice: Option<usize>,
        words: &'static str,
        recogniser: Duration,
    ) {
        self.voices.hears(voice);
        self.pipeline.script.hears(AsrAct::Text(words, recogniser));
        self.pipeline.stream(sound::voice(2_000)).await;
        self.pipeline.stream(sound::silence(900)).await;
    }

    /// A person says this in a second, which is too short for a voice, and is silent.
    async fn speaks_shortly(&self, words: &'static str) {
        self.pipeline.script.hears(AsrAct::Text(words, ms(50)));
        crate::speak(&self.pipeline).await;
    }

    /// A person says this in a listening mode, and ends it by silence or by the button.
    async fn speaks_in(&self, mode: &str, voice: Option<usize>, words: &'static str) {
        self.speaks(voice, words, ms(50)).await;
        if mode == "manual" {
            self.pipeline.text(r#"{"type":"listen","state":"stop"}"#);
        }
    }

    /// A person says this, and is answered.
    pub(crate) async fn says(&mut self, voice: Option<usize>, words: &'static str) -> String {
        start(&self.pipeline, "auto");
        self.speaks(voice, words, ms(50)).await;
        self.prompt().await
    }

    /// A person says this in a second, and is answered.
    async fn says_shortly(&mut self, words: &'static str) -> String {
        start(&self.pipeline, "auto");
        self.speaks_shortly(words).await;
        self.prompt().await
    }

    /// Waits for the answer, and returns the words in its prompt.
    pub(crate) async fn prompt(&mut self) -> String {
        self.pipeline.until("tts/stop").await;
        self.pipeline.pass(ms(1)).await;
        prompts(&self.pipeline).last().unwrap().clone()
    }

    /// Returns the instructions of the last prompt.
    fn told(&self) -> String {
        let prompts = self.pipeline.script.prompts.lock().unwrap();
        prompts.last().unwrap().messages[0].content.clone()
    }
}

#[actix::test]
async fn the_model_knows_who_speaks_if_the_voice_is_known() {
    let mut home = Home::with_anna(SpeakerSettings::default(), "auto").await;
    let anna = home.people.all()[0].id.clone();
    home.people.remember(&anna, "likes tea").await.unwrap();
    assert_eq!(home.says(ANNA, "What do I like?").await, "[Anna] What do I like?");
    assert!(home.told().contains("You remember of Anna: likes tea."), "{}", home.told());
    assert_eq!(home.says(BEN, "And I?").await, "And I?");
    assert!(!home.told().contains("Anna"), "{}", home.told());
    assert_eq!(home.says(ANNA, "Again.").await, "[Anna] Again.");
    // If too little is said, the last speaker is assumed; if the speaker embedder is busy, the
    // speaker is unknown.
    assert_eq!(home.says_shortly("Yes.").await, "[Anna] Yes.");
    assert_eq!(home.says(None, "Is it noon?").await, "Is it noon?");
    assert!(!home.told().contains("Anna"), "{}", home.told());
    assert_eq!(home.says_shortly("No.").await, "No.");
    let prompt = home.says(ANNA, "Well.").await;
    assert_eq!(prompt, "[Anna] Well.");
    let prompts = home.pipeline.script.prompts.lock().unwrap();
    let said: Vec<_> = prompts.last().unwrap().messages.iter().map(|m| m.content.clone()).collect();
    assert_eq!(
        said[1..],
        [
            "And I?",
            "Good day.",
            "[Anna] Again.",
            "Good day.",
            "[Anna] Yes.",
            "Good day.",
            "Is it noon?",
            "Good day.",
            "No.",
            "Good day.",
            "[Anna] Well.",
        ]
    );
}

#[actix::test]
async fn a_voice_is_learned_by_three_sentences_and_known_in_the_next_conversation() {
    let mut home = Home::new(SpeakerSettings::default()).await;
    home.pipeline.script.thinks(LlmAct::Call("", vec![("remember_my_voice", r#"{"name":"Ben"}"#)]));
    home.says(BEN, "Please remember my voice, I am Ben.").await;
    // Another voice does not count.
    home.says(ANNA, "This is somebody else.").await;
    assert!(
        home.told().contains("learning the voice of Ben: ask for two more sentences"),
        "{}",
        home.told()
    );
    home.says(BEN, "This is the second sentence.").await;
    assert_eq!(home.people.all(), []);
    home.says(BEN, "And this is the third.").await;
    let ben = home.people.all()[0].clone();
    assert_eq!((ben.name.as_str(), ben.voices.len()), ("Ben", 3));
    assert_eq!(home.says(BEN, "Who am I?").await, "[Ben] Who am I?");
    home.pipeline
        .script
        .thinks(LlmAct::Call("", vec![("remember_about_me", r#"{"fact":"has a dog"}"#)]));
    home.says(BEN, "I have a dog.").await;
    next_turn_works(&mut home.pipeline).await;

    let pipeline = home.pipeline.again();
    let before = std::mem::replace(&mut home.pipeline, pipeline);
    home.pipeline.greet(1).await;
    assert_eq!(home.says(BEN, "Hello.").await, "[Ben] Hello.");
    let told = home.told();
    assert!(told.contains("You remember of Ben: has a dog."), "{told}");
    assert!(told.contains("On another day Ben said: Who am I? You answered: Good day."), "{told}");
    // Words of this conversation are not repeated.
    home.says(BEN, "Is it noon?").await;
    assert!(!home.told().contains("said: Hello."), "{}", home.told());
    drop(before);
}

#[actix::test]
async fn learning_a_voice_can_be_stopped_but_not_by_another_known_person() {
    for (voice, is_stopped, known) in
        [(BEN, true, "Anna"), (None, true, "Anna"), (ANNA, false, "Ben")]
    {
        let mut home = Home::with_anna(SpeakerSettings::default(), "auto").await;
        let learn = ("remember_my_voice", r#"{"name":"Ben"}"#);
        home.pipeline.script.thinks(LlmAct::Call("", vec![learn]));
        home.says(BEN, "Please remember my voice, I am Ben.").await;
        home.pipeline.script.thinks(LlmAct::Call("", vec![("forget_me", "{}")]));
        home.says(voice, "No, I do not want that, forget it.").await;
        let result = home.pipeline.script.last_prompt().pop().unwrap();
        assert_eq!(result.contains("was not learned"), is_stopped, "{voice:?}: {result}");
        home.says(BEN, "This is the second sentence.").await;
        home.says(BEN, "And this is the third.").await;
        let names: Vec<_> = home.people.all().iter().map(|p| p.name.clone()).collect();
        assert_eq!(names, [known], "{voice:?}");
        home.pipeline.hang_up().await;
    }
}

#[actix::test]
async fn a_backchannel_over_a_reply_does_not_change_the_speaker() {
    let mut home = Home::with_anna(SpeakerSettings::default(), "realtime").await;
    home.pipeline.script.says(TtsAct::Audio { length: ms(9_000), first: ms(50), each: ms(5) });
    home.speaks(ANNA, "Tell me a story.", ms(50)).await;
    home.pipeline.until("tts/sentence_start").await;
    home.pipeline.stream(sound::silence(1_200)).await;
    home.speaks(BEN, "Mm-hmm.", ms(50)).await;
    home.pipeline.until("tts/stop").await;
    home.speaks_shortly("Yes.").await;
    home.pipeline.until("tts/stop").await;
    assert_eq!(prompts(&home.pipeline), ["[Anna] Tell me a story.", "[Anna] Yes."]);
    home.pipeline.hang_up().await;
}

#[actix::test]
async fn forgetting_a_person_deletes_all_their_data_at_once() {
    let mut home = Home::with_anna(SpeakerSettings::default(), "auto").await;
    home.says(ANNA, "Is it noon?").await;
    home.pipeline.script.thinks(LlmAct::Call("", vec![("forget_me", "{}")]));
    home.says(ANNA, "Forget me.").await;
    assert_eq!(home.people.all(), []);
    assert_eq!(home.store.people().await.unwrap(), []);
    assert_eq!(home.says(ANNA, "Who am I?").await, "Who am I?");
    next_turn_works(&mut home.pipeline).await;
}

#[actix::test]
async fn only_the_person_who_asked_to_be_forgotten_can_confirm() {
    // A long confirmation whose voice is not computed in time may be anybody's; a short one has no
    // voice.
    for (voice, is_short, forgotten) in
        [(ANNA, false, true), (ANNA, true, true), (None, false, false), (BEN, false, false)]
    {
        freeze();
        let (people, store, voices) = people(SpeakerSettings::default());
        let mut settings = PipelineSettings::default();
        let patterns = [("speakers/forget_me".to_owned(), ToolPolicy::Ask)].into();
        settings.tools.policies = ToolPolicies { patterns, ..ToolPolicies::default() }.into();
        let mut pipeline = TestPipeline::connect_knowing(settings, people.clone());
        pipeline.greet(1).await;
        let mut home = Home { pipeline, people, store, voices };
        home.enrol(ANNA, "Anna").await;
        home.pipeline.script.thinks(LlmAct::Call("", vec![("forget_me", "{}")]));
        home.says(ANNA, "Forget me.").await;
        assert_eq!(home.people.all().len(), 1, "the question comes first");
        if is_short {
            home.says_shortly("Yes.").await;
        } else {
            home.says(voice, "Yes.").await;
        }
        assert_eq!(home.people.all().is_empty(), forgotten, "{voice:?}");
        next_turn_works(&mut home.pipeline).await;
    }
}

#[actix::test]
async fn tools_about_the_speaker_fail_if_the_voice_is_unknown() {
    let mut home = Home::new(SpeakerSettings::default()).await;
    let calls =
        vec![("remember_about_me", r#"{"fact":"x"}"#), ("ignore_other_voices", r#"{"on":true}"#)];
    home.pipeline.script.thinks(LlmAct::Call("", calls));
    home.says(BEN, "Remember that I am tall.").await;
    let prompts = home.pipeline.script.prompts.lock().unwrap();
    let results = prompts.last().unwrap().messages.iter().filter(|m| !m.answers.is_empty());
    let results: Vec<_> = results.map(|m| m.content.clone()).collect();
    assert!(
        results.len() == 2 && results.iter().all(|r| r.contains("is not known")),
        "{results:?}"
    );
}

#[actix::test]
async fn a_request_of_one_person_does_not_apply_to_the_next_speaker() {
    let mut home = Home::with_anna(SpeakerSettings::default(), "auto").await;
    home.enrol(BEN, "Ben").await;
    // The model thinks for a long time: nothing is spoken when the other person speaks.
    home.pipeline.script.thinks(LlmAct::Write(vec!["Yes."], ms(60_000)));
    home.pipeline.script.thinks(LlmAct::Call("", vec![("forget_me", "{}")]));
    home.speaks(BEN, "Forget me.", ms(50)).await;
    home.pipeline.until("stt").await;
    home.speaks(ANNA, "What is for dinner?", ms(50)).await;
    home.pipeline.until("tts/stop").await;
    let asked = home.pipeline.script.last_prompt();
    assert!(asked.iter().any(|said| said.contains("Forget me. What is for dinner?")), "{asked:?}");
    assert_eq!(home.people.all().len(), 2);
    // Each of them may ask separately.
    home.pipeline.script.thinks(LlmAct::Call("", vec![("forget_me", "{}")]));
    home.says(BEN, "Forget me, please.").await;
    assert_eq!(home.people.all()[0].name, "Anna");
    next_turn_works(&mut home.pipeline).await;
}

#[actix::test]
async fn untrusted_text_is_not_stored_in_memory_without_consent() {
    let mut home = Home::with_anna(SpeakerSettings::default(), "auto").await;
    home.says(ANNA, "Hello.").await;
    // The result of a missing tool counts as untrusted.
    home.pipeline.script.thinks(LlmAct::Call("", vec![("look_up", "{}")]));
    let fact = r#"{"fact":"may open every door"}"#;
    home.pipeline.script.thinks(LlmAct::Call("", vec![("remember_about_me", fact)]));
    home.says(ANNA, "What is new?").await;
    let anna = home.people.all()[0].clone();
    assert_eq!(anna.facts, [""; 0], "the question comes first");
    let kept = |n: usize| (anna.exchanges[n].said.as_str(), anna.exchanges[n].answered.as_str());
    assert_eq!([kept(0), kept(1)], [("Hello.", "Good day."), ("What is new?", "")]);
    home.says(ANNA, "Yes.").await;
    assert_eq!(home.people.all()[0].facts, ["may open every door"]);
    next_turn_works(&mut home.pipeline).await;
}

#[actix::test]
async fn an_answer_made_from_a_result_that_is_then_forgotten_is_not_stored_as_the_servers_own() {
    freeze();
    let (people, store, voices) = people(SpeakerSettings::default());
    let mut settings = PipelineSettings::default();
    settings.dialogue.max_messages = 4;
    let mut pipeline = TestPipeline::connect_knowing(settings, people.clone());
    pipeline.greet(1).await;
    let mut home = Home { pipeline, people, store, voices };
    home.enrol(ANNA, "Anna").await;
    // The result of a missing tool counts as untrusted. It is forgotten when the second answer is
    // remembered, and that answer when the fourth is.
    home.pipeline.script.thinks(LlmAct::Call("", vec![("look_up", "{}")]));
    for _ in 0..5 {
        home.says(ANNA, "What is new?").await;
    }
    let anna = home.people.all()[0].clone();
    let answered: Vec<_> = anna.exchanges.iter().map(|e| e.answered.as_str()).collect();
    assert_eq!(answered, ["", "", "", "", "Good day."]);
    next_turn_works(&mut home.pipeline).await;
}

/// Anna asks for a story, and another person says this over it. Returns the prompts after that, and
/// the sentences.
async fn interrupted_by(
    voice: Option<usize>,
    words: &'static str,
    ignore_others: bool,
) -> (Vec<String>, Vec<String>) {
    let settings = SpeakerSettings { ignore_others, ..SpeakerSettings::default() };
    let mut home = Home::with_anna(settings, "realtime").await;
    home.pipeline.script.urgent.lock().unwrap().push("choking");
    home.pipeline.script.thinks(LlmAct::Write(vec!["One is here. ", "Two is here. "], ms(5)));
    for _ in 0..2 {
        home.pipeline.script.says(TtsAct::Audio { length: ms(4_000), first: ms(50), each: ms(1) });
    }
    home.speaks(ANNA, "Tell me a story.", ms(30)).await;
    home.pipeline.until("tts/sentence_start").await;
    home.pipeline.stream(sound::silence(600)).await;
    home.speaks(voice, words, ms(30)).await;
    home.pipeline.until("tts/stop").await;
    home.pipeline.pass(Duration::from_secs(5)).await;
    let seen = (prompts(&home.pipeline), shown(&home.pipeline));
    next_turn_works(&mut home.pipeline).await;
    seen
}

#[actix::test]
async fn ignored_voices_do_not_end_a_reply() {
    let weather = "What is the weather?";
    let (asked, said) = interrupted_by(BEN, weather, true).await;
    assert_eq!(asked, ["[Anna] Tell me a story."]);
    assert_eq!(said, ["One is here.", "One is here.", "Two is here."], "the reply resumes");
    let danger = "Help, he is choking!";
    for (voice, words, ignore) in
        [(BEN, weather, false), (ANNA, weather, true), (BEN, danger, true)]
    {
        let (asked, _) = interrupted_by(voice, words, ignore).await;
        assert_eq!(asked.len(), 2, "{voice:?}: {words}");
    }
}

#[actix::test]
async fn a_person_in_danger_is_answered_although_their_voice_is_ignored() {
    let settings = SpeakerSettings { ignore_others: true, ..SpeakerSettings::default() };
    for mode in ["auto", "manual", "realtime"] {
        for (is_known, said) in
            [(false, "Help, he is choking!"), (true, "[Ben] Help, he is choking!")]
        {
            let mut home = Home::with_anna(settings.clone(), "auto").await;
            if is_known {
                home.enrol(BEN, "Ben").await;
            }
            home.pipeline.script.urgent.lock().unwrap().push("choking");
            home.says(ANNA, "Good day.").await;
            start(&home.pipeline, mode);
            home.speaks_in(mode, BEN, "Help, he is choking!").await;
            assert_eq!(home.prompt().await, said, "{mode}");
            // Anna is still the one that is spoken to.
            let asked = prompts(&home.pipeline).len();
            start(&home.pipeline, mode);
            home.speaks_in(mode, BEN, "Pass me the salt.").await;
            home.pipeline.pass(Duration::from_secs(5)).await;
            assert_eq!(prompts(&home.pipeline).len(), asked, "{mode}");
            start(&home.pipeline, mode);
            home.speaks_in(mode, ANNA, "Is it noon?").await;
            assert_eq!(home.prompt().await, "[Anna] Is it noon?", "{mode}");
            home.pipeline.hang_up().await;
        }
    }
}

#[actix::test]
async fn after_an_ignored_voice_a_device_listens_as_after_silence() {
    let settings = SpeakerSettings { ignore_others: true, ..SpeakerSettings::default() };
    for mode in ["auto", "manual", "realtime"] {
        for (voice, words) in [(BEN, "Pass me the salt."), (ANNA, ""), (ANNA, ".")] {
            let case = format!("{mode}: {words:?}");
            let mut home = Home::with_anna(settings.clone(), "auto").await;
            home.says(ANNA, "Good day.").await;
            start(&home.pipeline, mode);
            home.pipeline.forget();
            home.speaks_in(mode, voice, words).await;
            home.pipeline.pass(Duration::from_secs(5)).await;
            assert_eq!(home.pipeline.names(), [""; 0], "{case}");
            // Only a press of the button opens the microphone in this mode.
            if mode == "manual" {
                start(&home.pipeline, mode);
            }
            home.speaks_in(mode, ANNA, "Is it noon?").await;
            assert_eq!(home.prompt().await, "[Anna] Is it noon?", "{case}");
            home.pipeline.hang_up().await;
        }
    }
}

#[actix::test]
async fn a_slow_speaker_embedder_delays_an_answer_by_at_most_half_a_second() {
    let mut home = Home::with_anna(SpeakerSettings::default(), "auto").await;
    *home.voices.takes.lock().unwrap() = Duration::from_secs(60);
    let begun = home.pipeline.now();
    assert_eq!(home.says(ANNA, "Is it noon?").await, "Is it noon?");
    let told = home.pipeline.log.iter().find(|down| down.what.name() == "stt").unwrap();
    assert!(told.at - begun < ms(2_000 + 700 + 500 + 100), "{:?}", told.at - begun);
    next_turn_works(&mut home.pipeline).await;
    home.pipeline.hang_up().await;
}

#[actix::test]
async fn a_store_that_is_down_loses_memories_but_no_answers() {
    let mut home = Home::with_anna(SpeakerSettings::default(), "auto").await;
    *home.store.fails.lock().unwrap() = true;
    for _ in 0..3 {
        assert_eq!(home.says(ANNA, "Is it noon?").await, "[Anna] Is it noon?");
    }
    home.pipeline.script.thinks(LlmAct::Call("", vec![("remember_my_voice", r#"{"name":"Ben"}"#)]));
    for words in ["I am Ben.", "Second.", "Third."] {
        home.says(BEN, words).await;
    }
    home.says(BEN, "Who am I?").await;
    assert!(
        home.told().contains("The voice of Ben was not learned: the store failed."),
        "{}",
        home.told()
    );
    *home.store.fails.lock().unwrap() = false;
    home.says(BEN, "Well.").await;
    home.says(BEN, "So what?").await;
    assert!(!home.told().contains("not learned"), "{}", home.told());
    home.pipeline.script.thinks(LlmAct::Call("", vec![("remember_my_voice", r#"{"name":"Ben"}"#)]));
    for words in ["I am Ben.", "Second.", "Third."] {
        home.says(BEN, words).await;
    }
    assert_eq!(home.says(BEN, "Who am I?").await, "[Ben] Who am I?");
}

#[actix::test]
async fn a_short_word_is_not_enough_to_learn_a_voice_and_a_taken_name_is_refused() {
    let mut home = Home::with_anna(SpeakerSettings::default(), "auto").await;
    home.pipeline
        .script
        .thinks(LlmAct::Call("", vec![("remember_my_voice", r#"{"name":"Anna"}"#)]));
    for words in ["I am Anna too.", "Second.", "Third."] {
        home.says(BEN, words).await;
    }
    home.says(BEN, "Who am I?").await;
    assert!(home.told().contains("another person has this name"), "{}", home.told());
    let asked = home.voices.asked.lock().unwrap().len();
    home.pipeline.script.hears(AsrAct::Text("Stop it", ms(10)));
    start(&home.pipeline, "manual");
    home.pipeline.stream(sound::voice(600)).await;
    home.pipeline.text(r#"{"type":"listen","state":"stop"}"#);
    home.pipeline.until("tts/stop").await;
    assert_eq!(home.voices.asked.lock().unwrap().len(), asked);
}

#[actix::test]
async fn a_question_is_answered_although_an_ignored_voice_follows() {
    let settings = SpeakerSettings { ignore_others: true, ..SpeakerSettings::default() };
    for (first, second) in [(ANNA, BEN), (BEN, ANNA)] {
        let mut home = Home::with_anna(settings.clone(), "realtime").await;
        home.enrol(BEN, "Ben").await;
        home.says(ANNA, "Good day.").await;
        start(&home.pipeline, "realtime");
        let words = |voice| if voice == ANNA { "What time is it?" } else { "Pass me the salt." };
        for (voice, takes) in [(first, 900), (second, 30)] {
            home.pipeline.script.thinks(LlmAct::Write(vec!["Noon."], ms(3_000)));
            home.speaks(voice, words(voice), ms(takes)).await;
        }
        home.pipeline.until("tts/stop").await;
        home.pipeline.pass(ms(1)).await;
        assert_eq!(
            prompts(&home.pipeline).last().unwrap(),
            "[Anna] What time is it?",
            "{first:?} first"
        );
        assert_eq!(
            transcripts(&home.pipeline),
            ["Good day.", "What time is it?"],
            "{first:?} first"
        );
        let known = |name: &str| home.people.all().into_iter().find(|p| p.name == name).unwrap();
        let said: Vec<_> = known("Anna").exchanges.iter().map(|e| e.said.clone()).collect();
        assert_eq!(said, ["Good day.", "What time is it?"], "{first:?} first");
        assert_eq!(known("Ben").exchanges, [], "{first:?} first");
        next_turn_works(&mut home.pipeline).await;
        home.pipeline.hang_up().await;
    }
}

#[actix::test]
async fn all_voices_count_again_once_the_current_speaker_is_deleted() {
    let settings = SpeakerSettings { ignore_others: true, ..SpeakerSettings::default() };
    let mut home = Home::with_anna(settings, "auto").await;
    assert_eq!(home.says(ANNA, "Good day.").await, "[Anna] Good day.");
    let anna = home.people.all()[0].id.clone();
    home.people.delete(&anna).await.unwrap();
    assert_eq!(home.says(BEN, "Is it noon?").await, "Is it noon?");
    next_turn_works(&mut home.pipeline).await;
}

#[actix::test]
async fn an_unrecognised_speaker_can_neither_rename_nor_delete_the_previous_one() {
    let mut home = Home::with_anna(SpeakerSettings::default(), "auto").await;
    let calls = [
        ("remember_my_voice", r#"{"name":"Ben"}"#, "too little was said", "is busy"),
        (
            "change_my_name",
            r#"{"name":"Ben","instead_of":"Anna"}"#,
            "too little was said",
            "is busy",
        ),
        ("forget_me", "{}", "too little was said", "is busy"),
        ("remember_about_me", r#"{"fact":"is tall"}"#, "remembered", "is busy"),
    ];
    for (tool, arguments, short, busy) in calls {
        for (is_short, result) in [(true, short), (false, busy)] {
            home.says(ANNA, "Good day.").await;
            home.pipeline.script.thinks(LlmAct::Call("", vec![(tool, arguments)]));
            if is_short {
                home.says_shortly("Now.").await;
            } else {
                home.says(None, "Now.").await;
            }
            let all = home.people.all();
            assert_eq!(all.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["Anna"], "{tool}");
            let told = home.pipeline.script.last_prompt().pop().unwrap();
            assert!(told.contains(result), "{tool}, {is_short}: {told}");
        }
    }
    assert_eq!(home.people.all()[0].facts, ["is tall"], "of the short words");
    next_turn_works(&mut home.pipeline).await;
}

/// Someone types this on the device. Returns the words in its prompt.
pub(crate) async fn typed(home: &mut Home, words: &str) -> String {
    home.pipeline.text(&format!(r#"{{"type":"listen","state":"detect","text":"{words}"}}"#));
    home.prompt().await
}

#[actix::test]
async fn typed_words_are_attributed_to_no_one() {
    let mut home = Home::with_anna(SpeakerSettings::default(), "auto").await;
    let anna = home.people.all()[0].id.clone();
    home.people.remember(&anna, "likes tea").await.unwrap();
    for (tool, arguments, result) in [
        ("remember_my_voice", r#"{"name":"Ben"}"#, "were typed"),
        ("change_my_name", r#"{"name":"Ben","instead_of":"Anna"}"#, "were typed"),
        ("forget_me", "{}", "were typed"),
        ("remember_about_me", r#"{"fact":"is tall"}"#, "were typed"),
        ("ignore_other_voices", r#"{"on":true}"#, "is not known"),
    ] {
        assert_eq!(home.says(ANNA, "Good day.").await, "[Anna] Good day.");
        home.pipeline.script.thinks(LlmAct::Call("", vec![(tool, arguments)]));
        typed(&mut home, "What do I like?").await;
        let prompt = home.pipeline.script.last_prompt();
        assert!(prompt.contains(&"User: What do I like?".to_owned()), "{tool}: {prompt:?}");
        assert!(prompt.last().unwrap().contains(result), "{tool}: {prompt:?}");
        assert!(!home.told().contains("tea"), "{tool}: {}", home.told());
        let known = home.people.all();
        let stored: Vec<_> = known.iter().map(|p| (p.name.as_str(), p.facts.len())).collect();
        assert_eq!(stored, [("Anna", 1)], "{tool}");
        assert!(known[0].exchanges.iter().all(|e| e.said == "Good day."), "{tool}");
    }
    // Short words after them may be those of the person who typed.
    assert_eq!(home.says_shortly("Yes.").await, "Yes.");
    assert_eq!(home.says(ANNA, "Good day.").await, "[Anna] Good day.");
    // A wake word is sent as text, too, and is not typed.
    home.pipeline.text(r#"{"type":"listen","state":"detect","text":"hi esp"}"#);
    home.pipeline.until("tts/stop").await;
    assert_eq!(home.says_shortly("Yes.").await, "[Anna] Yes.");
    home.pipeline.hang_up().await;
}

#[actix::test]
async fn forgotten_memories_disappear_from_a_running_conversation() {
    let mut home = Home::with_anna(SpeakerSettings::default(), "auto").await;
    let anna = home.people.all()[0].id.clone();
    home.people.converse(&anna, "I like tea.", "So do I.").await.unwrap();
    home.says(ANNA, "Good day.").await;
    assert!(home.told().contains("On another day Anna said: I like tea."), "{}", home.told());
    home.people.forget_memories(&anna).await.unwrap();
    home.says(ANNA, "What do I like?").await;
    assert!(!home.told().contains("tea"), "{}", home.told());
}

#[actix::test]
async fn a_person_deleted_on_another_instance_is_forgotten_here_with_the_next_change() {
    let home = Home::with_anna(SpeakerSettings::default(), "auto").await;
    let anna = home.people.all()[0].id.clone();
    home.store.delete_person(&anna).await.unwrap();
    assert!(home.people.converse(&anna, "Well.", "Yes?").await.is_err());
    assert_eq!(home.people.all(), []);
}

#[actix::test]
async fn the_model_knows_the_number_of_missing_sentences_after_each_of_them() {
    let mut home = Home::new(SpeakerSettings::default()).await;
    home.pipeline.script.thinks(LlmAct::Call("", vec![("remember_my_voice", r#"{"name":"Ben"}"#)]));
    home.says(BEN, "Please remember my voice, I am Ben.").await;
    home.says(BEN, "Today it rains.").await;
    assert!(home.told().contains("ask for one more sentence"), "{}", home.told());
    home.says(BEN, "Yesterday it did not.").await;
    assert!(!home.told().contains("learning the voice"), "{}", home.told());
}

#[actix::test]
async fn words_of_an_ignored_voice_do_not_reach_the_model() {
    let settings = SpeakerSettings { ignore_others: true, ..SpeakerSettings::default() };
    let mut home = Home::with_anna(settings, "auto").await;
    home.says(ANNA, "Good day.").await;
    start(&home.pipeline, "auto");
    home.speaks(BEN, "Pass me the salt.", ms(50)).await;
    home.pipeline.pass(Duration::from_secs(5)).await;
    assert_eq!(prompts(&home.pipeline), ["[Anna] Good day."]);
    next_turn_works(&mut home.pipeline).await;
}

#[actix::test]
async fn continued_words_have_one_mark_which_is_removed_with_the_person() {
    let mut home = Home::with_anna(SpeakerSettings::default(), "realtime").await;
    let remembered = |home: &Home| -> Vec<String> {
        let prompts = home.pipeline.script.prompts.lock().unwrap();
        prompts.last().unwrap().messages[1..].iter().map(|m| m.content.clone()).collect()
    };
    for words in ["Tell me", "about cats."] {
        home.pipeline.script.thinks(LlmAct::Write(vec!["Sure."], ms(3_000)));
        home.speaks(ANNA, words, ms(50)).await;
    }
    home.pipeline.until("tts/stop").await;
    home.says(ANNA, "Thank you.").await;
    let all = remembered(&home);
    assert!(all[0].ends_with("Tell me about cats."), "{all:?}");
    let anna = home.people.all()[0].id.clone();
    home.people.delete(&anna).await.unwrap();
    home.says(BEN, "And now?").await;
    let all = remembered(&home);
    assert!(all.iter().all(|words| !words.contains("[Anna]")), "{all:?}");
    home.pipeline.hang_up().await;
}
