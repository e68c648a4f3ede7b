//! HTTP client of a bucket: hyper on the TLS that the rest of the program has.
//!
//! Limits      `CONNECT_MAX` for a connection with its handshake, `BucketOptions::answer_within` from a request to the
//!             head of its response, `SILENCE_MAX` between two pieces of a body. A pool keeps `IDLE_CONNECTIONS_MAX`
//!             idle connections for `IDLE_MAX`. No redirects.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::{
    Uri,
    body::{Body, Frame, Incoming, SizeHint},
    header,
    rt::{Read, ReadBufCursor, Write},
};
use hyper_util::{
    client::legacy::{
        Client,
        connect::{Connected, Connection, HttpConnector},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpResponseBody, HttpService,
    },
};
use std::{
    error::Error,
    fmt, io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::{Duration, Instant, SystemTime},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Sleep, sleep, timeout},
};
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};

const CONNECT_MAX: Duration = Duration::from_secs(3);
const SILENCE_MAX: Duration = Duration::from_secs(15);
const IDLE_CONNECTIONS_MAX: usize = 32;
const IDLE_MAX: Duration = Duration::from_secs(60);

/// The clock of the bucket's server, from the `Date` of its responses: ages of objects are measured on it.
#[derive(Debug, Default)]
pub(crate) struct ServerClock(Mutex<Option<(SystemTime, Instant)>>);

impl ServerClock {
    fn observe(&self, response: &hyper::Response<Incoming>) {
        let date = response.headers().get(header::DATE).and_then(|date| date.to_str().ok());
        if let Some(date) = date.and_then(|date| httpdate::parse_http_date(date).ok()) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((date, Instant::now()));
        }
    }

    /// The server's time; this machine's if the server does not tell its own.
    pub(crate) fn now(&self) -> SystemTime {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((date, at)) => date + at.elapsed(),
            None => SystemTime::now(),
        }
    }
}

/// Makes the client for the library.
#[derive(Clone)]
pub(crate) struct Connector {
    pub tls: Option<TlsConnector>,
    pub clock: Arc<ServerClock>,
    pub answer_within: Duration,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl object_store::client::HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .pool_idle_timeout(IDLE_MAX)
            .pool_timer(TokioTimer::new())
            .build(Connect { tcp, tls: self.tls.clone() });
        Ok(HttpClient::new(Service { client, clock: self.clock.clone(), answer_within: self.answer_within }))
    }
}

struct Service {
    client: Client<Connect, HttpRequestBody>,
    clock: Arc<ServerClock>,
    answer_within: Duration,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Service")
    }
}

/// A wait reached its limit.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct TooSlow(&'static str);

#[async_trait::async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answered = timeout(self.answer_within, self.client.request(request)).await;
        let response = match answered {
            Err(_) => return Err(HttpError::new(HttpErrorKind::Timeout, TooSlow("it did not answer in time"))),
            Ok(Err(error)) => {
                let kind = if error.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Request };
                return Err(HttpError::new(kind, error));
            }
            Ok(Ok(response)) => response,
        };
        self.clock.observe(&response);
        Ok(response.map(|body| HttpResponseBody::new(Timed { body, silence: None })))
    }
}

/// A body that fails when it is silent for too long.
struct Timed {
    body: Incoming,
    /// Since the body had nothing; none while it delivers.
    silence: Option<Pin<Box<Sleep>>>,
}

impl Body for Timed {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(frame) => {
                self.silence = None;
                Poll::Ready(frame.map(|frame| frame.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error))))
            }
            Poll::Pending => {
                let silence = self.silence.get_or_insert_with(|| Box::pin(sleep(SILENCE_MAX)));
                ready!(silence.as_mut().poll(context));
                Poll::Ready(Some(Err(HttpError::new(HttpErrorKind::Timeout, TooSlow("its answer stopped")))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Connects to the host of a URL, with TLS for `https`.
#[derive(Clone)]
struct Connect {
    tcp: HttpConnector,
    tls: Option<TlsConnector>,
}

impl tower::Service<Uri> for Connect {
    type Response = Wire;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = BoxFuture<'static, Result<Wire, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        tower::Service::poll_ready(&mut self.tcp, context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let (is_https, tls) = (uri.scheme_str() == Some("https"), self.tls.clone());
        let stream = tower::Service::call(&mut self.tcp, uri);
        Box::pin(async move {
            let connecting = async move {
                let stream = stream.await?.into_inner();
                if !is_https {
                    return Ok::<_, Self::Error>(Wire(TokioIo::new(Box::new(stream))));
                }
                let tls = tls.ok_or("https:// without certificates to trust")?;
                let stream = tls.connect(ServerName::try_from(host)?, stream).await?;
                Ok(Wire(TokioIo::new(Box::new(stream))))
            };
            match timeout(CONNECT_MAX, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            }
        })
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection, with or without TLS.
struct Wire(TokioIo<Box<dyn Stream>>);

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for Wire {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
