//! Link: one connection to NATS, and requests over it.
//!
//! Owns        the client, which reconnects by itself; one subscription for all answers; counts of lost connections.
//! Invariants  L1 while the connection is lost, the link refuses messages. The client sends later only the messages
//!             that were in its queue when the connection was lost, at most `OUTGOING_MAX`. L2 a request leaves nothing
//!             behind, whether it is answered or not: the client's own requests keep an entry for each that is not.
//! Limits      each call takes at most its time-out.

use super::{
    CONNECT_MAX, NatsCredentials, NatsError, NatsOptions, OUTGOING_MAX, PING_EVERY, RECONNECT_PAUSES, SERVER_MIN,
    TRANSIT_MAX,
};
use crate::queue::lock;
use async_nats::{
    Client, ConnectError, ConnectErrorKind, ConnectOptions, Event, HeaderMap, Message, StatusCode, Subscriber,
    connection::State,
};
use bytes::Bytes;
use futures_util::StreamExt as _;
use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::timeout,
};

/// Errors of the server are logged this often.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Why a request has no answer.
#[derive(Debug)]
pub(super) enum AskError {
    /// The connection is lost, or the server does not read.
    Away,
    NoResponders,
    Timeout,
}

/// One connection.
pub(super) struct Link {
    pub(super) client: Client,
    pub(super) prefix: String,
    pub(super) answer_max: Duration,
    events: Arc<Events>,
    answers: Arc<Answers>,
    receiving: JoinHandle<()>,
}

/// Events that the client reports, as counts.
struct Events {
    /// Lost connections.
    outages: watch::Sender<u64>,
    /// Messages that found no room on their way to a subscription, whichever it was.
    overflows: watch::Sender<u64>,
    logged: Mutex<Option<Instant>>,
}

/// Requests that wait for an answer.
struct Answers {
    /// Subject of the answers without their number.
    inbox: String,
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Message>>>,
}

/// Forgets a request.
struct Waiting<'a>(&'a Answers, u64);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        lock(&self.0.waiting).remove(&self.1);
    }
}

impl Events {
    fn handle(&self, event: Event) {
        match event {
            Event::Connected => tracing::info!("NATS is connected"),
            Event::Disconnected => {
                self.outages.send_modify(|count| *count += 1);
                tracing::warn!("the connection to NATS is lost; it is attempted again");
            }
            Event::SlowConsumer(_) => self.overflows.send_modify(|count| *count += 1),
            Event::LameDuckMode => tracing::info!("a NATS server is shutting down; its clients move to another"),
            event @ (Event::ServerError(_) | Event::ClientError(_)) => {
                let mut logged = lock(&self.logged);
                if logged.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
                    *logged = Some(Instant::now());
                    tracing::warn!(error = %event, "NATS reports an error");
                }
            }
            Event::Draining | Event::Closed => {}
        }
    }
}

impl Link {
    pub(super) async fn connect(options: &NatsOptions) -> Result<Self, NatsError> {
        let servers = options.servers()?;
        let names: Vec<String> = servers.iter().map(|server| format!("{}:{}", server.host(), server.port())).collect();
        let failed = |source| NatsError::Connect { servers: names.join(", "), source };
        let events = Arc::new(Events {
            outages: watch::Sender::new(0),
            overflows: watch::Sender::new(0),
            logged: Mutex::new(None),
        });
        let reporting = events.clone();
        let inbox = format!("{}._inbox", options.name_prefix);
        let connect = with_credentials(ConnectOptions::new(), &options.credentials).await?;
        let mut connect = connect
            .name(&options.client_name)
            .connection_timeout(CONNECT_MAX)
            .request_timeout(Some(options.answer_max))
            .ping_interval(PING_EVERY)
            .client_capacity(OUTGOING_MAX)
            .subscription_capacity(TRANSIT_MAX)
            .custom_inbox_prefix(&inbox)
            .max_reconnects(None)
            .reconnect_delay_callback(pause)
            // Those that the operator named can be reached, and their certificates are valid for these names.
            .ignore_discovered_servers()
            .skip_subject_validation(true)
            .event_callback(move |event| {
                reporting.handle(event);
                std::future::ready(())
            });
        if let Some(tls) = &options.tls {
            connect = connect.require_tls(true);
            if let Some(ca) = &tls.ca {
                connect = connect.add_root_certificates(ca.clone());
            }
            if let Some((certificate, key)) = &tls.client {
                connect = connect.add_client_certificate(certificate.clone(), key.clone());
            }
        }
        let client = match timeout(2 * CONNECT_MAX, connect.connect(servers)).await {
            Ok(connected) => connected.map_err(failed)?,
            Err(_) => return Err(failed(ConnectError::new(ConnectErrorKind::TimedOut))),
        };
        let (major, minor, patch) = SERVER_MIN;
        if !client.is_server_compatible(major, minor, patch) {
            return Err(NatsError::TooOld { found: client.server_info().version });
        }
        let inbox = client.new_inbox();
        let subscriber = client.subscribe(format!("{inbox}.*")).await;
        let subscriber = subscriber.map_err(|error| failed(ConnectError::with_source(ConnectErrorKind::Io, error)))?;
        let answers = Arc::new(Answers { inbox, next: AtomicU64::new(0), waiting: Mutex::default() });
        let receiving = tokio::spawn(receive_answers(subscriber, answers.clone()));
        let (prefix, answer_max) = (options.name_prefix.clone(), options.answer_max);
        Ok(Self { client, prefix, answer_max, events, answers, receiving })
    }

    pub(super) fn is_away(&self) -> bool {
        self.client.connection_state() != State::Connected
    }

    pub(super) fn outages(&self) -> watch::Receiver<u64> {
        self.events.outages.subscribe()
    }

    pub(super) fn overflows(&self) -> watch::Receiver<u64> {
        self.events.overflows.subscribe()
    }

    /// Hands a message to the client. Returns false if the connection is lost, or the server does not read.
    pub(super) async fn send(&self, message: Outgoing) -> bool {
        if self.is_away() {
            return false;
        }
        let Outgoing { subject, reply_to, headers, payload } = message;
        let sending = async {
            match (reply_to, headers) {
                (None, None) => self.client.publish(subject, payload).await,
                (None, Some(headers)) => self.client.publish_with_headers(subject, headers, payload).await,
                (Some(reply_to), None) => self.client.publish_with_reply(subject, reply_to, payload).await,
                (Some(reply_to), Some(headers)) => {
                    self.client.publish_with_reply_and_headers(subject, reply_to, headers, payload).await
                }
            }
        };
        timeout(self.answer_max, sending).await.is_ok_and(|sent| sent.is_ok())
    }

    /// Sends a request and waits for the first answer.
    pub(super) async fn ask(
        &self,
        subject: String,
        headers: Option<HeaderMap>,
        payload: Bytes,
        answer_max: Duration,
    ) -> Result<Message, AskError> {
        let number = self.answers.next.fetch_add(1, Relaxed);
        let (sender, answer) = oneshot::channel();
        lock(&self.answers.waiting).insert(number, sender);
        let _waiting = Waiting(&self.answers, number);
        let reply_to = Some(format!("{}.{number}", self.answers.inbox));
        if !self.send(Outgoing { subject, reply_to, headers, payload }).await {
            return Err(AskError::Away);
        }
        match timeout(answer_max, answer).await {
            Ok(Ok(answer)) if answer.status == Some(StatusCode::NO_RESPONDERS) => Err(AskError::NoResponders),
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(AskError::Away),
            Err(_) => Err(AskError::Timeout),
        }
    }

    /// Returns when the server has executed everything that this link sent before; false if it does not answer.
    pub(super) async fn round_trip(&self) -> bool {
        // The subject has no subscriber: the server itself answers, in order.
        let answer = self.ask(format!("{}._sync", self.prefix), None, Bytes::new(), self.answer_max).await;
        matches!(answer, Ok(_) | Err(AskError::NoResponders))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.receiving.abort();
    }
}

/// A message to the server.
#[derive(Default)]
pub(super) struct Outgoing {
    pub(super) subject: String,
    pub(super) reply_to: Option<String>,
    pub(super) headers: Option<HeaderMap>,
    pub(super) payload: Bytes,
}

async fn receive_answers(mut subscriber: Subscriber, answers: Arc<Answers>) {
    while let Some(message) = subscriber.next().await {
        let number = message.subject.rsplit_once('.').and_then(|(_, number)| number.parse().ok());
        let waiting = number.and_then(|number: u64| lock(&answers.waiting).remove(&number));
        if let Some(waiting) = waiting {
            // The request may have timed out just now.
            let _ = waiting.send(message);
        }
    }
}

async fn with_credentials(connect: ConnectOptions, credentials: &NatsCredentials) -> Result<ConnectOptions, NatsError> {
    Ok(match credentials {
        NatsCredentials::None => connect,
        NatsCredentials::UserPassword { user, password } => connect.user_and_password(user.clone(), password.clone()),
        NatsCredentials::Token(token) => connect.token(token.clone()),
        NatsCredentials::NkeyFile(path) => connect.nkey(read(path).await?.trim().to_owned()),
        NatsCredentials::CredsFile(path) => {
            let text = read(path).await?;
            connect.credentials(&text).map_err(|source| NatsError::Credentials { path: path.clone(), source })?
        }
    })
}

async fn read(path: &Path) -> Result<String, NatsError> {
    let text = tokio::fs::read_to_string(path).await;
    text.map_err(|source| NatsError::Credentials { path: path.to_owned(), source })
}

/// How long to wait before an attempt.
fn pause(attempt: usize) -> Duration {
    let (first, last) = RECONNECT_PAUSES;
    match attempt {
        0 | 1 => Duration::ZERO,
        _ => (first * 2_u32.pow((attempt - 2).min(10) as u32)).min(last),
    }
}
