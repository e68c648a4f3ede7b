//! Permissions at replay: a session may have lost access to sent dispatches before it resumes.

use crate::fixture::*;
use guildhall_guild_protocol::{
    AccessChange, AudienceRule, Event, GuildReplica, GuildStructure, GuildView, MembersAnswer, PartitionId, Payload,
    Published, RelayId, RelayMessage, ReplicaUpdate, SessionKey, ToRelay, Visibility, VoiceEntry,
};
use guildhall_model::{
    ChannelId, ChannelType, EventName, GuildId, MessageId, OverwriteKind, PassiveUpdate, Permissions, UserId,
    VoiceState,
};
use guildhall_relay::{Recipients, Relay, Replayed, Subscriber, SubscriptionMask, ToGuilds, UserSubscriptions};
use guildhall_stdx::Now;
use std::sync::Arc;

const RELAY: RelayId = RelayId::first(PartitionId(0));
/// Sees the club by her role; watches it live, and a second session is passive.
const ANA: UserId = UserId::new(53);
const OWNER: UserId = UserId::new(51);
const HALL: ChannelId = ChannelId::new(100);
/// For holders of the role only.
const CLUB: ChannelId = ChannelId::new(101);
/// Its voice channel.
const BAR: ChannelId = ChannelId::new(102);
const ROLE: u64 = 21;

/// Keeps what a session was sent, as its replay buffer does.
#[derive(Default)]
struct Buffers {
    sent: Vec<(u32, Arc<Published>)>,
}

impl Recipients for Buffers {
    type Delivering<'a> = EachDelivery<'a>;
    fn access_changed(&mut self, _guild_id: GuildId, _change: &AccessChange) {}
    fn access_began(&mut self, _guild_id: GuildId, _change: &dyn Fn() -> AccessChange) {}
    fn begin(&mut self, published: &Arc<Published>, _visibility: Visibility) -> EachDelivery<'_> {
        let published = published.clone();
        EachDelivery::new(move |slot, _, _| self.sent.push((slot, published.clone())))
    }
    fn attached(
        &mut self,
        session: SessionKey,
        _picture: &GuildReplica,
        view: Option<&GuildView>,
    ) -> Option<Subscriber> {
        let active = session.slot == LOOKING;
        let user = UserSubscriptions {
            active,
            typing: active,
            member_updates: true,
            passive: PassiveUpdate::Delta,
            ..UserSubscriptions::default()
        };
        view.map(|_| Subscriber { slot: session.slot, mask: SubscriptionMask::user(user) })
    }
    fn transferred(&mut self, _session: SessionKey, _guild_id: GuildId) -> bool {
        true
    }
    fn unavailable(&mut self, _session: SessionKey, _guild_id: GuildId) {}
    fn lost(&mut self, _slot: u32, _guild_id: GuildId) {}
    fn reset(&mut self, _slot: u32, _guild_id: GuildId) {}
    fn direct(&mut self, _session: SessionKey, _event: &Arc<Event>) {}
    fn members(&mut self, _session: SessionKey, _guild_id: GuildId, _answer: &MembersAnswer) {}
}

const LOOKING: u32 = 1;
const PASSIVE: u32 = 2;

struct Guild {
    relay: Relay,
    seq: u64,
    buffers: Buffers,
}

fn club_structure(is_shown_to_the_role: bool) -> Arc<GuildStructure> {
    let everyone = overwrite(OverwriteKind::Role(id(1)), Permissions::NONE, Permissions::VIEW_CHANNEL);
    let insiders = overwrite(OverwriteKind::Role(id(ROLE)), Permissions::VIEW_CHANNEL, Permissions::NONE);
    let overwrites = || if is_shown_to_the_role { vec![everyone, insiders] } else { vec![everyone] };
    let channels = [
        channel(HALL.get(), ChannelType::Text, Vec::new()),
        channel(CLUB.get(), ChannelType::Text, overwrites()),
        channel(BAR.get(), ChannelType::Voice, overwrites()),
    ];
    structure(OWNER.get(), &[role(1, Permissions::VIEW_CHANNEL), role(ROLE, Permissions::NONE)], &channels)
}

fn in_voice(user_id: UserId, channel_id: Option<ChannelId>) -> VoiceState {
    VoiceState { channel_id, session_id: "s".to_owned(), ..VoiceState::new(user_id) }
}

impl Guild {
    /// In which Ana's two sessions were sent something of each kind.
    fn eventful() -> Self {
        let mut guild = Self { relay: Relay::new(GUILD, RELAY, 1, 1_000), seq: 0, buffers: Buffers::default() };
        guild.say(RelayMessage::Snapshot { replica: GuildReplica::new(club_structure(true)), reset: false });
        for slot in [LOOKING, PASSIVE] {
            let member = Arc::new(member(ANA.get(), &[ROLE]));
            let view = GuildView { member, member_count: 2, members: None, version: 1, is_transferred: false };
            let session = SessionKey { relay: RELAY, slot, generation: 0 };
            guild.say(RelayMessage::Attached { session, view: Some(Box::new(view)) });
        }
        for (channel, message) in [(HALL, 1), (CLUB, 2)] {
            let event = said_in(channel, MessageId::new(message), OWNER, &[], false);
            guild.publish(event, ReplicaUpdate::Message(channel, MessageId::new(message)));
        }
        // The club called Ana: her passive session got that message at once.
        let event = said_in(CLUB, MessageId::new(3), OWNER, &[ANA], false);
        guild.publish(event, ReplicaUpdate::Message(CLUB, MessageId::new(3)));
        guild.voice(OWNER, Some(BAR));
        guild.timer(10_000);
        guild.voice(ANA, Some(BAR));
        guild.voice(OWNER, None);
        guild.voice(ANA, None);
        guild.timer(20_000);
        let event = said_in(HALL, MessageId::new(4), OWNER, &[], false);
        guild.publish(event, ReplicaUpdate::Message(HALL, MessageId::new(4)));
        guild.timer(30_000);
        guild
    }

    fn say(&mut self, message: RelayMessage) {
        self.seq += 1;
        let message = ToRelay { guild_id: GUILD, relay: RELAY, epoch: 1, seq: self.seq, message };
        self.relay.handle(Now::new(0, NOW.0), message, &mut self.buffers, &mut ToGuilds::new());
    }

    fn publish(&mut self, event: Event, replica_update: ReplicaUpdate) {
        self.say(RelayMessage::Published(Arc::new(Published { event, replica_update })));
    }

    /// Into a channel, or out of the bar.
    fn voice(&mut self, user_id: UserId, channel_id: Option<ChannelId>) {
        let state = Arc::new(in_voice(user_id, channel_id));
        let entry =
            channel_id.map(|_| VoiceEntry { state: state.clone(), member: Arc::new(member(user_id.get(), &[])) });
        let payload = Payload::Voice { state, member: None };
        let rule = AudienceRule::Channel(channel_id.unwrap_or(BAR));
        let event = Event::new(GUILD, EventName::VoiceStateUpdate, rule, payload).always_to(user_id);
        self.publish(event, ReplicaUpdate::Voice(user_id, entry));
    }

    fn timer(&mut self, now_ms: u64) {
        self.relay.handle_timer(Now::new(now_ms, NOW.0), &mut self.buffers);
    }

    fn member(&mut self, roles: Option<&[u64]>) {
        let after = roles.map(|roles| Arc::new(member(ANA.get(), roles)));
        let event = Event::new(GUILD, EventName::GuildMemberUpdate, AudienceRule::Members, Payload::GuildGone);
        self.publish(event, ReplicaUpdate::Member(ANA, after));
    }

    fn structure(&mut self, structure: Arc<GuildStructure>) {
        let event = Event::new(GUILD, EventName::ChannelUpdate, AudienceRule::Members, Payload::GuildGone);
        self.publish(event, ReplicaUpdate::Structure(structure));
    }

    /// Dispatches that a session was sent, and those that a replay would send again.
    fn replayed(&self, slot: u32, sent: usize) -> Vec<String> {
        let audience = self.relay.audience().expect("there was a snapshot");
        let of_slot = self.buffers.sent[..sent].iter().filter(|(to, _)| *to == slot);
        of_slot
            .filter_map(|(_, published)| match audience.may_see(ANA, &published.event, NOW) {
                true => Some(text(&published.event)),
                false => {
                    self.relay.rebuild_for_replay(ANA, Replayed::Event(&published.event), NOW).map(|rest| text(&rest))
                }
            })
            .collect()
    }

    fn sent(&self) -> usize {
        self.buffers.sent.len()
    }
}

fn text(event: &Event) -> String {
    match &event.payload {
        Payload::Message(event) => format!("message {} in {}", event.message.id, event.message.channel_id),
        Payload::Voice { state, .. } => match state.channel_id {
            Some(channel_id) => format!("{} joins {channel_id}", state.user_id),
            None => format!("{} leaves", state.user_id),
        },
        Payload::PassiveDelta(delta) => {
            let channels = delta.channels.iter().map(|(id, _)| format!(" {id}"));
            let voice = delta.voice.iter().map(|entry| format!(" +{}", entry.state.user_id));
            let left = delta.left.iter().map(|user_id| format!(" -{user_id}"));
            format!("update{}", channels.chain(voice).chain(left).collect::<String>())
        }
        other => panic!("not sent here: {other:?}"),
    }
}

const LIVE: [&str; 8] = [
    "message 1 in 100",
    "message 2 in 101",
    "message 3 in 101",
    "51 joins 102",
    "53 joins 102",
    "51 leaves",
    "53 leaves",
    "message 4 in 100",
];
const TOLD: [&str; 6] =
    ["message 3 in 101", "update 100 101 +51", "53 joins 102", "53 leaves", "update -51", "update 100"];

#[test]
fn while_nothing_changed_everything_is_sent_again() {
    let guild = Guild::eventful();
    assert_eq!(guild.replayed(LOOKING, guild.sent()), LIVE);
    assert_eq!(guild.replayed(PASSIVE, guild.sent()), TOLD);
}

/// After a change that takes the club from Ana, and one that gives it back.
fn check_club_is_lost(take: impl Fn(&mut Guild), give: impl Fn(&mut Guild)) {
    let mut guild = Guild::eventful();
    let sent = guild.sent();
    take(&mut guild);
    // She may receive dispatches about herself.
    assert_eq!(
        guild.replayed(LOOKING, sent),
        ["message 1 in 100", "51 leaves", "53 joins 102", "51 leaves", "53 leaves", "message 4 in 100"],
        "nothing of the club"
    );
    // The visible part of an update is sent. It does not mention the user who left, because that would reveal the
    // channel.
    let rest = ["update 100 -51", "53 joins 102", "53 leaves", "update -51", "update 100"];
    assert_eq!(guild.replayed(PASSIVE, sent), rest);
    give(&mut guild);
    assert_eq!(guild.replayed(LOOKING, sent), LIVE);
    assert_eq!(guild.replayed(PASSIVE, sent), TOLD);
}

#[test]
fn replay_withholds_events_visible_only_through_a_lost_role() {
    check_club_is_lost(|guild| guild.member(Some(&[])), |guild| guild.member(Some(&[ROLE])));
}

#[test]
fn replay_withholds_messages_of_a_hidden_channel() {
    check_club_is_lost(|guild| guild.structure(club_structure(false)), |guild| guild.structure(club_structure(true)));
}

#[test]
fn a_role_that_was_deleted_shows_nothing_any_more() {
    let without_role = |guild: &mut Guild| {
        let mut structure = GuildStructure::clone(&club_structure(true));
        Arc::make_mut(&mut structure.roles).remove(&id(ROLE));
        // As the guild does: the overwrites of a role go with it.
        for channel in Arc::make_mut(&mut structure.channels).values_mut() {
            Arc::make_mut(channel).overwrites.retain(|o| o.target != OverwriteKind::Role(id(ROLE)));
        }
        guild.structure(Arc::new(structure));
    };
    check_club_is_lost(without_role, |guild| guild.structure(club_structure(true)));
}

#[test]
fn replay_withholds_messages_of_a_deleted_channel() {
    let mut guild = Guild::eventful();
    let sent = guild.sent();
    let mut structure = GuildStructure::clone(&club_structure(true));
    Arc::make_mut(&mut structure.channels).remove(&CLUB);
    guild.structure(Arc::new(structure));
    let live: Vec<&str> = LIVE.into_iter().filter(|text| !text.ends_with("101")).collect();
    assert_eq!(guild.replayed(LOOKING, sent), live);
}

#[test]
fn replay_corrects_the_channel_of_a_user_who_moved_out_of_view() {
    let mut guild = Guild::eventful();
    let before = guild.sent();
    guild.voice(OWNER, Some(HALL));
    guild.voice(OWNER, Some(BAR));
    let sent = guild.sent();
    guild.member(Some(&[]));
    let voice = |guild: &Guild| {
        let all = guild.replayed(LOOKING, sent);
        all[guild.replayed(LOOKING, before).len()..].to_vec()
    };
    assert_eq!(voice(&guild), ["51 joins 100", "51 leaves"]);
    guild.voice(OWNER, Some(HALL));
    assert_eq!(voice(&guild), ["51 joins 100", "51 joins 100"], "as it is now");
}

#[test]
fn replay_withholds_all_events_from_a_removed_member() {
    let mut guild = Guild::eventful();
    let sent = guild.sent();
    guild.member(None);
    assert_eq!(guild.replayed(LOOKING, sent), Vec::<String>::new());
    assert_eq!(guild.replayed(PASSIVE, sent), Vec::<String>::new());
}

#[test]
fn of_a_guild_that_was_deleted_nothing_is_sent() {
    let mut guild = Guild::eventful();
    let sent = guild.sent();
    let event = Event::new(GUILD, EventName::GuildDelete, AudienceRule::Members, Payload::GuildGone);
    guild.publish(event, ReplicaUpdate::Deleted);
    assert_eq!(guild.replayed(LOOKING, sent), Vec::<String>::new());
    assert_eq!(guild.replayed(PASSIVE, sent), Vec::<String>::new());
}

#[test]
fn a_move_to_a_hidden_channel_is_visible_to_viewers_of_the_old_one() {
    let mut guild = Guild::eventful();
    guild.voice(OWNER, Some(BAR));
    let before = guild.sent();
    // The owner moves to a room that no other member can view.
    let room = ChannelId::new(103);
    let left = Payload::Voice { state: Arc::new(in_voice(OWNER, None)), member: None };
    let event = Event::new(GUILD, EventName::VoiceStateUpdate, AudienceRule::ChannelExcept(BAR, room), left);
    guild.publish(event, ReplicaUpdate::None);
    let to_her: Vec<&Arc<Published>> = guild.buffers.sent[before..].iter().map(|(_, published)| published).collect();
    let [published] = to_her[..] else { panic!("her session that looks got it") };
    let may_see = |guild: &Guild| guild.relay.audience().expect("begun").may_see(ANA, &published.event, NOW);
    assert!(may_see(&guild));
    let published = published.clone();
    guild.member(Some(&[]));
    assert!(!guild.relay.audience().expect("begun").may_see(ANA, &published.event, NOW), "she cannot view the bar now");
}
