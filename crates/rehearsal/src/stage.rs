//! Stage: the listeners of a rehearsal, and the requests that arrive at them.
//!
//! Owns        the refusal that is due, and the time before which a refused request may not come again.
//! Doors       `Stage::open`; the play receives `Arrival`s and `Request`s.
//! Limits      `WAITING_MAX` arrivals and requests; more are refused with 503.

use crate::{
    http::{Asked, Desk, Given, bind, serve},
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
    pub asked: Asked,
    pub stream: TcpStream,
    pub early: Vec<u8>,
}

/// A request, and its response.
#[derive(Debug)]
pub(crate) struct Request {
    pub asked: Asked,
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
    pub(crate) requests: mpsc::Receiver<Request>,
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
    requests: mpsc::Sender<Request>,
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
    fn refusal(&self, asked: &Asked, now: Instant) -> Option<(Refuse, Option<Duration>)> {
        let mut state = self.lock();
        let path = match asked.is_upgrade {
            true => "upgrade",
            false => &asked.path,
        };
        if let Some(refused) = &state.refused
            && (refused.by.global || refused.path == path)
            && now + EARLY_TOLERANCE < refused.not_before
        {
            return Some((refused.by.clone(), Some(refused.not_before - now)));
        }
        let suits = |of: &mut Refuse| match of.at {
            RequestKind::Rest => !asked.is_upgrade,
            RequestKind::Upgrade => asked.is_upgrade,
            RequestKind::First => true,
        };
        let by = state.due.take_if(suits)?;
        let not_before = now + Duration::from_millis(by.not_before_ms);
        state.refused = Some(Refused { by: by.clone(), path: path.to_owned(), not_before });
        Some((by, None))
    }
}

impl Desk for Front {
    fn decide(&self, asked: &Asked) -> Given {
        let now = Instant::now();
        let request =
            |status, is_refused, too_early| Request { asked: asked.clone(), at: now, status, is_refused, too_early };
        let (request, given) = if let Some((by, too_early)) = self.refusal(asked, now) {
            let headers = by.headers.into_iter().collect();
            let body = by.body.map(|body| body.to_string()).unwrap_or_default();
            let given = Given::Answer { status: by.status, headers, body };
            (request(by.status, too_early.is_none(), too_early), given)
        } else if asked.is_upgrade {
            (request(101, false, None), Given::Upgrade)
        } else {
            let (status, body) = rest::answer(&asked.method, &asked.path, &asked.body, &self.gateway_url);
            let body = body.map(|body| body.to_string()).unwrap_or_default();
            (request(status, false, None), Given::Answer { status, headers: Vec::new(), body })
        };
        match self.requests.try_send(request) {
            Ok(()) => given,
            Err(_) => Given::Answer { status: 503, headers: Vec::new(), body: "\"too many requests wait\"".to_owned() },
        }
    }

    fn opened(self: Arc<Self>, asked: Asked, stream: TcpStream, early: Vec<u8>) {
        // A full queue drops the connection.
        let _ = self.arrivals.try_send(Arrival { asked, stream, early });
    }
}
