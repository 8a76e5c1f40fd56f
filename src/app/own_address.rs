//! The address to which devices upload pictures. Not for the port's own address.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use anyhow::Context as _;

use crate::config::Config;
use crate::http;

/// Returns the URL to which devices upload pictures: the configured one, else one derived from the
/// configured WebSocket address, else from this machine's own address.
pub(super) fn upload_url(config: &Config, address: SocketAddr) -> anyhow::Result<String> {
    if !config.vision.url.is_empty() {
        return Ok(config.vision.url.clone());
    }
    let socket = config.ota.websocket_url.as_str();
    let mut base = if socket.is_empty() {
        let ip = if address.ip().is_unspecified() { own_ip() } else { address.ip() };
        let scheme = if config.tls.is_on() { "https" } else { "http" };
        url::Url::parse(&format!("{scheme}://{}", SocketAddr::new(ip, address.port())))?
    } else {
        // Converts `ws` and `wss` to `http` and `https`.
        let http = socket.replacen("ws", "http", 1);
        url::Url::parse(&http).with_context(|| format!("`ota.websocket_url` is {socket}"))?
    };
    base.set_path(http::VISION_PATH);
    base.set_query(None);
    Ok(base.into())
}

/// Returns the address from which this machine would reach other networks. Sends no packet.
pub(super) fn own_ip() -> IpAddr {
    let asked = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        // An address for documentation (RFC 5737): any foreign address works.
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    asked.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
}
