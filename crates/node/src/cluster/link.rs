//! Link: messages between nodes, on their way to another node.
//!
//! Owns        the queue of one node, and the task that encodes and publishes its messages.
//! Invariants  N1 guilds never wait for a link: a full one returns a guild's message, and the guild ends the relay's
//!             stream. N2 an event crosses a link once, whatever the number of relays behind it. N3 a dropped message
//!             leaves a gap in the numbers of frames: the other node notices.
//! Limits      `GUILD_MESSAGES_MAX` messages of guilds; `MESSAGES_MAX` of all kinds, past it the queue is dropped.
//!             `BATCH_MAX` messages per frame; frames have at most the bus's payload.

use super::seal::{Seal, TAG_BYTES};
use guildhall_bus::{Bus, Outgoing, SenderId, StreamId, Subject};
use guildhall_cluster::{Incarnation, NodeNumber, PeerMessage, RelayPlace, TraceContext, wire};
use guildhall_guild_protocol::{RelayMessage, ToRelay};
use guildhall_model::GuildId;
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// Most queued messages from guilds to relays.
pub(super) const GUILD_MESSAGES_MAX: usize = 65_536;
/// Most queued messages of all kinds. Commands and messages of relays are few.
const MESSAGES_MAX: usize = 4 * GUILD_MESSAGES_MAX;
/// Most messages in one frame.
const BATCH_MAX: usize = 256;
/// Interval of beats while there is nothing to send: the other node notices a loss after this time.
const BEAT_EVERY: Duration = Duration::from_millis(500);
/// Interval of `Hello`s until the other node answers.
const HELLO_EVERY: Duration = Duration::from_millis(100);
/// Most queued control messages. More are repetitions.
const CONTROL_MAX: usize = 64;
/// Pause after a message that the bus refused.
const AWAY_PAUSE: Duration = Duration::from_millis(50);

enum Item {
    Message(PeerMessage),
    ToRelay(ToRelay, Option<TraceContext>),
}

#[derive(Default)]
struct Queue {
    /// Sent before `items`, also while the stream has not begun.
    control: VecDeque<PeerMessage>,
    items: VecDeque<Item>,
    /// Messages of guilds that are handing over an event: its other relays follow (N2).
    held: Vec<(ToRelay, Option<TraceContext>)>,
    /// Messages of guilds in `items` and `held`.
    guild_messages_count: usize,
    /// Stream of the queued messages.
    stream: u64,
    /// The other node's membership, for which the stream is.
    receiver: Option<Incarnation>,
    /// Whether the other node accepts the stream.
    is_open: bool,
    /// The queue was dropped: the next frame number leaves a gap (N3).
    has_dropped: bool,
    is_closed: bool,
}

/// Counters of a link.
#[derive(Debug, Default)]
pub(super) struct LinkCounts {
    pub(super) messages: AtomicU64,
    pub(super) frames: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) dropped: AtomicU64,
}

/// The queue to one node.
pub(super) struct Link {
    /// Membership of this node, the sender.
    pub(super) own: Incarnation,
    queue: Mutex<Queue>,
    /// Whether something is in `Queue::held`: read without the lock.
    has_held: AtomicBool,
    wake: Notify,
    pub(super) counts: LinkCounts,
}

impl Link {
    pub(super) fn new(own: Incarnation) -> Self {
        Self {
            own,
            queue: Mutex::default(),
            has_held: AtomicBool::new(false),
            wake: Notify::new(),
            counts: LinkCounts::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of queued messages.
    pub(super) fn len(&self) -> usize {
        self.lock().items.len()
    }

    pub(super) fn push(&self, message: PeerMessage) {
        let mut queue = self.lock();
        if message.is_control() {
            if queue.control.len() < CONTROL_MAX {
                queue.control.push_back(message);
            }
            drop(queue);
            return self.wake.notify_one();
        }
        if queue.items.len() >= MESSAGES_MAX {
            self.counts.dropped.fetch_add(queue.items.len() as u64, Relaxed);
            queue.items.clear();
            queue.guild_messages_count = 0;
            queue.has_dropped = true;
        }
        queue.items.push_back(Item::Message(message));
        drop(queue);
        self.wake.notify_one();
    }

    /// Holds a guild's message until `release`. Returns it if the queue is full.
    pub(super) fn try_push_relay(&self, message: ToRelay, trace: Option<TraceContext>) -> Result<(), ToRelay> {
        let mut queue = self.lock();
        if queue.is_closed || queue.guild_messages_count >= GUILD_MESSAGES_MAX {
            return Err(message);
        }
        queue.guild_messages_count += 1;
        queue.held.push((message, trace));
        self.has_held.store(true, Relaxed);
        Ok(())
    }

    /// The guild has handed over all messages of its last input: they are sent together.
    pub(super) fn release(&self, guild_id: GuildId) {
        // The guild's own store precedes this on its worker.
        if !self.has_held.load(Relaxed) {
            return;
        }
        let mut queue = self.lock();
        let held = std::mem::take(&mut queue.held);
        for (message, trace) in held {
            if message.guild_id == guild_id {
                queue.items.push_back(Item::ToRelay(message, trace));
            } else {
                queue.held.push((message, trace));
            }
        }
        self.has_held.store(!queue.held.is_empty(), Relaxed);
        drop(queue);
        self.wake.notify_one();
    }

    /// Drops the queue. Later messages belong to this stream, and wait until it opens.
    pub(super) fn begin(&self, stream: u64, receiver: Incarnation) {
        let mut queue = self.lock();
        let is_closed = queue.is_closed;
        let control = std::mem::take(&mut queue.control);
        *queue = Queue { stream, receiver: Some(receiver), is_closed, control, ..Queue::default() };
        drop(queue);
        self.wake.notify_one();
    }

    /// The other node accepts this stream.
    pub(super) fn open(&self, stream: u64) {
        let mut queue = self.lock();
        if queue.stream == stream {
            queue.is_open = true;
        }
        drop(queue);
        self.wake.notify_one();
    }

    /// Ends the task.
    pub(super) fn close(&self) {
        let mut queue = self.lock();
        *queue = Queue { is_closed: true, ..Queue::default() };
        drop(queue);
        self.wake.notify_one();
    }

    /// The next messages. None: the link is closed.
    fn take(&self) -> Option<Batch> {
        let mut queue = self.lock();
        if queue.is_closed {
            return None;
        }
        let count = if queue.is_open { queue.items.len().min(BATCH_MAX) } else { 0 };
        let mut items: Vec<Item> = queue.control.drain(..).map(Item::Message).collect();
        items.extend(queue.items.drain(..count));
        queue.guild_messages_count -= items.iter().filter(|item| matches!(item, Item::ToRelay(..))).count();
        let has_dropped = std::mem::take(&mut queue.has_dropped);
        Some(Batch { items, stream: queue.stream, receiver: queue.receiver, is_open: queue.is_open, has_dropped })
    }
}

struct Batch {
    items: Vec<Item>,
    stream: u64,
    receiver: Option<Incarnation>,
    is_open: bool,
    has_dropped: bool,
}

/// Publishes the queued messages until the link is closed.
pub(super) async fn run(link: Arc<Link>, (bus, seal): (Arc<dyn Bus>, Arc<Seal>), to: (NodeNumber, Subject)) {
    let (number, subject) = to;
    let sender = SenderId(link.own.0);
    let mut outgoing: Option<(u64, Outgoing)> = None;
    // When the last `Hello` or `Beat` was sent, and on which stream.
    let mut signed: Option<(u64, Instant)> = None;
    while let Some(batch) = link.take() {
        let Batch { items, stream, receiver, is_open, has_dropped } = batch;
        let is_idle = items.is_empty();
        let every = if is_open { BEAT_EVERY } else { HELLO_EVERY };
        let quiet = signed.filter(|(of, _)| *of == stream).map_or(every, |(_, at)| at.elapsed());
        if is_idle && quiet < every {
            // Woken or not, the queue is read again.
            let _ = tokio::time::timeout(every - quiet, link.wake.notified()).await;
            continue;
        }
        // Streams of one sender to several nodes are different ones.
        let id = StreamId(stream << 8 | u64::from(number.0));
        let (_, outgoing) = match &mut outgoing {
            Some(current) if current.0 == stream => current,
            other => other.insert((stream, Outgoing::new(sender, id))),
        };
        let messages = match (is_idle, is_open) {
            (true, true) => vec![PeerMessage::Beat],
            (true, false) => receiver.map(|to| PeerMessage::Hello { to }).into_iter().collect(),
            (false, _) => gather(items),
        };
        if is_idle || is_open {
            signed = Some((stream, Instant::now()));
        }
        link.counts.messages.fetch_add(messages.len() as u64, Relaxed);
        let payload = wire::encode(&messages);
        let frame_bytes_max = bus.payload_bytes_max().saturating_sub(TAG_BYTES);
        if has_dropped {
            // A number that is never sent.
            drop(outgoing.frames(wire::VERSION, &[], frame_bytes_max));
        }
        let Some(frames) = outgoing.frames(wire::VERSION, &payload, frame_bytes_max) else { continue };
        for frame in frames {
            let (frame, _) = seal.seal(subject.as_str().as_bytes(), &frame);
            link.counts.frames.fetch_add(1, Relaxed);
            link.counts.bytes.fetch_add(frame.len() as u64, Relaxed);
            if let Err(error) = bus.publish(&subject, frame).await {
                tracing::debug!(%error, node = %number, "a message to another node was dropped");
                link.counts.dropped.fetch_add(1, Relaxed);
                tokio::time::sleep(AWAY_PAUSE).await;
            }
        }
    }
}

/// Messages of a guild for several relays of the node become one (N2).
fn gather(items: Vec<Item>) -> Vec<PeerMessage> {
    let mut messages: Vec<PeerMessage> = Vec::with_capacity(items.len());
    // Several guilds use a link at the same time. A guild sends an event to all relays before anything else.
    let mut last_of_guild: HashMap<GuildId, usize> = HashMap::new();
    for item in items {
        let (ToRelay { guild_id, relay, epoch, seq, message }, trace) = match item {
            Item::ToRelay(message, trace) => (message, trace),
            Item::Message(message) => {
                messages.push(message);
                continue;
            }
        };
        let place = RelayPlace { relay, epoch, seq };
        let last = last_of_guild.get(&guild_id).and_then(|index| messages.get_mut(*index));
        if let Some(PeerMessage::ToRelays { relays, message: last, .. }) = last
            && is_same(last, &message)
        {
            relays.push(place);
            continue;
        }
        last_of_guild.insert(guild_id, messages.len());
        messages.push(PeerMessage::ToRelays { guild_id, relays: vec![place], message, trace });
    }
    messages
}

fn is_same(a: &RelayMessage, b: &RelayMessage) -> bool {
    match (a, b) {
        (RelayMessage::Published(a), RelayMessage::Published(b)) => Arc::ptr_eq(a, b),
        (RelayMessage::List(a), RelayMessage::List(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}
