//! Where the replayed device connects, and with what token: as told on the command line, else as
//! an OTA address says. Not for the rules of booting, which are in [`crate::emulator::boot`].

use anyhow::Context as _;
use hearken_proto::recording::Header;
use url::Url;

use super::ReplayArgs;
use crate::emulator::boot::{Booted, Identity, boot};
use crate::emulator::socket::Endpoint;

const URL: &str = "ws://127.0.0.1:9400/xiaozhi/v1/";
const BOARD: &str = "virtual-board";

/// The endpoint and its token. An OTA address that was asked for must answer; the endpoint's own
/// host need not.
///
/// # Errors
/// The OTA address asked for does not answer, or the device is not activated there.
pub(super) async fn endpoint(
    args: &ReplayArgs,
    header: &Header,
    version: &str,
) -> anyhow::Result<Endpoint> {
    let or = |given: &Option<String>, fallback: &str| {
        given.clone().unwrap_or_else(|| fallback.to_owned())
    };
    let device_id = args.device_id.clone().or_else(|| header.device_id.clone());
    let mut endpoint = Endpoint {
        url: or(&args.url, URL),
        // A locally administered address, so that it is nobody's.
        device_id: or(&device_id, "02:00:00:00:00:01"),
        client_id: or(&header.client_id, "00000000-0000-4000-8000-000000000001"),
        token: args.token.clone(),
        framing: header.framing,
    };
    let identity = identity(&endpoint, version);
    let booted = match &args.ota {
        Some(ota) => boot(ota, &identity).await.context("cannot boot")?,
        None if args.token.is_some() => Booted::default(),
        None => match own_ota(&endpoint.url) {
            // A server without such an address wants no token.
            Some(ota) => boot(&ota, &identity).await.unwrap_or_else(|reason| {
                tracing::debug!("no token: {reason}");
                Booted::default()
            }),
            None => Booted::default(),
        },
    };
    if let Some(told) = booted.websocket {
        endpoint.token = endpoint.token.or(Some(told.token).filter(|t| !t.is_empty()));
        if args.ota.is_some() && args.url.is_none() && !told.url.is_empty() {
            endpoint.url = told.url;
        }
    }
    Ok(endpoint)
}

fn identity(endpoint: &Endpoint, version: &str) -> Identity {
    // Only the development branch has a name that is no number.
    let numbers = version.starts_with(|c: char| c.is_ascii_digit());
    Identity {
        device_id: endpoint.device_id.clone(),
        client_id: endpoint.client_id.clone(),
        version: if numbers { version } else { "2.4.2" }.into(),
        board: BOARD.into(),
        serial: None,
        activation_rounds: 0,
        patient: false,
        haste: 1,
    }
}

/// The OTA address on the host of a device endpoint.
fn own_ota(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let scheme = if url.scheme() == "wss" { "https" } else { "http" };
    let port = url.port().map_or(String::new(), |port| format!(":{port}"));
    Some(format!("{scheme}://{}{port}/xiaozhi/ota/", url.host_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_an_endpoint_is_asked() {
        for (endpoint, ota) in [
            (URL, Some("http://127.0.0.1:9400/xiaozhi/ota/")),
            ("wss://h/xiaozhi/v1/", Some("https://h/xiaozhi/ota/")),
            ("nonsense", None),
        ] {
            assert_eq!(own_ota(endpoint).as_deref(), ota, "{endpoint}");
        }
    }
}
