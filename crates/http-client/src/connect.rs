//! Connect: a connection to the host of a URL, with TLS for `https`.

use hyper::{
    Method, Request, Uri,
    body::Body,
    client::conn::http1::{SendRequest, handshake as http1},
    header::HOST,
    http::request::Builder,
};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use std::{error::Error, io, net::SocketAddr};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::JoinHandle,
};
use tokio_rustls::TlsConnector;

/// Byte stream that carries requests.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nothing answers at the address.
    #[error(transparent)]
    Tcp(io::Error),
    /// No certificate can be for such a host.
    #[error(transparent)]
    Name(InvalidDnsNameError),
    /// The server did not prove that it is the host.
    #[error(transparent)]
    Tls(io::Error),
}

/// The host of a URL, without the brackets of an IPv6 address.
pub(crate) fn host(url: &Uri) -> &str {
    url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
}

pub(crate) fn is_https(url: &Uri) -> bool {
    url.scheme_str() == Some("https")
}

/// Connects to the host of `url`. With `tls` the host has to have a certificate that it trusts.
///
/// # Errors
/// See [`ConnectError`].
pub async fn connect(url: &Uri, tls: Option<&TlsConnector>) -> Result<Box<dyn Stream>, ConnectError> {
    let port = url.port_u16().unwrap_or(if is_https(url) { 443 } else { 80 });
    let stream = TcpStream::connect((host(url), port)).await.map_err(ConnectError::Tcp)?;
    match tls {
        None => Ok(Box::new(stream)),
        Some(tls) => secure(host(url), stream, tls).await,
    }
}

/// Connects to an address of the host of `url`, which the caller has resolved; otherwise as `connect`.
///
/// # Errors
/// See [`ConnectError`].
pub async fn connect_to(
    address: SocketAddr,
    url: &Uri,
    tls: Option<&TlsConnector>,
) -> Result<Box<dyn Stream>, ConnectError> {
    let stream = TcpStream::connect(address).await.map_err(ConnectError::Tcp)?;
    match tls {
        None => Ok(Box::new(stream)),
        Some(tls) => secure(host(url), stream, tls).await,
    }
}

pub(crate) async fn secure(host: &str, stream: TcpStream, tls: &TlsConnector) -> Result<Box<dyn Stream>, ConnectError> {
    let name = ServerName::try_from(host.to_owned()).map_err(ConnectError::Name)?;
    Ok(Box::new(tls.connect(name, stream).await.map_err(ConnectError::Tls)?))
}

/// A request for `path` at the host of `url`, which its first header names as the URL does.
#[must_use]
pub fn request(method: Method, url: &Uri, path: &str) -> Builder {
    let authority = url.authority().map_or("", |authority| authority.as_str());
    Request::builder().method(method).uri(path).header(HOST, authority)
}

/// A connection that speaks HTTP. It ends when it is dropped.
#[derive(Debug)]
pub struct Connection<B> {
    /// Sends one request after the other.
    pub sender: SendRequest<B>,
    task: JoinHandle<hyper::Result<()>>,
}

impl<B> Drop for Connection<B> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Begins HTTP/1.1 on a stream.
///
/// # Errors
/// The library's.
///
/// # Panics
/// Outside a tokio runtime.
pub async fn handshake<B>(stream: Box<dyn Stream>) -> hyper::Result<Connection<B>>
where
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let (sender, connection) = http1(TokioIo::new(stream)).await?;
    Ok(Connection { sender, task: tokio::spawn(connection) })
}
