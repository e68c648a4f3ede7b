//! Requests about channels (ops 34, 36, 38, 39, 43). Spec  docs/protocol/reference.md §1.3, §8.8.

use super::{PayloadError, guild_of, ids_of, required_id};
use crate::id::{ChannelId, GuildId};
use serde_json::Value;

/// Op 34: the newest message of each of these channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLastMessages {
    pub guild_id: GuildId,
    /// Sorted, without duplicates.
    pub channel_ids: Vec<ChannelId>,
}

impl RequestLastMessages {
    /// Further channels are dropped.
    pub const CHANNELS_MAX: usize = 100;

    /// Parses the payload.
    ///
    /// # Errors
    /// When it is not an object, `guild_id` not a snowflake, or `channel_ids` not an array.
    pub fn parse(d: &Value) -> Result<Self, PayloadError> {
        const OPCODE: &str = "REQUEST_LAST_MESSAGES";
        let (guild_id, d) = guild_of(OPCODE, d)?;
        let channel_ids = d.get("channel_ids").and_then(|ids| ids_of(ids, Self::CHANNELS_MAX));
        let channel_ids =
            channel_ids.ok_or(PayloadError { opcode: OPCODE, problem: "`channel_ids` must be an array" })?;
        Ok(Self { guild_id, channel_ids })
    }
}

/// Op 36: the statuses of voice channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestChannelStatuses {
    pub guild_id: GuildId,
}

impl RequestChannelStatuses {
    /// Parses the payload.
    ///
    /// # Errors
    /// When it is not an object or `guild_id` not a snowflake.
    pub fn parse(d: &Value) -> Result<Self, PayloadError> {
        guild_of("REQUEST_CHANNEL_STATUSES", d).map(|(guild_id, _)| Self { guild_id })
    }
}

/// Op 38: requests channels that the client has in obfuscated form and believes it can view now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuildChannelsResync {
    pub guild_id: GuildId,
    /// Sorted, without duplicates.
    pub obfuscated_channel_ids: Vec<ChannelId>,
}

impl GuildChannelsResync {
    /// Further channels are dropped. Equals the channel limit of a guild.
    pub const CHANNELS_MAX: usize = 500;

    /// Parses the payload. A missing or malformed list of channels is an empty one.
    ///
    /// # Errors
    /// When it is not an object or `guild_id` not a snowflake.
    pub fn parse(d: &Value) -> Result<Self, PayloadError> {
        let (guild_id, d) = guild_of("GUILD_CHANNELS_RESYNC", d)?;
        let ids = d.get("obfuscated_channel_ids").and_then(|ids| ids_of(ids, Self::CHANNELS_MAX));
        Ok(Self { guild_id, obfuscated_channel_ids: ids.unwrap_or_default() })
    }
}

/// Op 39: the number of members who can view a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestChannelMemberCount {
    pub guild_id: GuildId,
    pub channel_id: ChannelId,
}

impl RequestChannelMemberCount {
    /// Parses the payload.
    ///
    /// # Errors
    /// When it is not an object, or `guild_id` or `channel_id` not a snowflake.
    pub fn parse(d: &Value) -> Result<Self, PayloadError> {
        const OPCODE: &str = "REQUEST_CHANNEL_MEMBER_COUNT";
        let (guild_id, d) = guild_of(OPCODE, d)?;
        let channel_id = required_id(OPCODE, d, "channel_id", "`channel_id` must be a snowflake")?;
        Ok(Self { guild_id, channel_id })
    }
}

/// Op 43: short-lived properties of voice channels. Bots send it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestChannelInfo {
    pub guild_id: GuildId,
    /// `fields` contains `status`.
    pub status: bool,
    /// `fields` contains `voice_start_time`.
    pub voice_start_time: bool,
}

impl RequestChannelInfo {
    /// Parses the payload. Unknown fields are ignored.
    ///
    /// # Errors
    /// When it is not an object or `guild_id` not a snowflake.
    pub fn parse(d: &Value) -> Result<Self, PayloadError> {
        let (guild_id, d) = guild_of("REQUEST_CHANNEL_INFO", d)?;
        let fields = d.get("fields").and_then(Value::as_array);
        let asks_for = |name: &str| fields.is_some_and(|fields| fields.iter().any(|field| field == name));
        Ok(Self { guild_id, status: asks_for("status"), voice_start_time: asks_for("voice_start_time") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn last_messages() {
        let check = |d: Value, expected: Option<&[u64]>| {
            let got = RequestLastMessages::parse(&d).ok();
            let got: Option<Vec<u64>> = got.map(|got| got.channel_ids.iter().map(|id| id.get()).collect());
            assert_eq!(got.as_deref(), expected, "{d}");
        };
        check(json!({"guild_id": "1", "channel_ids": ["5", 4, "5", "x", null, [6]]}), Some(&[4, 5, 6]));
        check(json!({"guild_id": "1", "channel_ids": []}), Some(&[]));
        check(json!({"guild_id": "1", "channel_ids": {}}), None);
        check(json!({"guild_id": "1"}), None);
        check(json!({"channel_ids": ["5"]}), None);
        check(json!([]), None);
        let many: Vec<u64> = (0..300).collect();
        let got = RequestLastMessages::parse(&json!({"guild_id": "1", "channel_ids": many})).unwrap();
        assert_eq!(got.channel_ids.len(), RequestLastMessages::CHANNELS_MAX);
    }

    #[test]
    fn member_count() {
        let check = |d: Value, expected: Option<(u64, u64)>| {
            let got = RequestChannelMemberCount::parse(&d).ok();
            assert_eq!(got.map(|got| (got.guild_id.get(), got.channel_id.get())), expected, "{d}");
        };
        check(json!({"guild_id": "1", "channel_id": 5}), Some((1, 5)));
        check(json!({"guild_id": "1", "channel_id": null}), None);
        check(json!({"guild_id": {}, "channel_id": "5"}), None);
        check(json!(null), None);
    }

    #[test]
    fn requests_that_get_a_simple_answer() {
        let guild_id = GuildId::new(1);
        let fields = json!({"guild_id": "1", "fields": ["status", "voice_start_time", 5, "x"]});
        let both = RequestChannelInfo { guild_id, status: true, voice_start_time: true };
        assert_eq!(RequestChannelInfo::parse(&fields), Ok(both));
        let neither = RequestChannelInfo { guild_id, status: false, voice_start_time: false };
        assert_eq!(RequestChannelInfo::parse(&json!({"guild_id": 1, "fields": "status"})), Ok(neither));
        assert!(RequestChannelInfo::parse(&json!({"fields": ["status"]})).is_err());

        let resync = |ids: &[u64]| GuildChannelsResync {
            guild_id,
            obfuscated_channel_ids: ids.iter().map(|id| ChannelId::new(*id)).collect(),
        };
        let d = json!({"guild_id": "1", "obfuscated_channel_ids": ["9", "8"]});
        assert_eq!(GuildChannelsResync::parse(&d), Ok(resync(&[8, 9])));
        assert_eq!(GuildChannelsResync::parse(&json!({"guild_id": "1"})), Ok(resync(&[])));
        assert!(GuildChannelsResync::parse(&json!("1")).is_err());

        assert_eq!(RequestChannelStatuses::parse(&json!({"guild_id": "1"})), Ok(RequestChannelStatuses { guild_id }));
        assert!(RequestChannelStatuses::parse(&json!({"guild_id": true})).is_err());
    }
}
