//! Client: a request with a whole body and a whole response, over a connection of its own.

use crate::{ConnectError, TlsConnector, connect, handshake};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Request, Response, StatusCode, Uri, body::Bytes};
use std::{error::Error, io, time::Duration};

/// Why there is no response. The texts begin with `Client::server`.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The exchange took longer than `Client::within`.
    #[error("{0} did not answer in time")]
    TooSlow(&'static str),
    /// TCP or TLS failed.
    #[error("{0} cannot be reached")]
    Unreachable(&'static str, #[source] io::Error),
    /// The library does not understand the server.
    #[error("{0} does not speak valid HTTP")]
    Http(&'static str, #[source] hyper::Error),
    /// The server answered with a status of failure.
    #[error("{0} answered {1}")]
    Status(&'static str, StatusCode),
    /// The response is incomplete, or larger than the caller accepts.
    #[error("its answer broke off, or has more than {bytes_max} bytes")]
    Answer {
        bytes_max: usize,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The host cannot be in a certificate or a header.
    #[error("its host name is invalid")]
    Name,
}

impl RequestError {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::TooSlow(_) | Self::Unreachable(..) | Self::Http(..) => true,
            Self::Status(_, status) => matches!(status.as_u16(), 429 | 502 | 503 | 504),
            Self::Answer { .. } | Self::Name => false,
        }
    }
}

/// Sends requests to one server.
#[derive(Clone)]
pub struct Client {
    /// The server in texts of errors.
    pub server: &'static str,
    /// Authenticates the server. None: without TLS.
    pub tls: Option<TlsConnector>,
    /// Limit of the whole exchange.
    pub within: Duration,
}

impl Client {
    /// The body of a successful response, of at most `answer_bytes_max` bytes; with 0 it is not read. `request`
    /// is made by [`crate::request`] for the same `url`.
    ///
    /// # Errors
    /// See [`RequestError`]; a status other than 2xx is one.
    pub async fn send(
        &self,
        url: &Uri,
        request: Request<Full<Bytes>>,
        answer_bytes_max: usize,
    ) -> Result<Response<Bytes>, RequestError> {
        let exchange = tokio::time::timeout(self.within, self.exchange(url, request, answer_bytes_max));
        exchange.await.unwrap_or(Err(RequestError::TooSlow(self.server)))
    }

    async fn exchange(
        &self,
        url: &Uri,
        request: Request<Full<Bytes>>,
        answer_bytes_max: usize,
    ) -> Result<Response<Bytes>, RequestError> {
        let stream = connect(url, self.tls.as_ref()).await.map_err(|error| match error {
            ConnectError::Tcp(source) | ConnectError::Tls(source) => RequestError::Unreachable(self.server, source),
            ConnectError::Name(_) => RequestError::Name,
        })?;
        let http = |error| RequestError::Http(self.server, error);
        let mut connection = handshake(stream).await.map_err(http)?;
        let response = connection.sender.send_request(request).await.map_err(http)?;
        if !response.status().is_success() {
            return Err(RequestError::Status(self.server, response.status()));
        }
        let (head, body) = response.into_parts();
        if answer_bytes_max == 0 {
            return Ok(Response::from_parts(head, Bytes::new()));
        }
        let body = Limited::new(body, answer_bytes_max).collect().await;
        let body = body.map_err(|source| RequestError::Answer { bytes_max: answer_bytes_max, source })?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}
