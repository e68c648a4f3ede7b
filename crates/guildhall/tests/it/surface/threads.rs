//! Threads.

use crate::test_node::{EVERYTHING, TestNode, names};
use serde_json::{Value, json};

const NOTHING: Value = Value::Null;

#[test]
fn begun_from_a_message_written_in_closed_opened_and_deleted() {
    let mut node = TestNode::new();
    let (ana, bob, bot) = (node.user(100, "ana"), node.user(101, "bob"), node.bot(200, "bot"));
    let (guild, general) = node.guild(&ana, &[&bob, &bot]);
    let mut client = node.connect(&bot, EVERYTHING);
    client.event("GUILD_CREATE");
    let posted = bob.done("POST", &format!("/channels/{general}/messages"), json!({"content": "let us talk"}));
    let id = posted["id"].as_str().unwrap().to_owned();
    let from = format!("/channels/{general}/messages/{id}/threads");
    bob.refused("POST", &from, json!({}), 400, 50035);
    let thread = bob.request("POST", &from, json!({"name": "talk", "auto_archive_duration": 60}));
    assert_eq!((thread.status, &thread.body["id"], &thread.body["type"]), (201, &json!(id), &json!(11)));
    assert_eq!((&thread.body["parent_id"], &thread.body["owner_id"]), (&json!(general), &json!(bob.id)));
    assert_eq!(thread.body["member"]["user_id"], bob.id);
    let created = client.event("THREAD_CREATE");
    assert_eq!((&created["id"], &created["newly_created"]), (&json!(id), &json!(true)));
    assert_eq!(created["thread_metadata"]["archived"], false);
    assert_eq!(client.event("THREAD_MEMBERS_UPDATE")["added_members"][0]["user_id"], bob.id);
    assert_eq!(client.event("MESSAGE_UPDATE")["flags"], 32, "the message has the flag of a thread");
    bob.refused("POST", &from, json!({"name": "again"}), 400, 160_004);

    ana.done("POST", &format!("/channels/{id}/messages"), json!({"content": "in the thread"}));
    assert_eq!(client.event("THREAD_MEMBERS_UPDATE")["added_members"][0]["user_id"], ana.id, "who writes joins");
    let message = client.event("MESSAGE_CREATE");
    assert_eq!((&message["channel_id"], &message["channel_type"]), (&json!(id), &json!(11)));

    // A restart keeps the thread and its members.
    node.restart();
    let (ana, bob, bot) = (node.again(&ana), node.again(&bob), node.again(&bot));
    let mut client = node.connect(&bot, EVERYTHING);
    let create = client.event("GUILD_CREATE");
    assert_eq!((&create["threads"][0]["id"], &create["threads"][0]["member_count"]), (&json!(id), &json!(2)));
    assert_eq!(create["threads"][0]["message_count"], 1);
    let history = bob.get(&format!("/channels/{id}/messages"));
    assert_eq!(history[0]["content"], "in the thread");
    let active = bot.get(&format!("/guilds/{guild}/threads/active"));
    assert_eq!((active["threads"].as_array().unwrap().len(), &active["members"]), (1, &json!([])));
    assert_eq!(bob.get(&format!("/channels/{id}/thread-members")).as_array().unwrap().len(), 2);
    // A user's READY holds the threads they joined.
    assert_eq!(node.connect(&bob, EVERYTHING).ready["guilds"][0]["threads"][0]["member"]["user_id"], bob.id);

    assert_eq!(bot.request("PUT", &format!("/channels/{id}/thread-members/@me"), NOTHING).status, 204);
    assert_eq!(client.event("THREAD_MEMBERS_UPDATE")["member_count"], 3);
    assert_eq!(client.event("THREAD_CREATE")["member"]["user_id"], bot.id, "a new member receives THREAD_CREATE");
    let closed = bob.done("PATCH", &format!("/channels/{id}"), json!({"archived": true, "name": "talked"}));
    assert_eq!((&closed["name"], &closed["thread_metadata"]["archived"]), (&json!("talked"), &json!(true)));
    assert_eq!(client.event("THREAD_UPDATE")["name"], "talked");
    ana.refused(
        "PUT",
        &format!("/channels/{id}/messages/{}/reactions/%F0%9F%94%A5/@me", history[0]["id"].as_str().unwrap()),
        NOTHING,
        403,
        50083,
    );
    assert_eq!(bot.get(&format!("/channels/{general}/threads/archived/public"))["threads"][0]["id"], json!(id));
    // A message opens it.
    bob.done("POST", &format!("/channels/{id}/messages"), json!({"content": "once more"}));
    assert_eq!(client.event("THREAD_UPDATE")["thread_metadata"]["archived"], false);
    assert_eq!(client.event("THREAD_MEMBER_UPDATE")["user_id"], bot.id, "they are still in it");
    client.event("MESSAGE_CREATE");
    // Locked, only a moderator opens it.
    bob.refused("PATCH", &format!("/channels/{id}"), json!({"locked": true}), 403, 50013);
    ana.done("PATCH", &format!("/channels/{id}"), json!({"archived": true, "locked": true}));
    bob.refused("POST", &format!("/channels/{id}/messages"), json!({"content": "no"}), 403, 160_005);
    assert_eq!(bot.request("DELETE", &format!("/channels/{id}/thread-members/@me"), NOTHING).status, 403);
    bob.refused("DELETE", &format!("/channels/{id}"), NOTHING, 403, 50013);
    ana.done("DELETE", &format!("/channels/{id}"), NOTHING);
    let gone = client.event("THREAD_DELETE");
    assert_eq!(gone, json!({"id": id, "guild_id": guild, "parent_id": general, "type": 11}));
    bob.refused("GET", &format!("/channels/{id}"), NOTHING, 404, 10003);
}

#[test]
fn a_private_thread_is_for_those_in_it_live_and_at_replay() {
    let node = TestNode::new();
    let (ana, bob) = (node.user(100, "ana"), node.user(101, "bob"));
    let (inside, outside, moderator) = (node.bot(200, "inside"), node.bot(201, "outside"), node.bot(202, "moderator"));
    let (guild, general) = node.guild(&ana, &[&bob, &inside, &outside, &moderator]);
    let role = ana.done("POST", &format!("/guilds/{guild}/roles"), json!({"permissions": "17179869184"}));
    let role = role["id"].as_str().unwrap().to_owned();
    ana.done("PUT", &format!("/guilds/{guild}/members/{}/roles/{role}", moderator.id), NOTHING);
    let connect = |bot| {
        // Without presences: others come and go.
        let mut client = node.connect(bot, EVERYTHING & !(1 << 8));
        client.event("GUILD_CREATE");
        client
    };
    let (mut insider, mut outsider, mut manages) = (connect(&inside), connect(&outside), connect(&moderator));
    let away = connect(&inside).lose();

    let thread = bob.done("POST", &format!("/channels/{general}/threads"), json!({"name": "secret", "type": 12}));
    let id = thread["id"].as_str().unwrap().to_owned();
    outside.refused("GET", &format!("/channels/{id}"), NOTHING, 403, 50001);
    outside.refused("PUT", &format!("/channels/{id}/thread-members/@me"), NOTHING, 403, 50001);
    assert_eq!(bob.request("PUT", &format!("/channels/{id}/thread-members/{}", inside.id), NOTHING).status, 204);
    bob.done("POST", &format!("/channels/{id}/messages"), json!({"content": "between us"}));
    assert_eq!(insider.event("THREAD_MEMBERS_UPDATE")["added_members"][0]["user_id"], inside.id);
    assert_eq!(insider.event("THREAD_CREATE")["id"], json!(id));
    assert_eq!(insider.event("MESSAGE_CREATE")["content"], "between us");
    assert_eq!(manages.event("THREAD_CREATE")["newly_created"], true);
    assert_eq!(manages.event("MESSAGE_CREATE")["content"], "between us");
    // A session that comes now: only who may view it has it.
    assert_eq!(node.connect(&inside, EVERYTHING).event("GUILD_CREATE")["threads"].as_array().unwrap().len(), 1);
    assert_eq!(node.connect(&outside, EVERYTHING).event("GUILD_CREATE")["threads"], json!([]));

    // A removed member receives the removal, and nothing else, neither live nor at a replay.
    assert_eq!(bob.request("DELETE", &format!("/channels/{id}/thread-members/{}", inside.id), NOTHING).status, 204);
    assert_eq!(insider.event("THREAD_MEMBERS_UPDATE")["removed_member_ids"], json!([inside.id]));
    bob.done("POST", &format!("/channels/{id}/messages"), json!({"content": "without them"}));
    bob.done("PATCH", &format!("/channels/{id}"), json!({"name": "renamed"}));
    bob.done("POST", &format!("/channels/{general}/messages"), json!({"content": "for all"}));
    assert_eq!(manages.event("MESSAGE_CREATE")["content"], "without them");
    assert_eq!(manages.event("THREAD_UPDATE")["name"], "renamed");
    assert_eq!(insider.names(), ["MESSAGE_CREATE"]);
    let outsider = outsider.received();
    assert_eq!(names(&outsider), ["MESSAGE_CREATE"]);
    assert_eq!(outsider[0].1["content"], "for all");
    let (_, replayed) = away.resume();
    let contents: Vec<&Value> =
        replayed.iter().filter(|(n, _)| n == "MESSAGE_CREATE").map(|(_, d)| &d["content"]).collect();
    assert_eq!(contents, [&json!("for all")]);
    assert!(!names(&replayed).contains(&"THREAD_CREATE"), "{replayed:?}");
    // A member who loses the permission loses the thread.
    ana.done("DELETE", &format!("/guilds/{guild}/members/{}/roles/{role}", moderator.id), NOTHING);
    manages.event("GUILD_MEMBER_UPDATE");
    bob.done("POST", &format!("/channels/{id}/messages"), json!({"content": "alone"}));
    bob.done("POST", &format!("/channels/{general}/messages"), json!({"content": "end"}));
    assert_eq!(manages.event("MESSAGE_CREATE")["content"], "end");
}

#[test]
fn an_account_that_gains_a_channel_receives_its_threads() {
    let node = TestNode::new();
    let (ana, bot, user) = (node.user(100, "ana"), node.bot(200, "bot"), node.user(101, "user"));
    let (guild, _) = node.guild(&ana, &[&bot, &user]);
    let hidden = json!({"name": "hidden", "permission_overwrites": [{"id": guild, "type": 0, "deny": "1024"}]});
    let hidden = ana.done("POST", &format!("/guilds/{guild}/channels"), hidden);
    let hidden = hidden["id"].as_str().unwrap().to_owned();
    let thread = ana.done("POST", &format!("/channels/{hidden}/threads"), json!({"name": "t", "type": 11}));
    let mut client = node.connect(&bot, EVERYTHING);
    assert_eq!(client.event("GUILD_CREATE")["threads"], json!([]));
    let allow = json!({"type": 1, "allow": "1024"});
    ana.done("PUT", &format!("/channels/{hidden}/permissions/{}", bot.id), allow);
    client.event("CHANNEL_UPDATE");
    let sync = client.event("THREAD_LIST_SYNC");
    assert_eq!((&sync["channel_ids"], &sync["threads"][0]["id"]), (&json!([hidden]), &thread["id"]));
    // By a role.
    let role = ana.done("POST", &format!("/guilds/{guild}/roles"), json!({"permissions": "0"}));
    let role = role["id"].as_str().unwrap();
    ana.done("PUT", &format!("/channels/{hidden}/permissions/{role}"), json!({"type": 0, "allow": "1024"}));
    let mut follower = node.connect(&user, EVERYTHING);
    follower.send(37, &json!({"subscriptions": {guild.as_str(): {"threads": true, "typing": true}}}));
    assert_eq!(follower.event("THREAD_LIST_SYNC")["threads"], json!([]));
    ana.done("PUT", &format!("/guilds/{guild}/members/{}/roles/{role}", user.id), NOTHING);
    assert_eq!(follower.event("THREAD_LIST_SYNC")["channel_ids"], json!([hidden]));
    // From now on it hears of every thread there.
    ana.done("POST", &format!("/channels/{hidden}/threads"), json!({"name": "another", "type": 11}));
    assert_eq!(follower.event("THREAD_CREATE")["name"], "another");
}

#[test]
fn a_post_of_a_forum_begins_with_its_message() {
    let node = TestNode::new();
    let (ana, bot) = (node.user(100, "ana"), node.bot(200, "bot"));
    let (guild, general) = node.guild(&ana, &[&bot]);
    let forum = ana.done("POST", &format!("/guilds/{guild}/channels"), json!({"name": "forum", "type": 15}));
    let forum = forum["id"].as_str().unwrap().to_owned();
    let mut client = node.connect(&bot, EVERYTHING);
    client.event("GUILD_CREATE");
    ana.refused("POST", &format!("/channels/{forum}/threads"), json!({"name": "empty"}), 400, 50035);
    let post = json!({"name": "question", "message": {"content": "how?"}});
    ana.refused("POST", &format!("/channels/{general}/threads"), post.clone(), 400, 50035);
    let post = ana.done("POST", &format!("/channels/{forum}/threads"), post);
    // Libraries read the first message from the answer, as upstream.
    assert_eq!((&post["message"]["content"], &post["message"]["id"]), (&json!("how?"), &post["id"]));
    assert_eq!(post["message"]["channel_id"], post["id"]);
    client.event("THREAD_CREATE");
    let message = client.event("MESSAGE_CREATE");
    assert_eq!((&message["content"], &message["id"]), (&json!("how?"), &post["id"]));
    ana.refused("POST", &format!("/channels/{forum}/messages"), json!({"content": "no"}), 400, 50008);
    // Threads go with their channel.
    ana.done("DELETE", &format!("/channels/{forum}"), NOTHING);
    ana.refused("GET", &format!("/channels/{}", post["id"].as_str().unwrap()), NOTHING, 404, 10003);
}

#[test]
fn a_subscription_to_a_threads_members_sends_them_and_their_changes() {
    let node = TestNode::new();
    let (ana, bob, eve) = (node.user(100, "ana"), node.user(101, "bob"), node.user(102, "eve"));
    let (guild, general) = node.guild(&ana, &[&bob, &eve]);
    let open = bob.done("POST", &format!("/channels/{general}/threads"), json!({"name": "open", "type": 11}));
    let secret = bob.done("POST", &format!("/channels/{general}/threads"), json!({"name": "secret", "type": 12}));
    let mut client = node.connect(&eve, EVERYTHING);
    let lists = json!({"thread_member_lists": [secret["id"], open["id"]]});
    client.send(37, &json!({"subscriptions": {guild.clone(): lists}}));
    let update = client.event("THREAD_MEMBER_LIST_UPDATE");
    assert_eq!(
        (&update["thread_id"], &update["guild_id"]),
        (&open["id"], &json!(guild)),
        "the other is not hers to see"
    );
    let member = &update["members"][0];
    assert_eq!((&member["user_id"], &member["member"]["user"]["id"]), (&json!(bob.id), &json!(bob.id)));
    assert_eq!((&member["presence"], update["members"].as_array().unwrap().len()), (&NOTHING, 1));
    // Those listed are followed.
    ana.done("PATCH", &format!("/guilds/{guild}/members/{}", bob.id), json!({"nick": "bobby"}));
    assert_eq!(client.event("GUILD_MEMBER_UPDATE")["nick"], "bobby");
    // A repeated subscription sends nothing.
    client.send(37, &json!({"subscriptions": {guild: lists}}));
    bob.done("POST", &format!("/channels/{general}/messages"), json!({"content": "witness"}));
    client.event("MESSAGE_CREATE");
    assert_eq!(client.names(), [""; 0]);
}

#[test]
fn archived_threads_of_ones_own_come_by_id() {
    let node = TestNode::new();
    let ana = node.user(100, "ana");
    let (_, general) = node.guild(&ana, &[]);
    let path = format!("/channels/{general}/threads");
    let make = |n: u8| -> String {
        let thread = ana.done("POST", &path, json!({"name": format!("t{n}"), "type": 12}));
        thread["id"].as_str().expect("an id").to_owned()
    };
    let threads = [make(0), make(1), make(2)];
    // The first is archived last.
    for thread in threads.iter().rev() {
        ana.done("PATCH", &format!("/channels/{thread}"), json!({"archived": true}));
    }
    let page = |path: &str, query: &str| -> Vec<String> {
        let answer = ana.get(&format!("/channels/{general}/{path}threads/archived/private?{query}"));
        let threads = answer["threads"].as_array().expect("a list").iter();
        threads.map(|thread| thread["id"].as_str().expect("an id").to_owned()).collect()
    };
    let [first, second, third] = &threads;
    assert_eq!(page("users/@me/", ""), [third, second, first].map(String::as_str));
    assert_eq!(page("users/@me/", &format!("before={third}&limit=1")), [second.as_str()]);
    assert_eq!(page("users/@me/", &format!("before={first}")), Vec::<String>::new());
    assert_eq!(page("", "")[0], *first);
    ana.refused(
        "GET",
        &format!("/channels/{general}/threads/archived/private?before={first}"),
        Value::Null,
        400,
        50035,
    );
}
