//! READY, for bots and for user clients without capabilities. Spec  docs/protocol/reference.md §1.8.

use super::{Empty, Nothing, SelfUserBody};
use crate::id::ApplicationId;
use serde::Serialize;

/// The application behind a bot.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ApplicationRef {
    /// The same number as the bot account's id.
    pub id: ApplicationId,
    /// Includes the bits of granted privileged intents.
    pub flags: u32,
}

/// READY of a bot. It contains only the guilds' ids; GUILD_CREATE follows for each.
#[derive(Clone, Debug, Serialize)]
pub struct BotReadyBody<'a> {
    /// Gateway version, always 10.
    pub v: u8,
    /// The bot's own account.
    pub user: SelfUserBody<'a>,
    /// Guilds of this shard.
    pub guilds: Vec<super::UnavailableGuild>,
    /// The client sends it in RESUME.
    pub session_id: &'a str,
    /// Gateway URL for RESUME.
    pub resume_gateway_url: &'a str,
    /// Echo of the value in IDENTIFY.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<(u32, u32)>,
    pub application: ApplicationRef,
    /// Always `normal`.
    pub session_type: &'static str,
    /// Always empty: a bot learns of a direct message by its first message.
    pub private_channels: Nothing,
    /// Always empty.
    pub presences: Nothing,
    /// Always empty.
    pub relationships: Nothing,
    /// Always empty.
    pub user_settings: Empty,
    /// Always empty.
    pub geo_ordered_rtc_regions: Nothing,
    /// Always empty.
    pub guild_join_requests: Nothing,
    /// Always empty.
    pub auth: Empty,
}

/// Fields of a user account's READY with constant values.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ReadyConstants {
    connected_accounts: Nothing,
    guild_join_requests: Nothing,
    experiments: Nothing,
    guild_experiments: Nothing,
    game_relationships: Nothing,
    linked_users: Nothing,
    friend_suggestion_count: u32,
    api_code_version: u32,
    explicit_content_scan_version: u32,
    country_code: &'static str,
    analytics_token: &'static str,
    auth_session_id_hash: &'static str,
    static_client_session_id: &'static str,
    consents: Empty,
    tutorial: (),
    auth: Empty,
    geo_ordered_rtc_regions: Nothing,
}

impl Default for ReadyConstants {
    fn default() -> Self {
        Self {
            connected_accounts: [],
            guild_join_requests: [],
            experiments: [],
            guild_experiments: [],
            game_relationships: [],
            linked_users: [],
            friend_suggestion_count: 0,
            api_code_version: 1,
            explicit_content_scan_version: 0,
            country_code: "US",
            analytics_token: "none",
            auth_session_id_hash: "none",
            static_client_session_id: "none",
            consents: Empty {},
            tutorial: (),
            auth: Empty {},
            geo_ordered_rtc_regions: [],
        }
    }
}
