//! Ignored voices and the beginning and the end of a conversation: who may take over, and what counts
//! as speech. Not for the words over a reply: see [`super::speakers`].

use std::time::Duration;

use hearken_dialogue::people::SpeakerSettings;

use crate::speakers::{ANNA, BEN, Home, typed};
use crate::{ms, next_turn_works, prompts, start};

/// Returns a device that talks with Anna, and ignores others.
async fn talking_with_anna() -> Home {
    let settings = SpeakerSettings { ignore_others: true, ..SpeakerSettings::default() };
    let mut home = Home::with_anna(settings, "auto").await;
    assert_eq!(home.says(ANNA, "Good day.").await, "[Anna] Good day.");
    home
}

#[actix::test]
async fn whoever_speaks_after_a_wake_word_or_a_text_is_listened_to() {
    for (is_typed, is_known, said) in [
        (false, false, "Pass me the salt."),
        (true, false, "Pass me the salt."),
        (false, true, "[Ben] Pass me the salt."),
    ] {
        let mut home = talking_with_anna().await;
        if is_known {
            home.enrol(BEN, "Ben").await;
        }
        if is_typed {
            typed(&mut home, "What is for dinner?").await;
        } else {
            home.pipeline.text(r#"{"type":"listen","state":"detect","text":"hi esp"}"#);
            home.pipeline.until("tts/stop").await;
        }
        assert_eq!(home.says(BEN, "Pass me the salt.").await, said, "{is_typed}");
        // From here on a known person is the one that is spoken to.
        let asked = prompts(&home.pipeline).len();
        start(&home.pipeline, "auto");
        home.speaks(ANNA, "Is it noon?", ms(50)).await;
        home.pipeline.pass(Duration::from_secs(5)).await;
        let answered = prompts(&home.pipeline).len() - asked;
        assert_eq!(answered, usize::from(!is_known), "{is_typed}");
        next_turn_works(&mut home.pipeline).await;
        home.pipeline.hang_up().await;
    }
}

#[actix::test]
async fn an_ignored_voice_does_not_keep_the_connection_open() {
    let mut home = talking_with_anna().await;
    start(&home.pipeline, "auto");
    let answered = home.pipeline.now();
    // A television hardly pauses.
    while home.pipeline.now() - answered < Duration::from_secs(180) {
        home.speaks(BEN, "And now the news.", ms(50)).await;
        home.pipeline.pass(ms(0)).await;
    }
    assert_eq!(prompts(&home.pipeline), ["[Anna] Good day."]);
    let closed = home.pipeline.log.iter().find(|down| down.what.name() == "closed 1000");
    let closed = closed.map(|down| (down.at - answered).as_secs());
    assert!(closed.is_some_and(|after| (120..140).contains(&after)), "{closed:?}");
}
