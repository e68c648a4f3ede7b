//! READY, for bots and for user clients without capabilities. Spec  docs/protocol.md §1.8.

use super::{Empty, Nothing, SelfUserBody};
use crate::id::ApplicationId;
use serde::Serialize;

/// The application behind a bot.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ApplicationRef {
    /// Its id; here the same number as the bot account's.
    pub id: ApplicationId,
    /// Which privileged intents it was granted, and more.
    pub flags: u32,
}

/// READY of a bot: guilds are only named, and follow one by one.
#[derive(Clone, Debug, Serialize)]
pub struct BotReadyBody<'a> {
    /// 10.
    pub v: u8,
    /// The bot itself.
    pub user: SelfUserBody<'a>,
    /// Only those of this shard.
    pub guilds: Vec<super::UnavailableGuild>,
    /// For RESUME.
    pub session_id: &'a str,
    /// Where to resume.
    pub resume_gateway_url: &'a str,
    /// Echoed when IDENTIFY had it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<(u32, u32)>,
    /// The application.
    pub application: ApplicationRef,
    /// `normal`.
    pub session_type: &'static str,
    /// None for bots: they learn of a direct message by what is said in it.
    pub private_channels: Nothing,
    /// None for bots.
    pub presences: Nothing,
    /// None for bots.
    pub relationships: Nothing,
    /// None for bots.
    pub user_settings: Empty,
    /// None.
    pub geo_ordered_rtc_regions: Nothing,
    /// None.
    pub guild_join_requests: Nothing,
    /// None.
    pub auth: Empty,
}

/// Fields of a user's READY that never vary here.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ReadyConstants {
    relationships: Nothing,
    user_settings_proto: &'static str,
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
            relationships: [],
            user_settings_proto: "",
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
