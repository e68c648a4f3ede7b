//! Post: one export to the collector, over a connection of its own.
//!
//! Limits      `TIMEOUT` for the whole exchange; no redirects. The answer's body is not read.

use crate::config::{Headers, OtlpUrl};
use http_body_util::Full;
use hyper::{Request, StatusCode, body::Bytes, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::time::Duration;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Why the collector does not have an export.
#[derive(Debug, thiserror::Error)]
pub(super) enum PostError {
    #[error("the collector did not answer in time")]
    TooSlow,
    #[error("the collector cannot be reached")]
    Unreachable(#[from] std::io::Error),
    #[error("the collector does not speak valid HTTP")]
    Http(#[from] hyper::Error),
    #[error("the collector answered {0}")]
    Status(StatusCode),
    #[error("its host name is invalid")]
    Name,
}

impl PostError {
    /// Whether the same export may succeed later; the statuses are those of the specification.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::TooSlow | Self::Unreachable(_) | Self::Http(_) => true,
            Self::Status(status) => matches!(status.as_u16(), 429 | 502 | 503 | 504),
            Self::Name => false,
        }
    }
}

/// Where traces go.
pub(super) struct Collector {
    pub endpoint: OtlpUrl,
    pub headers: Headers,
    /// None: without TLS.
    pub tls: Option<TlsConnector>,
}

impl Collector {
    pub async fn post(&self, body: Bytes) -> Result<(), PostError> {
        let post = async {
            let endpoint = &self.endpoint;
            let stream = TcpStream::connect((endpoint.host(), endpoint.port())).await?;
            match &self.tls {
                None => self.exchange(stream, body).await,
                Some(tls) => {
                    let name = ServerName::try_from(endpoint.host().to_owned()).map_err(|_| PostError::Name)?;
                    self.exchange(tls.connect(name, stream).await?, body).await
                }
            }
        };
        tokio::time::timeout(TIMEOUT, post).await.unwrap_or(Err(PostError::TooSlow))
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        body: Bytes,
    ) -> Result<(), PostError> {
        let mut request = Request::post(self.endpoint.traces_path())
            .header(header::HOST, self.endpoint.authority())
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .header(header::USER_AGENT, concat!("guildhall/", env!("CARGO_PKG_VERSION")));
        for (name, value) in self.headers.iter() {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body)).map_err(|_| PostError::Name)?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let answer = sender.send_request(request).await;
        connection.abort();
        let status = answer?.status();
        if status.is_success() { Ok(()) } else { Err(PostError::Status(status)) }
    }
}
