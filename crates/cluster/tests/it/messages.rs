//! Messages between a guild and its relays.

use crate::{
    events::events,
    examples::*,
    round_trip::{crossed, examples_of},
};
use guildhall_guild_protocol::{
    Canary, FoundMembers, GuildView, IntervalUpdate, ListUpdate, MembersAnswer, MembersWanted, PartitionId, Published,
    RelayId, RelayMessage, ReplicaUpdate, SessionKey, SessionPresence, ToGuild, ToRelay,
};
use guildhall_member_list::{Group, GroupId, Interval, Item, ListId, ListOp};
use guildhall_model::{
    AccountKind, Platform, Status,
    to_gateway::{MemberQuery, RequestGuildMembers, SearchRecentMembers, VoiceStateUpdate},
};
use std::sync::Arc;

pub const RELAY: RelayId = RelayId { partition: PartitionId(3), index: u16::MAX };
pub const SESSION: SessionKey = SessionKey { relay: RELAY, slot: 70_000, generation: u32::MAX };

fn session_presence(platform: Platform) -> SessionPresence {
    SessionPresence { status: Status::Idle, activities: [activity()].into(), platform }
}

pub fn intervals() -> Vec<Interval> {
    Interval::from_ranges([[0, 99], [100, 499], [u32::MAX.into(), u64::MAX]])
}

pub fn groups() -> Arc<[Group]> {
    [GroupId::Role(id(901)), GroupId::Online, GroupId::Offline].map(|id| Group { id, count: 70_000 }).into()
}

pub fn items() -> Arc<[Item]> {
    [Item::Group(groups()[1]), Item::Member(member(7), Some(presence())), Item::Member(member(8), None)].into()
}

pub fn list_ops() -> Vec<ListOp> {
    examples_of! { ListOp:
        Sync => ListOp::Sync { interval: intervals()[0], items: items() };
        Insert => ListOp::Insert { index: 5, item: items()[1].clone() };
        Update => ListOp::Update { index: usize::MAX, item: items()[0].clone() };
        Delete => ListOp::Delete { index: 0 };
        Invalidate => ListOp::Invalidate { interval: intervals()[1] };
    }
}

pub fn to_guild() -> Vec<ToGuild> {
    let attach = |members, kind, platform| ToGuild::Attach {
        is_restored: false,
        previous: None,
        session: SESSION,
        session_id: "0123456789abcdef".into(),
        user_id: id(7),
        kind,
        presence: session_presence(platform),
        members,
    };
    let request = |query| ToGuild::RequestMembers {
        session: SESSION,
        request: Box::new(RequestGuildMembers {
            guild_ids: vec![id(1), id(2)],
            query,
            presences: true,
            nonce: text("nonce"),
        }),
    };
    let mut examples = examples_of! { ToGuild:
        Subscribe => ToGuild::Subscribe { relay: RELAY, epoch: u32::MAX };
        Unsubscribe => ToGuild::Unsubscribe { relay: RELAY, epoch: 0 };
        CanaryReturned => ToGuild::CanaryReturned { relay: RELAY, number: 7 };
        Resync => ToGuild::Resync { relay: RelayId::first(PartitionId(0)), epoch: 2 };
        Attach => attach(MembersWanted::OwnAndVoice, AccountKind::Bot, Platform::Web);
        Detach => ToGuild::Detach { session: SESSION };
        Presence => ToGuild::Presence { session: SESSION, presence: session_presence(Platform::Mobile) };
        Voice => ToGuild::Voice { session: SESSION, update: VoiceStateUpdate {
            guild_id: None, channel_id: Some(id(100)), self_mute: true, self_deaf: false, self_video: true,
        } };
        RequestMembers => request(MemberQuery::All);
        RecentMembers => ToGuild::RecentMembers { session: SESSION, request: Box::new(SearchRecentMembers {
            guild_id: id(1), query: "an".to_owned(), continuation_token: Some(id(7)), nonce: None,
        }) };
        ListThread => ToGuild::ListThread { session: SESSION, thread_id: id(200) };
        CountMembers => ToGuild::CountMembers { session: SESSION, channel_id: id(100) };
        WantPresences => ToGuild::WantPresences { relay: RELAY, all: true };
        WatchMembers => ToGuild::WatchMembers { relay: RELAY, added: user_ids(), removed: Vec::new() };
        WatchList => ToGuild::WatchList {
            relay: RELAY, list: ListId::Hash(u32::MAX), channel_id: id(100), added: intervals(), removed: intervals(),
        };
        RequestPresences => ToGuild::RequestPresences { session: SESSION, user_ids: user_ids() };
    };
    let members = MembersWanted::ByThreshold { large_threshold: 250 };
    examples.push(attach(members, AccountKind::User, Platform::Embedded));
    if let ToGuild::Attach { session, session_id, user_id, kind, presence, members, .. } = examples[4].clone() {
        let previous = Some(SESSION);
        let is_restored = true;
        let transfer = ToGuild::Attach { session, session_id, user_id, kind, presence, members, is_restored, previous };
        examples.push(transfer);
    }
    examples.push(request(MemberQuery::Prefix { prefix: "an".to_owned(), limit: 100 }));
    examples.push(request(MemberQuery::Ids(user_ids())));
    examples
}

fn replica_updates() -> Vec<ReplicaUpdate> {
    let mut examples = examples_of! { ReplicaUpdate:
        None => ReplicaUpdate::None;
        Structure => ReplicaUpdate::Structure(structure(5));
        Member => ReplicaUpdate::Member(id(7), Some(member(7)));
        Message => ReplicaUpdate::Message(id(100), id(5_000));
        Voice => ReplicaUpdate::Voice(id(7), Some(voice(7)));
        Thread => ReplicaUpdate::Thread(id(200), Some(thread(200)));
        Deleted => ReplicaUpdate::Deleted;
    };
    examples.push(ReplicaUpdate::Member(id(7), None));
    examples.push(ReplicaUpdate::Voice(id(7), None));
    examples.push(ReplicaUpdate::Thread(id(200), None));
    examples
}

fn view(has_members: bool) -> GuildView {
    GuildView {
        member: member(7),
        member_count: 1_000_000,
        members: has_members.then(|| (table(3), 250)),
        version: u64::MAX,
        is_transferred: has_members,
    }
}

pub fn relay_messages() -> Vec<RelayMessage> {
    let event = || events().swap_remove(0);
    let answer = |members| RelayMessage::Members {
        session: SESSION,
        answer: Box::new(MembersAnswer { nonce: text("nonce"), presences: true, members }),
    };
    let mut examples = examples_of! { RelayMessage:
        Snapshot => RelayMessage::Snapshot { replica: replica(3, 2, 2), reset: true };
        Published => RelayMessage::Published(Arc::new(Published {
            event: event(), replica_update: ReplicaUpdate::Message(id(100), id(5_000)),
        }));
        Attached => RelayMessage::Attached { session: SESSION, view: Some(Box::new(view(true))) };
        Transferred => RelayMessage::Transferred { session: SESSION, user_id: id(7) };
        Unavailable => RelayMessage::Unavailable { session: SESSION };
        Direct => RelayMessage::Direct { session: SESSION, event: Arc::new(event()) };
        List => RelayMessage::List(Arc::new(ListUpdate {
            list: ListId::Everyone,
            member_count: 3,
            online_count: 2,
            groups: groups(),
            intervals: vec![IntervalUpdate { interval: intervals()[0], ops: list_ops(), rows: items() }],
        }));
        Canary => RelayMessage::Canary(Canary { number: 7, created_at_us: 1_700_000_000_000_000, members_count: 5_000 });
        Members => answer(FoundMembers::Whole(table(3)));
    };
    examples.push(RelayMessage::Attached { session: SESSION, view: None });
    examples.push(RelayMessage::Attached { session: SESSION, view: Some(Box::new(view(false))) });
    examples.push(answer(FoundMembers::Some { entries: vec![entry(7), entry(8)], not_found: user_ids() }));
    examples.extend(
        replica_updates()
            .into_iter()
            .map(|replica_update| RelayMessage::Published(Arc::new(Published { event: event(), replica_update }))),
    );
    examples
}

#[test]
fn messages_to_a_guild_cross() {
    to_guild().iter().for_each(|message| drop(crossed(message)));
}

#[test]
fn messages_to_a_relay_cross() {
    for message in relay_messages() {
        crossed(&ToRelay { guild_id: id(1), relay: RELAY, epoch: 7, seq: u64::MAX, message });
    }
}

#[test]
fn a_replica_of_ten_thousand_channels_crosses() {
    let message = RelayMessage::Snapshot { replica: replica(10_000, 1_000, 1_000), reset: false };
    let RelayMessage::Snapshot { replica: received, .. } = crossed(&message) else { panic!("another message") };
    assert_eq!(
        (received.structure.channels.len(), received.threads.len(), received.voice.len()),
        (10_000, 1_000, 1_000)
    );
}
