//! Voice: muted and suppressed users, and speakers of a stage.

use crate::test_node::{Client, EVERYTHING, Person, TestNode};
use serde_json::{Value, json};

const NOTHING: Value = Value::Null;

struct Scene {
    guild: String,
    owner: Person,
    moderator: Person,
    listener: Person,
    client: Client,
    _node: TestNode,
}

impl Scene {
    fn new() -> Self {
        let node = TestNode::new();
        let (owner, moderator) = (node.user(100, "owner"), node.user(101, "moderator"));
        let listener = node.user(102, "listener");
        let (guild, _) = node.guild(&owner, &[&moderator, &listener]);
        // MUTE_MEMBERS, DEAFEN_MEMBERS.
        let new = json!({"permissions": ((1_u64 << 22) | (1 << 23)).to_string()});
        let role = owner.done("POST", &format!("/guilds/{guild}/roles"), new);
        let role = role["id"].as_str().unwrap();
        owner.done("PUT", &format!("/guilds/{guild}/members/{}/roles/{role}", moderator.id), NOTHING);
        let client = node.connect(&listener, EVERYTHING);
        Self { guild, owner, moderator, listener, client, _node: node }
    }

    fn channel(&self, kind: u8, denied: u64) -> String {
        let denied = json!([{"id": self.guild, "type": 0, "deny": denied.to_string()}]);
        let new = json!({"name": "room", "type": kind, "permission_overwrites": denied});
        let made = self.owner.done("POST", &format!("/guilds/{}/channels", self.guild), new);
        made["id"].as_str().unwrap().to_owned()
    }

    fn join(&mut self, channel: &str) -> Value {
        let d = json!({"guild_id": self.guild, "channel_id": channel, "self_mute": false, "self_deaf": false});
        self.client.send(4, &d);
        self.state()
    }

    fn state(&mut self) -> Value {
        self.client.event("VOICE_STATE_UPDATE")
    }

    fn of_listener(&self) -> String {
        format!("/guilds/{}/members/{}", self.guild, self.listener.id)
    }
}

#[test]
fn a_member_outside_of_voice_cannot_be_muted_or_deafened() {
    let mut scene = Scene::new();
    let path = scene.of_listener();
    for body in [
        json!({"mute": true}),
        json!({"mute": false}),
        json!({"deaf": true}),
        json!({"deaf": false}),
        json!({"mute": true, "deaf": true, "nick": "n"}),
    ] {
        scene.owner.refused("PATCH", &path, body, 400, 40032);
    }
    scene.owner.refused("PATCH", &path, json!({"channel_id": null}), 400, 40032);
    let member = scene.owner.get(&path);
    assert_eq!((&member["mute"], &member["deaf"], &member["nick"]), (&json!(false), &json!(false), &NOTHING));
    let room = scene.channel(2, 0);
    scene.join(&room);
    assert_eq!(scene.moderator.done("PATCH", &path, json!({"mute": true, "deaf": true}))["mute"], true);
    let state = scene.state();
    assert_eq!((&state["mute"], &state["deaf"]), (&json!(true), &json!(true)));
}

#[test]
fn a_member_without_speak_is_suppressed_now_and_later() {
    const SPEAK: u64 = 1 << 21;
    let mut scene = Scene::new();
    let (open, closed) = (scene.channel(2, 0), scene.channel(2, SPEAK));
    assert_eq!(scene.join(&closed)["suppress"], true);
    assert_eq!(scene.join(&open)["suppress"], false);
    let overwrite = |deny: u64| json!({"type": 1, "deny": deny.to_string()});
    let path = format!("/channels/{open}/permissions/{}", scene.listener.id);
    scene.owner.done("PUT", &path, overwrite(SPEAK));
    assert_eq!(scene.state()["suppress"], true);
    scene.owner.done("PUT", &path, overwrite(0));
    assert_eq!(scene.state()["suppress"], false);
    let guild = format!("/guilds/{}", scene.guild);
    scene.owner.done("PATCH", &guild, json!({"afk_channel_id": open}));
    assert_eq!(scene.state()["suppress"], true);
    let read = scene.owner.get(&format!("{guild}/voice-states/{}", scene.listener.id));
    assert_eq!(read["suppress"], true);
}

#[test]
fn a_listener_requests_to_speak_and_a_moderator_grants_it() {
    let mut scene = Scene::new();
    let (stage, room) = (scene.channel(13, 0), scene.channel(2, 0));
    let own = format!("/guilds/{}/voice-states/@me", scene.guild);
    let theirs = format!("/guilds/{}/voice-states/{}", scene.guild, scene.listener.id);
    scene.listener.refused("GET", &own, NOTHING, 404, 10065);
    scene.listener.refused("PATCH", &own, json!({"suppress": true}), 404, 10065);
    assert_eq!(scene.join(&stage)["suppress"], true);
    let read = scene.moderator.get(&theirs);
    assert_eq!((&read["channel_id"], &read["suppress"]), (&json!(stage), &json!(true)));
    assert_eq!(read, scene.listener.get(&own));

    let ask = json!({"channel_id": stage, "request_to_speak_timestamp": "2100-01-01T00:00:00Z"});
    assert_eq!(scene.listener.request("PATCH", &own, ask).status, 204);
    let requested = scene.state();
    assert_eq!(requested["suppress"], true);
    assert!(
        requested["request_to_speak_timestamp"].as_str().is_some_and(|at| at.starts_with("2100-01-01")),
        "{requested}"
    );
    for body in [json!({"request_to_speak_timestamp": "2020-01-01T00:00:00Z"}), json!({"suppress": "x"})] {
        scene.listener.refused("PATCH", &own, body, 400, 50035);
    }
    scene.listener.refused("PATCH", &own, json!({"channel_id": room, "suppress": true}), 400, 40032);
    scene.listener.refused("PATCH", &own, json!({"suppress": false}), 403, 50013);
    scene.listener.refused("PATCH", &theirs, json!({"suppress": false}), 403, 50013);

    assert_eq!(scene.moderator.request("PATCH", &theirs, json!({"channel_id": stage, "suppress": false})).status, 204);
    assert_eq!(scene.state()["suppress"], false);
    assert_eq!(scene.listener.request("PATCH", &own, json!({"suppress": true})).status, 204);
    let state = scene.state();
    assert_eq!((&state["suppress"], &state["request_to_speak_timestamp"]), (&json!(true), &NOTHING));
    scene.join(&room);
    scene.moderator.refused("PATCH", &theirs, json!({"suppress": false}), 400, 50024);
    // Voice states of a hidden channel do not exist for others.
    let hide = json!({"type": 0, "deny": "1024"});
    scene.owner.done("PUT", &format!("/channels/{room}/permissions/{}", scene.guild), hide);
    scene.moderator.refused("GET", &theirs, NOTHING, 404, 10065);
    scene.moderator.refused("PATCH", &theirs, json!({"suppress": false}), 404, 10065);
}
