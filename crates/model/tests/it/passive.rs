//! Passive updates.

use crate::support::{BO, GENERAL, GUILD, LOUNGE, MESSAGE, World, check, in_lounge_json, member_json};
use guildhall_model::from_gateway::{
    ChannelUnread, ChannelUnreadUpdateBody, MemberBody, PassiveUpdateV1Body, PassiveUpdateV2Body, VoiceStateBody,
};
use guildhall_stdx::Timestamp;
use serde_json::json;

#[test]
fn v2_documented_example() {
    let world = World::new();
    let body = PassiveUpdateV2Body {
        guild_id: GUILD,
        updated_channels: vec![ChannelUnread::from(&world.general)],
        updated_voice_states: Vec::new(),
        removed_voice_states: vec![BO],
        updated_members: Vec::new(),
    };
    assert!(!body.is_empty());
    check(
        &body,
        &json!({"guild_id": "1100000000000000001",
            "updated_channels": [{"id": "1100000000000000010", "last_message_id": "1174109840998400000"}],
            "updated_voice_states": [], "removed_voice_states": ["1100000000000000555"], "updated_members": []}),
    );
}

#[test]
fn v2_has_every_key_even_when_empty() {
    let body = PassiveUpdateV2Body {
        guild_id: GUILD,
        updated_channels: Vec::new(),
        updated_voice_states: Vec::new(),
        removed_voice_states: Vec::new(),
        updated_members: Vec::new(),
    };
    assert!(body.is_empty());
    check(
        &body,
        &json!({"guild_id": GUILD, "updated_channels": [], "updated_voice_states": [], "removed_voice_states": [],
            "updated_members": []}),
    );
}

#[test]
fn v1_omits_empty_voice_states() {
    let world = World::new();
    let lounge = ChannelUnread { id: LOUNGE, last_message_id: None, last_pin_timestamp: None };
    let pinned = ChannelUnread { last_pin_timestamp: Some(Timestamp(1_700_000_000_000)), ..(&world.general).into() };
    let channels = json!([
        {"id": GENERAL, "last_message_id": MESSAGE, "last_pin_timestamp": "2023-11-14T22:13:20.000000+00:00"},
        {"id": LOUNGE, "last_message_id": null},
    ]);
    let silent = PassiveUpdateV1Body {
        guild_id: GUILD,
        channels: vec![pinned, lounge],
        voice_states: Vec::new(),
        members: Vec::new(),
    };
    check(&silent, &json!({"guild_id": GUILD, "channels": channels}));
    let talking = PassiveUpdateV1Body {
        voice_states: vec![VoiceStateBody::within_guild(&world.bo_in_lounge)],
        members: vec![MemberBody::from(&world.bo)],
        ..silent
    };
    check(
        &talking,
        &json!({"guild_id": GUILD, "channels": channels, "voice_states": [in_lounge_json(BO)],
            "members": [member_json(&world.bo)]}),
    );
}

#[test]
fn channel_unreads() {
    let world = World::new();
    let body = ChannelUnreadUpdateBody { guild_id: GUILD, channel_unread_updates: vec![(&world.general).into()] };
    let moved = json!([{"id": GENERAL, "last_message_id": MESSAGE}]);
    check(&body, &json!({"guild_id": GUILD, "channel_unread_updates": moved}));
}
