//! Content of a received small event, in the words of `resource.rs` and `thread.rs`.

use super::{
    received::{id, items, plain, quoted},
    text::list,
};
use serde_json::Value;

/// None: it is no such event.
pub fn resource_text(name: &str, d: &Value) -> Option<String> {
    Some(match name {
        "GUILD_BAN_ADD" | "GUILD_BAN_REMOVE" => {
            let seconds = d.get("delete_message_secs").map_or("none".to_owned(), plain);
            format!("user={} delete={seconds}", plain(&d["user"]["id"]))
        }
        "GUILD_AUDIT_LOG_ENTRY_CREATE" => format!(
            "id={} action={} user={} target={}",
            plain(&d["id"]),
            plain(&d["action_type"]),
            plain(&d["user_id"]),
            id(&d["target_id"])
        ),
        "INVITE_CREATE" => {
            format!(
                "code={} channel={} inviter={}",
                plain(&d["code"]),
                plain(&d["channel_id"]),
                id(&d["inviter"]["id"])
            )
        }
        "INVITE_DELETE" => format!("code={} channel={}", plain(&d["code"]), plain(&d["channel_id"])),
        "WEBHOOKS_UPDATE" => format!("channel={}", plain(&d["channel_id"])),
        "CHANNEL_PINS_UPDATE" => {
            format!("channel={} pinned={}", plain(&d["channel_id"]), !d["last_pin_timestamp"].is_null())
        }
        "MESSAGE_DELETE_BULK" => {
            format!("channel={} ids={}", plain(&d["channel_id"]), list(items(&d["ids"]).iter().map(plain)))
        }
        "GUILD_EMOJIS_UPDATE" => named(&d["emojis"]),
        "GUILD_STICKERS_UPDATE" => named(&d["stickers"]),
        "GUILD_SCHEDULED_EVENT_CREATE" | "GUILD_SCHEDULED_EVENT_UPDATE" | "GUILD_SCHEDULED_EVENT_DELETE" => {
            format!("id={} name={}", plain(&d["id"]), quoted(&d["name"]))
        }
        "GUILD_SCHEDULED_EVENT_USER_ADD" | "GUILD_SCHEDULED_EVENT_USER_REMOVE" => {
            format!("event={} user={}", plain(&d["guild_scheduled_event_id"]), plain(&d["user_id"]))
        }
        "STAGE_INSTANCE_CREATE" | "STAGE_INSTANCE_UPDATE" | "STAGE_INSTANCE_DELETE" => {
            format!("channel={} topic={}", plain(&d["channel_id"]), quoted(&d["topic"]))
        }
        "THREAD_CREATE" | "THREAD_UPDATE" => format!("{} new={}", thread_text(d), d["newly_created"] == true),
        "THREAD_DELETE" => {
            format!("id={} parent={} type={}", plain(&d["id"]), id(&d["parent_id"]), plain(&d["type"]))
        }
        "THREAD_MEMBER_UPDATE" => format!("thread={} user={}", plain(&d["id"]), plain(&d["user_id"])),
        "THREAD_MEMBERS_UPDATE" => {
            let added = items(&d["added_members"]).iter();
            let added = added.map(|of| format!("{}:{}", plain(&of["user_id"]), plain(&of["member"]["user"]["id"])));
            format!(
                "thread={} count={} added={} removed={}",
                plain(&d["id"]),
                plain(&d["member_count"]),
                list(added),
                list(items(&d["removed_member_ids"]).iter().map(plain))
            )
        }
        "THREAD_LIST_SYNC" => format!(
            "channels={} threads={} own={}",
            d.get("channel_ids").map_or("all".to_owned(), |ids| list(items(ids).iter().map(plain))),
            list(items(&d["threads"]).iter().map(thread_text)),
            list(items(&d["members"]).iter().map(|own| plain(&own["id"])))
        ),
        _ => return None,
    })
}

/// Emoji, stickers.
fn named(all: &Value) -> String {
    list(items(all).iter().map(|one| format!("{}:{}", plain(&one["id"]), plain(&one["name"]))))
}

pub fn thread_text(d: &Value) -> String {
    let metadata = &d["thread_metadata"];
    format!(
        "{}:{} parent={} name={} owner={} archived={} locked={} members={} own={}",
        plain(&d["id"]),
        plain(&d["type"]),
        id(&d["parent_id"]),
        quoted(&d["name"]),
        plain(&d["owner_id"]),
        plain(&metadata["archived"]),
        plain(&metadata["locked"]),
        plain(&d["member_count"]),
        d.get("member").map_or("none".to_owned(), |own| plain(&own["user_id"])),
    )
}
