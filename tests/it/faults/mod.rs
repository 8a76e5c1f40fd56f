//! Every adapter of a service for spoken turns, behind a proxy that injects each fault. The user
//! hears the answer or an apology within a time limit, and log and metrics report the fault; the
//! next turn is answered normally, and nothing is left behind. Not for the errors of the adapters.

mod adapters;
mod names;
mod state;

use std::time::{Duration, Instant};

use hearken::config::Config;
use hearken_proto::device::ListenMode;
use hearken_test_support::fault_proxy::rows::{self, Expected, Row};
use hearken_test_support::fault_proxy::{Fault, FaultProxy, Tls};
use hearken_test_support::observed;
use hearken_test_support::peers::peak_memory_bytes;

use self::adapters::Adapter;
use crate::server::person::{Answer, Person};
use crate::server::turns::{PACKETS, good_answer};
use crate::server::voices::SPEECH;
use crate::support::app::{PHRASES, SORRY, TestServer};

/// Apologies: in the language of the last transcript, and in Chinese if there is none.
pub(crate) const APOLOGIES: [&str; 2] = [SORRY, "抱歉，我这边出了点问题，请再说一遍。"];
/// Maximum memory that all faults together need, in bytes, including the vendors in this process.
const MOST_MEMORY: usize = 200 << 20;
/// Contained in each log line that reports a problem.
const WARNED: &str = "\"level\":\"WARN\"";
/// Time limit of a turn, from the first packet of speech to the end of the answer.
const TURN_WITHIN: Duration = Duration::from_secs(8);

/// Short deadlines without retries for the faulty service, and no cached sentences except the fixed phrases.
fn impatient(config: &mut Config, port: &str) {
    let asr = &mut config.asr;
    let llm = &mut config.llm;
    let tts = &mut config.tts;
    match port {
        "asr" => {
            (asr.connect_timeout_ms, asr.send_timeout_ms, asr.result_timeout_ms) = (800, 800, 800);
            asr.retry_within_ms = 500;
        }
        "llm" => {
            (llm.connect_timeout_ms, llm.first_token_timeout_ms) = (800, 800);
            (llm.idle_timeout_ms, llm.timeout_ms, llm.retry_within_ms) = (800, 3_000, 500);
        }
        _ => {
            (tts.connect_timeout_ms, tts.first_audio_timeout_ms) = (800, 800);
            (tts.idle_timeout_ms, tts.timeout_ms, tts.retry_within_ms) = (800, 3_000, 500);
        }
    }
    tts.cache_bytes = 0;
    config.hearing.silence = Duration::from_millis(250);
    config.speaking.start_guard = Duration::from_millis(100);
}

/// Outcome of a turn, as in the table.
fn outcome(answer: &Answer) -> Result<Expected, String> {
    let last = answer.sentences.last().map(String::as_str).unwrap_or_default();
    match (APOLOGIES.contains(&last), answer.played) {
        _ if *answer == good_answer() => Ok(Expected::Answered),
        (true, PACKETS..) => Ok(Expected::Failed),
        (true, 0) => Ok(Expected::Silence),
        (false, 1..) if !last.is_empty() => Ok(Expected::Damaged),
        _ => Err(format!("{answer:?}")),
    }
}

/// Runs a turn; returns its outcome and duration.
async fn turn(person: &mut Person) -> (Result<Expected, String>, Duration) {
    let begun = Instant::now();
    person.say(&SPEECH).await;
    let answer = person.answer().await;
    (outcome(&answer), begun.elapsed())
}

/// Failed requests of this port, as the server counts them.
async fn failures(server: &TestServer, port: &str) -> f64 {
    let figures = reqwest::get(server.http_url("/metrics")).await.unwrap().text().await.unwrap();
    let ours = |line: &&str| {
        line.starts_with("hearken_provider_requests_total{")
            && line.contains(&format!("port=\"{port}\""))
            && !line.contains("end=\"ok\"")
            && !line.contains("end=\"cancelled\"")
    };
    let counts = figures.lines().filter(ours).map(|line| line.rsplit_once(' ').unwrap().1);
    counts.map(|count| count.parse::<f64>().unwrap()).sum()
}

/// Injects each fault, with a normal turn after each.
async fn runs(adapter: Adapter) {
    let vendors = adapter.vendors().await;
    let proxy = FaultProxy::before(&adapter.stub(&vendors).url()).await;
    let tweak = |config: &mut Config| {
        impatient(config, adapter.port());
        adapter.point(config, proxy.url());
    };
    let server = TestServer::start(&vendors, tweak).await;
    vendors.tts.until(|seen| seen.requests >= PHRASES).await;
    let mut person = Person::meet(&server.device_url(), 1, ListenMode::Auto).await;
    assert_eq!(turn(&mut person).await.0, Ok(Expected::Answered), "before any fault");
    let mut wrong = Vec::new();
    let memory = peak_memory_bytes();
    let log = observed::log();
    for Row { name, fault, expected } in rows::all(adapter.wire(), adapter.in_the_midst()) {
        let hit = proxy.hit();
        let counted = failures(&server, adapter.port()).await;
        let logged = log.count(&[WARNED]);
        let nothing_to_hit = matches!(fault, Fault::Frozen) && proxy.open() == 0;
        proxy.set(fault);
        let (hurt, took) = turn(&mut person).await;
        let was_hit = proxy.hit() > hit || nothing_to_hit;
        let was_counted = failures(&server, adapter.port()).await > counted;
        let was_logged = log.count(&[WARNED]) > logged;
        proxy.set(Fault::None);
        let (after, _) = turn(&mut person).await;
        eprintln!("| {adapter:?} | {name} | {hurt:?} | {} ms | {after:?}", took.as_millis());
        let fits = hurt.as_ref().is_ok_and(|hurt| expected.contains(hurt));
        let told = (was_counted && was_logged) || hurt != Ok(Expected::Failed);
        let works = after == Ok(Expected::Answered);
        if !(fits && was_hit && told && works && took <= TURN_WITHIN) {
            wrong.push(format!(
                "{name}: hit {was_hit}, counted {was_counted}, logged {was_logged}, {hurt:?} in {took:?}, \
                 then {after:?}"
            ));
        }
    }
    let needed = peak_memory_bytes() - memory;
    eprintln!("{adapter:?}: {} KiB for all faults", needed >> 10);
    assert!(needed < MOST_MEMORY, "{needed} bytes");
    assert!(wrong.is_empty(), "{adapter:?}:\n{}", wrong.join("\n"));
    drop(person);
    server.stop().await;
    proxy.until_closed().await;
}

/// Injects each fault of the TLS handshake: an apology each time, within the limit.
async fn runs_tls(adapter: Adapter) {
    let vendors = adapter.vendors().await;
    let proxy = FaultProxy::before(&adapter.stub(&vendors).url()).await;
    let secure = proxy.url().replacen("ws://", "wss://", 1).replacen("http://", "https://", 1);
    let tweak = |config: &mut Config| {
        impatient(config, adapter.port());
        adapter.point(config, secure);
    };
    let server = TestServer::start(&vendors, tweak).await;
    let mut person = Person::meet(&server.device_url(), 1, ListenMode::Auto).await;
    for how in Tls::ALL {
        proxy.set(Fault::Tls(how));
        let (hurt, took) = turn(&mut person).await;
        eprintln!("| {adapter:?} | TLS {how:?} | {hurt:?} | {} ms", took.as_millis());
        assert!(proxy.hit() > 0 && took < TURN_WITHIN, "{adapter:?}: {how:?}: {took:?}");
        assert_eq!(hurt, Ok(adapter.never_there()), "{adapter:?}: {how:?}");
    }
    drop(person);
    server.stop().await;
}

macro_rules! gauntlet {
    ($($name:ident, $tls:ident: $adapter:ident;)+) => {
        /// All adapters that run these tests.
        const ALL: &[Adapter] = &[$(Adapter::$adapter),+];

        $(
        #[tokio::test]
        async fn $name() {
            runs(Adapter::$adapter).await;
        }

        #[tokio::test]
        async fn $tls() {
            runs_tls(Adapter::$adapter).await;
        }
        )+
    };
}

gauntlet! {
    listenai_asr, listenai_asr_tls: ListenAiAsr;
    funasr, funasr_tls: FunAsr;
    openai_asr, openai_asr_tls: OpenAiAsr;
    openai_llm, openai_llm_tls: OpenAiLlm;
    anthropic_llm, anthropic_llm_tls: AnthropicLlm;
    listenai_tts, listenai_tts_tls: ListenAiTts;
    openai_tts, openai_tts_tls: OpenAiTts;
}
