//! Checks of the configuration that need the parts which use it: `hearken config check` and `hearken
//! serve` refuse the same values. Not for ranges, nor for what depends on the machine: ports in use,
//! missing models and programs, an unreachable store.

use std::net::{Ipv4Addr, SocketAddr};

use hearken_cluster::Cluster;
use hearken_dialogue::turn_trace::TurnJournal;
use hearken_providers::{CallLog, DEVICE_FRONTEND, Vision, state};
use hearken_store::SqlStore;
use hearken_tool_sources::{Builtin, Servers};

use super::models::{Models, patient};
use super::own_address::upload_url;
use super::{llm, rules};
use crate::config::Config;
use crate::engines;
use crate::http::OtaRules;
use crate::tls::Certificate;
use crate::trace_export::TraceExporter;

/// Builds each part that can refuse its settings, and drops it. Contacts nothing, and writes nothing.
///
/// # Errors
/// A value cannot be used; the error names its key.
pub fn verify(config: &Config) -> anyhow::Result<()> {
    SqlStore::patient(config.store.url.expose(), &config.server.data_dir)?;
    Cluster::check(&config.redis)?;
    let calls = CallLog::new(false);
    hearken_providers::asr(&config.asr)?;
    hearken_providers::tts(&config.tts, &calls)?;
    let models = Models::new(calls);
    models.spoken(config, DEVICE_FRONTEND, llm)?;
    models.patient(config, "chat", patient)?;
    Vision::new(&config.vision)?;
    state::state_server(&config.state)?;
    Servers::check(&config.tools.servers)?;
    Builtin::new(&config.tools.builtin, &config.time_zone())?;
    engines::check_models(config)?;
    rules::own_answers(config)?;
    OtaRules::new(&config.ota)?;
    upload_url(config, SocketAddr::from((Ipv4Addr::LOCALHOST, config.server.port)))?;
    TraceExporter::new(&config.traces, &TurnJournal::default())?;
    if let Some(certificate) = Certificate::load(&config.tls)? {
        certificate.server_config()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hearken_base::Secret;
    use hearken_tool_sources::ToolServer;
    use tokio_util::sync::CancellationToken;

    use super::*;

    type Change = fn(&mut Config);

    /// Returns two tool servers of one name.
    fn twins() -> Vec<ToolServer> {
        let server = ToolServer {
            name: "calc".into(),
            url: "http://127.0.0.1:1/".into(),
            ..ToolServer::default()
        };
        vec![server.clone(), server]
    }

    /// A value that the server refuses, by the text that its error contains.
    const REFUSED: [(&str, Change); 18] = [
        ("asr.url", |c| c.asr.url = "nonsense".into()),
        ("asr.more_urls", |c| c.asr.more_urls = vec!["nonsense".into()]),
        ("tts.url", |c| c.tts.url = "nonsense".into()),
        ("llm.base_url", |c| c.llm.base_url = "nonsense".into()),
        ("vision.base_url", |c| c.vision.base_url = "nonsense".into()),
        ("state.url", |c| c.state.url = "nonsense".into()),
        ("", |c| c.store.url = Secret::new("mysql://here")),
        ("", |c| c.redis.url = Secret::new("redis://:port:")),
        ("calc", |c| c.tools.servers = twins()),
        ("name", |c| {
            c.tools.servers = vec![ToolServer { name: "..".into(), ..ToolServer::default() }]
        }),
        ("", |c| c.tools.builtin.enabled = vec!["no_such_tool".into()]),
        ("turn_detection.model", |c| c.turn_detection.model = "smart-tern".into()),
        ("speakers.model", |c| c.speakers.model = "cam".into()),
        ("instant.templates", |c| c.instant.templates = vec!["/no/such/file".into()]),
        ("ota.timezone", |c| c.ota.timezone = "Mars/Base".into()),
        ("ota.websocket_url", |c| c.ota.websocket_url = "http://here".into()),
        ("traces.otlp_url", |c| c.traces.otlp_url = "nonsense".into()),
        ("tls.certificate", |c| {
            c.tls.certificate = "/no/such/file".into();
            c.tls.key = "/no/such/key".into();
        }),
    ];

    #[actix_web::test]
    async fn each_value_with_which_the_server_does_not_start_is_refused_by_the_check() {
        hearken_outbound::tls::choose_provider();
        let folder = tempfile::tempdir().unwrap();
        let with = |change: Change| {
            let mut config = Config::default();
            config.server.data_dir = folder.path().to_owned();
            config.server.port = 0;
            config.embedded.enabled = false;
            change(&mut config);
            config
        };
        verify(&with(|_| ())).unwrap();
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "it writes nothing");
        for (key, change) in REFUSED {
            let config = with(change);
            let Err(error) = verify(&config) else { panic!("{key} is accepted") };
            let error = format!("{error:#}");
            assert!(error.contains(key), "{key}: {error}");
            let started = super::super::start(&config, Vec::new(), CancellationToken::new());
            assert!(started.is_err(), "{key}: the server starts, although the check refuses");
        }
    }
}
