//! Answers to the smaller opcodes.

use crate::support::{GENERAL, GUILD, LOUNGE, MESSAGE, World, check, general_json, json_of};
use guildhall_model::{
    EmojiId, Message, RoleId,
    from_gateway::{
        ChannelBody, ChannelInfoBody, ChannelMemberCountUpdateBody, ChannelStatusesBody, ChannelSyncBody,
        DeletedEntityIdsBody, ExistingEntities, LastMessagesBody, MessageBody, SoundboardSoundsBody,
        ThreadListSyncBody,
    },
    to_gateway::GetDeletedEntityIds,
};
use serde_json::{Value, json};

#[test]
fn last_messages() {
    let stored = json!({"id": MESSAGE, "channel_id": GENERAL, "guild_id": GUILD, "content": "hi",
        "author": {"id": "1100000000000000777", "username": "ana"}});
    let message: Message = serde_json::from_value(stored).unwrap();
    let body = LastMessagesBody { guild_id: GUILD, messages: vec![MessageBody::new(&message)] };
    let message = json_of(&MessageBody::new(&message));
    assert_eq!(message["id"], "1174109840998400000");
    check(&body, &json!({"guild_id": GUILD, "messages": [message]}));
}

#[test]
fn counts_and_channels() {
    let world = World::new();
    let counts = ChannelMemberCountUpdateBody {
        guild_id: GUILD,
        channel_id: GENERAL,
        member_count: 1_000_000,
        presence_count: 300,
    };
    check(
        &counts,
        &json!({"guild_id": GUILD, "channel_id": GENERAL, "member_count": 1_000_000, "presence_count": 300}),
    );
    let sync = ChannelSyncBody::new(GUILD, vec![ChannelBody::from(&world.general)]);
    check(&sync, &json!({"guild_id": GUILD, "channels": [general_json()], "integrity_check": false}));
}

#[test]
fn nothing_is_an_answer_too() {
    check(&ChannelStatusesBody::none(GUILD), &json!({"guild_id": GUILD, "channels": []}));
    check(&ChannelInfoBody::none(GUILD), &json!({"guild_id": GUILD, "channels": []}));
    check(&SoundboardSoundsBody::none(GUILD), &json!({"guild_id": GUILD, "soundboard_sounds": []}));
    check(
        &ThreadListSyncBody::new(GUILD, None, Vec::new(), std::iter::empty()),
        &json!({"guild_id": GUILD, "threads": [], "members": [], "most_recent_messages": []}),
    );
}

#[test]
fn deleted_entities_are_those_that_are_not_listed() {
    let existing = || ExistingEntities {
        channels: vec![LOUNGE, GENERAL],
        roles: vec![RoleId::new(GUILD.get())],
        emojis: vec![EmojiId::new(9), EmojiId::new(10)],
    };
    let check_request = |hashes: [Option<u32>; 4], expected: Value| {
        let [channel_ids_hash, role_ids_hash, emoji_ids_hash, sticker_ids_hash] = hashes;
        let request =
            GetDeletedEntityIds { guild_id: GUILD, channel_ids_hash, role_ids_hash, emoji_ids_hash, sticker_ids_hash };
        let body = DeletedEntityIdsBody::new(&request, existing());
        assert_eq!(json_of(&body), expected);
    };
    // Over "1100000000000000010,1100000000000000011", "1100000000000000001", "9,10" and "".
    const SAME: [Option<u32>; 4] = [Some(1_058_833_108), Some(1_574_050_642), Some(941_116_032), Some(0)];
    check_request(SAME, json!({"guild_id": GUILD}));
    check_request([None; 4], json!({"guild_id": GUILD}));
    check_request(
        [Some(1), SAME[1], Some(2), Some(3)],
        json!({"guild_id": GUILD, "channels": [GENERAL, LOUNGE], "emojis": ["9", "10"], "stickers": []}),
    );
    check_request([SAME[0], Some(7), None, None], json!({"guild_id": GUILD, "roles": [GUILD]}));
}
