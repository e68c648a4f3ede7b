//! HTTP client of a bucket: the pool of `guildhall_http_client`, with limits on waits.
//!
//! Limits      `CONNECT_MAX` for a connection with its handshake, `BucketOptions::answer_within` from a request to the
//!             head of its response, `SILENCE_MAX` between two pieces of a body. A pool keeps `IDLE_CONNECTIONS_MAX`
//!             idle connections for `IDLE_MAX`. No redirects.

use bytes::Bytes;
use guildhall_http_client::{Connect, PoolLimits, TlsConnector, pool};
use hyper::{
    body::{Body, Frame, Incoming, SizeHint},
    header,
};
use hyper_util::client::legacy::Client;
use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpResponseBody, HttpService,
    },
};
use std::{
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::{Duration, Instant, SystemTime},
};
use tokio::time::{Sleep, sleep, timeout};

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

    /// The server's time; this machine's if the server sends none.
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
        let limits =
            PoolLimits { connect_within: CONNECT_MAX, idle_connections_max: IDLE_CONNECTIONS_MAX, idle_max: IDLE_MAX };
        let client = pool(self.tls.clone(), limits);
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
