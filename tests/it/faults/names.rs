//! Services whose names cannot be resolved, as the name service does not answer: an apology in time
//! for each adapter, and an answer once the name is resolved. Not for services that are reachable.

use hearken_test_support::{own_mounts, variable};

use super::*;

/// Set in the process whose name service does not answer.
const NO_NAMES: &str = "HEARKEN_TEST_NO_NAMES";
/// Address of the name service; nothing listens on it otherwise.
const SILENT: &str = "127.83.7.3";

/// A turn while the name of the service cannot be resolved, and one when it can.
async fn is_named_later(adapter: Adapter) {
    let vendors = adapter.vendors().await;
    let name = format!("{adapter:?}.hearken.invalid").to_lowercase();
    let url = adapter.stub(&vendors).url().replacen("127.0.0.1", &name, 1);
    assert!(url.contains(&name), "{url}");
    let tweak = |config: &mut Config| {
        impatient(config, adapter.port());
        adapter.point(config, url);
    };
    let server = TestServer::start(&vendors, tweak).await;
    let mut person = Person::meet(&server.device_url(), 1, ListenMode::Auto).await;
    let counted = failures(&server, adapter.port()).await;
    let (hurt, took) = turn(&mut person).await;
    eprintln!("| {adapter:?} | no name service | {hurt:?} | {} ms", took.as_millis());
    assert_eq!(hurt, Ok(adapter.never_there()), "{adapter:?}");
    assert!(took < TURN_WITHIN, "{adapter:?}: {took:?}");
    let failed = failures(&server, adapter.port()).await - counted;
    assert!(failed > 0.0, "{adapter:?}: no failure is counted");
    std::fs::write("/etc/hosts", format!("127.0.0.1 localhost {name}\n")).unwrap();
    assert_eq!(turn(&mut person).await.0, Ok(Expected::Answered), "{adapter:?}, with a name");
    drop(person);
    server.stop().await;
}

#[tokio::test]
#[ignore = "the other test runs it, with a name service that does not answer"]
async fn unresolved_names_fail() {
    if variable(NO_NAMES).is_none() {
        return;
    }
    let silent = tokio::net::UdpSocket::bind((SILENT, 53)).await.unwrap();
    for adapter in ALL {
        is_named_later(*adapter).await;
        let asked = silent.try_recv(&mut [0; 512]);
        assert!(asked.is_ok(), "{adapter:?}: the name service was asked: {asked:?}");
    }
}

#[tokio::test]
async fn services_with_unresolvable_names_get_apologies_in_time() {
    let prepare = own_mounts::only_name_service(SILENT);
    own_mounts::run(&prepare, "faults::names::unresolved_names_fail", &[(NO_NAMES, "1")]).await;
}
