//! The stream from the guild: numbers, epochs, gaps, and what recipients hear when.

use crate::fixture::*;
use guildhall_guild_protocol::{
    AccessChange, AudienceRule, Event, FoundMembers, GuildReplica, GuildStructure, GuildView, MembersAnswer,
    PartitionId, Payload, Published, RelayId, RelayMessage, ReplicaUpdate, SessionKey, ToGuild, ToRelay, Visibility,
};
use guildhall_model::{ChannelType, EventName, GuildId, Intents, Member, OverwriteKind, Permissions, UserId};
use guildhall_relay::{Progress, Recipients, Relay, Subscriber, SubscriptionMask, ToGuilds};
use guildhall_stdx::Now;
use std::sync::Arc;

const RELAY: RelayId = RelayId { partition: PartitionId(4), index: 2 };
const INTERVAL_MS: u64 = 30_000;
const OPEN: u64 = 100;
const HIDDEN: u64 = 101;

/// Records everything it receives. Sessions are bots with all intents, or from 1,000 on without presences.
#[derive(Default)]
struct Notes(Vec<String>);

impl Recipients for Notes {
    type Delivering<'a> = EachDelivery<'a>;
    fn access_changed(&mut self, _guild_id: GuildId, _change: &AccessChange) {}
    fn access_began(&mut self, _guild_id: GuildId, _change: &dyn Fn() -> AccessChange) {}
    fn begin(&mut self, published: &Arc<Published>, _visibility: Visibility) -> EachDelivery<'_> {
        self.0.push(format!("begin {}", published.event.name.as_str()));
        EachDelivery::new(|slot, _, _| self.0.push(format!("deliver {slot}")))
    }
    fn attached(
        &mut self,
        session: SessionKey,
        _picture: &GuildReplica,
        view: Option<&GuildView>,
    ) -> Option<Subscriber> {
        self.0.push(format!("attached {} {}", session.slot, view.is_some()));
        let without = if session.slot < 1_000 { 0 } else { Intents::GUILD_PRESENCES.0 };
        view.map(|_| Subscriber { slot: session.slot, mask: SubscriptionMask::bot(Intents(Intents::ALL.0 & !without)) })
    }
    fn transferred(&mut self, session: SessionKey, _guild_id: GuildId) -> bool {
        self.0.push(format!("transferred {}", session.slot));
        true
    }
    fn unavailable(&mut self, session: SessionKey, _guild_id: GuildId) {
        self.0.push(format!("unavailable {}", session.slot));
    }
    fn lost(&mut self, slot: u32, _guild_id: GuildId) {
        self.0.push(format!("lost {slot}"));
    }
    fn reset(&mut self, slot: u32, _guild_id: GuildId) {
        self.0.push(format!("reset {slot}"));
    }
    fn direct(&mut self, session: SessionKey, event: &Arc<Event>) {
        self.0.push(format!("direct {} {}", session.slot, event.name.as_str()));
    }
    fn members(&mut self, session: SessionKey, _guild_id: GuildId, answer: &MembersAnswer) {
        let FoundMembers::Whole(members) = &answer.members else { panic!("the request was for all members") };
        self.0.push(format!("members {} {}", session.slot, members.len()));
    }
}

struct Stream {
    now: Now,
    relay: Relay,
    seq: u64,
    notes: Notes,
    to_guild: ToGuilds,
}

fn open_structure() -> Arc<GuildStructure> {
    let hide = overwrite(OverwriteKind::Role(id(1)), Permissions::NONE, Permissions::VIEW_CHANNEL);
    let channels = [channel(OPEN, ChannelType::Text, Vec::new()), channel(HIDDEN, ChannelType::Text, vec![hide])];
    structure(50, &[role(1, Permissions::VIEW_CHANNEL), role(21, Permissions::ADMINISTRATOR)], &channels)
}

fn key(slot: u32) -> SessionKey {
    SessionKey { relay: RELAY, slot, generation: 0 }
}

fn view(member: Member) -> GuildView {
    GuildView { member: Arc::new(member), member_count: 3, members: None, version: 1, is_transferred: false }
}

fn published(rule: AudienceRule, replica_update: ReplicaUpdate) -> RelayMessage {
    let event = Event::new(GUILD, EventName::MessageDelete, rule, Payload::GuildGone);
    RelayMessage::Published(Arc::new(Published { event, replica_update }))
}

fn snapshot(reset: bool) -> RelayMessage {
    RelayMessage::Snapshot { replica: GuildReplica::new(open_structure()), reset }
}

fn attached(slot: u32, user: u64) -> RelayMessage {
    RelayMessage::Attached { session: key(slot), view: Some(Box::new(view(member(user, &[])))) }
}

fn users(ids: &[u64]) -> Vec<UserId> {
    ids.iter().copied().map(UserId::new).collect()
}

/// A relay's messages to its guild, in words; ids in numeric order.
fn words(messages: ToGuilds) -> Vec<String> {
    let list = |mut ids: Vec<UserId>| {
        ids.sort_unstable();
        ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let word = |message| match message {
        ToGuild::WantPresences { relay: RELAY, all } => format!("want {all}"),
        ToGuild::WatchMembers { relay: RELAY, added, removed } => format!("watch +{} -{}", list(added), list(removed)),
        ToGuild::RequestPresences { session, user_ids } => format!("tell {} {}", session.slot, list(user_ids)),
        other => panic!("not about interests: {other:?}"),
    };
    messages.into_iter().map(word).collect()
}

impl Stream {
    fn new() -> Self {
        let relay = Relay::new(GUILD, RELAY, 1, INTERVAL_MS);
        Self { now: Now::default(), relay, seq: 0, notes: Notes::default(), to_guild: ToGuilds::new() }
    }

    /// With a snapshot, and users 52 and 54 in it under their ids.
    fn started() -> Self {
        let mut stream = Self::new();
        assert_eq!(stream.next(snapshot(false)), Progress::Steady);
        for user in [52, 54] {
            stream.next(attached(user as u32, user));
        }
        assert_eq!(words(std::mem::take(&mut stream.to_guild)), ["want true"]);
        stream.take();
        stream
    }

    fn say(&mut self, epoch: u32, seq: u64, message: RelayMessage) -> Progress {
        let message = ToRelay { guild_id: GUILD, relay: RELAY, epoch, seq, message };
        self.relay.handle(self.now, message, &mut self.notes, &mut self.to_guild)
    }

    fn next(&mut self, message: RelayMessage) -> Progress {
        self.seq += 1;
        self.say(1, self.seq, message)
    }

    /// Messages to the guild that the next message causes.
    fn says(&mut self, message: RelayMessage) -> Vec<String> {
        self.next(message);
        words(std::mem::take(&mut self.to_guild))
    }

    fn watch(&mut self, user: u64, slot: u32, members: &[u64]) -> Vec<String> {
        words(self.relay.watch_members(key(slot), UserId::new(user), users(members).into()))
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
fn r1_a_gap_is_reported_and_ends_with_a_snapshot() {
    let mut stream = Stream::started();
    let message = || published(AudienceRule::Members, ReplicaUpdate::None);
    let seq = stream.seq;
    assert_eq!(stream.say(1, seq + 2, message()), Progress::Gap);
    assert_eq!(stream.say(1, seq + 3, message()), Progress::Steady, "the gap was reported already");
    stream.now = Now::new(999, 0);
    assert_eq!(stream.say(1, seq + 4, message()), Progress::Steady);
    stream.now = Now::new(1_000, 0);
    assert_eq!(stream.say(1, seq + 5, message()), Progress::Gap, "that led to nothing");
    assert_eq!(stream.say(1, seq + 1, snapshot(true)), Progress::Restarted);
    assert_eq!(stream.take(), ["reset 52", "reset 54"], "nothing was delivered past the gap");
    assert_eq!(stream.say(1, seq + 2, message()), Progress::Steady);
    assert_eq!(stream.take(), ["begin MESSAGE_DELETE"], "no session is attached");
    assert_eq!(stream.say(1, seq + 9, message()), Progress::Gap, "a new gap is reported at once");
}

#[test]
fn r1_a_snapshot_takes_up_the_stream_wherever_it_is() {
    for seq in [1, 3, 4, 1_000] {
        let mut stream = Stream::started();
        assert_eq!(stream.say(1, seq, snapshot(true)), Progress::Restarted);
        assert_eq!(stream.take(), ["reset 52", "reset 54"]);
        assert_eq!(stream.say(1, seq + 1, published(AudienceRule::Members, ReplicaUpdate::None)), Progress::Steady);
        assert_eq!(stream.take(), ["begin MESSAGE_DELETE"]);
    }
}

#[test]
fn r1_what_was_seen_before_is_dropped() {
    let mut stream = Stream::started();
    for seq in 0..=stream.seq {
        assert_eq!(stream.say(1, seq, published(AudienceRule::Members, ReplicaUpdate::None)), Progress::Steady);
    }
    assert_eq!(stream.take(), Vec::<String>::new());
}

#[test]
fn p2_another_epoch_is_not_ours() {
    let mut stream = Stream::started();
    for epoch in [0, 2] {
        let seq = stream.seq + 1;
        assert_eq!(stream.say(epoch, seq, published(AudienceRule::Members, ReplicaUpdate::None)), Progress::Steady);
        assert_eq!(stream.say(epoch, 1, snapshot(true)), Progress::Steady);
        assert_eq!(stream.say(epoch, 99, published(AudienceRule::Members, ReplicaUpdate::None)), Progress::Steady);
    }
    assert_eq!(stream.take(), Vec::<String>::new());
    stream.check(
        published(AudienceRule::Members, ReplicaUpdate::None),
        &["begin MESSAGE_DELETE", "deliver 52", "deliver 54"],
    );
}

#[test]
fn r2_nothing_before_attached_and_everything_after() {
    let mut stream = Stream::new();
    stream.next(snapshot(false));
    stream.check(published(AudienceRule::Members, ReplicaUpdate::None), &["begin MESSAGE_DELETE"]);
    stream.check(attached(52, 52), &["attached 52 true"]);
    stream.check(RelayMessage::Attached { session: key(54), view: None }, &["attached 54 false"]);
    stream.check(published(AudienceRule::Members, ReplicaUpdate::None), &["begin MESSAGE_DELETE", "deliver 52"]);
    assert_eq!(stream.relay.sessions_count(), 1);
    stream.relay.detach(id(52), 52);
    stream.check(published(AudienceRule::Members, ReplicaUpdate::None), &["begin MESSAGE_DELETE"]);
}

#[test]
fn r3_effects_come_before_their_event() {
    let mut stream = Stream::started();
    let hidden = || AudienceRule::Channel(id(HIDDEN));
    stream.check(published(hidden(), ReplicaUpdate::None), &["begin MESSAGE_DELETE"]);
    // A user who gains access by an event receives it; one who loses access does not.
    let admin = Arc::new(member(52, &[21]));
    let gained = ReplicaUpdate::Member(id(52), Some(admin));
    stream.check(published(hidden(), gained), &["begin MESSAGE_DELETE", "deliver 52"]);
    let plain = ReplicaUpdate::Member(id(52), Some(Arc::new(member(52, &[]))));
    stream.check(published(hidden(), plain), &["begin MESSAGE_DELETE"]);

    let mut shown = GuildStructure::clone(&open_structure());
    Arc::make_mut(&mut shown.channels).insert(id(HIDDEN), channel(HIDDEN, ChannelType::Text, Vec::new()));
    let replica_update = ReplicaUpdate::Structure(Arc::new(shown));
    stream.check(published(hidden(), replica_update), &["begin MESSAGE_DELETE", "deliver 52", "deliver 54"]);
    stream.check(published(hidden(), ReplicaUpdate::Structure(open_structure())), &["begin MESSAGE_DELETE"]);
}

#[test]
fn a_leaving_member_loses_the_guild_before_the_event_is_delivered() {
    let mut stream = Stream::started();
    let left = ReplicaUpdate::Member(id(52), None);
    stream.check(published(AudienceRule::Members, left), &["lost 52", "begin MESSAGE_DELETE", "deliver 54"]);
    assert!(stream.relay.audience().is_some_and(|audience| audience.member(UserId::new(52)).is_none()));
    let stranger = ReplicaUpdate::Member(id(999), None);
    stream.check(published(AudienceRule::Members, stranger), &["begin MESSAGE_DELETE", "deliver 54"]);
}

#[test]
fn a_deleted_guild_is_lost_by_all() {
    let mut stream = Stream::started();
    stream.check(published(AudienceRule::Members, ReplicaUpdate::Deleted), &["lost 52", "lost 54"]);
    stream.check(published(AudienceRule::Members, ReplicaUpdate::None), &["begin MESSAGE_DELETE"]);
}

#[test]
fn what_concerns_one_session_goes_to_it() {
    let mut stream = Stream::started();
    let event =
        Arc::new(Event::new(GUILD, EventName::VoiceServerUpdate, AudienceRule::User(id(52)), Payload::GuildGone));
    stream.check(RelayMessage::Direct { session: key(52), event }, &["direct 52 VOICE_SERVER_UPDATE"]);
    stream.check(RelayMessage::Unavailable { session: key(99) }, &["unavailable 99"]);
    let members = FoundMembers::Whole((1..=3).map(|n| Arc::new(member(n, &[]))).collect());
    let answer = Box::new(MembersAnswer { nonce: None, presences: false, members });
    stream.check(RelayMessage::Members { session: key(52), answer }, &["members 52 3"]);
}

#[test]
fn the_messages_to_the_guild_name_the_relay() {
    let relay = Relay::new(GUILD, RELAY, 7, INTERVAL_MS);
    assert!(matches!(relay.subscribe(), ToGuild::Subscribe { relay: RELAY, epoch: 7 }));
    assert!(matches!(relay.unsubscribe(), ToGuild::Unsubscribe { relay: RELAY, epoch: 7 }));
    assert!(matches!(relay.resync(), ToGuild::Resync { relay: RELAY, epoch: 7 }));
    assert!(relay.audience().is_none() && relay.interests().is_empty() && relay.next_deadline().is_none());
    assert_eq!((relay.id(), relay.epoch(), relay.sessions_count()), (RELAY, 7, 0));
}

#[test]
fn a_stream_that_begins_again_lets_everybody_in_anew() {
    // Whether the guild knows of a loss, or of nothing because it began again itself.
    for reset in [true, false] {
        let mut stream = Stream::started();
        stream.watch(52, 52, &[7]);
        assert_eq!(stream.says(snapshot(reset)), ["want false"], "until they are back");
        assert_eq!(stream.take(), ["reset 52", "reset 54"]);
        assert_eq!(stream.relay.sessions_count(), 0);
        // Subscriptions survive, as do the sessions; readers of presences are counted again.
        assert_eq!(words(stream.relay.interests()), ["watch +7 -"]);
        assert_eq!(stream.says(attached(52, 52)), ["want true", "tell 52 7"]);
        assert_eq!(words(stream.relay.interests()), ["watch +7 -"]);
    }
    // A relay without sessions repeats the pending attaches.
    let mut stream = Stream::new();
    assert_eq!(stream.next(snapshot(false)), Progress::Steady);
    assert_eq!(stream.next(snapshot(false)), Progress::Restarted);
    let mut stream = Stream::new();
    assert_eq!(stream.next(snapshot(true)), Progress::Restarted, "the first one was lost");
}

#[test]
fn r1_before_the_first_snapshot_everything_is_a_gap() {
    let mut stream = Stream::new();
    assert_eq!(stream.say(1, 2, published(AudienceRule::Members, ReplicaUpdate::None)), Progress::Gap);
    assert_eq!(stream.say(1, 1, attached(52, 52)), Progress::Gap, "there is nothing to attach to");
    assert_eq!(stream.take(), Vec::<String>::new());
}

#[test]
fn the_guild_hears_of_the_first_session_that_wants_presences_and_of_the_last() {
    let none = Vec::<String>::new();
    let mut stream = Stream::new();
    stream.next(snapshot(false));
    assert_eq!(stream.says(attached(1_000, 50)), none, "it does not want them");
    assert_eq!(words(stream.relay.interests()), none);
    assert_eq!(stream.says(attached(52, 52)), ["want true"]);
    assert_eq!(stream.says(attached(53, 52)), none);
    assert_eq!(words(stream.relay.detach(id(50), 1_000)), none);
    assert_eq!(words(stream.relay.detach(id(52), 52)), none);
    assert_eq!(words(stream.relay.detach(id(52), 52)), none, "a second time changes nothing");
    assert_eq!(words(stream.relay.detach(id(52), 53)), ["want false"]);
    assert_eq!(words(stream.relay.interests()), none);
    assert_eq!(stream.says(attached(54, 54)), ["want true"]);
    // Its member leaves; or the guild is deleted.
    assert_eq!(stream.says(published(AudienceRule::Members, ReplicaUpdate::Member(id(54), None))), ["want false"]);
    assert_eq!(stream.says(attached(54, 54)), ["want true"]);
    assert_eq!(
        stream.says(published(AudienceRule::Members, ReplicaUpdate::Deleted)),
        none,
        "the relay has no sessions"
    );
    assert_eq!(words(stream.relay.interests()), none);
}

#[test]
fn the_guild_hears_which_members_are_watched() {
    let none = Vec::<String>::new();
    let mut stream = Stream::started();
    assert_eq!(stream.watch(52, 52, &[7, 8, 8]), ["watch +7 8 -", "tell 52 7 8"]);
    assert_eq!(
        stream.watch(54, 54, &[8, 9]),
        ["watch +9 -", "tell 54 8 9"],
        "each session receives the presences that it did not have"
    );
    assert_eq!(stream.watch(54, 54, &[8, 9]), none);
    assert_eq!(stream.watch(52, 52, &[7]), none, "another still watches");
    let mut about_eight = |name| {
        let event = Event::new(GUILD, name, AudienceRule::Members, Payload::GuildGone).about(UserId::new(8));
        stream.next(RelayMessage::Published(Arc::new(Published { event, replica_update: ReplicaUpdate::None })));
        stream.take()
    };
    // Bots that receive it by their intents receive it once.
    assert_eq!(about_eight(EventName::PresenceUpdate), ["begin PRESENCE_UPDATE", "deliver 52", "deliver 54"]);
    assert_eq!(words(stream.relay.interests()), ["watch +7 8 9 -"]);
    assert_eq!(words(stream.relay.detach(id(54), 54)), ["watch + -8 9"]);
    // A watcher who leaves stops watching; a watched user who leaves stays watched, since watchers may see them return.
    assert_eq!(stream.says(published(AudienceRule::Members, ReplicaUpdate::Member(id(7), None))), none);
    assert_eq!(words(stream.relay.interests()), ["watch +7 -"]);
    assert_eq!(
        stream.says(published(AudienceRule::Members, ReplicaUpdate::Member(id(52), None))),
        ["want false", "watch + -7"],
        "the last session"
    );
    assert_eq!(words(stream.relay.interests()), none);
}

#[test]
fn a_session_that_leaves_during_a_resync_stops_watching() {
    let mut stream = Stream::started();
    stream.watch(52, 52, &[7]);
    stream.next(snapshot(true));
    assert_eq!(words(stream.relay.detach(id(52), 52)), ["watch + -7"]);
    assert_eq!(words(stream.relay.interests()), Vec::<String>::new());
}

#[test]
fn watches_set_before_the_attach_take_effect_with_it() {
    let mut stream = Stream::started();
    assert_eq!(stream.watch(56, 56, &[7, 8]), ["watch +7 8 -"]);
    assert_eq!(stream.says(attached(56, 56)), ["tell 56 7 8"]);
    assert_eq!(stream.watch(57, 57, &[9]), ["watch +9 -"]);
    // It left before.
    assert_eq!(words(stream.relay.detach(id(57), 57)), ["watch + -9"]);
}
