//! Guarded: requests to URLs that other people than the operator have chosen.
//!
//! Owns        the check of URLs and addresses, and requests over a connection of their own.
//! Invariants  G1 a connection is made to an address that was checked: one of the Internet, unless the operator allows
//!             private ones. Redirects are not followed. (tests `g1_*`, and those of the callers)
//! Limits      bytes of an answer, by the caller. The caller bounds the time of the exchange.
//! Not here    whose URLs, and how requests are signed: webhooks of the feed (`guildhall-backend`), interactions
//!             (`guildhall-rest`).

use crate::{Connection, TlsConnector, connect_to, handshake, trust};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Method, Request, Response, Uri,
    body::{Bytes, Incoming},
    header::{self, HeaderName, HeaderValue},
    http::response,
};
use std::{
    error::Error,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::OnceLock,
};

/// Why there is no answer. The texts begin with the server as `it`.
#[derive(Debug, thiserror::Error)]
pub enum GuardedError {
    /// The name leads nowhere.
    #[error("its host has no address")]
    Unresolved,
    /// The address is not one of the Internet, and the setting does not allow it.
    #[error("its host has a private address, {0}: public ones are allowed, all with `{1} = \"on\"`")]
    Private(IpAddr, &'static str),
    /// See [`Guarded::parse`].
    #[error("its URL is invalid: {0}")]
    Url(String),
    /// The system has no trusted certificates.
    #[error("this system has no trusted certificates")]
    Trust,
    /// TCP, TLS or HTTP failed.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// The answer is incomplete, or too large.
    #[error("its answer broke off, or has more than {0} bytes")]
    Answer(usize),
    /// The answer is incomplete.
    #[error("its answer broke off")]
    BrokeOff,
}

/// An answer whose body has yet to be read.
pub struct GuardedAnswer {
    /// Status and headers.
    pub head: response::Parts,
    body: Incoming,
    /// The body needs it.
    _connection: Connection<Full<Bytes>>,
}

impl GuardedAnswer {
    /// The next bytes of the body; none after the last.
    ///
    /// # Errors
    /// `BrokeOff`.
    pub async fn next(&mut self) -> Result<Option<Bytes>, GuardedError> {
        while let Some(frame) = self.body.frame().await {
            // Trailers mean nothing here.
            if let Ok(bytes) = frame.map_err(|_| GuardedError::BrokeOff)?.into_data() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// The whole body, with at most `bytes_max` bytes.
    ///
    /// # Errors
    /// `Answer`.
    pub async fn whole(self, bytes_max: usize) -> Result<Bytes, GuardedError> {
        let body = Limited::new(self.body, bytes_max).collect().await;
        Ok(body.map_err(|_| GuardedError::Answer(bytes_max))?.to_bytes())
    }
}

/// Sends such requests.
pub struct Guarded {
    /// Allows http:// and private addresses.
    allows_private: bool,
    /// The setting that does.
    setting: &'static str,
    tls: OnceLock<Option<TlsConnector>>,
}

impl Guarded {
    /// `setting`, as error texts name it, has the value `allows_private`.
    #[must_use]
    pub fn new(setting: &'static str, allows_private: bool) -> Self {
        Self { allows_private, setting, tls: OnceLock::new() }
    }

    /// A URL, or what is wrong with it.
    ///
    /// # Errors
    /// A sentence for the person who chose it.
    pub fn parse(&self, text: &str) -> Result<Uri, String> {
        let url: Uri = text.parse().map_err(|_| "Must be a URL.")?;
        let authority = url.authority().map_or("", |authority| authority.as_str());
        let has_host = url.host().is_some_and(|host| !host.is_empty());
        match url.scheme_str() {
            _ if !has_host || authority.contains('@') => Err("Must be a URL with a host, and without a user.".into()),
            Some("https") => Ok(url),
            Some("http") if self.allows_private => Ok(url),
            Some("http") => Err(format!("Must begin with https://; http:// needs the setting `{}`.", self.setting)),
            _ => Err("Must begin with https://.".into()),
        }
    }

    /// An address of the host to which a request may go.
    ///
    /// # Errors
    /// `Unresolved`, `Private`.
    pub async fn resolve(&self, url: &Uri) -> Result<SocketAddr, GuardedError> {
        let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = url.port_u16().unwrap_or(if url.scheme_str() == Some("http") { 80 } else { 443 });
        let addresses = tokio::net::lookup_host((host, port)).await.map_err(|_| GuardedError::Unresolved)?;
        let mut private = None;
        for address in addresses {
            if self.allows_private || is_public(address.ip()) {
                return Ok(address);
            }
            private.get_or_insert(address.ip());
        }
        Err(private.map_or(GuardedError::Unresolved, |ip| GuardedError::Private(ip, self.setting)))
    }

    /// Sends a POST with a JSON body and these headers; the answer, whatever its status, with at most
    /// `answer_bytes_max` bytes. With 0 its body is not read.
    ///
    /// # Errors
    /// See [`GuardedError`].
    pub async fn post(
        &self,
        url: &str,
        headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
        body: Bytes,
        answer_bytes_max: usize,
    ) -> Result<Response<Bytes>, GuardedError> {
        let answer = self.send(url, headers, body).await?;
        let head = answer.head.clone();
        let body = if answer_bytes_max == 0 { Bytes::new() } else { answer.whole(answer_bytes_max).await? };
        Ok(Response::from_parts(head, body))
    }

    /// As `post`; the caller reads the body, and bounds its bytes.
    ///
    /// # Errors
    /// See [`GuardedError`].
    pub async fn send(
        &self,
        url: &str,
        headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
        body: Bytes,
    ) -> Result<GuardedAnswer, GuardedError> {
        let url = self.parse(url).map_err(GuardedError::Url)?;
        let address = self.resolve(&url).await?;
        let tls = match url.scheme_str() {
            Some("http") => None,
            _ => Some(self.tls.get_or_init(|| trust(None).ok()).as_ref().ok_or(GuardedError::Trust)?),
        };
        let unreachable = |error: &dyn Error| GuardedError::Unreachable(error.to_string());
        let stream = connect_to(address, &url, tls).await.map_err(|error| unreachable(&error))?;
        let mut connection = handshake(stream).await.map_err(|error| unreachable(&error))?;
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        let mut request: Request<Full<Bytes>> = crate::request(Method::POST, &url, path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|_| GuardedError::Url("its path".into()))?;
        request.headers_mut().extend(headers);
        let response = connection.sender.send_request(request).await.map_err(|error| unreachable(&error))?;
        let (head, body) = response.into_parts();
        Ok(GuardedAnswer { head, body, _connection: connection })
    }
}

/// Whether an address is one of the Internet.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    !(ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_broadcast()
        || ip.is_documentation()
        || a == 0
        // Shared by providers, protocol assignments, benchmarks, reserved.
        || a == 100 && (64..128).contains(&b)
        || a == 192 && b == 0 && c == 0
        || a == 198 && (b == 18 || b == 19)
        || a >= 240)
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    if let Some(ip) = ip.to_ipv4() {
        // Mapped and compatible addresses, `::1` and `::` among them.
        return ip.octets()[0] != 0 && is_public_v4(ip);
    }
    let segments = ip.segments();
    match segments[0] {
        // Translated: the address of version 4 is at the end.
        0x64 if segments[1] == 0xff9b => {
            let [.., high, low] = segments;
            is_public_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
        }
        // 6to4 contains an address of version 4, and Teredo hides one.
        0x2002 => is_public_v4(Ipv4Addr::from(u32::from(segments[1]) << 16 | u32::from(segments[2]))),
        0x2001 if segments[1] == 0 || segments[1] == 0xdb8 => false,
        // Global unicast.
        first => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{
        ServerConfig,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    };
    use std::{path::PathBuf, sync::Arc};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };
    use tokio_rustls::TlsAcceptor;

    /// Certificates of localhost and their keys.
    fn file(name: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../guildhall/tests/it/tls").join(name)
    }

    /// Accepts one connection of TLS, with the certificate `one.crt`, and answers its request.
    async fn serve_once(listener: TcpListener) -> std::io::Result<String> {
        let certificates = vec![CertificateDer::from_pem_file(file("one.crt")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(file("one.key")).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(certificates, key).unwrap()));
        let (stream, _) = listener.accept().await?;
        let mut stream = acceptor.accept(stream).await?;
        let mut request = Vec::new();
        while !request.ends_with(b"{}") {
            if stream.read_buf(&mut request).await? == 0 {
                break;
            }
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nyes!").await?;
        stream.shutdown().await?;
        Ok(String::from_utf8_lossy(&request).into_owned())
    }

    /// Sends a request by TLS to a server with `one.crt` by a client that trusts the certificates in `trusted`.
    async fn post_by_tls(trusted: &str) -> (Result<Response<Bytes>, GuardedError>, std::io::Result<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/interactions?v=1", listener.local_addr().unwrap().port());
        let tls = OnceLock::from(trust(Some(&file(trusted))).ok());
        let client = Guarded { allows_private: true, setting: "a.b", tls };
        let header = (HeaderName::from_static("x-signature"), HeaderValue::from_static("s"));
        tokio::join!(client.post(&url, [header], Bytes::from_static(b"{}"), 100), serve_once(listener))
    }

    #[tokio::test]
    async fn g1_a_request_by_tls_reaches_a_server_that_is_trusted() {
        let (answer, request) = post_by_tls("one.crt").await;
        let (answer, request) = (answer.unwrap(), request.unwrap());
        assert_eq!((answer.status().as_u16(), &answer.into_body()[..]), (200, &b"yes!"[..]));
        assert!(request.starts_with("POST /interactions?v=1 HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("\r\nx-signature: s\r\n") && request.ends_with("\r\n\r\n{}"), "{request}");
    }

    #[tokio::test]
    async fn g1_a_server_that_is_not_trusted_gets_no_request() {
        let (answer, request) = post_by_tls("two.crt").await;
        assert!(matches!(answer, Err(GuardedError::Unreachable(_))), "{answer:?}");
        assert!(request.is_err(), "{request:?}");
    }

    #[test]
    fn g1_addresses_of_private_networks() {
        let private = [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "fc00::1",
            "fe80::1",
            "ff02::1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "::10.0.0.1",
        ];
        for ip in private {
            assert!(!is_public(ip.parse().unwrap()), "{ip}");
        }
        for ip in ["1.1.1.1", "100.128.0.1", "172.32.0.1", "2606:4700::1", "::ffff:1.1.1.1", "64:ff9b::101:101"] {
            assert!(is_public(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn g1_urls_have_a_host_and_https() {
        let (strict, open) = (Guarded::new("a.b", false), Guarded::new("a.b", true));
        assert!(strict.parse("https://example.net/x").is_ok() && open.parse("http://127.0.0.1:1/").is_ok());
        assert!(strict.parse("http://example.net/").is_err_and(|fault| fault.contains("`a.b`")));
        for url in ["", "/x", "ftp://example.net/", "https://me@example.net/", "https://"] {
            assert!(strict.parse(url).is_err() && open.parse(url).is_err(), "{url}");
        }
    }
}
