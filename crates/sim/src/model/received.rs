//! Content of a received dispatch, in the words of `text.rs`.

use super::{
    received_resource::{resource_text, thread_text},
    text::list,
};
use foldhash::fast::FixedState;
use guildhall_test_kit::{Body, Dispatch};
use serde_json::Value;
use std::{
    collections::{BTreeSet, HashMap},
    fmt::Write as _,
    rc::Rc,
    sync::Arc,
};

/// Content of a received dispatch: as text, and as JSON.
#[derive(Clone, Debug)]
pub struct ParsedDispatch {
    pub text: Rc<str>,
    pub d: Arc<Value>,
}

impl ParsedDispatch {
    fn of(dispatch: &Dispatch) -> Self {
        let d = dispatch.shared_d();
        Self { text: text_of(&dispatch.name, &d).into(), d }
    }
}

/// Bodies seen lately: most come to many clients.
#[derive(Debug, Default)]
pub struct Texts(HashMap<Box<str>, ParsedDispatch, FixedState>);

/// More than these are forgotten all at once.
const REMEMBERED_MAX: usize = 256;

impl Texts {
    /// Describes a dispatch.
    pub fn of(&mut self, dispatch: &Dispatch) -> ParsedDispatch {
        let Body::Json(body) = &dispatch.body else { return ParsedDispatch::of(dispatch) };
        if let Some(parsed) = self.0.get(&**body)
            && parsed.text.starts_with(&dispatch.name)
        {
            return parsed.clone();
        }
        let parsed = ParsedDispatch::of(dispatch);
        if self.0.len() >= REMEMBERED_MAX {
            self.0.clear();
        }
        self.0.insert(body.clone(), parsed.clone());
        parsed
    }
}

/// A scalar without quotes; nothing for null and what is not there.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

pub(super) fn id(value: &Value) -> String {
    if value.is_null() { "0".to_owned() } else { plain(value) }
}

pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn quoted(value: &Value) -> String {
    format!("{:?}", value.as_str().unwrap_or(""))
}

fn message_text(d: &Value) -> String {
    format!(
        "id={} channel={} author={} content={} embeds={} components={} mentions={} edited={}",
        plain(&d["id"]),
        plain(&d["channel_id"]),
        plain(&d["author"]["id"]),
        quoted(&d["content"]),
        items(&d["embeds"]).len(),
        items(&d["components"]).len(),
        list(items(&d["mentions"]).iter().map(|user| plain(&user["id"]))),
        !d["edited_timestamp"].is_null(),
    )
}

fn message_event_text(d: &Value) -> String {
    let mut text = message_text(d);
    match d.get("referenced_message") {
        Some(Value::Null) => text.push_str(" answers=deleted"),
        Some(referenced) => {
            let _ = write!(text, " answers=({})", message_text(referenced));
        }
        None => {}
    }
    if let Some(member) = d.get("member") {
        let _ = write!(text, " roles={}", list(items(&member["roles"]).iter().map(plain)));
    }
    if let Some(nonce) = d.get("nonce") {
        let _ = write!(text, " nonce={nonce}");
    }
    text
}

fn overwrites(d: &Value) -> String {
    list(
        items(&d["permission_overwrites"])
            .iter()
            .map(|o| format!("{}:{}+{}-{}", plain(&o["type"]), plain(&o["id"]), plain(&o["allow"]), plain(&o["deny"]))),
    )
}

fn text_of(name: &str, d: &Value) -> String {
    if let Some(body) = resource_text(name, d) {
        return format!("{name} {body}");
    }
    let body = match name {
        "MESSAGE_CREATE" | "MESSAGE_UPDATE" => message_event_text(d),
        "MESSAGE_DELETE" => format!("id={} channel={}", plain(&d["id"]), plain(&d["channel_id"])),
        "MESSAGE_REACTION_ADD" | "MESSAGE_REACTION_REMOVE" => format!(
            "user={} channel={} message={} emoji={} member={}",
            plain(&d["user_id"]),
            plain(&d["channel_id"]),
            plain(&d["message_id"]),
            quoted(&d["emoji"]["name"]),
            d.get("member").is_some()
        ),
        "MESSAGE_REACTION_REMOVE_ALL" | "MESSAGE_REACTION_REMOVE_EMOJI" => format!(
            "channel={} message={} emoji={}",
            plain(&d["channel_id"]),
            plain(&d["message_id"]),
            quoted(&d["emoji"]["name"])
        ),
        "TYPING_START" => {
            format!("channel={} user={} at={}", plain(&d["channel_id"]), plain(&d["user_id"]), plain(&d["timestamp"]))
        }
        "PRESENCE_UPDATE" => format!(
            "user={} status={} activities={}",
            plain(&d["user"]["id"]),
            plain(&d["status"]),
            items(&d["activities"]).len()
        ),
        "VOICE_STATE_UPDATE" => format!(
            "user={} channel={} session={} mute={} deaf={} member={}",
            plain(&d["user_id"]),
            id(&d["channel_id"]),
            plain(&d["session_id"]),
            plain(&d["mute"]),
            plain(&d["deaf"]),
            d.get("member").is_some()
        ),
        "VOICE_SERVER_UPDATE" => format!("token={} endpoint={}", plain(&d["token"]), quoted(&d["endpoint"])),
        "GUILD_MEMBER_ADD" | "GUILD_MEMBER_UPDATE" => format!(
            "user={} nick={} roles={} silenced={}",
            plain(&d["user"]["id"]),
            quoted(&d["nick"]),
            list(items(&d["roles"]).iter().map(plain)),
            !d["communication_disabled_until"].is_null()
        ),
        "GUILD_MEMBER_REMOVE" => format!("user={}", plain(&d["user"]["id"])),
        "GUILD_UPDATE" => format!("name={} owner={}", quoted(&d["name"]), plain(&d["owner_id"])),
        "GUILD_ROLE_CREATE" | "GUILD_ROLE_UPDATE" => format!(
            "id={} permissions={} name={}",
            plain(&d["role"]["id"]),
            plain(&d["role"]["permissions"]),
            quoted(&d["role"]["name"])
        ),
        "GUILD_ROLE_DELETE" => format!("id={}", plain(&d["role_id"])),
        "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "CHANNEL_DELETE" if d["type"] == 1 || d["type"] == 3 => direct_text(d),
        "CHANNEL_RECIPIENT_ADD" | "CHANNEL_RECIPIENT_REMOVE" => {
            format!("channel={} user={}", plain(&d["channel_id"]), plain(&d["user"]["id"]))
        }
        "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "CHANNEL_DELETE" => format!(
            "id={} type={} name={} parent={} overwrites={}",
            plain(&d["id"]),
            plain(&d["type"]),
            quoted(&d["name"]),
            id(&d["parent_id"]),
            overwrites(d)
        ),
        "GUILD_CREATE" => guild_text(d, None),
        "GUILD_DELETE" => format!("id={} unavailable={}", plain(&d["id"]), d["unavailable"] == true),
        "GUILD_MEMBERS_CHUNK" => chunk_text(d),
        "READY" => ready_text(d),
        "READY_SUPPLEMENTAL" => format!("guilds={}", list(supplemental_guilds(d))),
        "PASSIVE_UPDATE_V2" => format!(
            "channels={} voice={} members={} left={}",
            unreads(&d["updated_channels"]),
            voice_states(&d["updated_voice_states"]),
            user_ids(&d["updated_members"]),
            list(items(&d["removed_voice_states"]).iter().map(plain))
        ),
        "PASSIVE_UPDATE_V1" => format!(
            "channels={} voice={} members={}",
            unreads(&d["channels"]),
            voice_states(&d["voice_states"]),
            user_ids(&d["members"])
        ),
        "CHANNEL_UNREAD_UPDATE" => format!("channels={}", unreads(&d["channel_unread_updates"])),
        "GUILD_MEMBER_LIST_UPDATE" => list_update_text(d),
        "USER_UPDATE" => format!("id={} name={}", plain(&d["id"]), quoted(&d["global_name"])),
        "ROUND_STARTED" => format!("n={}", plain(&d["n"])),
        "RESUMED" => String::new(),
        "RATE_LIMITED" => format!("nonce={}", quoted(&d["meta"]["nonce"])),
        other => format!("which is not known: {other}"),
    };
    format!("{name} {body}")
}

fn unreads(channels: &Value) -> String {
    list(items(channels).iter().map(|c| format!("{}:{}", plain(&c["id"]), id(&c["last_message_id"]))))
}

fn voice_states(states: &Value) -> String {
    let mut voice: Vec<String> = items(states)
        .iter()
        .map(|v| format!("{}:{}:{}", plain(&v["user_id"]), plain(&v["channel_id"]), plain(&v["session_id"])))
        .collect();
    voice.sort();
    list(voice)
}

fn user_ids(members: &Value) -> String {
    list(items(members).iter().map(|member| plain(&member["user"]["id"])))
}

fn list_update_text(d: &Value) -> String {
    let group = |group: &Value| format!("{}:{}", plain(&group["id"]), plain(&group["count"]));
    let item = |item: &Value| match (item.get("group"), item.get("member")) {
        (Some(header), None) => format!("group {}", group(header)),
        (None, Some(member)) => {
            format!("member {}:{}", plain(&member["user"]["id"]), plain(&member["presence"]["status"]))
        }
        _ => "neither group nor member".to_owned(),
    };
    let op = |op: &Value| {
        let name = plain(&op["op"]);
        let range = || format!("{}-{}", plain(&op["range"][0]), plain(&op["range"][1]));
        match name.as_str() {
            "SYNC" => format!("SYNC {} {}", range(), list(items(&op["items"]).iter().map(item))),
            "INSERT" | "UPDATE" => format!("{name} {} {}", plain(&op["index"]), item(&op["item"])),
            "DELETE" => format!("DELETE {}", plain(&op["index"])),
            "INVALIDATE" => format!("INVALIDATE {}", range()),
            other => format!("which is not known: {other}"),
        }
    };
    format!(
        "id={} count={} online={} groups={} ops={}",
        plain(&d["id"]),
        plain(&d["member_count"]),
        plain(&d["online_count"]),
        list(items(&d["groups"]).iter().map(group)),
        list(items(&d["ops"]).iter().map(op))
    )
}

/// User of a member or presence: whole, or by id for clients with deduplicated users.
fn user_of(d: &Value) -> String {
    if d["user_id"].is_null() { plain(&d["user"]["id"]) } else { plain(&d["user_id"]) }
}

/// Members, presences and voice states, as `People` has them.
fn people_text(members: &Value, presences: &Value, voice: &Value, roles: &[String]) -> String {
    // Members keep the ids of deleted roles until they change; clients ignore those.
    let is_living = |role: &String| roles.contains(role);
    let living = |member: &Value| -> String { list(items(&member["roles"]).iter().map(plain).filter(is_living)) };
    let mut members: Vec<(String, String)> = items(members)
        .iter()
        .map(|member| (user_of(member), format!("{}:{}:{}", user_of(member), plain(&member["nick"]), living(member))))
        .collect();
    members.sort();
    let mut presences: Vec<String> = items(presences)
        .iter()
        .map(|presence| format!("{}:{}", user_of(presence), plain(&presence["status"])))
        .collect();
    presences.sort();
    format!(
        "members={} presences={} voice={}",
        list(members.into_iter().map(|(_, text)| text)),
        list(presences),
        voice_states(voice)
    )
}

fn supplemental_guilds(d: &Value) -> Vec<String> {
    let guilds = items(&d["guilds"]).iter().enumerate().filter(|(_, guild)| guild.get("voice_states").is_some());
    guilds
        .map(|(n, guild)| {
            let (members, presences) = (&d["merged_members"][n], &d["merged_presences"]["guilds"][n]);
            format!("id={} {}", plain(&guild["id"]), people_text(members, presences, &guild["voice_states"], &[]))
        })
        .collect()
}

/// A guild, with members and voice states from READY, or (`None`) from the guild itself.
fn guild_text(d: &Value, beside: Option<(&Value, &Value)>) -> String {
    let roles: Vec<String> = items(&d["roles"]).iter().map(|role| plain(&role["id"])).collect();
    // With CLIENT_STATE_V2 the base fields are apart.
    let base = d.get("properties").unwrap_or(d);
    let (members, presences) = beside.unwrap_or((&d["members"], &d["presences"]));
    let channels = items(&d["channels"]).iter().map(|channel| {
        format!(
            "{}:{}:{}:{}:{}",
            plain(&channel["id"]),
            plain(&channel["type"]),
            id(&channel["parent_id"]),
            id(&channel["last_message_id"]),
            overwrites(channel)
        )
    });
    let role_texts =
        items(&d["roles"]).iter().map(|role| format!("{}:{}", plain(&role["id"]), plain(&role["permissions"])));
    format!(
        "id={} name={} owner={} count={} large={} roles={} channels={} threads={} {}",
        plain(&d["id"]),
        quoted(&base["name"]),
        plain(&base["owner_id"]),
        plain(&d["member_count"]),
        plain(&d["large"]),
        list(role_texts),
        list(channels),
        list(items(&d["threads"]).iter().map(thread_text)),
        people_text(members, presences, &d["voice_states"], &roles),
    )
}

fn chunk_text(d: &Value) -> String {
    let presences = match d.get("presences") {
        Some(presences) => list(
            items(presences)
                .iter()
                .map(|presence| format!("{}:{}", plain(&presence["user"]["id"]), plain(&presence["status"]))),
        ),
        None => "none".to_owned(),
    };
    format!(
        "{}/{} nonce={} members={} not_found={} presences={presences}",
        plain(&d["chunk_index"]),
        plain(&d["chunk_count"]),
        quoted(&d["nonce"]),
        list(items(&d["members"]).iter().map(|member| plain(&member["user"]["id"]))),
        list(items(&d["not_found"]).iter().map(plain)),
    )
}

fn ready_text(d: &Value) -> String {
    let is_apart = d.get("users").is_some();
    let guilds = items(&d["guilds"]).iter().enumerate().map(|(n, guild)| match guild.get("roles") {
        Some(_) if is_apart => guild_text(guild, Some((&d["merged_members"][n], &d["merged_presences"]["guilds"][n]))),
        Some(_) => guild_text(guild, None),
        None => format!("id={} unavailable={}", plain(&guild["id"]), plain(&guild["unavailable"])),
    });
    let users = match d.get("users") {
        Some(users) => {
            let ids: BTreeSet<String> = items(users).iter().map(|user| plain(&user["id"])).collect();
            list(ids)
        }
        None => "none".to_owned(),
    };
    format!(
        "user={} session={} guilds={} directs={} users={users}",
        plain(&d["user"]["id"]),
        plain(&d["session_id"]),
        list(guilds),
        list(items(&d["private_channels"]).iter().map(direct_text))
    )
}

/// A direct message or group with its recipients: whole, or by id for clients with deduplicated users.
fn direct_text(d: &Value) -> String {
    let recipients = match d.get("recipient_ids") {
        Some(ids) => list(items(ids).iter().map(plain)),
        None => list(items(&d["recipients"]).iter().map(|user| plain(&user["id"]))),
    };
    format!(
        "id={} type={} name={} owner={} last={} recipients={recipients}",
        plain(&d["id"]),
        plain(&d["type"]),
        quoted(&d["name"]),
        id(&d["owner_id"]),
        id(&d["last_message_id"])
    )
}
