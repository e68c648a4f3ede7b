//! Bodies: from the socket to bytes and JSON, within limits.
//!
//! Owns        `detach_body`, which takes the body out of a request; `LazyBody`, the only access to it; memory quotas
//!             for bodies.
//! Invariants  B1 reading a body needs a `Permit`: its sender is authenticated and the object in its path exists. An
//!             extractor that reads bodies eagerly gets an empty one.
//! Limits      sizes and deadlines that the caller passes. Quota for bytes is reserved in small steps as they arrive
//!             (`bodies_bytes_max`), quota for JSON trees as they grow (`trees_bytes_max`). Past a quota the request is
//!             refused at once.
//! Not here    who gets a `Permit`: the servers.

use crate::{
    OverQuota, Parties, Party, Peer, Quota, Reservation, network,
    tree::{self, TreeFault},
};
use axum::{
    body::{Body, BodyDataStream},
    extract::{FromRequestParts, Request},
    http::{HeaderMap, header, request::Parts},
};
use futures_util::StreamExt;
use guildhall_stdx::replace_surrogate_halves;
use serde_json::Value;
use std::{
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Proof that the sender of a request is authenticated and that the object in its path exists. Each server has a type
/// of its own, which only the module that checks both can make.
pub trait Permit: Copy {
    /// The party whose quota the body uses.
    fn party(self) -> Party;
}

/// Reserved before the first byte: the read buffer of a connection.
pub const BODY_BYTES: usize = 16 << 10;
/// Smallest step of a reservation for bytes; larger bodies grow by a quarter.
const STEP_BYTES: usize = 8 << 10;

/// Memory quotas for the bodies of one API.
#[derive(Debug)]
pub struct BodyQuotas {
    /// Bytes of bodies that are arriving.
    pub bytes: Arc<Quota>,
    /// JSON trees. They are built of complete bodies, so that no slow sender holds this quota.
    pub trees: Arc<Quota>,
}

/// Each account, webhook, key and address may reserve one part in eight of the quota for bytes.
const BYTES_SHARE: usize = 8;
/// The same for trees: one part in four.
pub const TREES_SHARE: usize = 4;

impl BodyQuotas {
    /// Quotas in which one body of the largest size always fits.
    pub fn new(bytes_max: usize, trees_bytes_max: usize, body_bytes_max: usize) -> Self {
        let largest = body_bytes_max + body_bytes_max / 4 + BODY_BYTES + STEP_BYTES;
        let (bytes_max, trees_bytes_max) = (bytes_max.max(largest), trees_bytes_max.max(TREES_SHARE));
        Self {
            bytes: Quota::new(bytes_max, (bytes_max / BYTES_SHARE).max(largest)),
            trees: Quota::new(trees_bytes_max, trees_bytes_max / TREES_SHARE),
        }
    }
}

/// Why a body is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFault {
    /// The body is compressed (`Content-Encoding`).
    Encoded,
    /// Longer than this, in bytes.
    TooLarge(usize),
    /// More JSON values than this.
    TooManyValues(usize),
    /// The body was not complete at its deadline.
    TooSlow,
    /// The sender closed the connection, or broke the framing.
    BrokeOff,
    /// Neither JSON nor the form data that `Content-Type` announces.
    Malformed,
    /// A memory quota is exhausted.
    OverQuota(OverQuota),
}

impl From<OverQuota> for BodyFault {
    fn from(over_quota: OverQuota) -> Self {
        Self::OverQuota(over_quota)
    }
}

/// The detached body of a request.
#[derive(Clone, Debug)]
pub struct BodySlot(Arc<Mutex<Option<Body>>>);

impl BodySlot {
    /// Takes the body out. A second call returns none.
    pub fn take(&self) -> Option<Body> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Takes the body out of a request. `LazyBody` is the only access to it afterwards.
pub fn detach_body(request: &mut Request) -> BodySlot {
    let slot = BodySlot(Arc::new(Mutex::new(Some(std::mem::take(request.body_mut())))));
    request.extensions_mut().insert(slot.clone());
    slot
}

/// A body of which no byte is read yet.
#[derive(Debug)]
pub struct LazyBody {
    slot: Option<BodySlot>,
    announced: Option<usize>,
    is_encoded: bool,
    peer: u128,
}

impl<S: Sync> FromRequestParts<S> for LazyBody {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let mut encodings = parts.headers.get_all(header::CONTENT_ENCODING).iter();
        Ok(Self {
            slot: parts.extensions.remove(),
            announced: announced_bytes(&parts.headers),
            is_encoded: encodings.any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")),
            peer: network(Peer::address_in(&parts.extensions)),
        })
    }
}

impl LazyBody {
    /// Network of the sender, as `network` makes it.
    pub fn peer(&self) -> u128 {
        self.peer
    }

    /// `Content-Length`.
    pub fn announced(&self) -> Option<usize> {
        self.announced
    }

    fn parties(&self, sender: Party) -> Parties {
        [Some(sender), Some(Party::Peer(self.peer))]
    }

    /// The body as a stream, with a reservation for the bytes that its reader buffers.
    pub fn stream(self, permit: impl Permit, body_quotas: &BodyQuotas) -> Result<(Body, Reservation), BodyFault> {
        self.stream_of(permit.party(), body_quotas)
    }

    fn stream_of(self, sender: Party, body_quotas: &BodyQuotas) -> Result<(Body, Reservation), BodyFault> {
        if self.is_encoded {
            return Err(BodyFault::Encoded);
        }
        let reservation = body_quotas.bytes.reserve(self.parties(sender), BODY_BYTES)?;
        Ok((self.slot.and_then(|slot| slot.take()).unwrap_or_default(), reservation))
    }

    /// The whole body, with the reservation for its bytes.
    pub fn bytes(
        self,
        permit: impl Permit,
        body_quotas: &BodyQuotas,
        bytes_max: usize,
        deadline_ms: u64,
    ) -> impl Future<Output = Result<(Vec<u8>, Reservation), BodyFault>> {
        self.bytes_of(permit.party(), body_quotas, bytes_max, deadline_ms)
    }

    async fn bytes_of(
        self,
        sender: Party,
        body_quotas: &BodyQuotas,
        bytes_max: usize,
        deadline_ms: u64,
    ) -> Result<(Vec<u8>, Reservation), BodyFault> {
        if self.announced.is_some_and(|bytes| bytes > bytes_max) {
            return Err(BodyFault::TooLarge(bytes_max));
        }
        let most = self.announced.unwrap_or(bytes_max);
        let (body, mut reservation) = self.stream_of(sender, body_quotas)?;
        let read = async {
            let mut pieces = body.into_data_stream();
            let mut bytes = Vec::new();
            while let Some(piece) = pieces.next().await {
                let piece = piece.map_err(|_| BodyFault::BrokeOff)?;
                let needed = bytes.len() + piece.len();
                if needed > bytes_max {
                    return Err(BodyFault::TooLarge(bytes_max));
                }
                if needed > bytes.capacity() {
                    let step = STEP_BYTES.max(bytes.capacity() / 4);
                    let capacity = needed.max((bytes.capacity() + step).min(most));
                    reservation.grow_to(BODY_BYTES + capacity)?;
                    bytes.reserve_exact(capacity - bytes.len());
                }
                bytes.extend_from_slice(&piece);
            }
            Ok(bytes)
        };
        let read = tokio::time::timeout(Duration::from_millis(deadline_ms), read).await;
        Ok((read.unwrap_or(Err(BodyFault::TooSlow))?, reservation))
    }
}

/// Parses a body into a tree. The reservation has to live as long as the tree. Half a surrogate pair in `text` becomes
/// U+FFFD; only a text that was refused is searched for one.
pub fn parse_tree(
    text: &mut [u8],
    permit: impl Permit,
    peer: u128,
    body_quotas: &BodyQuotas,
    values_max: usize,
) -> Result<(Value, Reservation), BodyFault> {
    let parties = [Some(permit.party()), Some(Party::Peer(peer))];
    let mut reservation = body_quotas.trees.reservation(parties);
    let mut parsed = tree::parse(text, values_max, &mut reservation);
    if parsed == Err(TreeFault::NotJson) && replace_surrogate_halves(text) {
        reservation = body_quotas.trees.reservation(parties);
        parsed = tree::parse(text, values_max, &mut reservation);
    }
    let value = parsed.map_err(|fault| match fault {
        TreeFault::NotJson => BodyFault::Malformed,
        TreeFault::TooMany => BodyFault::TooManyValues(values_max),
        TreeFault::OverQuota(over_quota) => BodyFault::OverQuota(over_quota),
    })?;
    Ok((value, reservation))
}

/// `Content-Length` of a request.
pub fn announced_bytes(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Longest time for which the rest of a refused upload is read.
const DRAINED_FOR: Duration = Duration::from_secs(5);

/// Reads and discards the rest of a body on a task of its own, while the answer is sent. Most clients read the answer
/// only after they have sent the whole body; if the node closes the connection earlier, they report an error. The
/// listener does the same with small bodies.
pub fn drain(mut pieces: BodyDataStream, bytes_max: usize) {
    let rest = async move {
        let mut left = bytes_max;
        while let Some(Ok(piece)) = pieces.next().await {
            match left.checked_sub(piece.len()) {
                Some(less) => left = less,
                None => return,
            }
        }
    };
    tokio::spawn(tokio::time::timeout(DRAINED_FOR, rest));
}

/// Bodies up to this size are drained by the listener.
pub const LISTENER_DRAINS_BYTES: usize = 256 << 10;

/// Discards a body that no handler read, unless it is longer than `bytes_max`.
pub fn drain_slot(bytes_max: usize, announced: Option<usize>, slot: &BodySlot) {
    if announced.is_none_or(|bytes| bytes <= bytes_max)
        && let Some(body) = slot.take()
    {
        drain(body.into_data_stream(), bytes_max);
    }
}
