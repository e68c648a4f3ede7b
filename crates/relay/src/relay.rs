//! Relay: one guild's events, brought to the sessions of one partition.
//!
//! Owns        the relay's picture of the guild, and its place in the guild's stream.
//! Doors       `handle` for the guild's messages; `attach` and `detach` for sessions; `may_see` for replay.
//! Invariants  R1 messages are taken in the order of `seq`; a gap leads to `Resync`, never to silence.
//!             R2 a session gets nothing before its `Attached` and everything it may see after it.
//!             R3 effects are applied before their event is fanned out.
//! Limits      sessions that wait for their view: those of this partition.
//! Not here    sequence numbers, replay, writing: the `Recipients` behind the calls.

use crate::{
    audience::{AudienceIndex, Seat},
    event::{Event, Redaction},
    members::MemberTable,
    meta::GuildMeta,
    protocol::{Effect, GuildView, PartitionId, Published, RelayMessage, SessionKey, ToGuild, ToRelay},
};
use guildhall_model::{GuildId, UserId, to_gateway::RequestGuildMembers};
use guildhall_stdx::{Instant, Now};
use std::sync::Arc;

/// A gap that no snapshot has ended is reported again after this: the request or its answer may be lost too.
const RESYNC_AGAIN_MS: u64 = 1_000;

/// The sessions of a partition, as a relay speaks to them.
pub trait Recipients {
    /// An event is about to be delivered to any number of sessions: prepare what they share.
    fn begin(&mut self, published: &Arc<Published>);
    /// Delivers the event of the last `begin` to a session.
    fn deliver(&mut self, slot: u32, redaction: Redaction);
    /// A session's view of the guild begins. None: it may not be here.
    fn attached(&mut self, session: SessionKey, meta: &Arc<GuildMeta>, view: Option<&GuildView>) -> Option<Seat>;
    /// The guild cannot be served now.
    fn unavailable(&mut self, session: SessionKey, guild_id: GuildId);
    /// The session lost the guild: its member left, or the guild was deleted.
    fn lost(&mut self, slot: u32, guild_id: GuildId);
    /// Events were lost: the session cannot go on and has to start anew.
    fn reset(&mut self, slot: u32);
    /// A dispatch for one session.
    fn direct(&mut self, session: SessionKey, event: &Arc<Event>);
    /// Members that a session asked for.
    fn members(&mut self, session: SessionKey, guild_id: GuildId, request: &RequestGuildMembers, members: &MemberTable);
}

/// What a relay wants from its guild after a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing.
    Steady,
    /// There was a gap: the driver sends the `Resync` that `Relay::resync` makes. Said again if that leads to nothing.
    Gap,
    /// The stream began again after a loss: sessions that were waiting for their view have to ask again.
    Restarted,
}

/// One guild's fan-out on one partition.
#[derive(Debug)]
pub struct Relay {
    guild_id: GuildId,
    partition: PartitionId,
    epoch: u32,
    seq: u64,
    /// When a gap was last reported; none once a snapshot has come.
    gap_told_at: Option<Instant>,
    /// None until the first snapshot.
    audience: Option<AudienceIndex>,
}

impl Relay {
    /// A relay that has yet to subscribe. Each incarnation of (guild, partition) needs an `epoch` of its own, counting up.
    #[must_use]
    pub fn new(guild_id: GuildId, partition: PartitionId, epoch: u32) -> Self {
        Self { guild_id, partition, epoch, seq: 0, gap_told_at: None, audience: None }
    }

    /// The message that opens the guild's stream.
    #[must_use]
    pub fn subscribe(&self) -> ToGuild {
        ToGuild::Subscribe { partition: self.partition, epoch: self.epoch }
    }

    /// The message that ends it.
    #[must_use]
    pub fn unsubscribe(&self) -> ToGuild {
        ToGuild::Unsubscribe { partition: self.partition, epoch: self.epoch }
    }

    /// The message that starts it again after a gap.
    #[must_use]
    pub fn resync(&self) -> ToGuild {
        ToGuild::Resync { partition: self.partition, epoch: self.epoch }
    }

    /// Which sessions may see what; none before the first snapshot.
    #[must_use]
    pub fn audience(&self) -> Option<&AudienceIndex> {
        self.audience.as_ref()
    }

    /// Sessions whose view has begun.
    #[must_use]
    pub fn sessions_count(&self) -> usize {
        self.audience.as_ref().map_or(0, AudienceIndex::len)
    }

    /// A session of `user_id` left.
    pub fn detach(&mut self, user_id: UserId, slot: u32) {
        if let Some(audience) = &mut self.audience {
            audience.unseat(user_id, slot);
        }
    }

    /// Takes the guild's next message. `recipients` get what follows from it.
    ///
    /// Comes from the partition; goes on to `Recipients::deliver`, once per session.
    pub fn handle(&mut self, now: Now, message: ToRelay, recipients: &mut impl Recipients) -> Progress {
        if message.epoch != self.epoch {
            return Progress::Steady;
        }
        let restarts = matches!(message.message, RelayMessage::Snapshot { .. });
        if !restarts && message.seq != self.seq + 1 {
            let is_asked = self.gap_told_at.is_some_and(|at| now.instant.ms_since(at) < RESYNC_AGAIN_MS);
            if message.seq <= self.seq || is_asked {
                return Progress::Steady;
            }
            self.gap_told_at = Some(now.instant);
            return Progress::Gap;
        }
        self.seq = message.seq;
        match message.message {
            RelayMessage::Snapshot { meta, reset } => {
                if let Some(audience) = self.audience.take().filter(|_| reset) {
                    audience.slots().for_each(|slot| recipients.reset(slot));
                }
                self.audience = Some(AudienceIndex::new(meta));
                self.gap_told_at = None;
                if reset {
                    return Progress::Restarted;
                }
            }
            RelayMessage::Published(published) => self.fan_out(now, &published, recipients),
            RelayMessage::Attached { session, view } => {
                let Some(audience) = &mut self.audience else { return Progress::Gap };
                let seat = recipients.attached(session, audience.meta(), view.as_deref());
                if let (Some(seat), Some(view)) = (seat, view) {
                    audience.seat(seat, view.member);
                }
            }
            RelayMessage::Unavailable { session } => recipients.unavailable(session, self.guild_id),
            RelayMessage::Direct { session, event } => recipients.direct(session, &event),
            RelayMessage::Members { session, request, members } => {
                recipients.members(session, self.guild_id, &request, &members);
            }
        }
        Progress::Steady
    }

    /// Applies an event's effect and delivers it to whom it is for.
    fn fan_out(&mut self, now: Now, published: &Arc<Published>, recipients: &mut impl Recipients) {
        let Some(audience) = &mut self.audience else { return };
        match &published.effect {
            Effect::None => {}
            Effect::Meta(meta) => audience.set_meta(meta.clone()),
            Effect::Member(_, Some(member)) => audience.set_member(member),
            Effect::Member(user_id, None) => {
                for slot in audience.unseat_user(*user_id) {
                    recipients.lost(slot, self.guild_id);
                }
            }
            Effect::Deleted => {
                audience.slots().for_each(|slot| recipients.lost(slot, self.guild_id));
                *audience = AudienceIndex::new(audience.meta().clone());
                return;
            }
        }
        recipients.begin(published);
        audience.for_each(&published.event, now.unix, |slot, redaction| recipients.deliver(slot, redaction));
    }
}
