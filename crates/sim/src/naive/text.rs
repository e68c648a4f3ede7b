//! What a dispatch has to say, as text: key fields only, in a fixed order. `got.rs` makes the same of what came.

use super::{State, event::Reader, state::status_text};
use guildhall_model::{
    Channel, Member, Message, Nonce,
    to_gateway::{MemberQuery, RequestGuildMembers},
};
use guildhall_relay::{MessageEvent, Payload};
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

fn message_event_text(event: &MessageEvent, redaction: u8) -> String {
    let mut text = message_text(&event.message, redaction & 1 != 0);
    match (&event.referenced, event.message.kind == Message::KIND_REPLY) {
        (Some(referenced), _) => {
            let _ = write!(text, " answers=({})", message_text(referenced, redaction & 2 != 0));
        }
        (None, true) => text.push_str(" answers=deleted"),
        (None, false) => {}
    }
    if let Some(author) = &event.author {
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

fn channel_text(channel: &Channel) -> String {
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

/// What an event says.
pub(super) fn payload_text(name: &str, payload: &Payload, redaction: u8) -> String {
    let body = match payload {
        Payload::Message(event) => message_event_text(event, redaction),
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
        Payload::Guild(meta) => format!("name={:?} owner={}", meta.guild.name, meta.guild.owner_id),
        Payload::GuildGone => String::new(),
        Payload::Role(role) => format!("id={} permissions={} name={:?}", role.id, role.permissions.0, role.name),
        Payload::RoleDelete(id) => format!("id={id}"),
        Payload::Channel(channel) => channel_text(channel),
    };
    format!("{name} {body}")
}

/// GUILD_DELETE.
pub fn guild_delete_text(guild_id: u64, unavailable: bool) -> String {
    format!("GUILD_DELETE id={guild_id} unavailable={unavailable}")
}

/// GUILD_CREATE, and a guild in a user's READY (docs/protocol.md §6.11).
pub fn guild_create_text(state: &State, reader: Reader, large_threshold: u64) -> String {
    let wants_presences = reader.is_bot && reader.intents & GUILD_PRESENCES != 0;
    let is_listed = |user: u64| {
        let member = &state.members[&user];
        let stands_out = state.presences.contains_key(&user) || !member.roles.is_empty() || member.nick.is_some();
        let is_small = state.members.len() as u64 <= large_threshold;
        user == reader.user || state.voice.contains_key(&user) || wants_presences && (is_small || stands_out)
    };
    let listed: Vec<u64> = state.members.keys().copied().filter(|user| is_listed(*user)).collect();
    let members = listed.iter().map(|user| {
        let member = &state.members[user];
        format!("{user}:{}:{}", member.nick.as_deref().unwrap_or(""), list(&member.roles))
    });
    let presences = listed
        .iter()
        .filter(|_| wants_presences)
        .filter_map(|user| state.presences.get(user).map(|status| format!("{user}:{status}")));
    let voice = state.voice.iter().map(|(user, (channel, session))| format!("{user}:{channel}:{session}"));
    let channels = state.channels.iter().map(|(id, channel)| {
        let overwrites =
            channel.overwrites.iter().map(|o| format!("{}:{}+{}-{}", u8::from(o.is_member), o.id, o.allow, o.deny));
        let last = if holds_messages(channel.kind) { state.last_messages.get(id).copied().unwrap_or(0) } else { 0 };
        format!("{id}:{}:{}:{last}:{}", channel.kind, channel.parent.unwrap_or(0), list(overwrites))
    });
    let roles = state.roles.iter().map(|(id, permissions)| format!("{id}:{permissions}"));
    format!(
        "id={} name={:?} owner={} count={} large={} roles={} channels={} members={} presences={} voice={}",
        state.guild_id,
        state.name,
        state.owner,
        state.members.len(),
        state.members.len() as u64 > large_threshold,
        list(roles),
        list(channels),
        list(members),
        list(presences),
        list(voice),
    )
}

/// Text-like channels and voice channels with their chat (docs/protocol.md §6.5).
fn holds_messages(kind: u8) -> bool {
    matches!(kind, 0 | 2 | 5 | 13)
}

/// The only GUILD_MEMBERS_CHUNK that answers a request in a guild of at most a thousand members.
pub fn chunk_text(
    state: &State,
    reader: Reader,
    request: &RequestGuildMembers,
    names: impl Fn(u64) -> Vec<String>,
    may_list: bool,
) -> String {
    let mut not_found = Vec::new();
    let found: Vec<u64> = match &request.query {
        MemberQuery::All if !may_list => Vec::new(),
        MemberQuery::All => state.members.keys().copied().collect(),
        MemberQuery::Ids(ids) => {
            let (found, missing): (Vec<u64>, Vec<u64>) =
                ids.iter().map(|id| id.get()).partition(|id| state.members.contains_key(id));
            not_found = missing;
            found
        }
        MemberQuery::Prefix { prefix, limit } => {
            let matches = |user: &u64| {
                let nick = state.members[user].nick.clone();
                let all = names(*user).into_iter().chain(nick);
                all.into_iter().any(|name| name.to_lowercase().starts_with(&prefix.to_lowercase()))
            };
            state.members.keys().copied().filter(matches).take(*limit).collect()
        }
    };
    let shows = request.presences && (!reader.is_bot || reader.intents & GUILD_PRESENCES != 0);
    let shown = found.iter().filter_map(|user| state.presences.get(user).map(|status| format!("{user}:{status}")));
    let shown = if shows { list(shown) } else { "none".to_owned() };
    format!(
        "GUILD_MEMBERS_CHUNK 0/1 nonce={:?} members={} not_found={} presences={shown}",
        request.nonce.as_deref().unwrap_or(""),
        list(&found),
        list(&not_found),
    )
}
