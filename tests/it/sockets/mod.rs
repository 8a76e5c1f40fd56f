//! How every WebSocket of our servers ends for clients of three libraries: codes and reasons of
//! both sides, idle, during answers and among many. Frames that no library sends, and deadlines,
//! are tested in virtual time in `crates/socket`.

mod endpoints;
mod libraries;

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use hearken_proto::fault::Fault;

use self::endpoints::House;
use self::libraries::{Ended, Library, Plan};

/// Number of concurrent connections.
const MANY: usize = 50;

fn told(fault: Fault) -> Ended {
    let row = fault.row();
    Ended::with(row.close_code, row.meaning)
}

/// Runs the plans in a library, and asserts how each connection ends.
async fn assert_ends(library: Library, plans: &[(Plan, Ended)]) {
    let (wanted, expected): (Vec<Plan>, Vec<Ended>) = plans.iter().cloned().unzip();
    let ended = library.run(&wanted).await.ended().await;
    for ((plan, expected), ended) in wanted.iter().zip(expected).zip(ended) {
        assert_eq!(ended, expected, "{library:?}: {plan:?}");
    }
}

#[actix_web::test]
async fn a_client_that_closes_gets_its_own_code_back_on_every_socket() {
    let house = House::open(|_| {}).await;
    let endpoints = [house.of_server(), house.of_speech()].concat();
    let mut plans = Vec::new();
    for (code, reason) in [(1000, ""), (4001, "that was all")] {
        let closing = |endpoint: &Plan| Plan { close: Some((code, reason)), ..endpoint.clone() };
        plans.extend(
            endpoints.iter().map(|endpoint| (closing(endpoint), Ended::with(code, reason))),
        );
    }
    for library in Library::all() {
        assert_ends(library, &plans).await;
    }
    house.server.stop().await;
}

#[actix_web::test]
async fn fifty_concurrent_closes_all_end_cleanly() {
    let house = House::open(|_| {}).await;
    let closing = |endpoint: Plan| {
        (Plan { close: Some((4002, "at once")), ..endpoint }, Ended::with(4002, "at once"))
    };
    let many = |endpoint: &dyn Fn() -> Plan| vec![closing(endpoint()); MANY];
    for library in Library::all() {
        assert_ends(library, &many(&|| house.text_client())).await;
        assert_ends(library, &many(&|| house.device())).await;
    }
    house.server.stop().await;
}

#[actix_web::test]
async fn shutdown_closes_all_sockets_and_waits_for_their_close_frames() {
    let house = House::open(|config| config.gateway.max_connections = 4 * MANY).await;
    let plans = house.of_server();
    let many = vec![house.text_client(); MANY];
    let plans = [plans, many].concat();
    let running = join_all(Library::all().into_iter().map(|library| library.run(&plans))).await;
    let begun = Instant::now();
    house.server.cancel();
    for running in running {
        for (plan, ended) in plans.iter().zip(running.ended().await) {
            assert_eq!(ended, told(Fault::GoingAway), "{plan:?}");
        }
    }
    house.server.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
}

#[actix_web::test]
async fn each_close_has_its_code_and_reason() {
    let house = House::open(|config| {
        config.device.hello_timeout = Duration::from_secs(3);
        // Clients are checked at this interval: one that sends nothing in between counts as idle.
        config.gateway.ping_every = Duration::from_millis(4_500);
        config.gateway.dead_after = Duration::from_secs(3);
    })
    .await;
    let large = |endpoint: Plan, large| (Plan { large, ..endpoint }, told(Fault::TooLarge));
    let mute = Plan { say: Vec::new(), until: "", ..house.device() };
    let plans = [
        large(house.listening_device(), 65_537),
        large(house.watcher(), 65_537),
        large(house.text_client(), (1 << 20) + 1),
        large(house.litemcp(), (1 << 20) + 1),
        large(house.tool_client(), (4 << 20) + 1),
        (mute, told(Fault::NoHello)),
        (house.text_client(), told(Fault::Idle)),
    ];
    let speech = house.of_speech().into_iter().map(|endpoint| {
        let why = Ended::with(1009, "the message is too large");
        (Plan { large: (1 << 20) + 1, ..endpoint }, why)
    });
    let plans: Vec<(Plan, Ended)> = plans.into_iter().chain(speech.take(2)).collect();
    for library in Library::all() {
        assert_ends(library, &plans).await;
    }
    house.server.stop().await;
}

#[actix_web::test]
async fn a_replaced_device_and_a_client_beyond_the_limit_get_a_reason() {
    let house = House::open(|config| config.gateway.max_connections = 0).await;
    let turned_away = Plan { until: "", ..house.text_client() };
    let device = |endpoint: Plan| Plan {
        url: format!("{}?device-id=02:00:00:00:00:07", endpoint.url),
        ..endpoint
    };
    for library in Library::all() {
        assert_ends(library, &[(turned_away.clone(), told(Fault::Busy))]).await;
        let first = library.run(&[device(house.listening_device())]).await;
        let last = Plan { close: Some((1000, "")), ..device(house.device()) };
        let second = Library::Tungstenite.run(&[last]).await;
        assert_eq!(first.ended().await, [told(Fault::Replaced)], "{library:?}");
        assert_eq!(second.ended().await, [Ended::with(1000, "")]);
    }
    house.server.stop().await;
}
