//! Large payloads for one session: a guild, a chunk of its members, the first rows of its member list.
//!
//! Invariants  built by the server's own functions: `guild_snapshot` and `guild_people`, `next_chunk`.

use crate::guild::GuildState;
use guildhall_codec::Encoding;
use guildhall_guild_protocol::{
    FoundMembers, GuildReplica, GuildView, HiddenChannels, MemberEntry, MemberTable, MembersAnswer, Redaction,
};
use guildhall_model::{
    AccountKind, Capabilities, Intents, UserId,
    from_gateway::{GatewayGuildBody, ReadyGuild, SessionsBody, UserReady},
};
use guildhall_relay::{ViewForm, guild_people, guild_snapshot};
use guildhall_session::{MemberRequest, next_chunk};
use guildhall_stdx::Rng;
use std::sync::Arc;

/// `large_threshold` that bots request and the default of user accounts.
const LARGE_THRESHOLD: u16 = 250;

/// READY of a user account that is a member of all of these guilds.
pub(crate) fn ready(guilds: &[GuildState], rng: &mut Rng, encoding: Encoding) -> Vec<u8> {
    let now = guildhall_stdx::Timestamp(0);
    let capabilities = Capabilities(0);
    let views: Vec<(GuildReplica, GuildView)> = guilds
        .iter()
        .map(|guild| {
            let mut replica = replica(guild);
            replica.last_message_ids = Arc::new(guild.newest().clone().into_iter().collect());
            let own = &guild.people[rng.below(guild.people.len() as u64) as usize].member;
            let version = rng.below(1 << 20);
            let view = GuildView {
                member: own.clone(),
                member_count: guild.member_count(),
                members: None,
                version,
                is_transferred: false,
            };
            (replica, view)
        })
        .collect();
    let user = guilds[0].people[0].member.user.clone();
    let session_id = format!("{:016x}{:016x}", rng.next_u64(), rng.next_u64());
    let guilds = views.iter().map(|(replica, view)| ReadyGuild::Complete {
        id: replica.id(),
        people: guild_people(replica, view),
        snapshot: move || guild_snapshot(replica, view, form(capabilities), now),
        shared: None,
    });
    let ready = UserReady {
        capabilities,
        user: &user,
        session_id: &session_id,
        resume_gateway_url: "wss://gateway.example.net",
        shard: None,
        sessions: SessionsBody { sessions: Vec::new() },
        guilds: guilds.collect(),
        directs: &[],
        relationships: &[],
        friend_presences: &[],
        settings_proto: "",
        read_states: Vec::new(),
        read_version: 0,
        notification_settings: Vec::new(),
    };
    let mut body = Vec::new();
    encoding.encode(&ready, &mut body).expect("READY is made of structs, strings and numbers, which always encode");
    body
}

fn replica(guild: &GuildState) -> GuildReplica {
    let mut replica = GuildReplica::new(guild.structure.clone());
    for who in guild.in_voice.keys() {
        if let Some(entry) = guild.voice_entry(*who) {
            replica.voice.insert(entry.state.user_id, entry);
        }
    }
    replica
}

/// GUILD_CREATE. Bots with the presence intent receive many members, others few.
pub(crate) fn guild_create(guild: &GuildState, rng: &mut Rng, encoding: Encoding) -> Vec<u8> {
    let mut replica = replica(guild);
    let newest = guild.recent.iter().map(|posted| (posted.message.channel_id, posted.message.id));
    replica.last_message_ids = Arc::new(newest.collect());
    let own = &guild.people[rng.below(guild.people.len() as u64) as usize].member;
    let members = rng.chance(0.1).then(|| (table(guild), LARGE_THRESHOLD));
    let view = GuildView {
        member: own.clone(),
        member_count: guild.member_count(),
        members,
        version: rng.below(1 << 20),
        is_transferred: false,
    };
    let snapshot = guild_snapshot(&replica, &view, form(Capabilities(0)), guildhall_stdx::Timestamp(0));
    let people = guild_people(&replica, &view);
    let mut body = Vec::new();
    encoding
        .encode(&GatewayGuildBody::event(Capabilities(0), &snapshot, &people), &mut body)
        .expect("a guild is made of structs, strings and numbers, which always encode");
    body
}

fn form(capabilities: Capabilities) -> ViewForm {
    let hidden = HiddenChannels::Listed;
    ViewForm { large_threshold: LARGE_THRESHOLD, capabilities, only_joined_threads: true, hidden }
}

fn table(guild: &GuildState) -> MemberTable {
    let mut table: MemberTable = guild.people.iter().map(|person| person.member.clone()).collect();
    for person in guild.people.iter().filter(|person| person.presence.is_some()) {
        table.set_presence(person.member.user.id, person.presence.clone());
    }
    table
}

/// GUILD_MEMBERS_CHUNK: some members in order, at most a thousand.
pub(crate) fn chunk(guild: &GuildState, rng: &mut Rng, encoding: Encoding) -> Vec<u8> {
    let count = [25, 100, 100, 1000][rng.below(4) as usize].min(guild.people.len());
    let first = rng.below((guild.people.len() - count + 1) as u64) as usize;
    let entries = guild.people[first..first + count].iter();
    let entries =
        entries.map(|person| MemberEntry { member: person.member.clone(), presence: person.presence.clone() });
    let answer = MembersAnswer {
        nonce: Some(format!("{:08x}", rng.next_u64() >> 32)),
        presences: rng.chance(0.5),
        members: FoundMembers::Some { entries: entries.collect(), not_found: Vec::new() },
    };
    let mut request = MemberRequest { guild_id: guild.id(), answer, chunk_index: 0, after: UserId::new(0) };
    let (dispatch, _) = next_chunk(Intents::GUILD_PRESENCES, AccountKind::User, encoding, &mut request);
    dispatch.frame(encoding, Redaction::None).body().to_vec()
}
