//! The people routes, over a store in a file and a scripted embedder. Not for the accuracy of speaker recognition.

use std::io::Cursor;
use std::path::Path;

use actix_http::{BoxedPayloadStream, Payload};
use actix_web::App;
use actix_web::body::MessageBody;
use actix_web::dev::{Service, ServiceResponse};
use actix_web::http::{Method, StatusCode};
use actix_web::test::{TestRequest, call_service, init_service, read_body};
use async_trait::async_trait;
use hearken_audio::pcm;
use hearken_base::Secret;
use hearken_dialogue::people::SpeakerSettings;
use hearken_ports::{PersonMemory, PersonStore as _, SpeakerEmbedder};
use hearken_store::SqlStore;
use hound::{SampleFormat, WavSpec, WavWriter};
use serde_json::json;

use super::*;
use crate::config::{AuthConfig, AuthRequired};
use crate::http::{AccessControl, Auth, OtaRules, person_routes};

const TOKEN: &str = "the admin token of tests";
/// Pitches of the voices of two people, and one at which the embedder is busy.
const ANN_HZ: f32 = 200.0;
const BEN_HZ: f32 = 500.0;
const BUSY_HZ: f32 = 1_500.0;

/// Distinguishes voices by their pitch.
struct ByPitch;

#[async_trait]
impl SpeakerEmbedder for ByPitch {
    async fn embed(&self, speech: Vec<i16>) -> Option<Vec<f32>> {
        let crossings = speech.windows(2).filter(|w| w[0] < 0 && w[1] >= 0).count();
        match crossings * 16_000 / speech.len() {
            0..300 => Some(vec![1.0, 0.0]),
            300..1_000 => Some(vec![0.0, 1.0]),
            _ => None,
        }
    }
}

fn wav(pitch: f32, milliseconds: u32) -> Vec<u8> {
    let sample_format = SampleFormat::Int;
    let spec = WavSpec { channels: 2, sample_rate: 48_000, bits_per_sample: 16, sample_format };
    let mut file = Vec::new();
    let mut writer = WavWriter::new(Cursor::new(&mut file), spec).unwrap();
    for sample in pcm::tone(pitch, milliseconds as usize * 48, 48_000) {
        writer.write_sample(sample).unwrap();
        writer.write_sample(sample).unwrap();
    }
    writer.finalize().unwrap();
    file
}

fn base64(pitches: &[f32]) -> Vec<String> {
    pitches.iter().map(|pitch| STANDARD.encode(wav(*pitch, 2_000))).collect()
}

fn body(name: &str, recordings: &[String]) -> String {
    json!({"name": name, "recordings": recordings}).to_string()
}

struct Fixture {
    folder: tempfile::TempDir,
    store: Arc<SqlStore>,
    people: People,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(SqlStore::file(&folder.path().join("hearken.db")).unwrap());
        let settings = SpeakerSettings { model: "scripted".into(), ..SpeakerSettings::default() };
        let people = People::new(Arc::clone(&store) as _, Some(Arc::new(ByPitch)), settings);
        Self { folder, store, people }
    }

    /// Returns the state of the routes.
    fn people(&self) -> Arc<PeopleApi> {
        Arc::new(PeopleApi::new(self.people.clone(), Arc::clone(&self.store) as _))
    }

    /// Returns the state of the routes without a speaker embedder.
    fn without_model(&self) -> Arc<PeopleApi> {
        let store = Arc::clone(&self.store);
        let people = People::new(Arc::clone(&store) as _, None, SpeakerSettings::default());
        Arc::new(PeopleApi::new(people, store))
    }
}

fn access(store: &Arc<SqlStore>, folder: &Path) -> AccessControl {
    let required = AuthRequired::Always;
    let admin_token = Secret::new(TOKEN);
    let config = AuthConfig { required, admin_token, ..AuthConfig::default() };
    let auth = Auth::new(&config, "0.0.0.0", folder).unwrap();
    AccessControl::new(auth, OtaRules::new(&<_>::default()).unwrap(), Arc::clone(store) as _)
}

/// Sends a request with this token. Returns the status and the body.
async fn ask_with<S, B>(
    token: &str,
    app: &S,
    method: Method,
    path: &str,
    body: impl Into<Bytes>,
) -> (u16, Value)
where
    S: Service<actix_http::Request, Response = ServiceResponse<B>, Error = actix_web::Error>,
    B: MessageBody,
{
    let request = TestRequest::with_uri(path).method(method).set_payload(body);
    let request = request.insert_header(("authorization", format!("Bearer {token}")));
    let answer = call_service(app, request.to_request()).await;
    let status = answer.status();
    assert_eq!(
        answer.headers().contains_key("retry-after"),
        status == StatusCode::SERVICE_UNAVAILABLE
    );
    let body = read_body(answer).await;
    (status.as_u16(), serde_json::from_slice(&body).unwrap_or_default())
}

/// Builds the routes, and a function that sends requests to them.
macro_rules! asking {
    ($ask:ident, $fixture:ident, $api:expr) => {
        let api: Arc<PeopleApi> = $api;
        let access = web::Data::new(access(&$fixture.store, $fixture.folder.path()));
        let app =
            App::new().app_data(access).configure(move |services| person_routes(services, api));
        let app = init_service(app).await;
        let $ask = async |method: Method, path: &str, body: String| {
            ask_with(TOKEN, &app, method, path, body).await
        };
    };
}

fn nothing() -> String {
    String::new()
}

#[actix_web::test]
async fn a_person_is_enrolled_shown_renamed_forgotten_and_deleted() {
    let fixture = Fixture::new();
    asking!(ask, fixture, fixture.people());
    let all = "/api/persons";
    assert_eq!(ask(Method::GET, all, nothing()).await, (200, json!({"persons": []})));
    let enrol = body(" Ann ", &base64(&[ANN_HZ; 3]));
    let (status, ann) = ask(Method::POST, all, enrol).await;
    assert_eq!((status, &ann["name"], &ann["recordings"]), (201, &json!("Ann"), &json!(3)));
    let ben = body("小本", &base64(&[BEN_HZ; 10]));
    assert_eq!(ask(Method::POST, all, ben).await.0, 201);
    let id = PersonId(ann["id"].as_str().unwrap().into());
    // Another instance adds memories of this person.
    let fact = PersonMemory::Fact("likes tea".into());
    fixture.store.remember(&id, &fact).await.unwrap();
    let said = "hello".to_owned();
    let answered = "Good day.".to_owned();
    let exchange = PersonMemory::Exchange(hearken_ports::Exchange { said, answered });
    fixture.store.remember(&id, &exchange).await.unwrap();
    let (_, listed) = ask(Method::GET, all, nothing()).await;
    let names = [&listed["persons"][0]["name"], &listed["persons"][1]["name"]];
    assert_eq!(names, [&json!("Ann"), &json!("小本")]);
    assert_eq!(listed["persons"][0]["facts"], json!(["likes tea"]));
    let one = format!("{all}/{}", id.0.to_uppercase());
    let (_, shown) = ask(Method::GET, &one, nothing()).await;
    assert_eq!(shown["exchanges"], json!([{"said": "hello", "answered": "Good day."}]));
    assert!(!shown.to_string().contains("voice"), "{shown}");
    let (status, renamed) = ask(Method::PATCH, &one, json!({"name": "Anna"}).to_string()).await;
    assert_eq!((status, &renamed["name"]), (200, &json!("Anna")));
    let (status, told) = ask(Method::PATCH, &one, json!({"name": "小本"}).to_string()).await;
    assert_eq!((status, &told["error"]["code"]), (409, &json!("CONFLICT")));
    let memories = format!("{one}/memories");
    assert_eq!(ask(Method::DELETE, &memories, nothing()).await.0, 204);
    let (_, shown) = ask(Method::GET, &one, nothing()).await;
    let left = (&shown["facts"], &shown["exchanges"], &shown["recordings"]);
    assert_eq!(left, (&json!([]), &json!([]), &json!(3)));
    assert_eq!(ask(Method::DELETE, &one, nothing()).await.0, 204);
    for (method, path) in [
        (Method::DELETE, &one),
        (Method::DELETE, &memories),
        (Method::GET, &one),
        (Method::PATCH, &one),
    ] {
        let (status, told) = ask(method, path, json!({"name": "x"}).to_string()).await;
        assert_eq!((status, &told["error"]["code"]), (404, &json!("NOT_FOUND")), "{told}");
    }
    let left = fixture.store.people().await.unwrap();
    assert_eq!(left.iter().map(|person| person.name.as_str()).collect::<Vec<_>>(), ["小本"]);
    assert_eq!(fixture.people.all().len(), 1, "they are no longer recognised");
}

#[actix_web::test]
async fn unusable_recordings_are_refused_with_the_remedy() {
    let fixture = Fixture::new();
    asking!(ask, fixture, fixture.people());
    let good = base64(&[ANN_HZ; 3]);
    let with = |second: String| vec![good[0].clone(), second, good[2].clone()];
    let mut lying = wav(ANN_HZ, 2_000);
    lying[40..44].copy_from_slice(&(u32::MAX / 2).to_le_bytes());
    let name = |name: &str| body(name, &good);
    for (asked, status, says) in [
        (body("a", &good[..2]), 400, "3 to 10 recordings"),
        (body("a", &vec![good[0].clone(); 11]), 400, "3 to 10 recordings"),
        (body("a", &vec![String::new(); 100_000]), 400, "3 to 10 recordings"),
        (body("a", &with("?".into())), 400, "recording 2 is not base64"),
        (body("a", &with(String::new())), 400, "recording 2 cannot be used: it is not a WAV file"),
        (body("a", &with(STANDARD.encode(&lying))), 400, "recording 2 cannot be used: it"),
        (body("a", &with(STANDARD.encode(&lying[..2_000]))), 400, "recording 2 cannot be used: it"),
        (
            body("a", &with(STANDARD.encode(wav(ANN_HZ, 30_100)))),
            400,
            "recording 2 cannot be used: it is longer than 30 s: shorten it",
        ),
        (
            body("a", &with(STANDARD.encode(wav(ANN_HZ, 900)))),
            400,
            "recording 2 holds too little speech: give one of a whole sentence",
        ),
        (body("a", &base64(&[ANN_HZ, ANN_HZ, BEN_HZ])), 400, "not of one voice: record one"),
        (body("a", &base64(&[ANN_HZ, ANN_HZ, BUSY_HZ])), 503, "busy or failed; try again"),
        (name("[Ann]"), 400, "without brackets"),
        (name(" "), 400, "1 to 40 characters"),
        (name(&"x".repeat(41)), 400, "1 to 40 characters"),
        (name("a\nb"), 400, "on one line"),
        ("[]".into(), 400, "must be a JSON object, not an array"),
        (json!(["a", good]).to_string(), 400, "must be a JSON object, not an array"),
        (r#"{"name":"a"}"#.into(), 400, "`recordings` is missing"),
        (r#"{"name":"a","recordings":"x"}"#.into(), 400, "`recordings` must be an array, not text"),
        (r#"{"name":"a","recordings":[1]}"#.into(), 400, "must be text, not a number"),
        (r#"{"name":"a","recordings":[],"id":"x"}"#.into(), 400, "`id` is not known here"),
        ("[".repeat(1 << 20), 400, "the body: "),
        (format!("{{\"x\":\"{}\"}}", "x".repeat(MAX_BYTES)), 413, "give shorter ones"),
    ] {
        let (answered, told) = ask(Method::POST, "/api/persons", asked).await;
        let message = told["error"]["message"].as_str().unwrap();
        assert!(answered == status && message.contains(says), "{says}: {answered} {message}");
    }
    assert_eq!(fixture.store.people().await.unwrap(), [], "nothing is stored");
}

#[actix_web::test]
async fn names_are_taken_once_and_people_are_enrolled_one_at_a_time() {
    let fixture = Fixture::new();
    let api = fixture.people();
    asking!(ask, fixture, Arc::clone(&api));
    let ann = body("Ann", &base64(&[ANN_HZ; 3]));
    let busy = api.enrolling.try_acquire().unwrap();
    let (status, told) = ask(Method::POST, "/api/persons", ann.clone()).await;
    assert_eq!((status, &told["error"]["code"]), (503, &json!("BUSY")));
    drop(busy);
    assert_eq!(ask(Method::POST, "/api/persons", ann.clone()).await.0, 201);
    let (status, told) = ask(Method::POST, "/api/persons", ann).await;
    assert_eq!(status, 409);
    let message = told["error"]["message"].as_str().unwrap();
    assert!(message.contains("another person has this name: choose another"), "{message}");
}

#[actix_web::test]
async fn a_body_that_does_not_arrive_keeps_nobody_from_enrolling() {
    let fixture = Fixture::new();
    let api = fixture.people();
    let access = web::Data::new(access(&fixture.store, fixture.folder.path()));
    let routes = Arc::clone(&api);
    let app = App::new().app_data(access).configure(move |s| person_routes(s, routes));
    let app = init_service(app).await;
    let ann = body("Ann", &base64(&[ANN_HZ; 3]));
    let ask = || ask_with(TOKEN, &app, Method::POST, "/api/persons", ann.clone());
    let stalled = TestRequest::with_uri("/api/persons").method(Method::POST);
    let stalled = stalled.insert_header(("authorization", format!("Bearer {TOKEN}")));
    let pending: BoxedPayloadStream = Box::pin(futures_util::stream::pending());
    let pending = Payload::Stream { payload: pending };
    let stalled = stalled.to_request().replace_payload(pending).0;
    tokio::select! {
        biased;
        _ = app.call(stalled) => unreachable!("its body does not arrive"),
        answer = ask() => assert_eq!(answer.0, 201, "{}", answer.1),
    }
    // The recordings of one member, and of all, are bounded.
    let take = |name: &str| api.bodies.take(Some(name));
    let own = Operator(None);
    let mut held: Vec<_> = (0..BODIES_OF_MEMBER).map(|_| take(own.name()).unwrap()).collect();
    let (status, told) = ask().await;
    assert_eq!((status, &told["error"]["code"]), (503, &json!("BUSY")));
    held.extend((0..BODIES_OF_MEMBER).map(|_| take("anna").unwrap()));
    assert!(take("ben").is_err());
    held.clear();
    assert_eq!(ask().await.0, 409, "the name is taken");
}

#[actix_web::test]
async fn without_a_model_people_are_shown_changed_and_deleted_but_not_enrolled() {
    let fixture = Fixture::new();
    let voices: Vec<_> = (0..3).map(|_| vec![1.0, 0.0].into()).collect();
    let ann = fixture.people.enrol("Ann", &voices).await.unwrap();
    asking!(ask, fixture, fixture.without_model());
    let one = format!("/api/persons/{}", ann.id.0);
    let ben = body("Ben", &base64(&[BEN_HZ; 3]));
    let (status, told) = ask(Method::POST, "/api/persons", ben).await;
    assert_eq!((status, &told["error"]["code"]), (409, &json!("CONFLICT")));
    let message = told["error"]["message"].as_str().unwrap();
    assert!(message.contains("set `speakers.model`"), "{message}");
    let anna = json!({"name": "Anna"}).to_string();
    assert_eq!(ask(Method::PATCH, &one, anna).await.0, 200);
    assert_eq!(ask(Method::GET, &one, nothing()).await.1["name"], "Anna");
    assert_eq!(ask(Method::DELETE, &format!("{one}/memories"), nothing()).await.0, 204);
    assert_eq!(ask(Method::DELETE, &one, nothing()).await.0, 204);
    assert_eq!(ask(Method::DELETE, &one, nothing()).await.0, 404);
    assert_eq!(ask(Method::DELETE, &format!("{one}/memories"), nothing()).await.0, 404);
    assert_eq!(ask(Method::GET, "/api/persons", nothing()).await.1, json!({"persons": []}));
}

#[actix_web::test]
async fn requests_without_the_admin_token_are_refused() {
    let fixture = Fixture::new();
    let store = &fixture.store;
    let api = fixture.people();
    let access = web::Data::new(access(store, fixture.folder.path()));
    let app = App::new().app_data(access).configure(move |s| person_routes(s, api));
    let app = init_service(app).await;
    // The body is not even read: it would be refused as too large.
    let huge = Bytes::from(vec![b'x'; MAX_BYTES + 1]);
    for (method, path) in [
        (Method::GET, "/api/persons"),
        (Method::POST, "/api/persons"),
        (Method::GET, "/api/persons/x"),
        (Method::PATCH, "/api/persons/x"),
        (Method::DELETE, "/api/persons/x"),
        (Method::DELETE, "/api/persons/x/memories"),
    ] {
        for token in ["", "wrong"] {
            let asked = ask_with(token, &app, method.clone(), path, huge.clone()).await;
            assert_eq!((asked.0, &asked.1["error"]["code"]), (401, &json!("UNAUTHORIZED")));
        }
    }
}
