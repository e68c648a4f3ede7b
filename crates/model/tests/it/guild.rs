//! GUILD_CREATE in both shapes.

use crate::support::{
    BO, GUILD, World, check, in_lounge_json, member_json, online_json, properties_json, resources_json, with,
};
use guildhall_model::{Capabilities, from_gateway::GatewayGuildBody};
use serde_json::{Value, json};

/// All its members.
fn people_json(world: &World) -> Value {
    json!({"members": [member_json(&world.ana), member_json(&world.bo)],
        "presences": [with(online_json(), json!({"user": {"id": BO}}))], "voice_states": [in_lounge_json(BO)],
        "activity_instances": []})
}

#[test]
fn flat() {
    let world = World::new();
    let expected = with(properties_json(), resources_json());
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
    let expected = with(with(beside, resources_json()), people_json(&world));
    for bits in [Capabilities::CLIENT_STATE_V2.0, u64::MAX] {
        let (snapshot, people) = (world.snapshot(), world.people());
        check(&GatewayGuildBody::event(Capabilities(bits), &snapshot, &people), &expected);
    }
}
