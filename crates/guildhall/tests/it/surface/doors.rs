//! Doors: every way by which an earlier message could reach an account, against the account's rights in its channel.
//!
//! Owns        the table: per door and missing right, the status, and whether the message's text came out, in the
//!             answer or in an event of the account's own session. The rule is `Permissions::may_read_history`.
//! Not here    messages as they are written: their channel's viewers receive them (`partition/tests/it/visibility.rs`).
//!             Links of files: `uploads.rs`. Routes with a webhook's token: `webhooks.rs`.

use crate::test_node::{Client, EVERYTHING, Person, TestNode};
use serde_json::{Value, json};

const NOTHING: Value = Value::Null;
const SECRET: &str = "the earlier text";
const FIRE: &str = "%F0%9F%94%A5";
/// The right that the account lacks in the channel, one per column.
const LACKING: [(&str, u64); 4] =
    [("nothing", 0), ("VIEW_CHANNEL", 1 << 10), ("READ_MESSAGE_HISTORY", 1 << 16), ("SEND_MESSAGES", 1 << 11)];

/// Status of an answer (0: of the gateway), and whether the text came out.
type Cell = (u16, bool);

struct Door {
    name: &'static str,
    method: &'static str,
    /// `{c}`: the channel; `{m}`: the message of another account, pinned, with a reaction; `{own}`: the account's own
    /// answer to it.
    path: &'static str,
    body: Value,
    /// In the order of `LACKING`.
    expected: [Cell; 4],
}

/// A door that shows the text to accounts with the right to read it.
const fn reads(done: u16, hidden: u16, without_history: u16) -> [Cell; 4] {
    [(done, true), (hidden, false), (without_history, false), (done, true)]
}

/// A door that acts on the message, and never shows its text.
const fn acts(done: u16) -> [Cell; 4] {
    [(done, false), (403, false), (403, false), (done, false)]
}

#[rustfmt::skip]
fn doors() -> Vec<Door> {
    const M: &str = "/channels/{c}/messages/{m}";
    const REACTIONS: &str = "/channels/{c}/messages/{m}/reactions";
    let door = |name, method, path, body, expected| Door { name, method, path, body, expected };
    vec![
        door("a page of messages", "GET", "/channels/{c}/messages", NOTHING, reads(200, 403, 200)),
        door("a message", "GET", M, NOTHING, reads(200, 403, 403)),
        door("pins, older form", "GET", "/channels/{c}/pins", NOTHING, reads(200, 403, 200)),
        door("pins", "GET", "/channels/{c}/messages/pins", NOTHING, reads(200, 403, 200)),
        door("reply", "POST", "/channels/{c}/messages", json!({"content": "re", "message_reference": {"message_id": "{m}"}}),
            [(200, true), (403, false), (403, false), (403, false)]),
        door("forward", "POST", "/channels/{c}/messages", json!({"message_reference": {"type": 1, "message_id": "{m}", "channel_id": "{c}"}}),
            [(200, true), (403, false), (403, false), (403, false)]),
        door("a repeated reply", "POST", "/channels/{c}/messages", json!({"content": "x", "nonce": "n", "enforce_nonce": true}),
            [(200, true), (403, false), (200, false), (403, false)]),
        door("an edited reply", "PATCH", "/channels/{c}/messages/{own}", json!({"content": "re 2"}), reads(200, 403, 200)),
        door("thread", "POST", "/channels/{c}/messages/{m}/threads", json!({"name": "t"}), reads(201, 403, 403)),
        door("unpin", "DELETE", "/channels/{c}/messages/pins/{m}", NOTHING, reads(204, 403, 403)),
        door("unpin, older form", "DELETE", "/channels/{c}/pins/{m}", NOTHING, reads(204, 403, 403)),
        door("pin again", "PUT", "/channels/{c}/messages/pins/{m}", NOTHING, acts(204)),
        door("suppress embeds", "PATCH", M, json!({"flags": 4}), reads(200, 403, 403)),
        door("react", "PUT", "/channels/{c}/messages/{m}/reactions/%F0%9F%91%8D/@me", NOTHING, acts(204)),
        door("who reacted", "GET", "/channels/{c}/messages/{m}/reactions/%F0%9F%94%A5", NOTHING, acts(200)),
        door("another's reaction", "DELETE", "/channels/{c}/messages/{m}/reactions/%F0%9F%94%A5/{owner}", NOTHING, acts(204)),
        door("reactions of an emoji", "DELETE", "/channels/{c}/messages/{m}/reactions/%F0%9F%94%A5", NOTHING, acts(204)),
        door("all reactions", "DELETE", REACTIONS, NOTHING, acts(204)),
        // Moderators delete what they do not read, too: no door shows it to them.
        door("delete", "DELETE", M, NOTHING, [(204, false), (403, false), (204, false), (204, false)]),
        door("bulk deletion", "POST", "/channels/{c}/messages/bulk-delete", json!({"messages": ["{m}", "{own}"]}),
            [(204, false), (403, false), (204, false), (204, false)]),
        door("the channel", "GET", "/channels/{c}", NOTHING, [(200, false), (403, false), (200, false), (200, false)]),
        door("typing", "POST", "/channels/{c}/typing", NOTHING, [(204, false), (403, false), (204, false), (403, false)]),
        door("archived threads", "GET", "/channels/{c}/threads/archived/public", NOTHING, acts(200)),
    ]
}

struct Scene {
    node: TestNode,
    guild: String,
    general: String,
    owner: Person,
    /// May everything but what its channel takes from it.
    account: Person,
    client: Client,
    witnesses_count: usize,
}

/// A channel with a message, and what the account wrote there before it lost a right.
struct Place {
    channel: String,
    message: String,
    own: String,
}

fn id_of(value: &Value) -> String {
    value["id"].as_str().unwrap_or_else(|| panic!("no id: {value}")).to_owned()
}

impl Scene {
    fn new() -> Self {
        let node = TestNode::new();
        let (owner, account) = (node.user(100, "owner"), node.user(101, "account"));
        let (guild, general) = node.guild(&owner, &[&account]);
        // Everything but ADMINISTRATOR.
        let all = (0x1F_7FFF_FFFF_FFFF_u64 & !(1 << 3)).to_string();
        let role = id_of(&owner.done("POST", &format!("/guilds/{guild}/roles"), json!({"permissions": all})));
        owner.done("PUT", &format!("/guilds/{guild}/members/{}/roles/{role}", account.id), NOTHING);
        let mut client = node.connect(&account, EVERYTHING);
        client.send(37, &json!({"subscriptions": {guild.as_str(): {"typing": true, "threads": true}}}));
        Self { node, guild, general, owner, account, client, witnesses_count: 0 }
    }

    fn place(&mut self, kind: u8, lacking: u64) -> Place {
        let new = json!({"name": "place", "type": kind});
        let channel = id_of(&self.owner.done("POST", &format!("/guilds/{}/channels", self.guild), new));
        let messages = format!("/channels/{channel}/messages");
        let message = id_of(&self.owner.done("POST", &messages, json!({"content": SECRET})));
        self.owner.done("PUT", &format!("{messages}/{message}/reactions/{FIRE}/@me"), NOTHING);
        let reply = json!({"content": "re", "message_reference": {"message_id": message}, "nonce": "n"});
        let own = id_of(&self.account.done("POST", &messages, reply));
        self.owner.done("PUT", &format!("{messages}/pins/{message}"), NOTHING);
        let deny = json!({"type": 1, "deny": lacking.to_string()});
        self.owner.done("PUT", &format!("/channels/{channel}/permissions/{}", self.account.id), deny);
        self.events();
        Place { channel, message, own }
    }

    /// Events of the account's session since the last call.
    fn events(&mut self) -> Vec<(String, Value)> {
        self.witnesses_count += 1;
        let witness = format!("witness {}", self.witnesses_count);
        self.owner.done("POST", &format!("/channels/{}/messages", self.general), json!({"content": witness}));
        self.client.dispatches_until(&witness, |payload| payload["d"]["content"] == witness.as_str())
    }

    fn through(&mut self, door: &Door, place: &Place) -> Cell {
        let fill = |text: &str| {
            let text = text.replace("{c}", &place.channel).replace("{m}", &place.message);
            text.replace("{own}", &place.own).replace("{owner}", &self.owner.id)
        };
        let body: Value = serde_json::from_str(&fill(&door.body.to_string())).expect("JSON still");
        let answer = self.account.request(door.method, &fill(door.path), body);
        let is_shown = answer.body.to_string().contains(SECRET) || shows(&self.events());
        (answer.status, is_shown)
    }
}

fn shows(events: &[(String, Value)]) -> bool {
    events.iter().any(|(_, d)| d.to_string().contains(SECRET))
}

#[test]
fn every_door_needs_the_right_to_read_history() {
    let mut scene = Scene::new();
    let mut wrong = Vec::new();
    for door in doors() {
        for ((lacking, bits), expected) in LACKING.into_iter().zip(door.expected) {
            let place = scene.place(0, bits);
            let got = scene.through(&door, &place);
            if got != expected {
                wrong.push(format!("{} without {lacking}: {expected:?} expected, got {got:?}", door.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cells are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_gateway_needs_the_same_right() {
    let mut scene = Scene::new();
    // As a column of the table, and the text chat of a voice channel without CONNECT.
    let places = LACKING.into_iter().map(|(lacking, bits)| (0, lacking, bits));
    for (kind, lacking, bits) in places.chain([(2, "nothing", 0), (2, "CONNECT", 1 << 20)]) {
        let is_shown = ["nothing", "SEND_MESSAGES"].contains(&lacking);
        let place = scene.place(kind, bits);
        let request = json!({"guild_id": scene.guild, "channel_ids": [place.channel]});
        // The note that the message was pinned is the newest otherwise.
        let messages = format!("/channels/{}/messages", place.channel);
        scene.owner.done("POST", &messages, json!({"content": SECRET}));
        let live = shows(&scene.events());
        scene.client.send(34, &request);
        let answer = scene.client.event("LAST_MESSAGES");
        assert_eq!(answer["messages"].as_array().map(Vec::len), Some(usize::from(is_shown)), "{kind} {lacking}");
        let read = scene.account.request("GET", &messages, NOTHING);
        assert_eq!(read.body.to_string().contains(SECRET), is_shown, "{kind} {lacking}: {read:?}");
        // A new message goes to accounts that may view the channel, and in voice may connect to it.
        let is_live = !["VIEW_CHANNEL", "CONNECT"].contains(&lacking);
        assert_eq!(live, is_live, "{kind} {lacking}");
        let again = scene.node.connect(&scene.account, EVERYTHING);
        assert!(!again.ready.to_string().contains(SECRET), "{kind} {lacking}");
    }
}

#[test]
fn an_answer_of_the_gateway_is_not_replayed_without_the_right() {
    let mut scene = Scene::new();
    let place = scene.place(0, 0);
    let messages = format!("/channels/{}/messages", place.channel);
    scene.owner.done("POST", &messages, json!({"content": SECRET}));
    let mut client = scene.node.connect(&scene.account, EVERYTHING);
    client.send(34, &json!({"guild_id": scene.guild, "channel_ids": [place.channel]}));
    let before = client.seq();
    assert!(client.event("LAST_MESSAGES").to_string().contains(SECRET));
    let deny = json!({"type": 1, "deny": (1_u64 << 16).to_string()});
    let path = format!("/channels/{}/permissions/{}", place.channel, scene.account.id);
    scene.owner.done("PUT", &path, deny);
    client.event("CHANNEL_UPDATE");
    let (_, replayed) = client.lose_at(before).resume();
    assert!(!replayed.iter().any(|(name, _)| name == "LAST_MESSAGES"), "{replayed:?}");
    assert!(replayed.iter().any(|(name, _)| name == "CHANNEL_UPDATE"), "{replayed:?}");
}

#[test]
fn a_refusal_does_not_reveal_whether_a_message_exists() {
    let mut scene = Scene::new();
    let place = scene.place(0, 1 << 16);
    let messages = format!("/channels/{}/messages", place.channel);
    for (method, rest, body) in [
        ("GET", "", NOTHING),
        ("PATCH", "", json!({"content": "x"})),
        ("PATCH", "", json!({"flags": 4})),
        ("POST", "/threads", json!({"name": "t"})),
        ("PUT", "/reactions/%F0%9F%94%A5/@me", NOTHING),
        ("DELETE", "/reactions", NOTHING),
    ] {
        for id in [place.message.as_str(), "12345"] {
            scene.account.refused(method, &format!("{messages}/{id}{rest}"), body.clone(), 403, 50013);
        }
    }
}
