//! The gateway's test page in a real Chromium, driven by `clients/page.mjs`. Not for the protocol.

use std::path::Path;
use std::time::Duration;

use hearken_test_support::peers::Peers;
use hearken_test_support::vendors::Behaviour;

use super::script::{output_of, program, vendors};
use crate::support::app::TestServer;

const CHROMIUM: &str = "/usr/bin/chromium-headless-shell";
const STEPS: usize = 10;

#[tokio::test]
async fn the_test_page_works_in_a_browser() {
    let Some(peers) = Peers::with("playwright-core") else { return };
    if !Path::new(CHROMIUM).exists() {
        eprintln!("skipped: no {CHROMIUM}, run scripts/peers");
        return;
    }
    let vendors = vendors().await;
    vendors.llm.set(Behaviour::Slow);
    let server = TestServer::start(&vendors, |config| {
        config.gateway.client_tool_timeout = Duration::from_secs(2);
        // The origin of a page from disk is `null`, as that of any sandboxed page.
        config.http.cors_origins = vec!["*".into()];
    })
    .await;
    let file = hearken_test_support::repository().join("web/test_client.html");
    let packages = peers.packages();
    let address = server.address.to_string();
    let arguments: [&dyn AsRef<std::ffi::OsStr>; 5] =
        [&program("page.mjs"), &packages, &CHROMIUM, &address, &file];
    let said = output_of(peers.node(), &arguments).await;
    assert_eq!(said.lines().filter(|line| line.starts_with("holds: ")).count(), STEPS, "{said}");
    server.stop().await;
}
