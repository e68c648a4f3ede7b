//! InjectedFault: faults injected into messages to a relay, to test that the checker notices.
//!
//! Invariants  the product's code is unchanged; only its inputs are wrong.

use guildhall_guild::{HandoffChunk, HandoffItem};
use guildhall_guild_protocol::{
    Audience, AudienceRule, Event, IntervalUpdate, ListUpdate, Payload, Published, RelayId, RelayMessage,
    ReplicaUpdate, ToRelay,
};
use guildhall_model::{ChannelId, Member, UserId, VoiceState};
use guildhall_partition::HandOver;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InjectedFault {
    /// No injected fault.
    #[default]
    None,
    /// One relay does not look whether members may view a channel.
    Permissions,
    /// One relay does not hear of changes to roles, channels and overwrites.
    Staleness,
    /// One relay believes that there is nothing to redact.
    Redaction,
    /// One relay never hears of some events, and does not notice.
    Loss,
    /// One relay hears some events twice.
    Duplication,
    /// One relay hears some events in the wrong order.
    Reordering,
    /// One relay has all voice states in one channel, and messages in another, so that passive updates are wrong.
    Passive,
    /// One relay misses an operation of a member list now and then.
    Lists,
    /// One partition does not hear of some subscriptions.
    Switch,
    /// One relay takes private threads for public ones.
    Threads,
    /// One relay does not receive changes of thread members.
    Joins,
    /// One relay sends all sessions the events for moderators: bans, invites, webhooks.
    Moderators,
    /// One relay does not hear of time-outs.
    Timeouts,
    /// One relay does not hear that members left, were thrown out or were banned.
    Kicks,
    /// One relay sends all sessions the backend events that are for some.
    Audiences,
    /// One partition goes on serving sessions whose token was revoked.
    Tokens,
    /// One partition sends messages of a direct message to users who are not its recipients.
    Dms,
    /// One partition sends messages of a group to users who have left it.
    Leavers,
    /// One partition sends presences to accounts that were friends once.
    Friends,
    /// Searches find messages of channels that the account may not read.
    Searches,
    /// The hand-over of one partition lacks an entry of each session.
    Handover,
    /// The sessions of one partition go on with a seq that is one too small.
    Seq,
    /// The next process does not get the voice state of one user.
    Voice,
    /// The next process does not get presences that wait for the rate limit.
    Waiting,
}

/// The partition whose relay is lied to.
const VICTIM: usize = 1;
/// A channel that some may view.
const ELSEWHERE: ChannelId = guildhall_test_kit::id(14);
/// One event of this many is lost, duplicated or delayed.
const EVERY: u64 = 7;

/// Changes what passes by.
#[derive(Debug)]
pub struct FaultInjector {
    kind: InjectedFault,
    count: u64,
    streams: BTreeMap<RelayId, Stream>,
    /// Everyone who was ever a recipient of a direct message.
    written_to: BTreeMap<ChannelId, BTreeSet<UserId>>,
    /// Everyone who was ever sent an account's presence.
    shown_to: BTreeMap<u64, BTreeSet<UserId>>,
}

/// Faults in one relay's stream.
#[derive(Debug, Default)]
struct Stream {
    epoch: u32,
    /// How many messages more (or fewer) went in than came.
    offset: i64,
    held: Option<ToRelay>,
}

impl FaultInjector {
    pub fn new(kind: InjectedFault) -> Self {
        Self { kind, count: 0, streams: BTreeMap::new(), written_to: BTreeMap::new(), shown_to: BTreeMap::new() }
    }

    /// The messages that replace `message`, numbered without a gap.
    pub fn pass(&mut self, side: usize, message: ToRelay) -> Vec<ToRelay> {
        if self.kind == InjectedFault::None || side != VICTIM {
            return vec![message];
        }
        let mut stream = self.streams.remove(&message.relay).unwrap_or_default();
        if message.epoch != stream.epoch || matches!(message.message, RelayMessage::Snapshot { .. }) {
            stream = Stream { epoch: message.epoch, ..Stream::default() };
        }
        let relay = message.relay;
        let came = message.seq as i64;
        let mut out: Vec<ToRelay> = Vec::new();
        let is_event = match self.kind {
            InjectedFault::Lists => matches!(message.message, RelayMessage::List(_)),
            _ => matches!(message.message, RelayMessage::Published(_)),
        };
        self.count += u64::from(is_event);
        let is_chosen = is_event && self.count.is_multiple_of(EVERY);
        match self.kind {
            InjectedFault::Lists if is_chosen => out.push(without_an_op(message)),
            InjectedFault::Loss if is_chosen => {}
            InjectedFault::Duplication if is_chosen => out.extend([message.clone(), message]),
            InjectedFault::Reordering if is_chosen && stream.held.is_none() => stream.held = Some(message),
            _ => {
                out.push(self.change(message));
                out.extend(stream.held.take());
            }
        }
        for (n, message) in out.iter_mut().enumerate() {
            message.seq = (came + stream.offset + n as i64) as u64;
        }
        stream.offset += out.len() as i64 - 1;
        self.streams.insert(relay, stream);
        out
    }

    /// Whether a partition hears of a subscription.
    pub fn lets_subscribe(&mut self, side: usize) -> bool {
        if self.kind != InjectedFault::Switch || side != VICTIM {
            return true;
        }
        self.count += 1;
        !self.count.is_multiple_of(EVERY)
    }

    /// Whether a partition hears that sessions have to end.
    pub fn lets_close(&self, side: usize) -> bool {
        self.kind != InjectedFault::Tokens || side != VICTIM
    }

    /// Accounts to which a partition sends an event of a direct message.
    pub fn recipients(&mut self, side: usize, published: &Published, to: Vec<UserId>) -> Vec<UserId> {
        let Some(channel) = published.event.direct_channel().filter(|_| side == VICTIM) else { return to };
        let is_message = published.event.name.as_str() == "MESSAGE_CREATE";
        let ever = self.written_to.entry(channel).or_default();
        ever.extend(&to);
        match self.kind {
            InjectedFault::Dms if is_message => {
                let all = self.written_to.values().flatten().copied();
                all.collect::<BTreeSet<_>>().into_iter().collect()
            }
            InjectedFault::Leavers if is_message => ever.iter().copied().collect(),
            _ => to,
        }
    }

    /// Accounts to which a partition sends the presence of a friend.
    pub fn friends(&mut self, side: usize, of: u64, to: &[UserId]) -> Vec<UserId> {
        let ever = self.shown_to.entry(of).or_default();
        ever.extend(to);
        let is_chosen = self.kind == InjectedFault::Friends && side == VICTIM;
        if is_chosen { ever.iter().copied().collect() } else { to.to_vec() }
    }

    /// Channels in which an account searches, of all that there are.
    pub fn searched(&self, readable: Vec<ChannelId>, all: &[u64]) -> Vec<ChannelId> {
        match self.kind {
            InjectedFault::Searches => {
                all.iter().map(|id| ChannelId::new(*id)).collect::<BTreeSet<_>>().into_iter().collect()
            }
            _ => readable,
        }
    }

    /// Changes a partition's hand-over.
    pub fn hand_over(&self, side: usize, over: &mut HandOver) {
        if side != VICTIM {
            return;
        }
        for session in &mut over.sessions {
            match self.kind {
                InjectedFault::Handover => session.entries.last_mut().into_iter().for_each(|(_, count)| *count -= 1),
                InjectedFault::Seq => session.first_seq = session.first_seq.saturating_sub(1),
                _ => return,
            }
        }
    }

    /// Changes a part of the guild on its way to the next process.
    pub fn export(&self, chunk: &mut HandoffChunk) {
        if let (InjectedFault::Voice, HandoffChunk::Items(items)) = (self.kind, chunk) {
            let voice = items.iter().position(|item| matches!(item, HandoffItem::Voice(..)));
            voice.into_iter().for_each(|at| drop(items.remove(at)));
        }
    }

    /// Changes its last part.
    pub fn export_tail(&self, tail: &mut Value) {
        if self.kind == InjectedFault::Waiting {
            tail["presences"]["queued"] = Value::Array(Vec::new());
        }
    }

    fn change(&self, mut message: ToRelay) -> ToRelay {
        let RelayMessage::Published(published) = &mut message.message else { return message };
        let (mut event, mut replica_update) = (copy(&published.event), published.replica_update.clone());
        match self.kind {
            InjectedFault::Permissions => {
                if let AudienceRule::Channel(_) | AudienceRule::ChannelExcept(..) = event.audience.rule {
                    event.audience.rule = AudienceRule::Members;
                }
            }
            InjectedFault::Staleness => {
                if let ReplicaUpdate::Structure(_) = replica_update {
                    replica_update = ReplicaUpdate::None;
                }
            }
            InjectedFault::Redaction => event.content_readers = None,
            InjectedFault::Passive => match &mut replica_update {
                ReplicaUpdate::Voice(_, Some(entry)) => {
                    let state = VoiceState { channel_id: Some(ELSEWHERE), ..VoiceState::clone(&entry.state) };
                    entry.state = Arc::new(state);
                }
                ReplicaUpdate::Message(channel, _) => *channel = ELSEWHERE,
                _ => return message,
            },
            InjectedFault::Threads => match &mut event.audience.rule {
                AudienceRule::Thread { is_private, .. } => *is_private = false,
                _ => return message,
            },
            InjectedFault::Joins => match (&replica_update, event.name.as_str()) {
                (ReplicaUpdate::Thread(..), "THREAD_MEMBERS_UPDATE") => replica_update = ReplicaUpdate::None,
                _ => return message,
            },
            InjectedFault::Moderators => match event.audience.rule {
                AudienceRule::GuildPermission(_) | AudienceRule::ChannelPermission(..) => {
                    event.audience.rule = AudienceRule::Members
                }
                _ => return message,
            },
            InjectedFault::Timeouts => match &mut replica_update {
                ReplicaUpdate::Member(_, Some(member)) => {
                    *member = Arc::new(Member { communication_disabled_until: None, ..Member::clone(member) });
                }
                _ => return message,
            },
            InjectedFault::Kicks => match replica_update {
                ReplicaUpdate::Member(_, None) => replica_update = ReplicaUpdate::None,
                _ => return message,
            },
            InjectedFault::Audiences => match (&event.audience.rule, &event.payload) {
                (AudienceRule::Roles(_) | AudienceRule::Users(_) | AudienceRule::Channel(_), Payload::Backend(_)) => {
                    event.audience.rule = AudienceRule::Members;
                }
                _ => return message,
            },
            InjectedFault::None
            | InjectedFault::Tokens
            | InjectedFault::Dms
            | InjectedFault::Leavers
            | InjectedFault::Friends
            | InjectedFault::Searches
            | InjectedFault::Handover
            | InjectedFault::Seq
            | InjectedFault::Voice
            | InjectedFault::Waiting
            | InjectedFault::Loss
            | InjectedFault::Duplication
            | InjectedFault::Reordering
            | InjectedFault::Lists
            | InjectedFault::Switch => return message,
        }
        *published = Arc::new(Published { event, replica_update });
        message
    }
}

fn without_an_op(mut message: ToRelay) -> ToRelay {
    if let RelayMessage::List(update) = &mut message.message {
        let mut intervals: Vec<IntervalUpdate> = (update.intervals.iter())
            .map(|of| IntervalUpdate { interval: of.interval, ops: of.ops.clone(), rows: of.rows.clone() })
            .collect();
        intervals.iter_mut().for_each(|of| drop(of.ops.pop()));
        *update = Arc::new(ListUpdate {
            list: update.list,
            member_count: update.member_count,
            online_count: update.online_count,
            groups: update.groups.clone(),
            intervals,
        });
    }
    message
}

fn copy(event: &Event) -> Event {
    Event {
        guild_id: event.guild_id,
        name: event.name,
        audience: Audience::clone(&event.audience),
        content_readers: event.content_readers.clone(),
        payload: event.payload.clone(),
    }
}
