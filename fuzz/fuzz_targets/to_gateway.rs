//! Any bytes as the `d` of every opcode, and as strings in REST paths and queries.
//!
//! Input       a JSON value.
//! Oracle      no panic; parsed values are within their documented bounds.
// max_len: 4096
#![no_main]

use guildhall_model::{
    Nonce, ReactionEmoji, User, UserId,
    to_gateway::{
        GetDeletedEntityIds, GuildChannelsResync, GuildSubscriptions, Identify, MemberQuery, PresenceUpdate,
        RequestChannelInfo, RequestChannelMemberCount, RequestChannelStatuses, RequestGuildMembers, RequestLastMessages,
        RequestSoundboardSounds, Resume, SearchRecentMembers, Subscription, VoiceStateUpdate,
    },
};
use guildhall_stdx::Timestamp;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        texts(text);
    }
    let Ok(d) = serde_json::from_slice::<Value>(data) else { return };
    if let Ok(identify) = Identify::parse(&d) {
        assert!(identify.os.chars().count() <= 32);
        assert!(identify.large_threshold.is_none_or(|threshold| (25..=250).contains(&threshold)));
        for bot in [false, true] {
            let account = User { bot, ..User::new(UserId::new(1), "a") };
            if let Ok(intents) = identify.intents(&account) {
                assert_eq!(intents.0 >> 29, 0);
            }
        }
        if let Ok(Some(shard)) = identify.shard() {
            assert!(shard.id < shard.count);
        }
    }
    if let Some(presence) = PresenceUpdate::parse(&d) {
        assert!(presence.activities.len() <= guildhall_model::activity::ACTIVITIES_MAX);
    }
    if let Ok(request) = RequestGuildMembers::parse(&d) {
        // An empty list requests none, and nothing else does.
        let asks_for_nothing = d["guild_id"].as_array().is_some_and(Vec::is_empty);
        assert_eq!(request.guild_ids.is_empty(), asks_for_nothing);
        assert!(request.guild_ids.len() <= RequestGuildMembers::GUILDS_MAX);
        assert!(request.nonce.is_none_or(|nonce| nonce.len() <= 32));
        match request.query {
            MemberQuery::All => {}
            MemberQuery::Prefix { limit, .. } => assert!((1..=100).contains(&limit)),
            MemberQuery::Ids(ids) => assert!(ids.len() <= RequestGuildMembers::IDS_MAX),
        }
    }
    for parsed in [GuildSubscriptions::parse_single(&d), GuildSubscriptions::parse_bulk(&d)].into_iter().flatten() {
        subscriptions(parsed);
    }
    if let Ok(request) = RequestLastMessages::parse(&d) {
        assert!(request.channel_ids.len() <= RequestLastMessages::CHANNELS_MAX);
    }
    if let Ok(request) = GuildChannelsResync::parse(&d) {
        assert!(request.obfuscated_channel_ids.len() <= GuildChannelsResync::CHANNELS_MAX);
    }
    if let Ok(request) = RequestSoundboardSounds::parse(&d) {
        assert!(request.guild_ids.len() <= RequestSoundboardSounds::GUILDS_MAX);
    }
    if let Ok(request) = SearchRecentMembers::parse(&d) {
        assert!(request.query.chars().count() <= SearchRecentMembers::QUERY_CHARS_MAX);
        assert!(request.nonce.is_none_or(|nonce| nonce.len() <= 32));
    }
    let _ = GetDeletedEntityIds::parse(&d);
    let _ = RequestChannelInfo::parse(&d);
    let _ = RequestChannelMemberCount::parse(&d);
    let _ = RequestChannelStatuses::parse(&d);
    let _ = Resume::parse(&d);
    let _ = VoiceStateUpdate::parse(&d);
    let _ = serde_json::from_value::<Nonce>(d);
});

fn subscriptions(parsed: GuildSubscriptions) {
    assert!(parsed.patches.len() <= GuildSubscriptions::GUILDS_MAX);
    let mut merged = Subscription::default();
    for (_, patch) in parsed.patches {
        merged.merge(patch);
        assert!(merged.members.len() <= Subscription::MEMBERS_MAX);
        assert!(merged.thread_member_lists.len() <= Subscription::THREAD_LISTS_MAX);
        assert!(merged.channels.len() <= Subscription::CHANNELS_MAX);
        for channel in merged.channels.iter() {
            assert!((1..=Subscription::RANGES_MAX).contains(&channel.ranges.len()));
            for range in &channel.ranges {
                assert!(range.first <= range.last && range.len() <= Subscription::RANGE_ROWS_MAX);
            }
        }
    }
}

fn texts(text: &str) {
    if let Some(emoji) = ReactionEmoji::parse(text) {
        assert!(emoji.name.len() <= ReactionEmoji::NAME_BYTES_MAX && !emoji.name.is_empty());
    }
    if let Ok(at) = Timestamp::parse(text) {
        assert_eq!(Timestamp::parse(&at.to_string()), Ok(at));
    }
    if let Ok(id) = text.parse::<UserId>() {
        assert!(id.get() <= i64::MAX as u64);
    }
}
