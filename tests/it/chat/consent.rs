//! Applications whose user must confirm a call: the question is the answer to the message, and the
//! next message of the session decides.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use hearken_base::wall_clock::now;
use hearken_chat::turns::RequestOptions;
use hearken_chat::{Asker, ChatService, HeldCalls};
use hearken_dialogue::testkit::LlmAct;
use hearken_ports::{Tool, ToolCall, ToolError, ToolOutput, ToolSource};
use hearken_proto::chat::CreateSnapshot;
use hearken_proto::ids::SessionId;
use hearken_test_support::eventually;
use serde_json::{Value, json};

use super::in_process::{ChatInProcess, HIT};

const PHOTO: (&str, &str) = ("take_photo", r#"{"of":"the door"}"#);
const QUESTION: &str = "May I take a photo, of the door, with the tool take photo of house?";

/// A camera tool that records the arguments of its calls.
#[derive(Clone, Default)]
struct Camera(Arc<Mutex<Vec<String>>>);

impl ToolSource for Camera {
    fn name(&self) -> &str {
        "house"
    }

    fn tools(&self) -> Arc<[Tool]> {
        [Tool {
            name: "take_photo".into(),
            description: "Takes a photo.".into(),
            parameters: json!({"type": "object"}),
            finishes: false,
            destructive: false,
        }]
        .into()
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        self.0.lock().unwrap().push(serde_json::to_string(&call.arguments).unwrap());
        Box::pin(async { Ok(ToolOutput::text("a closed door")) })
    }
}

/// The same tool of another source.
#[derive(Clone)]
struct Garden(Camera);

impl ToolSource for Garden {
    fn name(&self) -> &str {
        "garden"
    }

    fn tools(&self) -> Arc<[Tool]> {
        self.0.tools()
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        self.0.call(call)
    }
}

/// A session in which the model wants the camera after a result of the state server.
async fn asked() -> (ChatInProcess, Camera) {
    let mut chat = ChatInProcess::start().await;
    let camera = Camera::default();
    let source = camera.clone();
    chat.service.tools = Arc::new(move |_| vec![Arc::new(source.clone())]);
    chat.script.thinks(LlmAct::Call("", vec![HIT]));
    chat.script.thinks(LlmAct::Call("", vec![PHOTO]));
    let answer = chat.say("hit it", None).await.unwrap();
    assert_eq!(answer.response, QUESTION);
    assert_eq!(camera.0.lock().unwrap().len(), 0);
    (chat, camera)
}

#[tokio::test]
async fn the_next_message_of_the_session_decides_about_a_call() {
    for (words, calls) in [("Yes, please.", 1), ("no", 0), ("and then?", 0)] {
        let (mut chat, camera) = asked().await;
        let own = chat.id.clone();
        chat.id = ChatInProcess::session(&chat.service).await;
        chat.say("yes", None).await.unwrap();
        assert_eq!(camera.0.lock().unwrap().len(), 0, "another session cannot agree");
        chat.id = own;
        assert_eq!(chat.say(words, Some("key")).await.unwrap().response, "Good day.");
        assert_eq!(chat.say(words, Some("key")).await.unwrap().response, "Good day.");
        assert_eq!(*camera.0.lock().unwrap(), vec![r#"{"of":"the door"}"#; calls], "{words}");
        for _ in 0..10 {
            assert_eq!(chat.say("yes", None).await.unwrap().response, "Good day.");
        }
        assert_eq!(camera.0.lock().unwrap().len(), calls);
    }
}

#[tokio::test]
async fn the_state_in_the_instructions_counts_as_an_untrusted_result() {
    let mut chat = ChatInProcess::start().await;
    let camera = Camera::default();
    let source = camera.clone();
    chat.service.tools = Arc::new(move |_| vec![Arc::new(source.clone())]);
    chat.script.thinks(LlmAct::Call("", vec![PHOTO]));
    let answer = chat.say("look around", None).await.unwrap();
    let question = "May I take a photo, of the door, with the tool take photo of house?";
    assert_eq!(answer.response, question);
    assert_eq!(camera.0.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn the_speakers_name_is_not_part_of_the_confirmation() {
    let (chat, camera) = asked().await;
    let request = json!({"message": "no", "player_id": "yes"});
    let request = serde_json::from_value(request).unwrap();
    chat.service.chat(&chat.id, &request, RequestOptions::default()).await.unwrap();
    assert_eq!(camera.0.lock().unwrap().len(), 0);
    let (chat, camera) = asked().await;
    let request = json!({"message": "yes", "player_id": "no"});
    let request = serde_json::from_value(request).unwrap();
    chat.service.chat(&chat.id, &request, RequestOptions::default()).await.unwrap();
    assert_eq!(camera.0.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn only_the_player_who_was_asked_can_confirm() {
    for (player, calls) in [("anna", 1), ("ben", 0)] {
        let mut chat = ChatInProcess::start().await;
        let camera = Camera::default();
        let source = camera.clone();
        chat.service.tools = Arc::new(move |_| vec![Arc::new(source.clone())]);
        chat.script.thinks(LlmAct::Call("", vec![HIT]));
        chat.script.thinks(LlmAct::Call("", vec![PHOTO]));
        for (message, player) in [("hit it", "anna"), ("yes", player)] {
            let request = json!({"message": message, "player_id": player});
            let request = serde_json::from_value(request).unwrap();
            chat.service.chat(&chat.id, &request, RequestOptions::default()).await.unwrap();
        }
        assert_eq!(camera.0.lock().unwrap().len(), calls, "{player}");
    }
}

#[tokio::test]
async fn another_source_ends_the_pending_call_only_if_it_takes_the_name_of_the_tool() {
    for (is_first, calls) in [(false, 1), (true, 0)] {
        let (mut chat, camera) = asked().await;
        let source = camera.clone();
        let other = camera.clone();
        // Another source appears, whose tool has the same name. The first of both is called so.
        chat.service.tools = Arc::new(move |_| {
            let mut all: Vec<Arc<dyn ToolSource>> =
                vec![Arc::new(source.clone()), Arc::new(Garden(other.clone()))];
            if is_first {
                all.reverse();
            }
            all
        });
        assert_eq!(chat.say("yes", None).await.unwrap().response, "Good day.");
        assert_eq!(chat.say("yes", None).await.unwrap().response, "Good day.");
        assert_eq!(camera.0.lock().unwrap().len(), calls, "{is_first}");
    }
}

/// What another instance does with a session before the person agrees at the first one.
#[derive(Clone, Copy, Debug)]
enum OtherInstance {
    Nothing,
    Context,
    Message(&'static str),
    Rollback,
    Restore,
}

impl OtherInstance {
    async fn act(self, service: &ChatService, id: &SessionId, snapshot: &str) {
        let say = async |request: Value| {
            let request = serde_json::from_value(request).unwrap();
            service.chat(id, &request, RequestOptions::default()).await.unwrap();
        };
        match self {
            Self::Nothing => {}
            Self::Context => say(json!({"message": "no", "context_only": true})).await,
            Self::Message(words) => say(json!({"message": words})).await,
            Self::Rollback => drop(service.restore_snapshot(id, snapshot).await.unwrap()),
            Self::Restore => {
                service.delete(id).await.unwrap();
                service.restore(id).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_held_call_is_dropped_if_the_session_goes_on_at_another_instance() {
    for (elsewhere, calls) in [
        (OtherInstance::Nothing, 1),
        (OtherInstance::Context, 1),
        (OtherInstance::Message("No"), 0),
        (OtherInstance::Message("yes"), 0),
        (OtherInstance::Message("不要"), 0),
        (OtherInstance::Rollback, 0),
        (OtherInstance::Restore, 0),
    ] {
        let (chat, camera) = asked().await;
        let there = ChatService { held: HeldCalls::default(), ..chat.service.clone() };
        let made = there.make_snapshot(&Asker::Anybody, &chat.id, CreateSnapshot::default()).await;
        let asked_at = now().as_millisecond();
        eventually("the clock goes on", || async {
            (now().as_millisecond() > asked_at).then_some(())
        })
        .await;
        elsewhere.act(&there, &chat.id, &made.unwrap().id).await;
        assert_eq!(chat.say("yes", None).await.unwrap().response, "Good day.");
        assert_eq!(camera.0.lock().unwrap().len(), calls, "{elsewhere:?}");
    }
}
