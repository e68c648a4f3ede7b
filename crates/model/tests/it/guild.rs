//! GUILD_CREATE in both shapes.

use crate::support::{
    BO, GUILD, World, check, in_lounge_json, member_json, online_json, properties_json, resources_json, with,
};
use guildhall_model::{
    Capabilities,
    from_gateway::{GatewayGuildBody, GuildText},
};
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

#[test]
fn the_text_of_many_is_the_body_of_each() {
    let world = World::new();
    for bits in [0, Capabilities::CLIENT_STATE_V2.0] {
        for others_count in [0, 1] {
            let (mut snapshot, mut people) = (world.snapshot(), world.people());
            people.others.truncate(others_count);
            let text = GuildText::new(&GatewayGuildBody::event(Capabilities(bits), &snapshot, &people)).unwrap();
            // Another recipient, some events later.
            (people.own, snapshot.member_count, snapshot.version) = (&world.bo, 77, 1 << 40);
            let body = serde_json::to_string(&GatewayGuildBody::event(Capabilities(bits), &snapshot, &people)).unwrap();
            let mut written = Vec::new();
            text.write(people.own, snapshot.member_count, snapshot.version, &mut written).unwrap();
            assert_eq!(String::from_utf8(written).unwrap(), body);
        }
    }
}

#[test]
fn the_text_of_many_in_ready_is_the_body_of_each() {
    let world = World::new();
    let dedupe = Capabilities::DEDUPE_USER_OBJECTS.0;
    for bits in [0, dedupe, dedupe | Capabilities::PRIORITIZED_READY_PAYLOAD.0, 30_717] {
        let (mut snapshot, mut people) = (world.snapshot(), world.people());
        let text = GuildText::new(&GatewayGuildBody::within_ready(Capabilities(bits), &snapshot, &people)).unwrap();
        (people.own, snapshot.member_count, snapshot.version) = (&world.bo, 77, 1 << 40);
        let body = GatewayGuildBody::within_ready(Capabilities(bits), &snapshot, &people);
        let mut written = Vec::new();
        text.write(people.own, snapshot.member_count, snapshot.version, &mut written).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), serde_json::to_string(&body).unwrap(), "{bits}");
    }
}
