//! Read states, mentions and notification settings, over REST and in READY.

use crate::test_node::{Client, Person, TestNode};
use guildhall_stdx::Rng;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Capabilities for versioned read states and settings.
const VERSIONED: u64 = 1 << 2 | 1 << 3;

#[track_caller]
fn send(person: &Person, channel: &str, content: &str) -> String {
    let message = person.done("POST", &format!("/channels/{channel}/messages"), json!({"content": content}));
    message["id"].as_str().expect("an id").to_owned()
}

fn ack_path(channel: &str, message: &str) -> String {
    format!("/channels/{channel}/messages/{message}/ack")
}

/// The newest message that was read, and the mentions after it.
fn state<'a>(ready: &'a Value, channel: &str) -> Option<(&'a str, u64)> {
    let state = ready["read_state"].as_array()?.iter().find(|state| state["id"] == channel)?;
    Some((state["last_message_id"].as_str()?, state["mention_count"].as_u64()?))
}

#[test]
fn an_acknowledgement_reaches_the_other_sessions_and_the_next_ready() {
    let mut node = TestNode::new();
    let (ana, bob) = (node.user(100, "ana"), node.user(101, "bob"));
    let (_, channel) = node.guild(&ana, &[&bob]);
    let mut phone = node.connect(&bob, 0);
    let mut anas = node.connect(&ana, 0);
    assert_eq!(state(&phone.ready, &channel), None, "nothing was read, nothing mentions bob");
    let first = send(&ana, &channel, "<@101> hello");
    let second = send(&ana, &channel, "@everyone hello");
    assert_eq!(state(&node.connect(&bob, 0).ready, &channel), Some(("0", 2)));
    let own = node.connect(&ana, 0).ready;
    assert_eq!(state(&own, &channel), Some((&*second, 0)), "who writes has read");

    let body = json!({"token": null, "last_viewed": 4000, "flags": 1});
    assert_eq!(bob.done("POST", &ack_path(&channel, &first), body), json!({"token": null}));
    let ack = phone.event("MESSAGE_ACK");
    assert_eq!((&ack["channel_id"], &ack["message_id"]), (&json!(channel), &json!(first)));
    assert_eq!((&ack["last_viewed"], &ack["flags"], ack.get("manual")), (&json!(4000), &json!(1), None));
    let ready = node.connect(&bob, 0).ready;
    assert_eq!(state(&ready, &channel), Some((&*first, 1)));
    assert_eq!(ready["read_state"][0]["last_viewed"], 4000);

    bob.done("POST", &ack_path(&channel, &second), Value::Null);
    assert_eq!(phone.event("MESSAGE_ACK")["message_id"], json!(second));
    // An acknowledgement that comes late changes nothing; one by hand does.
    bob.done("POST", &ack_path(&channel, &first), Value::Null);
    assert_eq!(state(&node.connect(&bob, 0).ready, &channel), Some((&*second, 0)));
    bob.done("POST", &ack_path(&channel, &first), json!({"manual": true, "mention_count": 1}));
    let by_hand = phone.until("by hand", |payload| payload["d"]["manual"] == true);
    assert_eq!((&by_hand["d"]["message_id"], &by_hand["d"]["mention_count"]), (&json!(first), &json!(1)));
    assert!(!anas.names().contains(&"MESSAGE_ACK".to_owned()), "another account's");

    let mut versioned = Client::connect(node.addr, &bob, json!({"capabilities": VERSIONED})).ready;
    assert!(versioned["read_state"]["version"].as_u64() >= by_hand["d"]["version"].as_u64());
    assert_eq!(versioned["read_state"]["partial"], false);
    let entries = json!({"read_state": versioned["read_state"]["entries"].take()});
    assert_eq!(state(&entries, &channel), Some((&*first, 1)));

    // The last acknowledgement before the end is stored.
    bob.done("POST", &ack_path(&channel, &second), Value::Null);
    node.restart();
    let bob = node.again(&bob);
    assert_eq!(state(&node.connect(&bob, 0).ready, &channel), Some((&*second, 0)));
    bob.done("DELETE", &format!("/channels/{channel}/messages/ack"), Value::Null);
    assert_eq!(state(&node.connect(&bob, 0).ready, &channel), Some(("0", 2)));
}

#[test]
fn hidden_channels_and_suppressed_mentions_do_not_count() {
    let node = TestNode::new();
    let (ana, bob) = (node.user(100, "ana"), node.user(101, "bob"));
    let (guild, channel) = node.guild(&ana, &[&bob]);
    let role = ana.done("POST", &format!("/guilds/{guild}/roles"), json!({"name": "crew", "mentionable": true}));
    let role = role["id"].as_str().expect("an id").to_owned();
    send(&ana, &channel, &format!("<@&{role}> before bob has the role"));
    let count = |person: &Person| state(&node.connect(person, 0).ready, &channel).map(|(_, count)| count);
    assert_eq!(count(&bob), None);
    ana.done("PUT", &format!("/guilds/{guild}/members/101/roles/{role}"), Value::Null);
    send(&ana, &channel, "@everyone");
    send(&ana, &channel, &format!("<@&{role}> and @everyone"));
    assert_eq!(count(&bob), Some(3));

    let path = format!("/users/@me/guilds/{guild}/settings");
    bob.done("PATCH", &path, json!({"suppress_everyone": true}));
    assert_eq!(count(&bob), Some(2));
    bob.done("PATCH", &path, json!({"suppress_roles": true}));
    assert_eq!(count(&bob), None);
    bob.done("PATCH", &path, json!({"suppress_everyone": false, "suppress_roles": false}));
    assert_eq!(count(&bob), Some(3));

    let overwrite = format!("/channels/{channel}/permissions/{guild}");
    ana.done("PUT", &overwrite, json!({"type": 0, "deny": "1024"}));
    assert_eq!(count(&bob), None);
    bob.refused("POST", &ack_path(&channel, "5"), Value::Null, 403, 50001);
    bob.done("POST", "/read-states/ack-bulk", json!({"read_states": [{"channel_id": channel, "message_id": "5"}]}));
    assert_eq!(count(&bob), None, "passed over");
    ana.done("DELETE", &overwrite, Value::Null);
    assert_eq!(count(&bob), Some(3));
    // A newcomer has no old mentions.
    let cem = node.user(102, "cem");
    ana.done("PUT", &format!("/guilds/{guild}/members/102"), json!({"access_token": cem.token}));
    assert_eq!(count(&cem), None);
}

#[test]
fn direct_messages_threads_pins_and_many_channels() {
    let node = TestNode::new();
    let (ana, bob) = (node.user(100, "ana"), node.user(101, "bob"));
    let (_, channel) = node.guild(&ana, &[&bob]);
    let mut phone = node.connect(&bob, 0);
    let direct = ana.done("POST", "/users/@me/channels", json!({"recipient_id": "101"}));
    let direct = direct["id"].as_str().expect("an id").to_owned();
    let newest = [send(&ana, &direct, "one"), send(&ana, &direct, "two")];
    let thread = ana.done("POST", &format!("/channels/{channel}/threads"), json!({"name": "t", "type": 11}));
    let thread = thread["id"].as_str().expect("an id").to_owned();
    let in_thread = send(&ana, &thread, "<@101>");
    let ready = node.connect(&bob, 0).ready;
    assert_eq!(state(&ready, &direct), Some(("0", 2)));
    assert_eq!(state(&ready, &thread), Some(("0", 1)));

    let muted = json!({"channel_overrides": {&direct: {"muted": true}}});
    bob.done("PATCH", "/users/@me/guilds/@me/settings", muted);
    assert_eq!(state(&node.connect(&bob, 0).ready, &direct), None);
    bob.done("PATCH", "/users/@me/guilds/@me/settings", json!({"channel_overrides": {&direct: {"muted": false}}}));

    let target = |channel: &str, message: &str| json!({"channel_id": channel, "message_id": message});
    let mut event = target(&direct, "1");
    event["read_state_type"] = json!(1);
    let many = json!({"read_states": [target(&direct, &newest[0]), target(&thread, &in_thread), event]});
    bob.done("POST", "/read-states/ack-bulk", many);
    let acked: BTreeMap<String, Value> = (0..2)
        .map(|_| phone.event("MESSAGE_ACK"))
        .map(|ack| (ack["channel_id"].as_str().expect("an id").to_owned(), ack["message_id"].clone()))
        .collect();
    assert_eq!(acked, BTreeMap::from([(direct.clone(), json!(newest[0])), (thread.clone(), json!(in_thread))]));
    let ready = node.connect(&bob, 0).ready;
    assert_eq!(state(&ready, &direct), Some((&*newest[0], 1)));
    assert_eq!(state(&ready, &thread), Some((&*in_thread, 0)));
    bob.refused("POST", "/read-states/ack-bulk", json!({"read_states": []}), 400, 50035);

    bob.done("POST", &format!("/channels/{channel}/pins/ack"), Value::Null);
    let message = send(&ana, &channel, "pin me");
    ana.done("PUT", &format!("/channels/{channel}/pins/{message}"), Value::Null);
    let pinned_at = phone.event("CHANNEL_PINS_UPDATE")["last_pin_timestamp"].take();
    bob.done("POST", &format!("/channels/{channel}/pins/ack"), Value::Null);
    let ack = phone.event("CHANNEL_PINS_ACK");
    assert_eq!((&ack["channel_id"], &ack["timestamp"]), (&json!(channel), &pinned_at));
    let ready = node.connect(&bob, 0).ready;
    let states = ready["read_state"].as_array().expect("a list");
    let of_channel = states.iter().find(|state| state["id"] == channel.as_str()).expect("its pins are seen");
    assert_eq!(of_channel["last_pin_timestamp"], pinned_at);
}

#[test]
fn settings_of_guilds_and_channels() {
    let mut node = TestNode::new();
    let (ana, bot) = (node.user(100, "ana"), node.bot(200, "bot"));
    let (guild, channel) = node.guild(&ana, &[]);
    let mut phone = node.connect(&ana, 0);
    assert_eq!(phone.ready["user_guild_settings"], json!([]));
    let path = format!("/users/@me/guilds/{guild}/settings");
    let window = json!({"end_time": "2030-01-01T00:00:00Z", "selected_time_window": 3600});
    let body = json!({"message_notifications": 1, "flags": 2048,
        "channel_overrides": {&channel: {"muted": true, "mute_config": window}}});
    let settings = ana.done("PATCH", &path, body);
    let of_channel = &settings["channel_overrides"][0];
    assert_eq!((&of_channel["channel_id"], &of_channel["muted"]), (&json!(channel), &json!(true)));
    assert_eq!(of_channel["mute_config"]["end_time"], "2030-01-01T00:00:00.000000+00:00");
    assert_eq!((&settings["version"], &settings["flags"]), (&json!(1), &json!(2048)));
    assert_eq!(phone.event("USER_GUILD_SETTINGS_UPDATE"), settings);
    assert_eq!(node.connect(&ana, 0).ready["user_guild_settings"], json!([settings]));

    let both = json!({"guilds": {&guild: {"muted": true, "channel_overrides": {&channel: {"muted": false,
        "mute_config": null}}}}});
    let changed = ana.done("PATCH", "/users/@me/guilds/settings", both);
    assert_eq!((&changed[0]["muted"], &changed[0]["channel_overrides"]), (&json!(true), &json!([])));
    assert_eq!(changed[0]["message_notifications"], 1, "as before");
    assert_eq!(phone.event("USER_GUILD_SETTINGS_UPDATE"), changed[0]);
    let versioned = Client::connect(node.addr, &ana, json!({"capabilities": VERSIONED})).ready;
    assert_eq!(versioned["user_guild_settings"], json!({"entries": changed, "partial": false, "version": 2}));

    ana.refused("PATCH", "/users/@me/guilds/999/settings", json!({"muted": true}), 404, 10004);
    ana.refused("PATCH", &path, json!({"message_notifications": 9}), 400, 50035);
    ana.refused("PATCH", &path, json!({"channel_overrides": {"x": {}}}), 400, 50035);
    bot.refused("PATCH", "/users/@me/guilds/@me/settings", json!({"muted": true}), 403, 20001);
    bot.refused("POST", "/read-states/ack-bulk", json!({"read_states": []}), 403, 20001);
    bot.refused("POST", &ack_path(&channel, "1"), Value::Null, 403, 20001);
    bot.refused("DELETE", &format!("/channels/{channel}/messages/ack"), Value::Null, 403, 20001);
    bot.refused("POST", &format!("/channels/{channel}/pins/ack"), Value::Null, 403, 20001);
    assert!(node.connect(&bot, 0).ready.get("read_state").is_none());

    node.restart();
    let ana = node.again(&ana);
    assert_eq!(node.connect(&ana, 0).ready["user_guild_settings"], changed);
}

/// Random messages, deletions and acknowledgements; READY of each account has the counts of a model that remembers
/// every message.
#[test]
fn counts_are_those_of_a_model() {
    let node = TestNode::new();
    let people: Vec<Person> = (100..103).map(|id| node.user(id, &format!("user{id}"))).collect();
    let (guild, first) = node.guild(&people[0], &[&people[1], &people[2]]);
    let path = format!("/guilds/{guild}/channels");
    let second = people[0].done("POST", &path, json!({"name": "second"}))["id"].as_str().expect("an id").to_owned();
    let channels = [first, second];
    let mut rng = Rng::new(46);
    // Messages with their author and the accounts that they mention, and what each account has read, by channel.
    let mut messages: [BTreeMap<u64, (usize, Vec<usize>)>; 2] = Default::default();
    let mut read = [[0u64; 2]; 3];
    for step in 0..120 {
        let (who, at) = (rng.below(3) as usize, rng.below(2) as usize);
        let known: Vec<u64> = messages[at].keys().copied().collect();
        match rng.below(10) {
            0..6 => {
                let everyone = who == 0 && rng.below(4) == 0;
                let named: Vec<usize> = (0..3).filter(|_| rng.below(3) == 0).collect();
                let text: String = named.iter().map(|n| format!("<@{}> ", people[*n].id)).collect();
                let text = format!("{step} {text}{}", if everyone { "@everyone" } else { "" });
                let id: u64 = send(&people[who], &channels[at], &text).parse().expect("an id");
                messages[at].insert(id, (who, if everyone { vec![0, 1, 2] } else { named }));
                read[who][at] = read[who][at].max(id);
            }
            6 if !known.is_empty() => {
                let id = *rng.pick(&known).expect("one");
                people[0].done("DELETE", &format!("/channels/{}/messages/{id}", channels[at]), Value::Null);
                messages[at].remove(&id);
            }
            _ if !known.is_empty() => {
                let id = *rng.pick(&known).expect("one");
                let manual = rng.below(3) == 0;
                let path = ack_path(&channels[at], &id.to_string());
                people[who].done("POST", &path, json!({"manual": manual}));
                read[who][at] = if manual { id } else { read[who][at].max(id) };
            }
            _ => {}
        }
        if step % 10 != 9 {
            continue;
        }
        for (who, person) in people.iter().enumerate() {
            let ready = node.connect(person, 0).ready;
            for (at, channel) in channels.iter().enumerate() {
                let after = read[who][at];
                let unread = messages[at]
                    .range(after + 1..)
                    .filter(|(_, (author, named))| *author != who && named.contains(&who));
                let expected = unread.count() as u64;
                let (last, count) = state(&ready, channel).unwrap_or(("0", 0));
                assert_eq!((last, count), (&*after.to_string(), expected), "step {step}, {}", person.id);
            }
        }
    }
}
