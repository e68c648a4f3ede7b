//! A media server: signed tokens in VOICE_SERVER_UPDATE, its reports, and voice states over `/v1`.

use crate::{
    support::{Answer, Http},
    test_node::{Client, EVERYTHING, Person, TestNode},
};
use aws_lc_rs::{digest, hmac};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde_json::{Value, json};
use std::{
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

const KEY: &str = "a key that the media server has too";
const ROOT: &str = "the root key of the backend API, for tests";

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

fn sign(key: &str, text: &str) -> String {
    URL_SAFE_NO_PAD.encode(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()), text.as_bytes()))
}

/// The claims of a token. Its signature is checked.
#[track_caller]
fn claims(token: &str) -> Value {
    let (text, signature) = token.rsplit_once('.').expect("three parts");
    assert_eq!(sign(KEY, text), signature);
    let claims = text.split_once('.').expect("three parts").1;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).expect("base64")).expect("JSON")
}

/// A report as the media server signs it.
fn report(node: &TestNode, key: &str, signed: &Value, sent: &Value) -> Answer {
    let hash = STANDARD.encode(digest::digest(&digest::SHA256, signed.to_string().as_bytes()));
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({"iss": "livekit", "exp": now_s() + 300, "sha256": hash});
    let text = format!("{}.{}", part(json!({"alg": "HS256", "typ": "JWT"})), part(claims));
    let token = format!("{text}.{}", sign(key, &text));
    Http::new(node.addr, &token).request("POST", "/v1/voice/reports", Some(sent)).expect("it answers")
}

struct Scene {
    node: TestNode,
    ana: Person,
    guild: String,
    a: String,
    b: String,
    watcher: Client,
}

impl Scene {
    fn new() -> Self {
        let node = TestNode::with(&[
            ("voice.endpoint", "voice.example.net:443"),
            ("voice.token_key", KEY),
            ("voice.token_key_id", "livekit"),
            ("auth.admin_key", ROOT),
        ]);
        let (owner, ana) = (node.user(1_001, "owner"), node.user(1_002, "ana"));
        let (guild, _) = node.guild(&owner, &[&ana]);
        let channel = |name: &str| {
            let made = owner.done("POST", &format!("/guilds/{guild}/channels"), json!({"name": name, "type": 2}));
            made["id"].as_str().expect("an id").to_owned()
        };
        let (a, b) = (channel("a"), channel("b"));
        let watcher = node.connect(&owner, EVERYTHING);
        Self { node, ana, guild, a, b, watcher }
    }

    fn event(&self, name: &str, channel: &str, session_id: &str) -> Value {
        json!({
            "event": name, "id": "EV_1", "createdAt": "1800000000",
            "room": {"sid": "RM_1", "name": format!("{}-{channel}", self.guild)},
            "participant": {"sid": "PA_1", "identity": self.ana.id, "attributes": {"session_id": session_id}},
        })
    }

    #[track_caller]
    fn reported(&self, event: &Value) {
        let answer = report(&self.node, KEY, event, event);
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// The next change of Ana's channel that the watcher sees.
    #[track_caller]
    fn seen(&mut self) -> Value {
        self.watcher.event("VOICE_STATE_UPDATE")["channel_id"].take()
    }

    fn v1(&self, method: &str, body: Option<&Value>) -> Answer {
        let path = format!("/v1/guilds/{}/voice-states/{}", self.guild, self.ana.id);
        Http::new(self.node.addr, &format!("Bearer {ROOT}")).request(method, &path, body).expect("it answers")
    }
}

/// What `examples/voice/verify.py` prints for a token, and whether it accepts it.
fn verified(key: &str, token: &str) -> (bool, String) {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/voice/verify.py");
    let mut python = Command::new("python3");
    let ran = python.args([program, token]).env("VOICE_KEY", key).env("VOICE_KEY_ID", "livekit").output();
    let ran = ran.expect("Python runs");
    let text = if ran.status.success() { ran.stdout } else { ran.stderr };
    (ran.status.success(), String::from_utf8(text).expect("text"))
}

#[test]
fn a_media_server_verifies_the_token_offline() {
    let mut scene = Scene::new();
    let mut client = scene.node.connect(&scene.ana, EVERYTHING);
    let session_id = client.ready["session_id"].clone();
    let op4 = json!({"guild_id": scene.guild, "channel_id": scene.a, "self_mute": false, "self_deaf": false});
    client.send(4, &op4);
    let sent = client.event("VOICE_SERVER_UPDATE");
    assert_eq!(sent["endpoint"], "voice.example.net:443");
    let found = claims(sent["token"].as_str().expect("a token"));
    assert_eq!((&found["iss"], &found["sub"]), (&json!("livekit"), &json!(scene.ana.id)));
    assert_eq!(found["video"]["room"], format!("{}-{}", scene.guild, scene.a));
    assert_eq!(found["attributes"]["session_id"], session_id);
    let left_s = found["exp"].as_u64().expect("a time").saturating_sub(now_s());
    assert!((500..=600).contains(&left_s), "{left_s}");
    let (is_accepted, text) = verified(KEY, sent["token"].as_str().expect("a token"));
    let rights: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
    let may_send = json!(["microphone", "camera", "screen_share", "screen_share_audio"]);
    assert_eq!((is_accepted, &rights["may_send"], &rights["may_receive"]), (true, &may_send, &json!(true)));
    let (is_accepted, text) = verified("another key", sent["token"].as_str().expect("a token"));
    assert_eq!((is_accepted, text.trim()), (false, "refused: the signature is not of this key"));
    assert_eq!(scene.seen(), json!(scene.a));
    // The backend moves the session, which gets a token for the other room.
    let moved = scene.v1("PUT", Some(&json!({"channel_id": scene.b})));
    assert_eq!(
        (moved.status, &moved.body["channel_id"], &moved.body["session_id"]),
        (200, &json!(scene.b), &session_id)
    );
    let sent = client.event("VOICE_SERVER_UPDATE");
    assert_eq!(
        claims(sent["token"].as_str().expect("a token"))["video"]["room"],
        format!("{}-{}", scene.guild, scene.b)
    );
    assert_eq!(scene.v1("GET", None).body, moved.body);
    assert_eq!(scene.v1("DELETE", None).status, 204);
    assert_eq!(scene.v1("GET", None).status, 404);
    assert_eq!(scene.v1("PUT", Some(&json!({"channel_id": "5"}))).status, 404);
    let text_channel = scene.ana.get(&format!("/guilds/{}/channels", scene.guild))[0]["id"].clone();
    assert_eq!(scene.v1("PUT", Some(&json!({"channel_id": text_channel}))).status, 400);
}

#[test]
fn r2_joins_moves_and_ends_follow_the_media_server() {
    let mut scene = Scene::new();
    let (a, b) = (scene.a.clone(), scene.b.clone());
    // Someone who joined the room without a session in voice is shown.
    scene.reported(&scene.event("participant_joined", &a, "none"));
    assert_eq!(scene.seen(), json!(a));
    // In either order of the two reports of a move.
    scene.reported(&scene.event("participant_joined", &b, "none"));
    assert_eq!(scene.seen(), json!(b));
    scene.reported(&scene.event("participant_left", &a, "none"));
    let session = scene.v1("GET", None).body["session_id"].clone();
    let of_the_state = session.as_str().expect("a text");
    scene.reported(&scene.event("participant_left", &b, of_the_state));
    assert_eq!(scene.seen(), Value::Null, "the report about the room that they had left changed nothing");
    // An end of an earlier connection does not take the present one out.
    let mut client = scene.node.connect(&scene.ana, EVERYTHING);
    let session_id = client.ready["session_id"].as_str().expect("an id").to_owned();
    client.send(4, &json!({"guild_id": scene.guild, "channel_id": a, "self_mute": false, "self_deaf": false}));
    client.event("VOICE_SERVER_UPDATE");
    assert_eq!(scene.seen(), json!(a));
    scene.reported(&scene.event("participant_left", &a, "an earlier session"));
    scene.reported(&scene.event("participant_joined", &a, &session_id));
    assert_eq!(scene.v1("GET", None).body["channel_id"], json!(a));
    scene.reported(&scene.event("participant_connection_aborted", &a, &session_id));
    assert_eq!(scene.seen(), Value::Null);
    // The end of a room removes its voice states, and leaves those of other rooms.
    scene.reported(&scene.event("participant_joined", &b, "none"));
    assert_eq!(scene.seen(), json!(b));
    let finished = |room: &str| json!({"event": "room_finished", "room": {"name": format!("{}-{room}", scene.guild)}});
    let (of_a, of_b) = (finished(&a), finished(&b));
    scene.reported(&of_a);
    assert_eq!(scene.v1("GET", None).body["channel_id"], json!(b));
    scene.reported(&of_b);
    assert_eq!(scene.seen(), Value::Null);
    scene.reported(&of_b);
    // A report that is not about a member in one of our rooms is accepted, and changes nothing.
    for other in [
        json!({"event": "room_finished", "room": {"name": "5-6"}}),
        json!({"event": "room_started", "room": {"name": format!("{}-{a}", scene.guild)}}),
        json!({"event": "participant_joined", "room": {"name": "lobby"}, "participant": {"identity": "ana"}}),
        json!({"event": "participant_joined", "room": {"name": format!("{}-{a}", scene.guild)}, "participant": {"identity": "77"}}),
        json!({"event": "participant_joined", "room": {"name": "5-6"}, "participant": {"identity": scene.ana.id}}),
    ] {
        scene.reported(&other);
    }
    assert_eq!(scene.v1("GET", None).status, 404);
}

#[test]
fn r1_a_report_without_the_keys_signature_is_refused() {
    let scene = Scene::new();
    let event = scene.event("participant_joined", &scene.a, "none");
    let status = |answer: &Answer| (answer.status, answer.body["code"].clone());
    let refused = (401, json!("unauthorized"));
    assert_eq!(status(&report(&scene.node, "another key, as long as the one that is shared", &event, &event)), refused);
    let other = scene.event("participant_joined", &scene.b, "none");
    assert_eq!(status(&report(&scene.node, KEY, &event, &other)), refused, "of another body");
    let unsigned =
        Http::new(scene.node.addr, "").request("POST", "/v1/voice/reports", Some(&event)).expect("it answers");
    assert_eq!(status(&unsigned), refused);
    let root = Http::new(scene.node.addr, &format!("Bearer {ROOT}"));
    assert_eq!(status(&{ root }.request("POST", "/v1/voice/reports", Some(&event)).expect("it answers")), refused);
    let odd = json!({"event": 5});
    assert_eq!(status(&report(&scene.node, KEY, &odd, &odd)), (400, json!("invalid")));
    let large = json!({"event": "x".repeat(70 << 10)});
    assert_eq!(status(&report(&scene.node, KEY, &large, &large)), (413, json!("too_large")));
    assert_eq!(scene.v1("GET", None).status, 404, "none of them changed a voice state");
    // A node without the key takes none.
    let plain = TestNode::new();
    assert_eq!(report(&plain, KEY, &event, &event).status, 404);
}
