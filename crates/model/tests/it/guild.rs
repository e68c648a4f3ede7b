//! GUILD_CREATE in both shapes.

use crate::support::{
    BO, GUILD, World, belongings_json, check, in_lounge_json, json_of, member_json, online_json, properties_json, with,
};
use guildhall_model::{
    Capabilities,
    from_gateway::{
        ChannelBody, GatewayGuildBody, GuildBody, GuildCreateBody, MemberBody, PresenceBody, RoleBody, VoiceStateBody,
    },
};
use serde_json::{Value, json};

/// Everybody in it.
fn people_json(world: &World) -> Value {
    json!({"members": [member_json(&world.ana), member_json(&world.bo)],
        "presences": [with(online_json(), json!({"user": {"id": BO}}))], "voice_states": [in_lounge_json(BO)],
        "activity_instances": []})
}

#[test]
fn flat() {
    let world = World::new();
    let expected = with(properties_json(), belongings_json());
    let expected = with(with(expected, people_json(&world)), json!({"soundboard_sounds": []}));
    for bits in [0, Capabilities::DEDUPE_USER_OBJECTS.0, !Capabilities::CLIENT_STATE_V2.0] {
        let (snapshot, people) = (world.snapshot(), world.people());
        check(&GatewayGuildBody::event(Capabilities(bits), &snapshot, &people), &expected);
    }
}

#[test]
fn with_properties() {
    let world = World::new();
    let beside = json!({"id": GUILD, "data_mode": "full", "properties": properties_json()});
    let expected = with(with(beside, belongings_json()), people_json(&world));
    for bits in [Capabilities::CLIENT_STATE_V2.0, u64::MAX] {
        let (snapshot, people) = (world.snapshot(), world.people());
        check(&GatewayGuildBody::event(Capabilities(bits), &snapshot, &people), &expected);
    }
}

#[test]
fn user_clients_without_capabilities_get_what_bots_get() {
    let world = World::new();
    let for_bots = GuildCreateBody {
        guild: GuildBody::new(&world.guild, std::iter::once(RoleBody::from(&world.everyone))),
        joined_at: world.ana.joined_at,
        large: false,
        unavailable: false,
        member_count: 2,
        members: vec![MemberBody::from(&world.ana), MemberBody::from(&world.bo)],
        channels: vec![ChannelBody::from(&world.general)],
        threads: [],
        presences: vec![PresenceBody::new(None, BO, &world.online)],
        voice_states: vec![VoiceStateBody::within_guild(&world.bo_in_lounge)],
        stage_instances: [],
        guild_scheduled_events: [],
        soundboard_sounds: [],
        activity_instances: [],
        version: 7,
    };
    let (snapshot, people) = (world.snapshot(), world.people());
    check(&GatewayGuildBody::event(Capabilities::NONE, &snapshot, &people), &json_of(&for_bots));
}
