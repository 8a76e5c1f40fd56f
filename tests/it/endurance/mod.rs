//! The program as a process under random faults of all its services, while devices, text clients
//! and applications use it: seconds in the tests, minutes by `scripts/long faults`. Each turn ends
//! with an answer or an apology, no acknowledged message is lost or doubled, memory stays flat, and
//! no process needs a restart. The effect of a single fault is tested in `faults`.
//!
//! `HEARKEN_SOAK_MINUTES` sets the duration, `HEARKEN_FAULTS_SEED` the seed.

mod clients;
mod injection;
mod outcomes;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use hearken_test_support::places::{Place, on};
use hearken_test_support::redis::{Redis, there_is};
use hearken_test_support::{eventually_within, variable};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::clients::{Application, Client, Person, TextClient};
use self::injection::{Services, Times};
use self::outcomes::{Kind, Outcome, Outcomes};
use crate::process_faults;
use crate::strangers::soak::{MOST_GROWTH_KIB, watched};
use crate::support::app::PHRASES;
use crate::support::process::ServerProcess;

/// Time limit until `/readyz` reports readiness after the last fault.
const READY_WITHIN: Duration = Duration::from_secs(15);

/// Clients of a kind that have their last turns at once: fewer together than the server's first
/// limit of concurrent turns.
const AT_ONCE: usize = 40;

/// Duration and load of a run.
struct Plan {
    length: Duration,
    /// Number of devices, text clients and applications.
    clients: [usize; 3],
    /// Mean pause between two turns, for each kind of client.
    pauses: [Duration; 3],
    faults: Times,
    /// Whether the run is long enough to judge memory.
    long: bool,
}

impl Plan {
    fn of_environment() -> Self {
        let ms = Duration::from_millis;
        match variable("HEARKEN_SOAK_MINUTES") {
            Some(minutes) => Self {
                length: Duration::from_secs(60 * minutes.parse::<u64>().unwrap()),
                clients: [100, 20, 5],
                pauses: [ms(5_000), ms(1_000), ms(1_000)],
                faults: Times { every: 500..1_500, last: 500..5_000 },
                long: true,
            },
            None => Self {
                length: Duration::from_secs(8),
                clients: [6, 3, 2],
                pauses: [ms(300); 3],
                faults: Times { every: 100..500, last: 300..1_000 },
                long: false,
            },
        }
    }
}

/// Clients that have turns, each in a task.
struct Everybody {
    people: JoinSet<Person>,
    texts: JoinSet<TextClient>,
    applications: JoinSet<Application>,
    leaving: Vec<(Kind, Arc<Notify>)>,
}

impl Everybody {
    fn start(
        server: &ServerProcess,
        plan: &Plan,
        dice: &mut fastrand::Rng,
        outcomes: &Arc<Outcomes>,
        end: &CancellationToken,
    ) -> Self {
        let mut leaving = Vec::new();
        let mut with = |kind: Kind, pause: Duration| {
            let leave = Arc::new(Notify::new());
            leaving.push((kind, Arc::clone(&leave)));
            (pause, dice.fork(), leave, Arc::clone(outcomes), end.clone())
        };
        let [devices, texts, applications] = plan.clients;
        let mut everybody = (JoinSet::new(), JoinSet::new(), JoinSet::new());
        for number in 0..devices {
            let person = Person::new(&server.socket_url("/xiaozhi/v1/"), number);
            let (pause, dice, leave, outcomes, end) = with(Kind::Device, plan.pauses[0]);
            everybody.0.spawn(person.talk(pause, dice, leave, outcomes, end));
        }
        for _ in 0..texts {
            let client = TextClient::new(server.socket_url("/"));
            let (pause, dice, leave, outcomes, end) = with(Kind::Text, plan.pauses[1]);
            everybody.1.spawn(client.talk(pause, dice, leave, outcomes, end));
        }
        for _ in 0..applications {
            let application = Application::new(server.http_url(""));
            let (pause, dice, leave, outcomes, end) = with(Kind::Application, plan.pauses[2]);
            everybody.2.spawn(application.talk(pause, dice, leave, outcomes, end));
        }
        Self { people: everybody.0, texts: everybody.1, applications: everybody.2, leaving }
    }

    /// Waits until all clients have ended. Then each has another turn, which must be answered, and
    /// the store must match the answers that applications received. Returns the violations.
    async fn calm(self) -> Vec<String> {
        let mut people = self.people.join_all().await;
        let mut texts = self.texts.join_all().await;
        let mut applications = self.applications.join_all().await;
        let (a, b, c) = tokio::join!(
            last_turns(&mut people),
            last_turns(&mut texts),
            last_turns(&mut applications),
        );
        let mut bad = Vec::new();
        for (kind, turns) in [(Kind::Device, a), (Kind::Text, b), (Kind::Application, c)] {
            let well = |turn: &Result<clients::Came, String>| {
                turn.as_ref().is_ok_and(|(outcome, _)| *outcome == Outcome::Answered)
            };
            let others = turns.into_iter().filter(|turn| !well(turn));
            bad.extend(others.map(|turn| format!("{kind:?} after all faults: {turn:?}")));
        }
        if bad.is_empty() {
            let answered: usize = applications.iter().map(Application::answered).sum();
            join_all(applications.iter().map(Application::check)).await;
            eprintln!("{answered} messages of applications are stored once and in order");
        }
        bad
    }
}

/// One more turn of each client.
async fn last_turns<C: Client>(clients: &mut [C]) -> Vec<Result<clients::Came, String>> {
    let turns = clients.iter_mut().map(Client::turn_in_time);
    stream::iter(turns).buffer_unordered(AT_ONCE).collect().await
}

/// Copies the log of a server to a file that outlives the test; returns its path.
fn keep_log(server: &ServerProcess, seed: u64) -> String {
    let file = std::env::temp_dir().join(format!("hearken-faults-{seed}.log"));
    std::fs::copy(server.folder().join("server.log"), &file).unwrap();
    file.display().to_string()
}

async fn ready(server: &ServerProcess) {
    eventually_within(READY_WITHIN, "readiness", async || {
        let answer = reqwest::get(server.http_url("/readyz")).await.ok()?;
        (answer.status() == 200).then_some(())
    })
    .await;
}

async fn soak(database: Option<String>) {
    let plan = Plan::of_environment();
    let end = CancellationToken::new();
    let seed =
        variable("HEARKEN_FAULTS_SEED").map_or_else(|| fastrand::u64(..), |s| s.parse().unwrap());
    eprintln!("seed {seed}");
    let mut dice = fastrand::Rng::with_seed(seed);
    let vendors = process_faults::vendors().await;
    let redis = if there_is("faults of Redis") { Some(Redis::start().await) } else { None };
    let services = Services::before(&vendors, database.as_deref(), redis.as_ref()).await;
    let urls = services.environment();
    let mut env = process_faults::USUAL.to_vec();
    // Test machines are busy and packets late; no client may be turned away for that, nor for its
    // many short turns while a service fails at once.
    env.extend([
        ("HEARKEN__ADMISSION__LATE_PERCENT", "100"),
        ("HEARKEN__ADMISSION__BUSY_PERCENT", "100"),
        ("HEARKEN__ADMISSION__TURNS_PER_MINUTE", "0"),
        ("HEARKEN__ADMISSION__TURNS_PER_HOUR", "0"),
    ]);
    env.extend(urls.iter().map(|(name, url)| (*name, url.as_str())));
    let server = ServerProcess::start(&vendors, &env).await;
    vendors.tts.until(|seen| seen.requests >= PHRASES).await;
    let pid = server.pid();
    let outcomes = Arc::new(Outcomes::default());
    let everybody = Everybody::start(&server, &plan, &mut dice, &outcomes, &end);
    let watching = async {
        let parts = watched(&server, plan.length).await;
        end.cancel();
        parts
    };
    let forgetting = async {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        while end.run_until_cancelled(ticks.tick()).await.is_some() {
            vendors.forget_texts();
        }
    };
    let failing = services.fail(&everybody.leaving, &plan.faults, dice, &end);
    let (parts, faults, ()) = tokio::join!(watching, failing, forgetting);
    let mut bad = everybody.calm().await;
    bad.extend(outcomes.lost());
    eprint!("{}", outcomes.table());
    for (name, faults) in &faults {
        eprintln!("| {name} | {} | {faults:?} |", faults.values().sum::<usize>());
    }
    eprintln!("| least, most KiB | open files | longest /healthz, ms | in each fifth");
    for part in parts {
        let least = part.least_kib;
        let most = part.most_kib;
        let stall = part.stall.as_millis();
        eprintln!("| {least}, {most} | {} | {stall} |", part.open_files);
    }
    if server.log().contains("panicked") {
        bad.push("the server panicked".to_owned());
    }
    let grown = parts[4].least_kib.saturating_sub(parts[1].least_kib);
    if plan.long && grown > MOST_GROWTH_KIB {
        bad.push(format!("memory grew by {grown} KiB"));
    }
    assert!(bad.is_empty(), "seed {seed}, log {}:\n{}", keep_log(&server, seed), bad.join("\n"));
    assert!(!faults.is_empty(), "there were faults");
    for kind in [Kind::Device, Kind::Text, Kind::Application] {
        assert!(outcomes.count(kind, Outcome::Answered) > 0, "{kind:?}");
    }
    assert_eq!(server.pid(), pid);
    ready(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_under_faults() {
    match Place::postgres().await {
        None => Box::pin(soak(None)).await,
        place => {
            on(place, |place| async move { Box::pin(soak(Some(place.url.clone()))).await }).await
        }
    }
}
