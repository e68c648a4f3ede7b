//! Permissions: forum tags, locked threads, time-outs.

use crate::test_node::{EVERYTHING, Person, TestNode};
use serde_json::{Value, json};

const NOTHING: Value = Value::Null;
/// A moment that no test reaches, within the 28 days of a time-out.
fn in_a_week() -> String {
    let unix_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    guildhall_stdx::Timestamp((unix_s + 7 * 86_400) * 1000).to_string()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

fn id_of(value: &Value) -> String {
    text(&value["id"])
}

fn time_out(owner: &Person, guild: &str, member: &Person, until: Value) {
    let path = format!("/guilds/{guild}/members/{}", member.id);
    owner.done("PATCH", &path, json!({"communication_disabled_until": until}));
}

#[test]
fn s17_posts_carry_tags_of_their_forum_set_by_creator_or_moderator() {
    let mut node = TestNode::new();
    let (ana, bob, eve) = (node.user(100, "ana"), node.user(101, "bob"), node.user(102, "eve"));
    let bot = node.bot(200, "bot");
    let (guild, general) = node.guild(&ana, &[&bob, &eve, &bot]);
    let mut client = node.connect(&bot, EVERYTHING);
    client.event("GUILD_CREATE");
    let new = json!({"name": "ideas", "type": 15, "default_sort_order": 1, "default_forum_layout": 2,
        "default_reaction_emoji": {"emoji_id": null, "emoji_name": "🔥"},
        "available_tags": [{"name": "bug"}, {"name": "done", "moderated": true, "emoji_name": "✅"}]});
    let forum = ana.done("POST", &format!("/guilds/{guild}/channels"), new.clone());
    let id = id_of(&forum);
    let tags: Vec<String> = forum["available_tags"].as_array().unwrap().iter().map(id_of).collect();
    assert_eq!(forum["available_tags"][1]["emoji_name"], "✅");
    assert_eq!(forum["default_reaction_emoji"], json!({"emoji_id": null, "emoji_name": "🔥"}));
    assert_eq!((&forum["default_sort_order"], &forum["default_forum_layout"]), (&json!(1), &json!(2)));
    assert_eq!(client.event("CHANNEL_UPDATE")["available_tags"][0]["name"], "bug", "it is announced");
    // Other forums' tags, and numbers that are none.
    let other = ana.done("POST", &format!("/guilds/{guild}/channels"), new);
    let foreign = id_of(&other["available_tags"][0]);

    let begin = |tags: Value| json!({"name": "post", "message": {"content": "hello"}, "applied_tags": tags});
    let posts = format!("/channels/{id}/threads");
    bob.refused("POST", &posts, begin(json!([foreign])), 400, 50035);
    bob.refused("POST", &posts, begin(json!(["5"])), 400, 50035);
    bob.refused("POST", &posts, begin(json!([tags[1]])), 403, 50013);
    let post = id_of(&bob.done("POST", &posts, begin(json!([tags[0]]))));
    let patch = |tags: Value| json!({"applied_tags": tags});
    let path = format!("/channels/{post}");
    // A plain member cannot change another member's post.
    eve.refused("PATCH", &path, patch(json!([])), 403, 50013);
    eve.refused("PATCH", &path, patch(json!([tags[0]])), 403, 50013);
    bob.refused("PATCH", &path, patch(json!([tags[0], tags[1]])), 403, 50013);
    bob.refused("PATCH", &path, patch(json!([foreign])), 400, 50035);
    assert_eq!(bob.done("PATCH", &path, patch(json!([])))["applied_tags"], Value::Null);
    let tagged = ana.done("PATCH", &path, patch(json!([tags[1], tags[1]])));
    assert_eq!(tagged["applied_tags"], json!([tags[1]]), "once");
    bob.refused("PATCH", &path, patch(json!([tags[0]])), 403, 50013);
    assert_eq!(bob.done("PATCH", &path, patch(json!([tags[1], tags[0]])))["applied_tags"], json!([tags[1], tags[0]]));
    // Threads of other channels carry none.
    let posted = id_of(&bob.done("POST", &format!("/channels/{general}/messages"), json!({"content": "x"})));
    bob.done("POST", &format!("/channels/{general}/messages/{posted}/threads"), json!({"name": "talk"}));
    bob.refused("PATCH", &format!("/channels/{posted}"), patch(json!([tags[0]])), 400, 50035);

    // A tag that goes is dropped from a post when the post is next changed; the others keep their ids.
    let kept = json!([{"id": tags[0], "name": "defect"}, {"name": "new"}]);
    let changed = ana.done("PATCH", &format!("/channels/{id}"), json!({"available_tags": kept, "flags": 16}));
    assert_eq!((&changed["available_tags"][0]["id"], &changed["flags"]), (&json!(tags[0]), &json!(16)));
    assert_eq!(changed["available_tags"].as_array().unwrap().len(), 2);
    assert_eq!(bob.done("PATCH", &path, patch(json!([tags[1], tags[0]])))["applied_tags"], json!([tags[0]]));
    bob.refused("PATCH", &path, patch(json!([])), 400, 40067);
    bob.refused("POST", &posts, begin(json!([])), 400, 40067);
    let bad = |body: Value| ana.refused("PATCH", &format!("/channels/{id}"), body, 400, 50035);
    bad(json!({"available_tags": [{"name": "x".repeat(21)}]}));
    bad(json!({"available_tags": vec![json!({"name": "x"}); 21]}));
    bad(json!({"available_tags": [{"name": "x", "emoji_id": "5"}]}));
    bad(json!({"available_tags": [{"name": "x", "emoji_id": "5", "emoji_name": "🔥"}]}));
    bad(json!({"default_sort_order": 2}));
    bad(json!({"flags": 1}));

    node.restart();
    let again = node.again(&ana).get(&format!("/channels/{id}"));
    assert_eq!(again["available_tags"], changed["available_tags"], "they are kept");
    assert_eq!(node.again(&ana).get(&path)["applied_tags"], json!([tags[0]]));
}

#[test]
fn s18_archived_threads_take_messages_and_deletions_and_locked_ones_nothing() {
    let node = TestNode::new();
    let (ana, bob) = (node.user(100, "ana"), node.user(101, "bob"));
    let (_, general) = node.guild(&ana, &[&bob]);
    let posted = id_of(&bob.done("POST", &format!("/channels/{general}/messages"), json!({"content": "x"})));
    let thread =
        id_of(&bob.done("POST", &format!("/channels/{general}/messages/{posted}/threads"), json!({"name": "t"})));
    let messages = format!("/channels/{thread}/messages");
    let ids: Vec<String> =
        (0..4).map(|n| id_of(&bob.done("POST", &messages, json!({"content": format!("{n}")})))).collect();
    let own = |n: usize| format!("{messages}/{}", ids[n]);
    let fire = |n: usize| format!("{}/reactions/%F0%9F%94%A5/@me", own(n));
    let edit = json!({"content": "other"});
    bob.done("PUT", &fire(0), NOTHING);
    let set = |body: Value| ana.done("PATCH", &format!("/channels/{thread}"), body);

    set(json!({"archived": true}));
    for person in [&ana, &bob] {
        person.refused("PATCH", &own(0), json!({"flags": 4}), 403, 50083);
        person.refused("PUT", &fire(1), NOTHING, 403, 50083);
    }
    bob.refused("PATCH", &own(0), edit.clone(), 403, 50083);
    bob.refused("DELETE", &fire(0), NOTHING, 403, 50083);
    ana.refused("DELETE", &format!("{}/reactions", own(0)), NOTHING, 403, 50083);
    bob.done("DELETE", &own(3), NOTHING);

    set(json!({"archived": false}));
    set(json!({"archived": true, "locked": true}));
    bob.refused("PATCH", &own(0), edit.clone(), 403, 50083);
    bob.refused("DELETE", &own(0), NOTHING, 403, 50083);
    bob.refused("POST", &messages, json!({"content": "no"}), 403, 160_005);
    bob.refused("PATCH", &format!("/channels/{thread}"), json!({"archived": false}), 403, 160_005);
    ana.done("DELETE", &own(2), NOTHING);

    // Locked and open: reading, reacting, and taking back.
    set(json!({"archived": false}));
    bob.refused("PATCH", &own(0), edit.clone(), 403, 160_005);
    bob.refused("POST", &messages, json!({"content": "no"}), 403, 160_005);
    bob.refused("POST", &format!("/channels/{thread}/typing"), NOTHING, 403, 50013);
    bob.refused("PATCH", &format!("/channels/{thread}"), json!({"name": "mine"}), 403, 160_005);
    bob.done("PUT", &fire(1), NOTHING);
    bob.done("DELETE", &fire(0), NOTHING);
    bob.done("DELETE", &own(0), NOTHING);
    ana.done("POST", &messages, json!({"content": "the moderator may"}));
    assert_eq!(bob.get(&messages).as_array().unwrap().len(), 3, "and everybody reads");
    set(json!({"locked": false}));
    bob.done("PATCH", &own(1), edit);
}

#[test]
fn s18_a_timed_out_member_reads_and_takes_back_and_that_is_all() {
    let node = TestNode::new();
    let (ana, bob, bot) = (node.user(100, "ana"), node.user(101, "bob"), node.bot(200, "bot"));
    let (guild, general) = node.guild(&ana, &[&bob, &bot]);
    let messages = format!("/channels/{general}/messages");
    let own = id_of(&bob.done("POST", &messages, json!({"content": "x"})));
    let others = id_of(&ana.done("POST", &messages, json!({"content": "y"})));
    let thread = id_of(&ana.done("POST", &format!("{messages}/{others}/threads"), json!({"name": "t"})));
    let fire = |message: &str| format!("{messages}/{message}/reactions/%F0%9F%94%A5/@me");
    ana.done("PUT", &fire(&others), NOTHING);
    bob.done("PUT", &fire(&own), NOTHING);
    let event = json!({"name": "party", "scheduled_start_time": "2030-05-01T12:00:00Z",
        "scheduled_end_time": "2030-05-01T14:00:00Z", "entity_type": 3,
        "privacy_level": 2, "entity_metadata": {"location": "here"}});
    let event = id_of(&ana.done("POST", &format!("/guilds/{guild}/scheduled-events"), event));
    let follow = format!("/guilds/{guild}/scheduled-events/{event}/users/@me");
    let join = format!("/channels/{thread}/thread-members/@me");
    let mut client = node.connect(&bot, EVERYTHING);
    client.event("GUILD_CREATE");

    time_out(&ana, &guild, &bob, json!(in_a_week()));
    client.event("GUILD_MEMBER_UPDATE");
    let edit = json!({"content": "what nobody should read"});
    for (method, path, body) in [
        ("PATCH", format!("{messages}/{own}"), edit.clone()),
        ("PATCH", format!("{messages}/{own}"), json!({"flags": 4})),
        // Also where another member reacted with the emoji first.
        ("PUT", fire(&others), NOTHING),
        ("PUT", join.clone(), NOTHING),
        ("PUT", follow.clone(), NOTHING),
        ("POST", messages.clone(), edit.clone()),
        ("POST", format!("/channels/{thread}/messages"), edit.clone()),
        ("POST", format!("/channels/{general}/threads"), json!({"name": "t", "type": 11})),
        ("POST", format!("/channels/{general}/typing"), NOTHING),
        ("POST", format!("/channels/{general}/invites"), json!({})),
        ("PATCH", format!("/guilds/{guild}/members/@me"), json!({"nick": "n"})),
        ("PATCH", format!("/channels/{thread}"), json!({"archived": false})),
    ] {
        bob.refused(method, &path, body, 403, 50013);
    }
    assert_eq!(bob.get(&messages).as_array().unwrap().len(), 2, "they read");
    bob.done("DELETE", &fire(&own), NOTHING);
    bob.done("DELETE", &format!("{messages}/{own}"), NOTHING);
    bob.done("DELETE", &follow, NOTHING);
    ana.done("POST", &format!("/channels/{general}/typing"), NOTHING);
    let events = client.received();
    let events: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(events, ["MESSAGE_REACTION_REMOVE", "MESSAGE_DELETE", "TYPING_START"]);

    time_out(&ana, &guild, &bob, NOTHING);
    bob.done("PUT", &join, NOTHING);
    bob.done("PUT", &fire(&others), NOTHING);
    // Of a moderator who may everything, a time-out takes nothing.
    time_out(&ana, &guild, &bob, json!(in_a_week()));
    ana.done("PATCH", &format!("/guilds/{guild}"), json!({"owner_id": bob.id}));
    bob.done("POST", &messages, json!({"content": "mine"}));
}
