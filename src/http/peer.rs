//! Network location of a request's client: this machine, its private networks or elsewhere; and the
//! address under which the client is counted. Not for the client's identity.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use actix_web::HttpRequest;

use crate::config::TrustedProxies;

/// Headers with which proxies mark a forwarded request, besides those of [`is_forwarding`].
const FORWARDING: [&str; 6] =
    ["forwarded", "x-real-ip", "x-original-host", "x-cluster-client-ip", "cf-connecting-ip", "via"];

/// Name for all clients on this machine, which are not distinguished.
const MACHINE: &str = "machine";

/// Network location of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// This machine.
    Machine,
    /// A private network of this machine: RFC 1918, unique local and link-local addresses.
    Network,
    /// Any other location, or unknown because the request was forwarded.
    Elsewhere,
}

impl Peer {
    /// Returns the location of a request's client. A forwarded request is never local: a proxy on
    /// this machine may forward requests from anywhere. Decision 0044.
    pub(crate) fn of(request: &HttpRequest) -> Self {
        if request.headers().keys().any(|name| is_forwarding(name.as_str())) {
            return Self::Elsewhere;
        }
        request.peer_addr().map_or(Self::Elsewhere, |peer| Self::at(peer.ip()))
    }

    /// Returns the location of an address.
    pub fn at(address: IpAddr) -> Self {
        match address.to_canonical() {
            near if near.is_loopback() => Self::Machine,
            IpAddr::V4(v4) if v4.is_private() || v4.is_link_local() => Self::Network,
            IpAddr::V6(v6) if v6.is_unique_local() || v6.is_unicast_link_local() => Self::Network,
            _ => Self::Elsewhere,
        }
    }
}

/// Returns true if a header shows that a proxy forwards the request; vendors use different names of a common form.
fn is_forwarding(name: &str) -> bool {
    name.starts_with("x-forwarded")
        || name.ends_with("forwarded-for")
        || name.ends_with("client-ip")
        || name.ends_with("clientip")
        || name.ends_with("client-addr")
        || FORWARDING.contains(&name)
}

/// Parses the address of a client as a proxy writes it: alone, or with its port.
fn forwarded_address(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches('"');
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()))
}

/// Returns true if a connection from this address is that of a trusted proxy.
pub fn is_trusted_proxy(peer: IpAddr, proxies: &TrustedProxies) -> bool {
    match proxies {
        TrustedProxies::None => false,
        TrustedProxies::Near => Peer::at(peer) != Peer::Elsewhere,
        TrustedProxies::Listed(networks) => networks.iter().any(|network| network.contains(peer)),
    }
}

/// Returns true if a trusted proxy sent the request: its headers are valid.
pub(crate) fn is_from_trusted_proxy(request: &HttpRequest, proxies: &TrustedProxies) -> bool {
    request.peer_addr().is_some_and(|peer| is_trusted_proxy(peer.ip(), proxies))
}

/// Returns the address of a client: behind a trusted proxy, the last address in the proxy's header
/// that is not one of listed proxies, or the proxy's own if it wrote none.
fn client_of(request: &HttpRequest, proxies: &TrustedProxies) -> Option<IpAddr> {
    let peer = request.peer_addr()?.ip();
    if !is_trusted_proxy(peer, proxies) {
        return Some(peer);
    }
    let lines = request.headers().get_all("x-forwarded-for");
    let lines: Vec<&str> = lines.map(|line| line.to_str().unwrap_or_default()).collect();
    let mut client = peer;
    for text in lines.into_iter().rev().flat_map(|line| line.rsplit(',')) {
        let Some(address) = forwarded_address(text) else { break };
        client = address;
        // Only the last address was seen by a proxy that is not listed.
        let is_in_chain = matches!(proxies, TrustedProxies::Listed(_));
        if !is_in_chain || !is_trusted_proxy(address, proxies) {
            break;
        }
    }
    Some(client)
}

/// Returns the address under which a client is counted. An IPv6 client is counted by its /64
/// network, since it can use all addresses in it.
pub(crate) fn address_of(request: &HttpRequest, proxies: &TrustedProxies) -> String {
    match client_of(request, proxies) {
        Some(address) => format!("address {}", network_of(address)),
        None => "address".into(),
    }
}

/// Returns the name under which a client without a credential owns what it creates: this machine, or
/// its address. Of an IPv6 address, the /64 network is that of one customer on the Internet; in
/// private networks, it is that of everyone: the whole address counts.
pub(crate) fn owner_of(request: &HttpRequest, proxies: &TrustedProxies) -> String {
    if Peer::of(request) == Peer::Machine {
        return MACHINE.into();
    }
    let near = client_of(request, proxies).filter(|client| Peer::at(*client) == Peer::Network);
    match near {
        Some(client) => format!("address {}", client.to_canonical()),
        None => address_of(request, proxies),
    }
}

/// Returns an address without the part that its owner can choose.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn private_addresses_are_near_and_all_others_are_not() {
        for (address, peer) in [
            ("127.0.0.1", Peer::Machine),
            ("127.9.9.9", Peer::Machine),
            ("::1", Peer::Machine),
            ("::ffff:127.0.0.1", Peer::Machine),
            ("10.1.2.3", Peer::Network),
            ("172.16.0.1", Peer::Network),
            ("172.31.255.255", Peer::Network),
            ("192.168.1.2", Peer::Network),
            ("169.254.1.1", Peer::Network),
            ("::ffff:192.168.1.2", Peer::Network),
            ("fd12::1", Peer::Network),
            ("fe80::1", Peer::Network),
            ("172.32.0.1", Peer::Elsewhere),
            ("100.64.0.1", Peer::Elsewhere),
            ("203.0.113.7", Peer::Elsewhere),
            ("::ffff:203.0.113.7", Peer::Elsewhere),
            ("2001:db8::1", Peer::Elsewhere),
            ("0.0.0.0", Peer::Elsewhere),
        ] {
            assert_eq!(Peer::at(address.parse().unwrap()), peer, "{address}");
        }
    }

    #[test]
    fn a_forwarded_request_is_never_near() {
        let request = || TestRequest::default().peer_addr("127.0.0.1:1".parse().unwrap());
        assert_eq!(Peer::of(&request().to_http_request()), Peer::Machine);
        let vendors = [
            "x-forwarded-for",
            "x-forwarded-host",
            "x-forwarded-prefix",
            "x-forwarded-port",
            "x-original-forwarded-for",
            "x-client-ip",
            "true-client-ip",
            "fastly-client-ip",
            "fly-client-ip",
            "x-azure-clientip",
        ];
        for name in FORWARDING.into_iter().chain(vendors) {
            let forwarded = request().insert_header((name, "127.0.0.1")).to_http_request();
            assert_eq!(Peer::of(&forwarded), Peer::Elsewhere, "{name}");
        }
        assert_eq!(Peer::of(&TestRequest::default().to_http_request()), Peer::Elsewhere);
    }

    /// A request from this address with these headers.
    pub(in crate::http) fn request(from: &str, headers: &[(&'static str, &str)]) -> HttpRequest {
        let request = TestRequest::default().peer_addr(format!("{from}:1").parse().unwrap());
        let with = |request: TestRequest, (name, value): &(_, _)| {
            TestRequest::insert_header(request, (*name, *value))
        };
        headers.iter().fold(request, with).to_http_request()
    }

    #[test]
    fn the_part_of_an_address_that_its_owner_can_choose_does_not_count() {
        let forwarded = [("x-forwarded-for", "203.0.113.1, 198.51.100.2")];
        let forwarded = request("192.168.2.7", &forwarded);
        assert_eq!(address_of(&forwarded, &TrustedProxies::None), "address 192.168.2.7");
        assert_eq!(address_of(&forwarded, &TrustedProxies::Near), "address 198.51.100.2");
        for (from, address) in [
            ("[2001:db8::1]", "address 2001:db8::"),
            ("[2001:db8::ffff:1:2:3]", "address 2001:db8::"),
            ("[2001:db8:0:1::1]", "address 2001:db8:0:1::"),
            ("[::ffff:192.0.2.7]", "address 192.0.2.7"),
        ] {
            let counted = address_of(&request(from, &[]), &TrustedProxies::None);
            assert_eq!(counted, address, "{from}");
        }
        for (told, address) in [
            ("2001:db8::2", "address 2001:db8::"),
            ("[2001:db8::2]", "address 2001:db8::"),
            ("[2001:db8::2]:4000", "address 2001:db8::"),
            ("203.0.113.2:4000", "address 203.0.113.2"),
            ("203.0.113.2:4001", "address 203.0.113.2"),
            ("unknown", "address 192.168.2.7"),
            ("", "address 192.168.2.7"),
        ] {
            let forwarded = request("192.168.2.7", &[("x-forwarded-for", told)]);
            assert_eq!(address_of(&forwarded, &TrustedProxies::Near), address, "{told}");
        }
    }

    #[test]
    fn neighbours_in_a_private_network_own_different_things() {
        for (from, owner, counted) in [
            ("[fe80::1:2]", "address fe80::1:2", "address fe80::"),
            ("[fe80::1:3]", "address fe80::1:3", "address fe80::"),
            ("[fd00::1:2]", "address fd00::1:2", "address fd00::"),
            ("[::ffff:192.168.1.2]", "address 192.168.1.2", "address 192.168.1.2"),
            ("[2001:db8::1:2]", "address 2001:db8::", "address 2001:db8::"),
            ("203.0.113.7", "address 203.0.113.7", "address 203.0.113.7"),
            ("[::1]", MACHINE, "address ::"),
        ] {
            let request = request(from, &[]);
            assert_eq!(owner_of(&request, &TrustedProxies::Near), owner, "{from}");
            assert_eq!(address_of(&request, &TrustedProxies::Near), counted, "{from}");
        }
        let behind = request("192.168.1.2", &[("x-forwarded-for", "fd00::1:2")]);
        assert_eq!(owner_of(&behind, &TrustedProxies::Near), "address fd00::1:2");
    }

    #[test]
    fn only_trusted_proxies_tell_the_address_of_a_client() {
        let listed = ["10.0.0.5", "203.0.113.0/24"].map(|network| network.parse().unwrap());
        let listed = TrustedProxies::Listed(listed.to_vec());
        for (from, told, by_near, by_listed) in [
            ("203.0.113.7", "1.2.3.4", "203.0.113.7", "1.2.3.4"),
            ("10.0.0.5", "1.2.3.4", "1.2.3.4", "1.2.3.4"),
            ("10.0.0.6", "1.2.3.4", "1.2.3.4", "10.0.0.6"),
            ("198.51.100.1", "1.2.3.4", "198.51.100.1", "198.51.100.1"),
            // The client has invented the first address.
            ("10.0.0.5", "9.9.9.9, 1.2.3.4, 203.0.113.7", "203.0.113.7", "1.2.3.4"),
            ("10.0.0.5", "9.9.9.9, 10.0.0.6", "10.0.0.6", "10.0.0.6"),
            ("10.0.0.5", "1.2.3.4, unknown, 203.0.113.7", "203.0.113.7", "203.0.113.7"),
            ("10.0.0.5", "203.0.113.8,203.0.113.7", "203.0.113.7", "203.0.113.8"),
        ] {
            let forwarded = request(from, &[("x-forwarded-for", told)]);
            for (proxies, address) in [(TrustedProxies::Near, by_near), (listed.clone(), by_listed)]
            {
                let counted = address_of(&forwarded, &proxies);
                assert_eq!(counted, format!("address {address}"), "{from} {told} {proxies:?}");
            }
        }
        let lines = TestRequest::default().peer_addr("10.0.0.5:1".parse().unwrap());
        let lines = lines.append_header(("x-forwarded-for", "9.9.9.9, 1.2.3.4"));
        let lines = lines.append_header(("x-forwarded-for", "203.0.113.7")).to_http_request();
        assert_eq!(address_of(&lines, &listed), "address 1.2.3.4");
        assert_eq!(address_of(&lines, &TrustedProxies::Near), "address 203.0.113.7");
        assert!(is_from_trusted_proxy(&lines, &listed));
        assert!(!is_from_trusted_proxy(&request("10.0.0.6", &[]), &listed));
    }
}
