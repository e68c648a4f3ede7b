//! The stream from the guild: numbers, epochs, gaps, and what recipients hear when.

use crate::fixture::*;
use guildhall_model::{
    AccountKind, ChannelType, EventName, GuildId, Intents, Member, OverwriteKind, Permissions, UserId,
    to_gateway::{MemberQuery, RequestGuildMembers},
};
use guildhall_relay::{
    Effect, Event, Gate, GuildMeta, GuildView, MemberTable, PartitionId, Payload, Progress, Published, Recipients,
    Redaction, Relay, RelayMessage, Seat, SessionKey, ToGuild, ToRelay,
};
use guildhall_stdx::Now;
use std::sync::Arc;

const P: PartitionId = PartitionId(4);
const OPEN: u64 = 100;
const HIDDEN: u64 = 101;

/// Writes down what it is told; every session wants everything.
#[derive(Default)]
struct Notes(Vec<String>);

impl Recipients for Notes {
    fn begin(&mut self, published: &Arc<Published>) {
        self.0.push(format!("begin {}", published.event.name.as_str()));
    }
    fn deliver(&mut self, slot: u32, _redaction: Redaction) {
        self.0.push(format!("deliver {slot}"));
    }
    fn attached(&mut self, session: SessionKey, _meta: &Arc<GuildMeta>, view: Option<&GuildView>) -> Option<Seat> {
        self.0.push(format!("attached {} {}", session.slot, view.is_some()));
        view.map(|_| Seat { slot: session.slot, intents: Intents::ALL, kind: AccountKind::Bot })
    }
    fn unavailable(&mut self, session: SessionKey, _guild_id: GuildId) {
        self.0.push(format!("unavailable {}", session.slot));
    }
    fn lost(&mut self, slot: u32, _guild_id: GuildId) {
        self.0.push(format!("lost {slot}"));
    }
    fn reset(&mut self, slot: u32) {
        self.0.push(format!("reset {slot}"));
    }
    fn direct(&mut self, session: SessionKey, event: &Arc<Event>) {
        self.0.push(format!("direct {} {}", session.slot, event.name.as_str()));
    }
    fn members(&mut self, session: SessionKey, _: GuildId, _: &RequestGuildMembers, members: &MemberTable) {
        self.0.push(format!("members {} {}", session.slot, members.len()));
    }
}

struct Stream {
    now: Now,
    relay: Relay,
    seq: u64,
    notes: Notes,
}

fn open_meta() -> Arc<GuildMeta> {
    let hide = overwrite(OverwriteKind::Role(id(1)), Permissions::NONE, Permissions::VIEW_CHANNEL);
    let channels = [channel(OPEN, ChannelType::Text, Vec::new()), channel(HIDDEN, ChannelType::Text, vec![hide])];
    meta(50, &[role(1, Permissions::VIEW_CHANNEL), role(21, Permissions::ADMINISTRATOR)], &channels)
}

fn key(slot: u32) -> SessionKey {
    SessionKey { partition: P, slot, generation: 0 }
}

fn view(member: Member) -> GuildView {
    GuildView {
        member: Arc::new(member),
        member_count: 3,
        voice: Vec::new(),
        last_message_ids: Arc::default(),
        members: None,
        version: 1,
    }
}

fn published(gate: Gate, effect: Effect) -> RelayMessage {
    let event = Event::new(GUILD, EventName::MessageDelete, gate, Payload::GuildGone);
    RelayMessage::Published(Arc::new(Published { event, effect }))
}

fn snapshot(reset: bool) -> RelayMessage {
    RelayMessage::Snapshot { meta: open_meta(), reset }
}

impl Stream {
    /// With a snapshot, and users 52 and 54 in it under their ids.
    fn begun() -> Self {
        let mut stream = Self { now: Now::default(), relay: Relay::new(GUILD, P, 1), seq: 0, notes: Notes::default() };
        assert_eq!(stream.next(snapshot(false)), Progress::Steady);
        for user in [52, 54] {
            let view = Some(Box::new(view(member(user, &[]))));
            stream.next(RelayMessage::Attached { session: key(user as u32), view });
        }
        stream.take();
        stream
    }

    fn say(&mut self, epoch: u32, seq: u64, message: RelayMessage) -> Progress {
        let message = ToRelay { guild_id: GUILD, epoch, seq, message };
        self.relay.handle(self.now, message, &mut self.notes)
    }

    fn next(&mut self, message: RelayMessage) -> Progress {
        self.seq += 1;
        self.say(1, self.seq, message)
    }

    /// Deliveries, which come last, are sorted: their order means nothing.
    fn take(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.notes.0);
        let first = notes.iter().position(|note| note.starts_with("deliver")).unwrap_or(notes.len());
        notes[first..].sort();
        notes
    }

    /// What follows from the next message.
    fn check(&mut self, message: RelayMessage, expected: &[&str]) {
        assert_eq!(self.next(message), Progress::Steady);
        assert_eq!(self.take(), expected);
    }
}

#[test]
fn r1_a_gap_is_told_and_ends_with_a_snapshot() {
    let mut stream = Stream::begun();
    let message = || published(Gate::Members, Effect::None);
    let seq = stream.seq;
    assert_eq!(stream.say(1, seq + 2, message()), Progress::Gap);
    assert_eq!(stream.say(1, seq + 3, message()), Progress::Steady, "it was told already");
    stream.now = Now::new(999, 0);
    assert_eq!(stream.say(1, seq + 4, message()), Progress::Steady);
    stream.now = Now::new(1_000, 0);
    assert_eq!(stream.say(1, seq + 5, message()), Progress::Gap, "that led to nothing");
    assert_eq!(stream.say(1, seq + 1, snapshot(true)), Progress::Restarted);
    assert_eq!(stream.take(), ["reset 52", "reset 54"], "nothing was delivered past the gap");
    assert_eq!(stream.say(1, seq + 2, message()), Progress::Steady);
    assert_eq!(stream.take(), ["begin MESSAGE_DELETE"], "nobody is here any more");
    assert_eq!(stream.say(1, seq + 9, message()), Progress::Gap, "a new gap is told again");
}

#[test]
fn r1_a_snapshot_takes_up_the_stream_wherever_it_is() {
    for seq in [1, 3, 4, 1_000] {
        let mut stream = Stream::begun();
        assert_eq!(stream.say(1, seq, snapshot(true)), Progress::Restarted);
        assert_eq!(stream.take(), ["reset 52", "reset 54"]);
        assert_eq!(stream.say(1, seq + 1, published(Gate::Members, Effect::None)), Progress::Steady);
        assert_eq!(stream.take(), ["begin MESSAGE_DELETE"]);
    }
}

#[test]
fn r1_what_was_seen_before_is_dropped() {
    let mut stream = Stream::begun();
    for seq in 0..=stream.seq {
        assert_eq!(stream.say(1, seq, published(Gate::Members, Effect::None)), Progress::Steady);
    }
    assert_eq!(stream.take(), Vec::<String>::new());
}

#[test]
fn p2_another_epoch_is_not_ours() {
    let mut stream = Stream::begun();
    for epoch in [0, 2] {
        let seq = stream.seq + 1;
        assert_eq!(stream.say(epoch, seq, published(Gate::Members, Effect::None)), Progress::Steady);
        assert_eq!(stream.say(epoch, 1, snapshot(true)), Progress::Steady);
        assert_eq!(stream.say(epoch, 99, published(Gate::Members, Effect::None)), Progress::Steady);
    }
    assert_eq!(stream.take(), Vec::<String>::new());
    stream.check(published(Gate::Members, Effect::None), &["begin MESSAGE_DELETE", "deliver 52", "deliver 54"]);
}

#[test]
fn r2_nothing_before_attached_and_everything_after() {
    let mut stream = Stream { now: Now::default(), relay: Relay::new(GUILD, P, 1), seq: 0, notes: Notes::default() };
    stream.next(snapshot(false));
    stream.check(published(Gate::Members, Effect::None), &["begin MESSAGE_DELETE"]);
    let attached = |user: u64, is_member| RelayMessage::Attached {
        session: key(user as u32),
        view: if is_member { Some(Box::new(view(member(user, &[])))) } else { None },
    };
    stream.check(attached(52, true), &["attached 52 true"]);
    stream.check(attached(54, false), &["attached 54 false"]);
    stream.check(published(Gate::Members, Effect::None), &["begin MESSAGE_DELETE", "deliver 52"]);
    assert_eq!(stream.relay.sessions_count(), 1);
    stream.relay.detach(id(52), 52);
    stream.check(published(Gate::Members, Effect::None), &["begin MESSAGE_DELETE"]);
}

#[test]
fn r3_effects_come_before_their_event() {
    let mut stream = Stream::begun();
    let hidden = Gate::Channel(id(HIDDEN));
    stream.check(published(hidden, Effect::None), &["begin MESSAGE_DELETE"]);
    // Who gains sight by an event gets that event, who loses it does not.
    let admin = Arc::new(member(52, &[21]));
    let gained = Effect::Member(id(52), Some(admin));
    stream.check(published(hidden, gained), &["begin MESSAGE_DELETE", "deliver 52"]);
    let plain = Effect::Member(id(52), Some(Arc::new(member(52, &[]))));
    stream.check(published(hidden, plain), &["begin MESSAGE_DELETE"]);

    let mut shown = GuildMeta::clone(&open_meta());
    Arc::make_mut(&mut shown.channels).insert(id(HIDDEN), channel(HIDDEN, ChannelType::Text, Vec::new()));
    let effect = Effect::Meta(Arc::new(shown));
    stream.check(published(hidden, effect), &["begin MESSAGE_DELETE", "deliver 52", "deliver 54"]);
    stream.check(published(hidden, Effect::Meta(open_meta())), &["begin MESSAGE_DELETE"]);
}

#[test]
fn a_member_who_leaves_loses_the_guild_before_others_are_told() {
    let mut stream = Stream::begun();
    let left = Effect::Member(id(52), None);
    stream.check(published(Gate::Members, left), &["lost 52", "begin MESSAGE_DELETE", "deliver 54"]);
    assert!(stream.relay.audience().is_some_and(|audience| audience.member(UserId::new(52)).is_none()));
    let stranger = Effect::Member(id(999), None);
    stream.check(published(Gate::Members, stranger), &["begin MESSAGE_DELETE", "deliver 54"]);
}

#[test]
fn a_deleted_guild_is_lost_by_all() {
    let mut stream = Stream::begun();
    stream.check(published(Gate::Members, Effect::Deleted), &["lost 52", "lost 54"]);
    stream.check(published(Gate::Members, Effect::None), &["begin MESSAGE_DELETE"]);
}

#[test]
fn what_concerns_one_session_goes_to_it() {
    let mut stream = Stream::begun();
    let event = Arc::new(Event::new(GUILD, EventName::VoiceServerUpdate, Gate::User(id(52)), Payload::GuildGone));
    stream.check(RelayMessage::Direct { session: key(52), event }, &["direct 52 VOICE_SERVER_UPDATE"]);
    stream.check(RelayMessage::Unavailable { session: key(99) }, &["unavailable 99"]);
    let request =
        Box::new(RequestGuildMembers { guild_ids: Vec::new(), query: MemberQuery::All, presences: false, nonce: None });
    let members: MemberTable = (1..=3).map(|n| Arc::new(member(n, &[]))).collect();
    stream.check(RelayMessage::Members { session: key(52), request, members }, &["members 52 3"]);
}

#[test]
fn the_messages_to_the_guild_name_the_relay() {
    let relay = Relay::new(GUILD, P, 7);
    assert!(matches!(relay.subscribe(), ToGuild::Subscribe { partition: P, epoch: 7 }));
    assert!(matches!(relay.unsubscribe(), ToGuild::Unsubscribe { partition: P, epoch: 7 }));
    assert!(matches!(relay.resync(), ToGuild::Resync { partition: P, epoch: 7 }));
    assert!(relay.audience().is_none());
}
