//! `kill -9` of PostgreSQL under a server with active clients. For a PostgreSQL that is stopped,
//! see `server::readiness`.

use std::time::{Duration, Instant};

use serde_json::json;

use super::clients::{PATIENCE, TextClient};
use super::{USUAL, vendors};
use crate::cluster::load::Load;
use crate::support::postgres::Postgres;
use crate::support::process::ServerProcess;

const SESSIONS: usize = 6;
const MESSAGES: usize = 20;
/// A store call times out after 4 s; the rest is for a busy machine.
const REFUSED_WITHIN: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_postgresql_under_load_causes_refusals_but_loses_no_message() {
    let Some(mut postgres) = Postgres::start().await else { return };
    let vendors = vendors().await;
    let url = postgres.url();
    let mut env = USUAL.to_vec();
    env.push(("DATABASE_URL", &url));
    let server = ServerProcess::start(&vendors, &env).await;
    let load = Load::at(server.http_url("/api/sessions"), SESSIONS).await;
    let mut text = TextClient::new(server.socket_url("/"));
    assert_eq!(text.say().await.unwrap()["type"], "llm_response");
    let killing = async {
        load.reached(SESSIONS * MESSAGES / 3).await;
        postgres.kill().await;
        let begun = Instant::now();
        let wanted = json!({"name": "n", "creator_id": "c"});
        let asked = reqwest::Client::new().post(server.http_url("/api/sessions")).json(&wanted);
        let refused = asked.timeout(PATIENCE).send().await.expect("a response");
        let took = begun.elapsed();
        let status = refused.status();
        assert!(status == 503 && took < REFUSED_WITHIN, "{status} after {took:?}");
        let ready = reqwest::get(server.http_url("/readyz")).await.unwrap();
        assert_eq!(ready.status(), 503);
        // A text client is answered, with a mark that the turn is not stored.
        let told = text.say().await.expect("the connection is open");
        assert_eq!((&told["type"], &told["stored"]), (&json!("llm_response"), &json!(false)));
        let told = begun.elapsed();
        let figures =
            reqwest::get(server.http_url("/metrics")).await.unwrap().text().await.unwrap();
        let failures =
            figures.lines().find_map(|l| l.strip_prefix("hearken_store_failures_total "));
        assert!(failures.unwrap().parse::<u64>().unwrap() > 1, "{failures:?}");
        assert!(server.log().contains("the store cannot be reached"));
        postgres.run().await;
        let back = Instant::now();
        load.reached(load.answered() + 1).await;
        (took, told, back.elapsed())
    };
    let (seen, (refused, told, back)) = tokio::join!(load.talk(0, MESSAGES), killing);
    eprintln!(
        "refused within {refused:.1?}, a text client answered within {told:.1?}, the first message \
         stored {back:.1?} after the database came back; {:?}, longest {:.1?}",
        seen.statuses,
        seen.percentile(100)
    );
    assert!(seen.is_served() && seen.troubles() > 0, "{:?}", seen.statuses);
    load.check(&server.http_url(""), MESSAGES).await;
    let stored = text.say().await.unwrap();
    assert_eq!((&stored["type"], &stored["stored"]), (&json!("llm_response"), &json!(null)));
    drop(server);
    postgres.stop().await;
}
