//! Stage: the listeners of a rehearsal, and the requests that arrive at them.
//!
//! Owns        the refusal that is due, and the time before which a refused request may not come again.
//! Doors       `Stage::open`; the play receives `Arrival`s and `Exchange`s.
//! Limits      `WAITING_MAX` arrivals and requests; more are refused with 503.

use crate::{
    http::{ClientRequest, Decision, RequestHandler, bind, serve},
    rest,
    scenario::{Refuse, RequestKind},
};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{net::TcpStream, sync::mpsc, task::JoinHandle, time::Instant};

const WAITING_MAX: usize = 1_024;
/// A client's clock may be as much ahead.
const EARLY_TOLERANCE: Duration = Duration::from_millis(30);

/// An upgraded connection.
pub(crate) struct Arrival {
    pub request: ClientRequest,
    pub stream: TcpStream,
    pub early: Vec<u8>,
}

/// A request, and its response.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub request: ClientRequest,
    pub at: Instant,
    pub status: u16,
    /// The refusal that was due.
    pub is_refused: bool,
    /// It came before a refused request may come again, by as much.
    pub too_early: Option<Duration>,
}

/// Listeners of a rehearsal. Their tasks end when it is dropped.
pub struct Stage {
    addresses: [SocketAddr; 2],
    front: Arc<Front>,
    pub(crate) arrivals: mpsc::Receiver<Arrival>,
    pub(crate) requests: mpsc::Receiver<Exchange>,
    tasks: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stage").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

struct Front {
    gateway_url: String,
    state: Mutex<State>,
    arrivals: mpsc::Sender<Arrival>,
    requests: mpsc::Sender<Exchange>,
}

#[derive(Default)]
struct State {
    due: Option<Refuse>,
    refused: Option<Refused>,
}

struct Refused {
    by: Refuse,
    path: String,
    not_before: Instant,
}

impl Stage {
    /// Listens at `address`, and at another port of the same host, which a scenario may name as `resume_gateway_url`.
    ///
    /// # Errors
    /// The system's: the address is in use, or not of this machine.
    pub async fn open(address: SocketAddr) -> std::io::Result<Self> {
        let (first, first_address) = bind(address).await?;
        let (second, second_address) = bind(SocketAddr::new(address.ip(), 0)).await?;
        let ((arrived, arrivals), (requested, requests)) = (mpsc::channel(WAITING_MAX), mpsc::channel(WAITING_MAX));
        let front = Arc::new(Front {
            gateway_url: ws_url(first_address),
            state: Mutex::default(),
            arrivals: arrived,
            requests: requested,
        });
        let tasks = vec![tokio::spawn(serve(first, 0, front.clone())), tokio::spawn(serve(second, 1, front.clone()))];
        Ok(Self { addresses: [first_address, second_address], front, arrivals, requests, tasks })
    }

    /// Address of a listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// URL of the first listener.
    #[must_use]
    pub fn gateway_url(&self) -> String {
        ws_url(self.addresses[0])
    }

    /// URL of the other listener.
    #[must_use]
    pub fn other_url(&self) -> String {
        ws_url(self.addresses[1])
    }

    /// Base URL of REST, without a version.
    #[must_use]
    pub fn api_base(&self) -> String {
        format!("http://{}/api", self.addresses[0])
    }

    /// The next request that suits it is refused.
    pub(crate) fn refuse(&self, refuse: Refuse) {
        *self.front.lock() = State { due: Some(refuse), refused: None };
    }

    /// Forgets refusals, and connections that wait.
    pub(crate) fn clear(&mut self) {
        *self.front.lock() = State::default();
        while self.arrivals.try_recv().is_ok() {}
        while self.requests.try_recv().is_ok() {}
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn ws_url(address: SocketAddr) -> String {
    format!("ws://{address}")
}

impl Front {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A refusal, if the request gets one, and whether it is the one that was due or came too early.
    fn refusal(&self, request: &ClientRequest, now: Instant) -> Option<(Refuse, Option<Duration>)> {
        let mut state = self.lock();
        let path = match request.is_upgrade {
            true => "upgrade",
            false => &request.path,
        };
        if let Some(refused) = &state.refused
            && (refused.by.global || refused.path == path)
            && now + EARLY_TOLERANCE < refused.not_before
        {
            return Some((refused.by.clone(), Some(refused.not_before - now)));
        }
        let suits = |of: &mut Refuse| match of.at {
            RequestKind::Rest => !request.is_upgrade,
            RequestKind::Upgrade => request.is_upgrade,
            RequestKind::First => true,
        };
        let by = state.due.take_if(suits)?;
        let not_before = now + Duration::from_millis(by.not_before_ms);
        state.refused = Some(Refused { by: by.clone(), path: path.to_owned(), not_before });
        Some((by, None))
    }
}

impl RequestHandler for Front {
    fn decide(&self, request: &ClientRequest) -> Decision {
        let now = Instant::now();
        let exchange = |status, is_refused, too_early| Exchange {
            request: request.clone(),
            at: now,
            status,
            is_refused,
            too_early,
        };
        let (exchange, decision) = if let Some((by, too_early)) = self.refusal(request, now) {
            let headers = by.headers.into_iter().collect();
            let body = by.body.map(|body| body.to_string()).unwrap_or_default();
            let decision = Decision::Answer { status: by.status, headers, body };
            (exchange(by.status, too_early.is_none(), too_early), decision)
        } else if request.is_upgrade {
            (exchange(101, false, None), Decision::Upgrade)
        } else {
            let (status, body) = rest::answer(&request.method, &request.path, &request.body, &self.gateway_url);
            let body = body.map(|body| body.to_string()).unwrap_or_default();
            (exchange(status, false, None), Decision::Answer { status, headers: Vec::new(), body })
        };
        match self.requests.try_send(exchange) {
            Ok(()) => decision,
            Err(_) => {
                Decision::Answer { status: 503, headers: Vec::new(), body: "\"too many requests wait\"".to_owned() }
            }
        }
    }

    fn opened(self: Arc<Self>, request: ClientRequest, stream: TcpStream, early: Vec<u8>) {
        // A full queue drops the connection.
        let _ = self.arrivals.try_send(Arrival { request, stream, early });
    }
}
