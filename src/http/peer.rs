//! Where a request comes from: this machine, its network, or elsewhere. Not for who sends it.

use std::net::IpAddr;

use actix_web::HttpRequest;

/// Headers by which a proxy tells that it forwards a request.
const FORWARDING: [&str; 9] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "x-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "via",
];

/// Place of a request's sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// This machine.
    Machine,
    /// A private network of this machine: RFC 1918, unique local and link-local addresses.
    Network,
    /// Any other place, or unknown because the request was forwarded.
    Elsewhere,
}

impl Peer {
    /// Returns the place from which a request comes. A forwarded request is never near: a proxy on
    /// this machine forwards requests of the whole world.
    pub(super) fn of(request: &HttpRequest) -> Self {
        if FORWARDING.iter().any(|name| request.headers().contains_key(*name)) {
            return Self::Elsewhere;
        }
        request.peer_addr().map_or(Self::Elsewhere, |peer| Self::at(peer.ip()))
    }

    /// Returns the place of an address.
    pub fn at(address: IpAddr) -> Self {
        match address.to_canonical() {
            near if near.is_loopback() => Self::Machine,
            IpAddr::V4(v4) if v4.is_private() || v4.is_link_local() => Self::Network,
            IpAddr::V6(v6) if v6.is_unique_local() || v6.is_unicast_link_local() => Self::Network,
            _ => Self::Elsewhere,
        }
    }
}

#[cfg(test)]
mod tests {
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
        for name in FORWARDING {
            let forwarded = request().insert_header((name, "127.0.0.1")).to_http_request();
            assert_eq!(Peer::of(&forwarded), Peer::Elsewhere, "{name}");
        }
        assert_eq!(Peer::of(&TestRequest::default().to_http_request()), Peer::Elsewhere);
    }
}
