//! A client's knowledge of the guild: exactly the content of its dispatches (docs/protocol/reference.md §8.5, §8.6).

use serde_json::Value;
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Default)]
pub struct ClientModel {
    /// Newest message by channel.
    pub newest: BTreeMap<u64, u64>,
    /// Where people are in voice.
    pub voice: BTreeMap<u64, u64>,
    /// Of who is not offline.
    pub presences: BTreeMap<u64, String>,
    /// Of friends who are not offline, whatever the guild.
    pub friends: BTreeMap<u64, String>,
    /// Open threads: the channel each is in, and its name.
    pub threads: BTreeMap<u64, (u64, String)>,
    /// Rows by list id; `None` for rows that it has not received.
    pub lists: BTreeMap<String, Vec<Option<String>>>,
}

fn id(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).or(value.as_u64()).unwrap_or(0)
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn user_of(value: &Value) -> u64 {
    if value["user_id"].is_null() { id(&value["user"]["id"]) } else { id(&value["user_id"]) }
}

fn apply_presence(presences: &mut BTreeMap<u64, String>, presence: &Value) {
    match presence["status"].as_str().unwrap_or("offline") {
        "offline" => presences.remove(&user_of(presence)),
        status => presences.insert(user_of(presence), status.to_owned()),
    };
}

/// Header or member.
fn row(item: &Value) -> String {
    match item.get("group") {
        Some(group) => format!("group {}:{}", group["id"].as_str().unwrap_or(""), group["count"]),
        None => {
            let status = item["member"]["presence"]["status"].as_str().unwrap_or("");
            format!("member {}:{status}", id(&item["member"]["user"]["id"]))
        }
    }
}

impl ClientModel {
    /// Whether a dispatch changes this model.
    pub fn concerns(name: &str, is_bot: bool) -> bool {
        match name {
            "READY" | "GUILD_CREATE" | "GUILD_DELETE" | "PRESENCE_UPDATE" | "GUILD_MEMBER_REMOVE" => true,
            "READY_SUPPLEMENTAL" | "MESSAGE_CREATE" | "VOICE_STATE_UPDATE" => !is_bot,
            "CHANNEL_CREATE" | "CHANNEL_DELETE" => true,
            "THREAD_CREATE" | "THREAD_UPDATE" | "THREAD_DELETE" | "THREAD_LIST_SYNC" => true,
            "PASSIVE_UPDATE_V1" | "PASSIVE_UPDATE_V2" | "CHANNEL_UNREAD_UPDATE" | "GUILD_MEMBER_LIST_UPDATE" => true,
            _ => false,
        }
    }

    /// Takes in what came.
    ///
    /// # Errors
    /// When that cannot be done.
    pub fn apply(&mut self, name: &str, d: &Value) -> Result<(), String> {
        match name {
            "READY" => {
                *self = Self::default();
                items(&d["guilds"]).iter().for_each(|guild| self.guild(guild));
                self.friends(d);
            }
            "GUILD_CREATE" => {
                self.forget_guild();
                self.guild(d);
            }
            "READY_SUPPLEMENTAL" => {
                items(&d["guilds"]).iter().for_each(|guild| self.voice_states(&guild["voice_states"]));
                self.friends(d);
            }
            "GUILD_DELETE" => self.forget_guild(),
            "PRESENCE_UPDATE" if d["guild_id"].is_null() => apply_presence(&mut self.friends, d),
            "PRESENCE_UPDATE" => self.presence(d),
            "GUILD_MEMBER_REMOVE" => drop(self.presences.remove(&id(&d["user"]["id"]))),
            "MESSAGE_CREATE" => {
                self.newest.insert(id(&d["channel_id"]), id(&d["id"]));
            }
            "VOICE_STATE_UPDATE" => self.voice_state(d),
            "CHANNEL_CREATE" => self.unreads(&Value::Array(vec![d.clone()])),
            "CHANNEL_DELETE" => {
                self.newest.remove(&id(&d["id"]));
                self.threads.retain(|_, (parent, _)| *parent != id(&d["id"]));
            }
            "THREAD_CREATE" | "THREAD_UPDATE" => self.thread(d),
            "THREAD_DELETE" => drop(self.threads.remove(&id(&d["id"]))),
            "THREAD_LIST_SYNC" => items(&d["threads"]).iter().for_each(|thread| self.thread(thread)),
            "PASSIVE_UPDATE_V1" => {
                self.unreads(&d["channels"]);
                self.voice.clear();
                self.voice_states(&d["voice_states"]);
            }
            "PASSIVE_UPDATE_V2" => {
                self.unreads(&d["updated_channels"]);
                self.voice_states(&d["updated_voice_states"]);
                for who in items(&d["removed_voice_states"]) {
                    self.voice.remove(&id(who));
                }
            }
            "CHANNEL_UNREAD_UPDATE" => self.unreads(&d["channel_unread_updates"]),
            "GUILD_MEMBER_LIST_UPDATE" => return self.list(d),
            _ => {}
        }
        Ok(())
    }

    fn forget_guild(&mut self) {
        *self = Self { friends: std::mem::take(&mut self.friends), ..Self::default() };
    }

    /// Those in READY, in whichever form.
    fn friends(&mut self, d: &Value) {
        for presence in items(&d["presences"]).iter().chain(items(&d["merged_presences"]["friends"])) {
            apply_presence(&mut self.friends, presence);
        }
    }

    fn guild(&mut self, guild: &Value) {
        self.unreads(&guild["channels"]);
        self.voice_states(&guild["voice_states"]);
        items(&guild["threads"]).iter().for_each(|thread| self.thread(thread));
        items(&guild["presences"]).iter().for_each(|presence| self.presence(presence));
    }

    /// Closed threads are forgotten.
    fn thread(&mut self, thread: &Value) {
        let name = thread["name"].as_str().unwrap_or("").to_owned();
        match thread["thread_metadata"]["archived"] == true {
            true => self.threads.remove(&id(&thread["id"])),
            false => self.threads.insert(id(&thread["id"]), (id(&thread["parent_id"]), name)),
        };
    }

    fn unreads(&mut self, channels: &Value) {
        for channel in items(channels).iter().filter(|channel| !channel["last_message_id"].is_null()) {
            self.newest.insert(id(&channel["id"]), id(&channel["last_message_id"]));
        }
    }

    fn voice_states(&mut self, states: &Value) {
        items(states).iter().for_each(|state| self.voice_state(state));
    }

    fn voice_state(&mut self, state: &Value) {
        let who = id(&state["user_id"]);
        match id(&state["channel_id"]) {
            0 => self.voice.remove(&who),
            channel => self.voice.insert(who, channel),
        };
    }

    fn presence(&mut self, presence: &Value) {
        apply_presence(&mut self.presences, presence);
    }

    /// Applies operations in order, then cuts the list to the length that the groups add up to.
    fn list(&mut self, d: &Value) -> Result<(), String> {
        let rows = self.lists.entry(d["id"].as_str().unwrap_or("").to_owned()).or_default();
        for op in items(&d["ops"]) {
            let index = op["index"].as_u64().unwrap_or(0) as usize;
            let first = op["range"][0].as_u64().unwrap_or(0) as usize;
            let last = op["range"][1].as_u64().unwrap_or(0) as usize;
            match op["op"].as_str().unwrap_or("") {
                "SYNC" => {
                    let items = items(&op["items"]);
                    if items.len() > last + 1 - first {
                        return Err(format!("more items than rows: {op}"));
                    }
                    rows.resize(rows.len().max(first + items.len()), None);
                    items.iter().enumerate().for_each(|(n, item)| rows[first + n] = Some(row(item)));
                }
                "INSERT" if index <= rows.len() => rows.insert(index, Some(row(&op["item"]))),
                "UPDATE" if rows.get(index).is_some_and(Option::is_some) => rows[index] = Some(row(&op["item"])),
                "DELETE" if rows.get(index).is_some_and(Option::is_some) => drop(rows.remove(index)),
                "INVALIDATE" => rows.iter_mut().skip(first).take(last + 1 - first).for_each(|row| *row = None),
                _ => return Err(format!("an operation on rows that it did not receive: {op}, of {rows:?}")),
            }
        }
        let len = items(&d["groups"]).iter().map(|group| group["count"].as_u64().unwrap_or(0) as usize + 1).sum();
        rows.truncate(len);
        Ok(())
    }
}
