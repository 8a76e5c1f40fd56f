//! Untrusted and trusted TLS: certificates of an authority that exists only in this process. Not
//! for the data after a handshake.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use super::answers::until_closed;

/// Length of PostgreSQL's SSLRequest; the server accepts it with `S`.
const QUESTION_BYTES: usize = 8;
const YES: u8 = b'S';
/// Time for which a refused client is read from.
const LISTENED_FOR: Duration = Duration::from_secs(1);

/// How a TLS handshake fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// The certificate is not signed by an authority that the client trusts.
    Untrusted,
    /// The certificate has expired.
    Expired,
    /// The certificate is for another name.
    OtherName,
    /// The server does not speak TLS.
    Plain,
    /// The connection ends during the handshake.
    Cut,
    /// The server supports no version of the client.
    Version,
}

impl Tls {
    /// All failures.
    pub const ALL: [Self; 6] =
        [Self::Untrusted, Self::Expired, Self::OtherName, Self::Plain, Self::Cut, Self::Version];
}

/// The authority and its certificate as PEM.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

fn new_authority(name: &str) -> Authority {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    Authority { issuer: Issuer::new(params, key), pem }
}

fn authority() -> &'static Authority {
    static ONE: OnceLock<Authority> = OnceLock::new();
    ONE.get_or_init(|| new_authority("an authority of tests"))
}

/// The certificate of the authority, as PEM. A client that trusts it trusts [`SecurePostgres`].
pub fn authority_pem() -> &'static str {
    &authority().pem
}

/// The configuration of a server; without a fault, one that the client trusts.
fn config(fault: Option<Tls>) -> ServerConfig {
    let name = if fault == Some(Tls::OtherName) { "other.test" } else { "127.0.0.1" };
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    if fault == Some(Tls::Expired) {
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    }
    let key = KeyPair::generate().unwrap();
    let certificate = if fault == Some(Tls::Untrusted) {
        params.signed_by(&key, &new_authority("an unknown authority").issuer).unwrap()
    } else {
        params.signed_by(&key, &authority().issuer).unwrap()
    };
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap()
}

/// Answers the SSLRequest of a PostgreSQL client positively.
async fn agree(client: &mut TcpStream) -> std::io::Result<()> {
    client.read_exact(&mut [0; QUESTION_BYTES]).await?;
    client.write_all(&[YES]).await
}

/// Makes the handshake fail; `asks` is true if the client sends an SSLRequest first, as those of
/// PostgreSQL do.
pub(super) async fn fail_handshake(mut client: TcpStream, how: Tls, asks: bool) {
    if asks && how != Tls::Plain && agree(&mut client).await.is_err() {
        return;
    }
    match how {
        Tls::Untrusted | Tls::Expired | Tls::OtherName => {
            let accepted = TlsAcceptor::from(Arc::new(config(Some(how)))).accept(client).await;
            // A client that accepts the certificate would wait here.
            if let Ok(mut stream) = accepted {
                stream.read_u8().await.ok();
            }
        }
        Tls::Plain => {
            client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.ok();
            tokio::time::timeout(LISTENED_FOR, until_closed(&mut client)).await.ok();
        }
        Tls::Cut => {
            client.read_u8().await.ok();
        }
        Tls::Version => {
            client.read_u8().await.ok();
            // An alert: fatal, protocol_version (RFC 8446, section 6).
            client.write_all(&[21, 3, 3, 0, 2, 2, 70]).await.ok();
            tokio::time::timeout(LISTENED_FOR, until_closed(&mut client)).await.ok();
        }
    }
}

/// Server that speaks TLS for a PostgreSQL that does not, running until dropped.
pub struct SecurePostgres {
    /// Its address.
    pub address: SocketAddr,
    _task: AbortOnDropHandle<()>,
}

impl SecurePostgres {
    /// Starts one before the server at this address.
    pub async fn before(service: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config(None)));
        let task = async move {
            let mut served = JoinSet::new();
            loop {
                let Ok((mut client, _)) = listener.accept().await else { return };
                let acceptor = acceptor.clone();
                served.spawn(async move {
                    agree(&mut client).await?;
                    let mut client = acceptor.accept(client).await?;
                    let mut service = TcpStream::connect(service).await?;
                    tokio::io::copy_bidirectional(&mut client, &mut service).await
                });
            }
        };
        Self { address, _task: AbortOnDropHandle::new(tokio::spawn(task)) }
    }
}
