//! The official conformance suite of MCP, run against our host by `scripts/conformance`.

use hearken_test_support::peers::Peers;
use tokio::process::Command;

/// Scenarios of the client for each protocol revision; fixtures/conformance/baseline.yml covers
/// those of OAuth.
const SCENARIOS: [(&str, &[&str]); 2] = [
    (
        "2025-11-25",
        &[
            "initialize",
            "tools_call",
            "elicitation-sep1034-client-defaults",
            "sse-retry",
            "json-schema-2020-12-preservation",
        ],
    ),
    (
        "2026-07-28",
        &[
            "tools_call",
            "request-metadata",
            "sep-2322-client-request-state",
            "http-standard-headers",
            "http-custom-headers",
            "http-invalid-tool-headers",
            "json-schema-ref-no-deref",
            "json-schema-2020-12-preservation",
        ],
    ),
];

#[tokio::test]
async fn our_host_passes_the_official_suite_for_both_revisions() {
    let Some(_suite) = Peers::with_conformance() else { return };
    // Cargo builds it with the tests, in a sibling folder.
    let tests = std::env::current_exe().unwrap();
    let client = tests.parent().unwrap().parent().unwrap().join("examples/mcp_conformance");
    assert!(client.exists(), "no client: run `cargo build --example mcp_conformance`");
    let script = hearken_test_support::repository().join("scripts/conformance");
    let output = Command::new(script).arg(client).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    for (revision, scenarios) in SCENARIOS {
        let (_, summary) = said.split_once(&format!("==> requirements {revision}")).unwrap();
        let summary = summary.split("==> ").next().unwrap();
        for scenario in scenarios {
            let passed = summary.lines().find_map(|line| {
                let checks = line.strip_prefix(&format!("✓ {scenario}: "))?;
                checks.strip_suffix(" passed, 0 failed")?.parse::<u32>().ok()
            });
            assert!(passed.is_some_and(|checks| checks > 0), "{revision} {scenario}: {summary}");
        }
        let other = |line: &&str| line.starts_with("✓ ") && !line.starts_with("✓ auth/");
        assert_eq!(summary.lines().filter(other).count(), scenarios.len(), "{summary}");
    }
}
