//! Address, identity and token of a virtual device's connection: given explicitly, or else obtained
//! from an OTA address. Not for the rules of booting, which are in [`super::boot`].

use url::Url;

use super::boot::{BootError, Booted, Identity, boot};
use super::profile::{CLIENT_ID, DEVICE_ID};
use super::socket::Endpoint;

/// Device endpoint of a Hearken server on this machine.
pub const LOCAL_URL: &str = "ws://127.0.0.1:9400/xiaozhi/v1/";
const BOARD: &str = "virtual-board";

/// Options of an endpoint, before any request is sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndpointOptions {
    /// `ws://` or `wss://` address of the device endpoint. If `None`, uses the one from the OTA
    /// address, else [`LOCAL_URL`].
    pub url: Option<String>,
    /// OTA address at which the device boots first, as firmware does. If `None`, requests a token
    /// from `/xiaozhi/ota/` on the endpoint's own host, if that responds.
    pub ota: Option<String>,
    /// Bearer token. Takes precedence over a token from the OTA address.
    pub token: Option<String>,
    /// MAC address of the device, lower case with colons; [`DEVICE_ID`] if `None`.
    pub device_id: Option<String>,
    /// UUID of the device; [`CLIENT_ID`] if `None`.
    pub client_id: Option<String>,
}

impl EndpointOptions {
    /// Returns the endpoint with its token, for a device with this `framing` (1, 2 or 3) and
    /// firmware of this `version`. Sends a request to the OTA address.
    ///
    /// # Errors
    /// Fails if the given OTA address does not answer, or does not activate the device. A missing
    /// answer of the endpoint's own host is not an error.
    pub async fn resolve(self, framing: u32, version: &str) -> Result<Endpoint, BootError> {
        let mut endpoint = Endpoint {
            url: self.url.clone().unwrap_or_else(|| LOCAL_URL.to_owned()),
            device_id: self.device_id.unwrap_or_else(|| DEVICE_ID.to_owned()),
            client_id: self.client_id.unwrap_or_else(|| CLIENT_ID.to_owned()),
            token: self.token.clone(),
            framing,
        };
        let identity = identity(&endpoint, version);
        let booted = match (&self.ota, self.token) {
            (Some(ota), _) => boot(ota, &identity).await?,
            (None, Some(_)) => Booted::default(),
            (None, None) => match own_ota(&endpoint.url) {
                // A server without an OTA address needs no token.
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

fn identity(endpoint: &Endpoint, version: &str) -> Identity {
    // Only the development branch has a name that is not a number.
    let numbers = version.starts_with(|c: char| c.is_ascii_digit());
    Identity {
        device_id: endpoint.device_id.clone(),
        client_id: endpoint.client_id.clone(),
        version: if numbers { version } else { "2.4.2" }.into(),
        board: BOARD.into(),
        serial: None,
        activation_rounds: 0,
        retry_failures: false,
        wait_divisor: 1,
    }
}

/// Returns the OTA address on the host of a device endpoint.
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
    fn the_ota_address_is_on_the_host_of_the_endpoint() {
        for (endpoint, ota) in [
            (LOCAL_URL, Some("http://127.0.0.1:9400/xiaozhi/ota/")),
            ("wss://h/xiaozhi/v1/", Some("https://h/xiaozhi/ota/")),
            ("nonsense", None),
        ] {
            assert_eq!(own_ota(endpoint).as_deref(), ota, "{endpoint}");
        }
    }
}
