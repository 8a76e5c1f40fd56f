//! Orders from outside a conversation: from the device registry, from a second socket, and for a
//! device that only receives a notice. Not for a person's words.

use hearken_actors::messages::DeviceOrder;
use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_dialogue::admission::AdmissionSettings;
use hearken_dialogue::turn_rate::TurnRates;
use hearken_ports::{Devices as _, Unreachable};
use hearken_proto::device::{Downlink, Emotion};
use hearken_proto::fault::Fault;
use hearken_proto::ids::DeviceId;

use crate::{abort, freeze, listening, ms, next_turn_works, shown, speak, start};

fn id() -> DeviceId {
    DeviceId::new("pipeline")
}

#[actix::test]
async fn check_18_a_second_socket_of_a_device_replaces_the_first() {
    let mut first = listening("auto").await;
    let mut second = first.again();
    second.greet(1).await;
    first.until("closed 1008").await;
    assert_eq!(first.device_registry().connected().len(), 1);
    next_turn_works(&mut second).await;
    // The registration is the second socket's: it must not be removed with the first.
    first.pass(ms(1_000)).await;
    assert_eq!(second.device_registry().connected().len(), 1);
    let device_registry = second.device_registry().clone();
    second.hang_up().await;
    assert_eq!(device_registry.connected(), []);
    assert_eq!(
        device_registry.order(&id(), DeviceOrder::Say("hi".into())),
        Err(Unreachable::NotConnected)
    );
}

#[actix::test]
async fn a_connected_device_is_sent_notices_and_closed() {
    let mut pipeline = listening("auto").await;
    let device_registry = pipeline.device_registry().clone();
    let emotion = Emotion::Happy;
    let alert = Downlink::Alert { status: "a".into(), message: "b".into(), emotion };
    device_registry.order(&id(), DeviceOrder::Send(alert)).unwrap();
    pipeline.until("alert").await;
    device_registry.order(&id(), DeviceOrder::Leave(Fault::GoingAway)).unwrap();
    pipeline.until("closed 1001").await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_spoken_message_waits_for_the_end_of_the_turn() {
    let mut pipeline = listening("auto").await;
    let device_registry = pipeline.device_registry().clone();
    speak(&pipeline).await;
    pipeline.until("tts/start").await;
    for text in ["The wash is done.", "And dried."] {
        device_registry.order(&id(), DeviceOrder::Say(text.into())).unwrap();
    }
    for _ in 0..3 {
        pipeline.until("tts/stop").await;
    }
    assert_eq!(shown(&pipeline), ["Good day.", "The wash is done.", "And dried."]);
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

/// Pushes a message, and returns when the device was sent `tts start`, before any sound.
async fn about_to_say(pipeline: &mut TestPipeline, text: &str) {
    pipeline.forget();
    let order = DeviceOrder::Say(text.into());
    pipeline.device_registry().order(&id(), order).expect("the device is connected");
    pipeline.until("tts/start").await;
}

#[actix::test]
async fn a_message_that_was_not_heard_before_the_button_is_spoken_after_the_turn() {
    for firmware_aborts in [false, true] {
        let mut pipeline = listening("manual").await;
        pipeline.text(r#"{"type":"listen","state":"stop"}"#);
        about_to_say(&mut pipeline, "The wash is done.").await;
        if firmware_aborts {
            abort(&pipeline);
        }
        start(&pipeline, "manual");
        speak(&pipeline).await;
        pipeline.pass(ms(1)).await;
        pipeline.forget();
        pipeline.text(r#"{"type":"listen","state":"stop"}"#);
        for _ in 0..2 {
            pipeline.until("tts/stop").await;
        }
        assert_eq!(shown(&pipeline), ["Good day.", "The wash is done."], "{firmware_aborts}");
        pipeline.hang_up().await;
    }
}

#[actix::test]
async fn an_unheard_message_waits_for_the_words_after_an_abort_and_for_the_greeting() {
    let mut pipeline = listening("auto").await;
    about_to_say(&mut pipeline, "The wash is done.").await;
    abort(&pipeline);
    start(&pipeline, "auto");
    pipeline.stream(sound::silence(2_000)).await;
    speak(&pipeline).await;
    for _ in 0..3 {
        pipeline.until("tts/stop").await;
    }
    assert_eq!(shown(&pipeline), ["Good day.", "The wash is done."]);

    about_to_say(&mut pipeline, "And dried.").await;
    pipeline.text(r#"{"type":"listen","state":"detect","text":"hi esp"}"#);
    for _ in 0..3 {
        pipeline.until("tts/stop").await;
    }
    assert_eq!(shown(&pipeline).len(), 2, "the greeting, then the message");
    assert_eq!(shown(&pipeline)[1], "And dried.");
    pipeline.hang_up().await;
}

#[actix::test]
async fn without_another_turn_an_unheard_message_is_spoken_some_seconds_after_an_abort() {
    let mut pipeline = listening("auto").await;
    about_to_say(&mut pipeline, "The wash is done.").await;
    abort(&pipeline);
    let aborted = pipeline.now();
    pipeline.pass(ms(4_500)).await;
    assert_eq!(shown(&pipeline), [""; 0]);
    let spoken = pipeline.until("tts/sentence_start").await;
    assert!(spoken.at - aborted < ms(7_000), "{:?}", spoken.at - aborted);
    // A message that was heard in part is over.
    pipeline.pass(ms(300)).await;
    abort(&pipeline);
    pipeline.pass(ms(10_000)).await;
    assert_eq!(shown(&pipeline), ["The wash is done."]);
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_spoken_message_is_plain_and_split_into_sentences() {
    let mut pipeline = listening("auto").await;
    let text =
        "# Wash\n\n**The wash is done.** 😊 See [the page](https://a.example/b).\n- Hang it!";
    pipeline.device_registry().order(&id(), DeviceOrder::Say(text.into())).unwrap();
    pipeline.until("tts/stop").await;
    assert_eq!(shown(&pipeline), ["Wash", "The wash is done.", "See the page.", "Hang it!"]);
    assert_eq!(
        pipeline.script.lines.lock().unwrap().len(),
        4,
        "each sentence is a request of its own"
    );
    assert_eq!(pipeline.names()[0], "llm", "its emotion is shown");
    next_turn_works(&mut pipeline).await;
    assert_eq!(pipeline.script.last_prompt()[1..], ["User: hello there"], "it is not remembered");
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_message_that_arrives_during_the_farewell_is_spoken() {
    let mut pipeline = listening("auto").await;
    pipeline.until("tts/sentence_start").await;
    pipeline.device_registry().order(&id(), DeviceOrder::Say("The wash is done.".into())).unwrap();
    for _ in 0..2 {
        pipeline.until("tts/stop").await;
    }
    assert_eq!(shown(&pipeline), ["那我先休息了，再见。", "The wash is done."]);
    next_turn_works(&mut pipeline).await;
    pipeline.until("closed 1000").await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn orders_beyond_the_mailbox_are_refused() {
    let pipeline = listening("auto").await;
    let device_registry = pipeline.device_registry().clone();
    let order = || device_registry.order(&id(), DeviceOrder::Send(Downlink::TtsStop));
    let refused = (0..100).find_map(|_| order().err());
    assert_eq!(refused, Some(Unreachable::Busy), "the actor had no turn to run in between");
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_device_with_a_notice_hears_only_the_notice() {
    let pipeline = listening("auto").await;
    let mut connection = pipeline.again_with(Some("Your code is one two three.".into()));
    connection.greet(1).await;
    start(&connection, "auto");
    connection.until("tts/stop").await;
    start(&connection, "auto");
    speak(&connection).await;
    connection.pass(ms(5_000)).await;
    assert_eq!(
        shown(&connection),
        ["Your code is one two three."],
        "spoken once, unless the person asks again"
    );
    connection.text(r#"{"type":"listen","state":"detect","text":"hi esp"}"#);
    connection.until("tts/stop").await;
    assert_eq!(shown(&connection).len(), 2);
    assert!(connection.script.prompts.lock().unwrap().is_empty(), "the model was asked");
    connection.hang_up().await;
}

#[actix::test]
async fn a_notice_counts_in_the_rate_of_turns_and_is_no_turn_of_the_household() {
    freeze();
    let settings = AdmissionSettings { turns_per_minute: 2, ..AdmissionSettings::default() };
    let server = TestPipeline::connect_at(PipelineSettings::default(), TurnRates::new(&settings));
    let mut connection = server.again_with(Some("Your code is one two three.".into()));
    connection.greet(1).await;
    for _ in 0..5 {
        connection.text(r#"{"type":"listen","state":"detect","text":"hi esp"}"#);
        connection.pass(ms(200)).await;
        // A notice that is cut would not be cached.
        abort(&connection);
        connection.pass(ms(4_000)).await;
    }
    assert_eq!(shown(&connection).len(), 2, "turns come too fast");
    let ends = connection.names().iter().filter(|name| *name == "tts/sentence_end").count();
    assert_eq!(ends, 2, "each is spoken to its end: {:?}", connection.names());
    assert_eq!(connection.script.lines.lock().unwrap().len(), 2);
    assert!(connection.turn_journal().last(9).is_empty());
    connection.hang_up().await;
}

#[actix::test]
async fn a_connection_that_only_plays_a_notice_ends_after_two_minutes() {
    let pipeline = listening("auto").await;
    let mut connection = pipeline.again_with(Some("Your code is one two three.".into()));
    connection.greet(1).await;
    for _ in 0..11 {
        start(&connection, "auto");
        connection.pass(ms(10_000)).await;
        assert!(!connection.names().iter().any(|name| name.starts_with("closed")));
    }
    start(&connection, "auto");
    let closed = connection.until("closed 1000").await.at;
    assert!((ms(120_000)..ms(121_000)).contains(&closed), "{closed:?}");
}

#[actix::test]
async fn a_device_that_sends_too_many_text_frames_is_closed_and_others_are_not() {
    let mut pipeline = listening("auto").await;
    for _ in 0..3 {
        // Far more than a device sends, but within the limit.
        (0..500).for_each(|_| pipeline.text("not JSON"));
        pipeline.pass(ms(10_000)).await;
    }
    next_turn_works(&mut pipeline).await;
    (0..1_000).for_each(|_| pipeline.text("not JSON"));
    pipeline.until("closed 1008").await;
}
