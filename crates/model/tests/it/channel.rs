//! Channels that may not be viewed.

use crate::support::{GENERAL, GUILD, MESSAGE, World, check, general_json, json_of, with};
use guildhall_model::{
    Channel, ChannelId, ChannelType, MessageId, Overwrite, OverwriteKind, Permissions, RoleId, UserId,
    from_gateway::ChannelBody,
};
use guildhall_stdx::Timestamp;
use serde_json::{Value, json};

/// A channel with a value in every field.
fn secretive(kind: ChannelType) -> Channel {
    Channel {
        position: 3,
        parent_id: Some(ChannelId::new(1_100_000_000_000_000_009)),
        overwrites: vec![
            Overwrite {
                target: OverwriteKind::Role(RoleId::new(1_100_000_000_000_000_020)),
                allow: Permissions::VIEW_CHANNEL,
                deny: Permissions(0),
            },
            Overwrite {
                target: OverwriteKind::Member(UserId::new(1_100_000_000_000_000_666)),
                allow: Permissions::VIEW_CHANNEL,
                deny: Permissions(0),
            },
        ],
        topic: Some("who is to go".into()),
        nsfw: true,
        last_message_id: Some(MESSAGE),
        last_pin_timestamp: Some(Timestamp(1_700_000_000_000)),
        rate_limit_per_user: 21_600,
        bitrate: 96_000,
        user_limit: 2,
        ..Channel::new(GENERAL, GUILD, kind, "layoffs")
    }
}

fn hidden(kind: u8, of_its_kind: Value) -> Value {
    let common = json!({"id": GENERAL, "guild_id": GUILD, "type": kind, "name": "___hidden___",
        "topic": "___hidden___", "position": 3, "parent_id": "1100000000000000009", "nsfw": false, "flags": 131_072,
        "permission_overwrites": [{"id": GUILD, "type": 0, "allow": "0", "deny": "1024"}]});
    with(common, of_its_kind)
}

#[test]
fn obfuscated_channels_tell_only_where_they_are() {
    let text = json!({"last_message_id": null, "last_pin_timestamp": null, "rate_limit_per_user": 0});
    let voice = with(text.clone(), json!({"bitrate": 64_000, "user_limit": 0, "rtc_region": null}));
    for (kind, of_its_kind) in
        [(ChannelType::Text, text), (ChannelType::Voice, voice), (ChannelType::Category, json!({}))]
    {
        let channel = secretive(kind);
        check(&ChannelBody::obfuscated(&channel), &hidden(kind as u8, of_its_kind));
        let keys = |value: Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let (whole, obfuscated) = (json_of(&ChannelBody::from(&channel)), json_of(&ChannelBody::obfuscated(&channel)));
        assert_eq!(keys(whole), keys(obfuscated), "strict parsers find every key");
    }
}

#[test]
fn newest_message() {
    let world = World::new();
    let newer = MessageId::new(MESSAGE.get() + 1);
    let expected = with(general_json(), json!({"last_message_id": newer}));
    check(&ChannelBody::from(&world.general).with_last_message(newer), &expected);
    let category = secretive(ChannelType::Category);
    let unchanged = json_of(&ChannelBody::from(&category));
    check(&ChannelBody::from(&category).with_last_message(newer), &unchanged);
    let secretive = secretive(ChannelType::Text);
    let unchanged = json_of(&ChannelBody::obfuscated(&secretive));
    check(&ChannelBody::obfuscated(&secretive).with_last_message(newer), &unchanged);
}

#[test]
fn overwrites_of_a_channel_that_may_be_viewed() {
    let body = json_of(&ChannelBody::from(&secretive(ChannelType::Text)));
    let expected = json!([
        {"id": "1100000000000000020", "type": 0, "allow": "1024", "deny": "0"},
        {"id": "1100000000000000666", "type": 1, "allow": "1024", "deny": "0"},
    ]);
    assert_eq!(body["permission_overwrites"], expected);
}
