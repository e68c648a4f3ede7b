//! READY and READY_SUPPLEMENTAL of user accounts, by capability.

use crate::support::{
    ANA, BO, GENERAL, GUILD, MESSAGE, World, check, in_lounge_json, json_of, member_json, online_json, properties_json,
    resources_json, standing_json, user_json, with, without,
};
use guildhall_model::{
    Capabilities, ClientStatus, GuildId, Id, NotificationSettings, Platform, Presence, ReadState, Relation,
    Relationship, RelationshipKind, Status, User,
    from_gateway::{
        ClientInfo, GatewayGuildBody, GuildSnapshot, GuildText, ReadStateBody, ReadyGuild, SessionBody, SessionsBody,
        SharedGuild, UserReady,
    },
};
use guildhall_stdx::Timestamp;
use serde_json::{Value, json};
use std::{cell::Cell, collections::BTreeSet, sync::Arc};

const DARK: GuildId = GuildId::new(1_100_000_000_000_000_002);
const DEDUPE: u64 = Capabilities::DEDUPE_USER_OBJECTS.0;
const PRIORITIZED: u64 = DEDUPE | Capabilities::PRIORITIZED_READY_PAYLOAD.0;

/// READY of Ana: one guild, and one that is unavailable.
fn ready<'a, G: Fn() -> GuildSnapshot<'a>>(world: &'a World, bits: u64, snapshot: G) -> UserReady<'a, G> {
    let session = SessionBody {
        session_id: "5f0c0d4ae1b84a6c",
        status: Status::Idle,
        activities: &[],
        hidden_activities: [],
        client_info: ClientInfo::new(Platform::Desktop, "Linux"),
    };
    UserReady {
        capabilities: Capabilities(bits),
        user: &world.ana.user,
        session_id: "5f0c0d4ae1b84a6c",
        resume_gateway_url: "wss://gw-1.example.net",
        shard: None,
        sessions: SessionsBody { sessions: vec![session] },
        guilds: vec![
            ReadyGuild::Unavailable(DARK),
            ReadyGuild::Complete { id: GUILD, people: world.people(), snapshot, shared: None },
        ],
        directs: &[],
        relationships: &[],
        friend_presences: &[],
        settings_proto: "CgIYAQ==",
        read_states: vec![ReadStateBody::new(&read_state(), 2)],
        read_version: 77,
        notification_settings: vec![
            (&NotificationSettings { version: 5, ..NotificationSettings::new(Some(GUILD)) }).into(),
        ],
    }
}

fn read_state() -> ReadState {
    ReadState { last_message_id: MESSAGE, ..ReadState::new(GENERAL) }
}

fn read_states_json() -> Value {
    json!([{"id": GENERAL, "last_message_id": MESSAGE, "mention_count": 2}])
}

fn notifications_json() -> Value {
    json!([{"guild_id": GUILD, "message_notifications": 3, "suppress_everyone": false, "suppress_roles": false,
        "mute_scheduled_events": false, "mobile_push": true, "muted": false, "mute_config": null,
        "hide_muted_channels": false, "notify_highlights": 0, "flags": 0, "channel_overrides": [], "version": 5}])
}

fn versioned(entries: Value, version: u64) -> Value {
    json!({"entries": entries, "partial": false, "version": version})
}

/// What READY has for every client.
fn common_json(world: &World) -> Value {
    let user = with(
        user_json(&world.ana),
        json!({"banner": null, "accent_color": null, "mfa_enabled": false, "locale": "en-US", "verified": true,
            "email": null, "flags": 0, "primary_guild": null, "premium_type": 0}),
    );
    json!({"v": 10, "user": user, "session_id": "5f0c0d4ae1b84a6c", "resume_gateway_url": "wss://gw-1.example.net",
        "session_type": "normal",
        "sessions": [{"session_id": "5f0c0d4ae1b84a6c", "status": "idle", "activities": [], "hidden_activities": [],
            "client_info": {"client": "desktop", "os": "Linux", "version": 0}}],
        "private_channels": [], "relationships": [], "user_settings_proto": "CgIYAQ==", "connected_accounts": [],
        "guild_join_requests": [], "experiments": [], "guild_experiments": [], "game_relationships": [],
        "linked_users": [], "friend_suggestion_count": 0, "api_code_version": 1, "explicit_content_scan_version": 0,
        "country_code": "US", "analytics_token": "none", "auth_session_id_hash": "none",
        "static_client_session_id": "none", "consents": {}, "tutorial": null, "auth": {}, "geo_ordered_rtc_regions": []})
}

/// A deduplicated member.
fn merged_json(id: guildhall_model::UserId) -> Value {
    with(standing_json(), json!({"user_id": id}))
}

fn flat_guild_json() -> Value {
    with(with(properties_json(), resources_json()), json!({"soundboard_sounds": []}))
}

fn written<'a, G: Fn() -> GuildSnapshot<'a>>(ready: &UserReady<'a, G>) -> String {
    let mut out = b"in front: ".to_vec();
    ready.write_json(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn u3_guilds_of_a_text_for_several_recipients_are_the_same() {
    let world = World::new();
    for bits in [0, DEDUPE, PRIORITIZED, 30_717, u64::MAX] {
        let mut ready = ready(&world, bits, || world.snapshot());
        let serialized = serde_json::to_string(&ready).unwrap();
        assert_eq!(written(&ready), format!("in front: {serialized}"), "{bits}");

        let (snapshot, mut people) = (world.snapshot(), world.people());
        // Made for another recipient.
        people.own = &world.bo;
        let text = GuildText::new(&GatewayGuildBody::within_ready(Capabilities(bits), &snapshot, &people)).unwrap();
        let Some(ReadyGuild::Complete { shared, .. }) = ready.guilds.last_mut() else { panic!("it is available") };
        let (member_count, version) = (snapshot.member_count, snapshot.version);
        *shared = Some(SharedGuild { text: &text, member_count, version });
        assert_eq!(written(&ready), format!("in front: {serialized}"), "{bits}");
    }
}

#[test]
fn without_capabilities_everything_is_in_its_guild() {
    let world = World::new();
    let people = json!({"members": [member_json(&world.ana), member_json(&world.bo)],
        "presences": [with(online_json(), json!({"user": {"id": BO}}))], "voice_states": [in_lounge_json(BO)],
        "activity_instances": []});
    let expected = with(
        common_json(&world),
        json!({"guilds": [{"id": DARK, "unavailable": true}, with(flat_guild_json(), people)], "presences": [],
            "read_state": read_states_json(), "user_guild_settings": notifications_json(), "user_settings": {}, "notes": {}}),
    );
    // Bit 5 means nothing without bit 4.
    for bits in [0, Capabilities::PRIORITIZED_READY_PAYLOAD.0] {
        let ready = ready(&world, bits, || world.snapshot());
        check(&ready, &expected);
        assert!(ready.supplemental().is_none());
    }
}

#[test]
fn deduplicated() {
    let world = World::new();
    let voice = json!({"voice_states": [in_lounge_json(BO)], "activity_instances": []});
    let expected = with(
        common_json(&world),
        json!({"guilds": [{"id": DARK, "unavailable": true}, with(flat_guild_json(), voice)],
            "users": [user_json(&world.bo), user_json(&world.ana)],
            "merged_members": [[], [merged_json(ANA), merged_json(BO)]],
            "merged_presences": {"friends": [], "guilds": [[], [with(online_json(), json!({"user_id": BO}))]]},
            "read_state": read_states_json(), "user_guild_settings": notifications_json(), "user_settings": {}, "notes": {}}),
    );
    let ready = ready(&world, DEDUPE, || world.snapshot());
    check(&ready, &expected);
    assert!(ready.supplemental().is_none());
}

/// All capabilities of current clients.
#[test]
fn in_two_parts() {
    let world = World::new();
    let guild = json!({"id": GUILD, "data_mode": "full", "properties": properties_json()});
    let expected = with(
        common_json(&world),
        json!({"guilds": [{"id": DARK, "data_mode": "unavailable", "unavailable": true}, with(guild, resources_json())],
            "users": [user_json(&world.bo), user_json(&world.ana)], "merged_members": [[], [merged_json(ANA)]],
            "read_state": versioned(read_states_json(), 77),
            "user_guild_settings": versioned(notifications_json(), 5)}),
    );
    let ready = ready(&world, 1_734_653, || world.snapshot());
    check(&ready, &expected);
    check(
        &ready.supplemental().unwrap(),
        &json!({"guilds": [{"id": DARK}, {"id": GUILD, "voice_states": [in_lounge_json(BO)], "activity_instances": []}],
            "merged_members": [[], [merged_json(BO)]],
            "merged_presences": {"friends": [], "guilds": [[], [with(online_json(), json!({"user_id": BO}))]]},
            "lazy_private_channels": [], "disclose": [], "game_invites": []}),
    );
}

#[test]
fn relationships_name_accounts_as_the_client_wants() {
    let world = World::new();
    let relation = Relation { kind: RelationshipKind::Incoming, nickname: None, since: Timestamp(0) };
    let relationships = [Relationship { user: Arc::new(User::new(Id::new(77), "zoe")), relation }];
    let with_friend = |bits| UserReady { relationships: &relationships, ..ready(&world, bits, || world.snapshot()) };
    let plain = json_of(&with_friend(0));
    assert_eq!(plain["relationships"][0]["user"]["username"], "zoe");
    assert_eq!((&plain["relationships"][0]["type"], plain.get("users")), (&json!(3), None));
    let deduplicated = json_of(&with_friend(DEDUPE));
    assert_eq!(deduplicated["relationships"][0]["user_id"], "77");
    assert_eq!(deduplicated["relationships"][0].get("user"), None);
    let users = deduplicated["users"].as_array().unwrap();
    assert_eq!(users.iter().filter(|user| user["id"] == "77").count(), 1);
}

#[test]
fn presences_of_friends_are_where_the_client_wants_them() {
    let world = World::new();
    let idle = || {
        let mut client_status = ClientStatus::default();
        client_status.raise(Platform::Mobile, Status::Idle);
        Presence { status: Status::Idle, activities: Vec::new(), client_status }
    };
    let friends = [(Id::new(77), idle())];
    let with_friend = |bits| UserReady { friend_presences: &friends, ..ready(&world, bits, || world.snapshot()) };
    let shown = json!({"status": "idle", "activities": [], "client_status": {"mobile": "idle"}});
    let merged = json!([with(shown.clone(), json!({"user_id": "77"}))]);
    let plain = json_of(&with_friend(0));
    assert_eq!(plain["presences"], json!([with(shown, json!({"user": {"id": "77"}}))]));
    let deduplicated = json_of(&with_friend(DEDUPE));
    assert_eq!((&deduplicated["merged_presences"]["friends"], deduplicated.get("presences")), (&merged, None));
    let prioritized = with_friend(PRIORITIZED);
    assert_eq!(json_of(&prioritized).get("merged_presences"), None);
    assert_eq!(json_of(&prioritized.supplemental().unwrap())["merged_presences"]["friends"], merged);
}

#[test]
fn sessions_of_an_account_are_merged() {
    let game = |name: &str| json!({"name": name}).as_object().cloned().unwrap();
    let session = |status, platform, names: &[&str]| {
        let mut client_status = ClientStatus::default();
        client_status.raise(platform, status);
        Presence { status, activities: names.iter().map(|name| game(name)).collect(), client_status }
    };
    let mut all = session(Status::Idle, Platform::Web, &["chess"]);
    all.merge(session(Status::Dnd, Platform::Desktop, &["go"; 20]));
    all.merge(session(Status::Online, Platform::Web, &[]));
    assert_eq!((all.status, all.activities.len()), (Status::Dnd, 16));
    assert_eq!((&all.activities[0]["name"], &all.activities[1]["name"]), (&json!("chess"), &json!("go")));
    assert_eq!(json_of(&all.client_status), json!({"desktop": "dnd", "web": "online"}));
}

#[test]
fn shard_is_echoed() {
    let world = World::new();
    let sharded = UserReady { shard: Some((0, 2)), ..ready(&world, 0, || world.snapshot()) };
    let plain = ready(&world, 0, || world.snapshot());
    check(&sharded, &with(json_of(&plain), json!({"shard": [0, 2]})));
}

/// Each capability changes its own fields and no others.
#[test]
fn capabilities_one_by_one() {
    let world = World::new();
    let plain = json_of(&ready(&world, 0, || world.snapshot()));
    let check_one = |capability: Capabilities, expected: Value| {
        check(&ready(&world, capability.0, || world.snapshot()), &expected);
    };
    check_one(Capabilities::LAZY_USER_NOTES, without(plain.clone(), &["notes"]));
    check_one(Capabilities::USER_SETTINGS_PROTO, without(plain.clone(), &["user_settings"]));
    let read_states = json!({"read_state": versioned(read_states_json(), 77)});
    check_one(Capabilities::VERSIONED_READ_STATES, with(plain.clone(), read_states));
    check_one(
        Capabilities::VERSIONED_USER_GUILD_SETTINGS,
        with(plain.clone(), json!({"user_guild_settings": versioned(notifications_json(), 5)})),
    );
    check_one(Capabilities::CHANNEL_OBFUSCATION, plain.clone());
    check_one(Capabilities(!((1 << 17) - 1)), plain);
}

/// Every string or number under a key that names a user.
fn user_ids(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| user_ids(item, into)),
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(id) if key == "user_id" => _ = into.insert(id.clone()),
                    _ => user_ids(value, into),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn u1_u2_slots_line_up_and_ids_resolve() {
    let world = World::new();
    for bits in (0..1 << 11).filter(|bits| bits & DEDUPE != 0) {
        let ready = ready(&world, bits, || world.snapshot());
        let (first, second) = (json_of(&ready), ready.supplemental().map(|body| json_of(&body)));
        let users: BTreeSet<String> =
            first["users"].as_array().unwrap().iter().map(|user| user["id"].as_str().unwrap().to_owned()).collect();
        let mut named = BTreeSet::new();
        for part in std::iter::once(&first).chain(&second) {
            user_ids(part, &mut named);
            assert_eq!(part["merged_members"].as_array().unwrap().len(), ready.guilds.len());
        }
        assert!(!named.is_empty() && named.is_subset(&users), "{bits:b}: {named:?} {users:?}");
        let presences = second.as_ref().unwrap_or(&first);
        assert_eq!(presences["merged_presences"]["guilds"].as_array().unwrap().len(), ready.guilds.len());
        assert_eq!(second.is_some(), bits & PRIORITIZED == PRIORITIZED);
        let ids = |part: &Value| part["guilds"].as_array().unwrap().iter().map(|g| g["id"].clone()).collect::<Vec<_>>();
        assert!(second.is_none_or(|second| ids(&second) == ids(&first)));
    }
}

#[test]
fn a_guild_is_built_once_and_only_for_ready() {
    let world = World::new();
    let built = Cell::new(0);
    let ready = ready(&world, PRIORITIZED, || {
        built.set(built.get() + 1);
        world.snapshot()
    });
    assert_eq!(built.get(), 0);
    json_of(&ready);
    assert_eq!(built.get(), 1);
    json_of(&ready.supplemental().unwrap());
    assert_eq!(built.get(), 1);
}
