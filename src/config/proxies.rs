//! Proxies whose headers are trusted (`server.trusted_proxies`, `ota.trust_proxy`), as networks of
//! addresses. Not for the headers.

use std::net::IpAddr;
use std::str::FromStr;

use super::Config;

/// Proxies whose headers are trusted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TrustedProxies {
    /// None.
    #[default]
    None,
    /// One proxy, on this machine or in one of its private networks.
    Near,
    /// Those of these networks, which may be in a chain.
    Listed(Vec<Network>),
}

impl TrustedProxies {
    /// Returns the proxies of a configuration, which was checked.
    pub fn new(config: &Config) -> Self {
        let listed = &config.server.trusted_proxies;
        if !listed.is_empty() {
            return Self::Listed(listed.iter().filter_map(|text| text.parse().ok()).collect());
        }
        if config.ota.trust_proxy { Self::Near } else { Self::None }
    }
}

/// Network of addresses: one address, or all with the same first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

/// Error for a text that is no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a network of addresses")]
pub struct NotANetwork;

impl Network {
    /// Returns true if the address is in the network.
    pub fn contains(self, address: IpAddr) -> bool {
        let same = match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(v4)) => (ours.to_bits() ^ v4.to_bits()).leading_zeros(),
            (IpAddr::V6(ours), IpAddr::V6(v6)) => (ours.to_bits() ^ v6.to_bits()).leading_zeros(),
            _ => return false,
        };
        same >= self.bits
    }
}

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let split = text.split_once('/');
        let address = split.map_or(text, |(address, _)| address);
        let address: IpAddr = address.parse().map_err(|_| NotANetwork)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match split {
            Some((_, bits)) => bits.parse().map_err(|_| NotANetwork)?,
            None => most,
        };
        // Addresses are compared in their canonical form.
        if bits > most || address.to_canonical() != address {
            return Err(NotANetwork);
        }
        Ok(Self { address, bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::check::check;

    #[test]
    fn a_network_contains_the_addresses_with_its_first_bits() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("10.0.0.5", "10.0.0.5", "10.0.0.4"),
            ("192.168.1.0/31", "::ffff:192.168.1.1", "192.168.1.2"),
            ("0.0.0.0/0", "203.0.113.7", "2001:db8::1"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"),
            ("::1", "::1", "::2"),
        ] {
            let net: Network = network.parse().unwrap();
            assert!(net.contains(inside.parse().unwrap()), "{network} {inside}");
            assert!(!net.contains(outside.parse().unwrap()), "{network} {outside}");
        }
        for text in
            ["", "proxy", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "::ffff:0:0/96"]
        {
            assert_eq!(text.parse::<Network>(), Err(NotANetwork), "{text}");
        }
    }

    #[test]
    fn the_server_does_not_start_with_what_is_no_network() {
        let mut config = Config::default();
        for (text, is_valid) in [("10.0.0.0/8", true), ("2001:db8::1", true), ("proxy", false)] {
            config.server.trusted_proxies = vec![text.into()];
            assert_eq!(check(&config).is_ok(), is_valid, "{text}");
        }
    }

    #[test]
    fn a_list_takes_precedence() {
        let mut config = Config::default();
        assert_eq!(TrustedProxies::new(&config), TrustedProxies::None);
        config.ota.trust_proxy = true;
        assert_eq!(TrustedProxies::new(&config), TrustedProxies::Near);
        for trust_proxy in [true, false] {
            config.ota.trust_proxy = trust_proxy;
            config.server.trusted_proxies = vec!["10.0.0.0/8".into()];
            let listed = TrustedProxies::Listed(vec!["10.0.0.0/8".parse().unwrap()]);
            assert_eq!(TrustedProxies::new(&config), listed);
        }
    }
}
