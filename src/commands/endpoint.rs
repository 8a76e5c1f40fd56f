//! Where a virtual device connects, and with what token: as told on the command line, else as an
//! OTA address says. Not for the rules of booting, which are in [`hearken_virtual_device::boot`].

use anyhow::Context as _;
use hearken_virtual_device::boot::{Booted, Identity, boot};
use hearken_virtual_device::socket::Endpoint;
use url::Url;

const URL: &str = "ws://127.0.0.1:9400/xiaozhi/v1/";
const BOARD: &str = "virtual-board";

/// What is known of an endpoint before anybody is asked.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    /// The address, where one was given.
    pub(super) url: Option<String>,
    /// The OTA address, where one was given.
    pub(super) ota: Option<String>,
    /// The token, where one was given.
    pub(super) token: Option<String>,
    /// MAC address of the device.
    pub(super) device_id: String,
    /// UUID of the device.
    pub(super) client_id: String,
    /// Version of the binary framing.
    pub(super) framing: u32,
    /// Version of the firmware.
    pub(super) version: String,
}

impl Wanted {
    /// The endpoint and its token. An OTA address that was asked for must answer; the endpoint's
    /// own host need not.
    ///
    /// # Errors
    /// The OTA address asked for does not answer, or the device is not activated there.
    pub(super) async fn endpoint(self) -> anyhow::Result<Endpoint> {
        let identity = identity(&self);
        let mut endpoint = Endpoint {
            url: self.url.clone().unwrap_or_else(|| URL.to_owned()),
            device_id: self.device_id,
            client_id: self.client_id,
            token: self.token.clone(),
            framing: self.framing,
        };
        let booted = match (&self.ota, self.token) {
            (Some(ota), _) => boot(ota, &identity).await.context("cannot boot")?,
            (None, Some(_)) => Booted::default(),
            (None, None) => match own_ota(&endpoint.url) {
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
            if self.ota.is_some() && self.url.is_none() && !told.url.is_empty() {
                endpoint.url = told.url;
            }
        }
        Ok(endpoint)
    }
}

fn identity(wanted: &Wanted) -> Identity {
    // Only the development branch has a name that is no number.
    let numbers = wanted.version.starts_with(|c: char| c.is_ascii_digit());
    Identity {
        device_id: wanted.device_id.clone(),
        client_id: wanted.client_id.clone(),
        version: if numbers { wanted.version.as_str() } else { "2.4.2" }.into(),
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
