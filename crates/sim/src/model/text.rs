//! Expected content of a dispatch as text: key fields only, in a fixed order. `received.rs` makes the same of received
//! ones.

use super::{ChannelModel, State, event::Reader, passive::made_text, resource::notice_text, state::status_text};
use guildhall_guild_protocol::{HiddenChannels, ListChange, MessageEvent, Payload};
use guildhall_member_list::{Item, ListOp};
use guildhall_model::{
    Channel, Member, Message, Nonce,
    to_gateway::{MemberQuery, RequestGuildMembers},
};
use std::fmt::Write as _;

const GUILD_PRESENCES: u32 = 1 << 8;

pub(super) fn list<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(","))
}

fn message_text(message: &Message, is_redacted: bool) -> String {
    let (content, embeds, components) = match is_redacted {
        true => ("", 0, 0),
        false => (message.content.as_str(), message.embeds.len(), message.components.len()),
    };
    format!(
        "id={} channel={} author={} content={content:?} embeds={embeds} components={components} mentions={} edited={}",
        message.id,
        message.channel_id,
        message.author.id,
        list(message.mentions.iter().map(|user| user.id)),
        message.edited_timestamp.is_some(),
    )
}

/// `has_member`: the event contains the author's member.
pub(super) fn message_event_text(event: &MessageEvent, redaction: u8, has_member: bool) -> String {
    let mut text = message_text(&event.message, redaction & 1 != 0);
    match (&event.referenced, event.message.kind == Message::KIND_REPLY) {
        (Some(referenced), _) => {
            let _ = write!(text, " answers=({})", message_text(referenced, redaction & 2 != 0));
        }
        (None, true) => text.push_str(" answers=deleted"),
        (None, false) => {}
    }
    if let Some(author) = event.author.as_ref().filter(|_| has_member) {
        let _ = write!(text, " roles={}", list(author.roles.iter()));
    }
    match &event.message.nonce {
        Some(Nonce::Number(n)) => {
            let _ = write!(text, " nonce={n}");
        }
        Some(Nonce::Text(nonce)) => {
            let _ = write!(text, " nonce={nonce:?}");
        }
        None => {}
    }
    text
}

fn member_text(member: &Member) -> String {
    format!(
        "user={} nick={:?} roles={} silenced={}",
        member.user.id,
        member.nick.as_deref().unwrap_or(""),
        list(member.roles.iter()),
        member.communication_disabled_until.is_some()
    )
}

/// An obfuscated channel.
fn blank_text(id: u64, kind: u8, parent: u64, guild_id: u64) -> String {
    format!("id={id} type={kind} name=\"___hidden___\" parent={parent} overwrites=[0:{guild_id}+0-1024]")
}

/// A channel as the guild's last event left it.
pub fn stored_channel_text(id: u64, channel: &ChannelModel, is_blank: bool, guild_id: u64) -> String {
    let parent = channel.parent.unwrap_or(0);
    if is_blank {
        return blank_text(id, channel.kind, parent, guild_id);
    }
    let overwrites =
        channel.overwrites.iter().map(|o| format!("{}:{}+{}-{}", u8::from(o.is_member), o.id, o.allow, o.deny));
    format!("id={id} type={} name={:?} parent={parent} overwrites={}", channel.kind, channel.name, list(overwrites))
}

pub fn channel_text(channel: &Channel, is_blank: bool) -> String {
    if is_blank {
        let parent = channel.parent_id.map_or(0, |id| id.get());
        return blank_text(channel.id.get(), channel.kind as u8, parent, channel.guild_id.get());
    }
    let overwrites = channel.overwrites.iter().map(|o| {
        let (kind, id) = match o.target {
            guildhall_model::OverwriteKind::Role(id) => (0, id.get()),
            guildhall_model::OverwriteKind::Member(id) => (1, id.get()),
        };
        format!("{kind}:{id}+{}-{}", o.allow.0, o.deny.0)
    });
    let parent = channel.parent_id.map_or(0, |id| id.get());
    format!(
        "id={} type={} name={:?} parent={parent} overwrites={}",
        channel.id,
        channel.kind as u8,
        channel.name,
        list(overwrites)
    )
}

/// Expected content of an event.
pub fn payload_text(name: &str, payload: &Payload, redaction: u8, state: &State) -> String {
    let body = match payload {
        Payload::Backend(event) => event.name().to_owned(),
        Payload::Message(event) => message_event_text(event, redaction, true),
        Payload::MessageDelete { id, channel_id } => format!("id={id} channel={channel_id}"),
        Payload::Reaction(event) => format!(
            "user={} channel={} message={} emoji={:?} member={}",
            event.user_id,
            event.channel_id,
            event.message_id,
            event.emoji.name,
            event.member.is_some()
        ),
        Payload::ReactionsCleared { channel_id, message_id, emoji } => {
            let emoji = emoji.as_ref().map_or("", |emoji| &emoji.name);
            format!("channel={channel_id} message={message_id} emoji={emoji:?}")
        }
        Payload::Typing { channel_id, timestamp_s, member } => {
            format!("channel={channel_id} user={} at={timestamp_s}", member.user.id)
        }
        Payload::Presence { user_id, presence } => {
            format!("user={user_id} status={} activities={}", status_text(presence.status), presence.activities.len())
        }
        Payload::Voice { state, member } => {
            let channel = state.channel_id.map_or(0, |id| id.get());
            let member = member.is_some();
            format!(
                "user={} channel={channel} session={} mute={} deaf={} member={member}",
                state.user_id, state.session_id, state.mute, state.deaf
            )
        }
        Payload::VoiceServer { token, endpoint } => {
            format!("token={token} endpoint={:?}", endpoint.as_deref().unwrap_or(""))
        }
        Payload::Member(member) => member_text(member),
        Payload::MemberRemove(user) => format!("user={}", user.id),
        Payload::Guild(structure) => format!("name={:?} owner={}", structure.guild.name, structure.guild.owner_id),
        Payload::GuildGone => String::new(),
        Payload::Role(role) => format!("id={} permissions={} name={:?}", role.id, role.permissions.0, role.name),
        Payload::RoleDelete(id) => format!("id={id}"),
        Payload::Channel(channel) => channel_text(channel, false),
        Payload::PassiveDelta(_) | Payload::PassiveSnapshot(_) | Payload::Unread(_) => {
            return made_text(payload).unwrap_or_default();
        }
        Payload::Resource(resource) => notice_text(state, resource),
        Payload::MemberList(change) => list_text(change),
        Payload::ChannelMemberCount { channel_id, .. } => format!("channel={channel_id}"),
    };
    format!("{name} {body}")
}

/// GUILD_DELETE.
pub fn guild_delete_text(guild_id: u64, unavailable: bool) -> String {
    format!("GUILD_DELETE id={guild_id} unavailable={unavailable}")
}

/// Members, presences and voice states of a guild for one session.
pub struct People {
    pub members: String,
    pub presences: String,
    pub voice: String,
}

impl People {
    /// GUILD_CREATE, and READY in one part (docs/protocol/reference.md §6.11).
    pub fn of(state: &State, reader: Reader<'_>, large_threshold: u64) -> Self {
        let wants_presences = reader.is_bot && reader.intents & GUILD_PRESENCES != 0;
        let is_listed = |user: u64| {
            let member = &state.members[&user];
            let stands_out = state.presences.contains_key(&user) || !member.roles.is_empty() || member.nick.is_some();
            let is_small = state.members.len() as u64 <= large_threshold;
            user == reader.user
                || state.shows_in_voice(reader.user, user)
                || wants_presences && (is_small || stands_out)
        };
        Self::listed(state, reader, wants_presences, true, is_listed)
    }

    /// READY in two parts: the first (docs/protocol/reference.md §8.2).
    pub fn alone(state: &State, reader: Reader<'_>) -> Self {
        Self {
            voice: list(Vec::<String>::new()),
            ..Self::listed(state, reader, false, true, |user| user == reader.user)
        }
    }

    /// READY in two parts: the second. It has no roles, so roles of members are not compared.
    pub fn others(state: &State, reader: Reader<'_>) -> Self {
        Self::listed(state, reader, false, false, |user| user != reader.user && state.shows_in_voice(reader.user, user))
    }

    fn listed(
        state: &State,
        reader: Reader<'_>,
        with_presences: bool,
        with_roles: bool,
        is_listed: impl Fn(u64) -> bool,
    ) -> Self {
        let listed: Vec<u64> = state.members.keys().copied().filter(|user| is_listed(*user)).collect();
        let members = listed.iter().map(|user| {
            let member = &state.members[user];
            let roles: &[u64] = if with_roles { &member.roles } else { &[] };
            format!("{user}:{}:{}", member.nick.as_deref().unwrap_or(""), list(roles))
        });
        let presences = listed
            .iter()
            .filter(|_| with_presences)
            .filter_map(|user| state.presences.get(user).map(|(status, _)| format!("{user}:{status}")));
        let voice = state.voice.iter().filter(|(user, _)| state.shows_in_voice(reader.user, **user));
        let voice = voice.map(|(user, (channel, session))| format!("{user}:{channel}:{session}"));
        Self { members: list(members), presences: list(presences), voice: list(voice) }
    }
}

/// READY_SUPPLEMENTAL, in the form of a part of READY.
pub fn supplemental_text(guild: Option<(u64, &People)>) -> String {
    let people = guild.map(|(id, people)| {
        format!("id={id} members={} presences={} voice={}", people.members, people.presences, people.voice)
    });
    format!("READY_SUPPLEMENTAL guilds={}", list(people))
}

/// GUILD_CREATE, and a guild in a user's READY.
pub fn guild_create_text(
    state: &State,
    people: &People,
    reader: Reader<'_>,
    large_threshold: u64,
    hidden: HiddenChannels,
    now_unix_ms: i64,
) -> String {
    let channels = state.channels.iter().filter_map(|(id, channel)| {
        let is_viewed = state.viewers(*id).contains(&reader.user);
        match hidden {
            HiddenChannels::Absent if !is_viewed => return None,
            HiddenChannels::Obfuscated if !is_viewed => {
                let parent = channel.parent.unwrap_or(0);
                return Some(format!("{id}:{}:{parent}:0:[0:{}+0-1024]", channel.kind, state.guild_id));
            }
            _ => {}
        }
        let overwrites =
            channel.overwrites.iter().map(|o| format!("{}:{}+{}-{}", u8::from(o.is_member), o.id, o.allow, o.deny));
        let last = if is_viewed && holds_messages(channel.kind) {
            state.last_messages.get(id).copied().unwrap_or(0)
        } else {
            0
        };
        Some(format!("{id}:{}:{}:{last}:{}", channel.kind, channel.parent.unwrap_or(0), list(overwrites)))
    });
    let roles = state.roles.iter().map(|(id, permissions)| format!("{id}:{permissions}"));
    let threads = state.user_threads(reader.user, !reader.is_bot, None, now_unix_ms);
    let threads = threads.into_iter().map(|id| state.thread_text(id, reader.user));
    format!(
        "id={} name={:?} owner={} count={} large={} roles={} channels={} threads={} members={} presences={} voice={}",
        state.guild_id,
        state.name,
        state.owner,
        state.members.len(),
        state.members.len() as u64 > large_threshold,
        list(roles),
        list(channels),
        list(threads),
        people.members,
        people.presences,
        people.voice,
    )
}

fn list_text(change: &ListChange) -> String {
    let item = |item: &Item| match item {
        Item::Group(group) => format!("group {}:{}", group.id, group.count),
        Item::Member(member, presence) => {
            let status = presence.as_ref().map_or("offline", |presence| status_text(presence.status));
            format!("member {}:{status}", member.user.id)
        }
    };
    let op = |op: &ListOp| match op {
        ListOp::Sync { interval, items } => {
            format!("SYNC {}-{} {}", interval.first(), interval.last(), list(items.iter().map(item)))
        }
        ListOp::Insert { index, item: row } => format!("INSERT {index} {}", item(row)),
        ListOp::Update { index, item: row } => format!("UPDATE {index} {}", item(row)),
        ListOp::Delete { index } => format!("DELETE {index}"),
        ListOp::Invalidate { interval } => format!("INVALIDATE {}-{}", interval.first(), interval.last()),
    };
    format!(
        "id={} count={} online={} groups={} ops={}",
        change.list,
        change.member_count,
        change.online_count,
        list(change.groups.iter().map(|group| format!("{}:{}", group.id, group.count))),
        list(change.ops.iter().map(op))
    )
}

/// Text-like channels and voice channels with their chat (docs/protocol/reference.md §6.5).
fn holds_messages(kind: u8) -> bool {
    matches!(kind, 0 | 2 | 5 | 13)
}

/// Results of a member request, and requested ids that are no members.
pub fn found_members(
    state: &State,
    query: &MemberQuery,
    names: impl Fn(u64) -> Vec<String>,
    may_list: bool,
) -> (Vec<u64>, Vec<u64>) {
    match query {
        MemberQuery::All if !may_list => Default::default(),
        MemberQuery::All => (state.members.keys().copied().collect(), Vec::new()),
        MemberQuery::Ids(ids) => ids.iter().map(|id| id.get()).partition(|id| state.members.contains_key(id)),
        MemberQuery::Prefix { prefix, .. } => {
            let matches = |user: &u64| {
                let nick = state.members[user].nick.clone();
                let all = names(*user).into_iter().chain(nick);
                all.into_iter().any(|name| name.to_lowercase().starts_with(&prefix.to_lowercase()))
            };
            (state.members.keys().copied().filter(matches).collect(), Vec::new())
        }
    }
}

/// The only GUILD_MEMBERS_CHUNK that answers a request in a guild of at most a thousand members.
pub fn chunk_text(
    state: &State,
    reader: Reader<'_>,
    request: &RequestGuildMembers,
    found: &[u64],
    not_found: &[u64],
) -> String {
    let shows = request.presences && (!reader.is_bot || reader.intents & GUILD_PRESENCES != 0);
    let shown = found.iter().filter_map(|user| state.presences.get(user).map(|(status, _)| format!("{user}:{status}")));
    let shown = if shows { list(shown) } else { "none".to_owned() };
    format!(
        "GUILD_MEMBERS_CHUNK 0/1 nonce={:?} members={} not_found={} presences={shown}",
        request.nonce.as_deref().unwrap_or(""),
        list(found),
        list(not_found),
    )
}
