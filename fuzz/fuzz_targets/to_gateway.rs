//! Any bytes as the `d` of every opcode, and as the texts that REST paths and query strings carry.
//!
//! Input       a JSON value.
//! Oracle      no panic; what a parser accepts keeps its documented bounds.
// max_len: 4096
#![no_main]

use guildhall_model::{
    Nonce, ReactionEmoji, User, UserId,
    to_gateway::{Identify, MemberQuery, PresenceUpdate, RequestGuildMembers, Resume, VoiceStateUpdate},
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
        assert!(presence.activities.len() <= PresenceUpdate::ACTIVITIES_MAX);
    }
    if let Ok(request) = RequestGuildMembers::parse(&d) {
        assert!(!request.guild_ids.is_empty());
        assert!(request.nonce.is_none_or(|nonce| nonce.len() <= 32));
        match request.query {
            MemberQuery::All => {}
            MemberQuery::Prefix { limit, .. } => assert!((1..=100).contains(&limit)),
            MemberQuery::Ids(ids) => assert!(ids.len() <= RequestGuildMembers::IDS_MAX),
        }
    }
    let _ = Resume::parse(&d);
    let _ = VoiceStateUpdate::parse(&d);
    let _ = serde_json::from_value::<Nonce>(d);
});

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
