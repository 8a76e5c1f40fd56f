//! Names of known voices: which requests change them. Not for learning an unknown voice: see
//! [`super::speakers`].

use hearken_dialogue::people::SpeakerSettings;
use hearken_dialogue::testkit::LlmAct;

use crate::next_turn_works;
use crate::speakers::{ANNA, BEN, Home};

/// Someone says this, and the model calls this tool. Returns its result.
async fn asks(
    home: &mut Home,
    voice: Option<usize>,
    words: &'static str,
    call: (&'static str, &'static str),
) -> String {
    home.pipeline.script.thinks(LlmAct::Call("", vec![call]));
    home.says(voice, words).await;
    home.pipeline.script.last_prompt().pop().unwrap_or_default()
}

fn names(home: &Home) -> Vec<String> {
    home.people.all().iter().map(|person| person.name.clone()).collect()
}

#[actix::test]
async fn a_known_voice_keeps_its_name_if_that_of_another_person_is_to_be_learned() {
    let mut home = Home::with_anna(SpeakerSettings::default(), "auto").await;
    let learn_ben = ("remember_my_voice", r#"{"name":"Ben"}"#);
    let result = asks(&mut home, ANNA, "Remember my son's voice, he is Ben.", learn_ben).await;
    assert!(result.contains("this voice is known as Anna"), "{result}");
    assert_eq!(names(&home), ["Anna"]);
    // Her own name improves her voice.
    let learn_anna = ("remember_my_voice", r#"{"name":"anna"}"#);
    let result = asks(&mut home, ANNA, "Remember my voice, I am Anna.", learn_anna).await;
    assert!(result.contains("is known by this name"), "{result}");
    assert_eq!(names(&home), ["Anna"]);
    // Her son asks with his own voice.
    let result = asks(&mut home, BEN, "Remember my voice, I am Ben.", learn_ben).await;
    assert!(result.contains("2 more sentences"), "{result}");
    for words in ["This is the second sentence.", "And this is the third."] {
        home.says(BEN, words).await;
    }
    assert_eq!(names(&home), ["Anna", "Ben"]);
    next_turn_works(&mut home.pipeline).await;
}

#[actix::test]
async fn a_person_gets_another_name_only_instead_of_their_own() {
    let mut home = Home::with_anna(SpeakerSettings::default(), "auto").await;
    let other = ("change_my_name", r#"{"name":"Hanna","instead_of":"Ben"}"#);
    let result = asks(&mut home, ANNA, "Call Ben Hanna from now on.", other).await;
    assert!(result.contains("this voice is known as Anna"), "{result}");
    let own = ("change_my_name", r#"{"name":"Hanna","instead_of":"Anna"}"#);
    let result = asks(&mut home, BEN, "Call me Hanna instead of Anna.", own).await;
    assert!(result.contains("is not known"), "{result}");
    assert_eq!(names(&home), ["Anna"]);
    asks(&mut home, ANNA, "Call me Hanna instead of Anna.", own).await;
    assert_eq!(names(&home), ["Hanna"]);
    assert_eq!(home.says(ANNA, "Who am I?").await, "[Hanna] Who am I?");
    next_turn_works(&mut home.pipeline).await;
}
