//! Messages over REST.

use crate::support::{World, invalid_form};
use guildhall_model::Permissions;
use guildhall_rest::ApiLimits;
use guildhall_store::SqliteStore;
use serde_json::{Value, json};
use std::sync::Arc;

fn contents(page: &Value) -> Vec<&str> {
    page.as_array().unwrap().iter().map(|message| message["content"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_message_is_created_read_edited_and_deleted() {
    let world = World::new().await;
    let path = format!("/channels/{}/messages", world.general);
    let body = json!({"content": "hi <@200>", "nonce": "77", "embeds": [{"title": "t"}], "flags": 4 | 64});
    let created = world.post(&world.ana, &path, body).await;
    assert_eq!(created.status, 200);
    let created = created.json();
    let id = created["id"].as_str().unwrap().to_owned();
    assert_eq!(
        created,
        json!({
            "id": id, "channel_id": world.general, "type": 0, "content": "hi <@200>", "nonce": "77",
            "author": {"id": "100", "username": "ana", "discriminator": "0", "global_name": null, "avatar": null,
                       "public_flags": 0, "flags": 0, "primary_guild": null, "avatar_decoration_data": null},
            "timestamp": created["timestamp"], "edited_timestamp": null, "tts": false, "mention_everyone": false,
            "mentions": [{"id": "200", "username": "bot", "discriminator": "0", "global_name": null, "avatar": null,
                          "bot": true, "public_flags": 0, "flags": 0, "primary_guild": null, "avatar_decoration_data": null}],
            "mention_roles": [], "attachments": [], "embeds": [{"type": "rich", "title": "t"}], "components": [],
            "pinned": false, "flags": 4,
        })
    );

    let one = format!("{path}/{id}");
    let mut expected = created.clone();
    expected.as_object_mut().unwrap().remove("nonce");
    world.get(&world.bob, &one).await.is(200, expected);

    world.call(&world.bob, "PATCH", &one, Some(json!({"content": "no"}))).await.has(403, 50005);
    let edited = world.call(&world.ana, "PATCH", &one, Some(json!({"content": "hello", "embeds": null}))).await.json();
    assert_eq!((&edited["content"], &edited["embeds"]), (&json!("hello"), &json!([])));
    assert!(edited["edited_timestamp"].is_string());

    world.call(&world.bob, "DELETE", &one, None).await.has(403, 50013);
    world.call(&world.ana, "DELETE", &one, None).await.is_done();
    world.get(&world.ana, &one).await.is(404, json!({"message": "Unknown Message", "code": 10008}));
    world.call(&world.ana, "DELETE", &one, None).await.has(404, 10008);
}

#[tokio::test]
async fn pages() {
    let world = World::new().await;
    let mut ids = Vec::new();
    for n in 1..=7 {
        ids.push(world.say(&world.ana, world.general, &format!("m{n}")).await);
    }
    let page = async |query: String| {
        let answer = world.get(&world.bob, &format!("/channels/{}/messages?{query}", world.general)).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()
    };
    assert_eq!(contents(&page(String::new()).await), ["m7", "m6", "m5", "m4", "m3", "m2", "m1"]);
    assert_eq!(contents(&page("limit=2&unknown=1".into()).await), ["m7", "m6"]);
    assert_eq!(contents(&page(format!("limit=2&before={}", ids[3])).await), ["m3", "m2"]);
    assert_eq!(contents(&page(format!("limit=2&after={}", ids[3])).await), ["m6", "m5"]);
    assert_eq!(contents(&page(format!("limit=3&around={}", ids[3])).await), ["m5", "m4", "m3"]);
    assert_eq!(contents(&page("limit=2&after=0".into()).await), ["m2", "m1"]);

    let path = format!("/channels/{}/messages", world.general);
    let fault = |code: &str, message: &str| json!({"_errors": [{"code": code, "message": message}]});
    world.get(&world.bob, &format!("{path}?limit=101&before=x")).await.is(
        400,
        invalid_form(json!({
            "limit": fault("NUMBER_TYPE_MAX", "int value should be less than or equal to 100."),
            "before": fault("NUMBER_TYPE_COERCE", "Value \"x\" is not snowflake."),
        })),
    );
    world.get(&world.bob, &format!("{path}?limit=0")).await.has(400, 50035);
}

#[tokio::test]
async fn reading_messages_needs_permissions() {
    let world = World::new().await;
    let hidden = world.channel("hidden", vec![world.deny(Permissions::VIEW_CHANNEL)]).await;
    let forgetful = world.channel("forgetful", vec![world.deny(Permissions::READ_MESSAGE_HISTORY)]).await;
    let secret = world.say(&world.ana, hidden, "secret").await;
    let past = world.say(&world.ana, forgetful, "past").await;

    world.get(&world.bob, &format!("/channels/{hidden}/messages")).await.has(403, 50001);
    world.get(&world.bob, &format!("/channels/{hidden}/messages/{secret}")).await.has(403, 50001);
    world.get(&world.bob, &format!("/channels/{forgetful}/messages")).await.is(200, json!([]));
    world.get(&world.bob, &format!("/channels/{forgetful}/messages/{past}")).await.has(403, 50013);
    world.get(&world.ana, &format!("/channels/{forgetful}/messages/{past}")).await.has(200, 0);

    // Accounts outside of the guild are refused, and every account for a channel that does not exist.
    world.get(&world.eve, &format!("/channels/{}/messages", world.general)).await.has(403, 50001);
    world.get(&world.bob, "/channels/5/messages").await.is(404, json!({"message": "Unknown Channel", "code": 10003}));
}

#[tokio::test]
async fn writing_messages_needs_permissions() {
    let world = World::new().await;
    let silent = world.channel("silent", vec![world.deny(Permissions::SEND_MESSAGES)]).await;
    let path = format!("/channels/{silent}/messages");
    world
        .post(&world.bob, &path, json!({"content": "x"}))
        .await
        .is(403, json!({"message": "Missing Permissions", "code": 50013}));
    world.call(&world.bob, "POST", &format!("/channels/{silent}/typing"), None).await.has(403, 50013);
    world.call(&world.bob, "POST", &format!("/channels/{}/typing", world.general), None).await.is_done();
    world
        .post(&world.eve, &format!("/channels/{}/messages", world.general), json!({"content": "x"}))
        .await
        .has(403, 50001);
}

#[tokio::test]
async fn bots_without_the_grant_read_content_only_where_they_are_mentioned() {
    let world = World::new().await;
    let own = world.say(&world.bot, world.general, "mine").await;
    world.say(&world.ana, world.general, "for all").await;
    world.say(&world.ana, world.general, "for <@200>").await;
    let path = format!("/channels/{}/messages", world.general);
    assert_eq!(contents(&world.get(&world.bot, &path).await.json()), ["for <@200>", "", "mine"]);
    assert_eq!(contents(&world.get(&world.trusted, &path).await.json()), ["for <@200>", "for all", "mine"]);
    assert_eq!(contents(&world.get(&world.bob, &path).await.json()), ["for <@200>", "for all", "mine"]);
    assert_eq!(world.get(&world.bot, &format!("{path}/{own}")).await.json()["content"], "mine");
}

#[tokio::test]
async fn replies() {
    let world = World::new().await;
    let path = format!("/channels/{}/messages", world.general);
    let question = world.say(&world.ana, world.general, "question").await;
    let body = json!({"content": "answer", "message_reference": {"message_id": question}});
    let answer = world.post(&world.bob, &path, body).await.json();
    assert_eq!((&answer["type"], &answer["referenced_message"]["content"]), (&json!(19), &json!("question")));
    assert_eq!(
        answer["message_reference"],
        json!({"type": 0, "message_id": question, "channel_id": world.general, "guild_id": world.guild})
    );
    // On a page, off the page, and when it is gone.
    let page = world.get(&world.bob, &path).await.json();
    assert_eq!(page[0]["referenced_message"]["id"], json!(question));
    let page = world.get(&world.bob, &format!("{path}?limit=1")).await.json();
    assert_eq!(page[0]["referenced_message"]["id"], json!(question));
    world.call(&world.ana, "DELETE", &format!("{path}/{question}"), None).await.is_done();
    let page = world.get(&world.bob, &path).await.json();
    assert!(page[0].get("referenced_message").is_some_and(Value::is_null));
    let one = world.get(&world.bob, &format!("{path}/{}", answer["id"].as_str().unwrap())).await.json();
    assert!(one.get("referenced_message").is_some_and(Value::is_null));

    let body = json!({"content": "late", "message_reference": {"message_id": question}});
    let fault = json!({"code": "REPLIES_UNKNOWN_MESSAGE", "message": "Unknown message"});
    world.post(&world.bob, &path, body).await.is(400, invalid_form(json!({"message_reference": {"_errors": [fault]}})));
    let body = json!({"content": "late", "message_reference": {"message_id": question, "fail_if_not_exists": false}});
    let plain = world.post(&world.bob, &path, body).await.json();
    assert_eq!((&plain["type"], plain.get("referenced_message")), (&json!(0), None));
}

#[tokio::test]
async fn a_repeated_nonce_is_the_same_message() {
    let world = World::new().await;
    let path = format!("/channels/{}/messages", world.general);
    let body = json!({"content": "once", "nonce": 5, "enforce_nonce": true});
    let first = world.post(&world.ana, &path, body.clone()).await.json();
    let again = world.post(&world.ana, &path, body).await.json();
    assert_eq!((&first["id"], &first["nonce"]), (&again["id"], &json!(5)));
    assert_eq!(world.get(&world.ana, &path).await.json().as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn slow_mode_answers_with_the_time_to_wait() {
    let world = World::new().await;
    let channel = format!("/channels/{}", world.general);
    world.call(&world.ana, "PATCH", &channel, Some(json!({"rate_limit_per_user": 10}))).await.has(200, 0);
    world.say(&world.bob, world.general, "one").await;
    world.clock.advance_ms(2500);
    let answer = world.post(&world.bob, &format!("{channel}/messages"), json!({"content": "two"})).await;
    answer.is(
        429,
        json!({"message": "This action cannot be performed due to slowmode rate limit.", "code": 20016,
               "retry_after": 7.5, "global": false}),
    );
    assert_eq!((answer.header("retry-after"), answer.header("x-ratelimit-scope")), ("8", "user"));
    world.clock.advance_ms(7500);
    world.say(&world.bob, world.general, "two").await;
}

#[tokio::test]
async fn many_at_once() {
    let world = World::new().await;
    let path = format!("/channels/{}/messages", world.general);
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(world.say(&world.ana, world.general, &n.to_string()).await);
    }
    let bulk = format!("{path}/bulk-delete");
    world.post(&world.bob, &bulk, json!({"messages": &ids[..2]})).await.has(403, 50013);
    world.post(&world.ana, &bulk, json!({"messages": &ids[..1]})).await.has(400, 50035);
    let twice = world.post(&world.ana, &bulk, json!({"messages": [ids[0], ids[0]]})).await;
    let fault = json!({"code": "SET_TYPE_ALREADY_CONTAINS_VALUE", "message": "The set already contains this value"});
    twice.is(400, invalid_form(json!({"messages": {"1": {"_errors": [fault]}}})));
    world.post(&world.ana, &bulk, json!({"messages": ["5", "6"]})).await.has(400, 50034);
    // One of them is gone already.
    world.call(&world.ana, "DELETE", &format!("{path}/{}", ids[0]), None).await.is_done();
    world.post(&world.ana, &bulk, json!({"messages": &ids[..4]})).await.is_done();
    assert_eq!(contents(&world.get(&world.bob, &path).await.json()), ["4"]);
    // Two weeks later they cannot go this way any more.
    world.clock.advance_ms(15 * 86_400_000);
    world.post(&world.ana, &bulk, json!({"messages": [ids[4], ids[3]]})).await.has(400, 50034);
}

#[tokio::test]
async fn wrong_forms_get_different_errors() {
    let world = World::new().await;
    let path = format!("/channels/{}/messages", world.general);
    let fault = |code: &str, message: &str| json!({"_errors": [{"code": code, "message": message}]});
    world
        .post(&world.ana, &path, json!({"content": "x".repeat(2001), "tts": 5, "embeds": [{"title": ["x"]}]}))
        .await
        .is(
            400,
            invalid_form(json!({
                "content": fault("BASE_TYPE_MAX_LENGTH", "Must be 2000 or fewer in length."),
                "tts": fault("BOOLEAN_TYPE_CONVERT", "Must be either true or false."),
                "embeds": {"0": {"title": fault("STRING_TYPE_CONVERT", "Could not interpret \"[...]\" as string.")}},
            })),
        );
    world
        .post(&world.ana, &path, json!({}))
        .await
        .is(400, json!({"message": "Cannot send an empty message", "code": 50006}));
    world.post(&world.ana, &path, json!([])).await.has(400, 50035);
}

#[tokio::test]
async fn the_same_over_sqlite() {
    let store = Arc::new(SqliteStore::open_in_memory().await.unwrap());
    let world = World::with(ApiLimits::unlimited(), store).await;
    let question = world.say(&world.ana, world.general, "question").await;
    let path = format!("/channels/{}/messages", world.general);
    let reply = json!({"content": "answer", "message_reference": {"message_id": question}});
    world.post(&world.bob, &path, reply).await.has(200, 0);
    world.call(&world.bob, "PUT", &format!("{path}/{question}/reactions/%F0%9F%94%A5/@me"), None).await.is_done();
    let page = world.get(&world.bob, &path).await.json();
    assert_eq!(contents(&page), ["answer", "question"]);
    assert_eq!(page[1]["reactions"][0]["me"], true);
    let users = world.get(&world.ana, &format!("{path}/{question}/reactions/%F0%9F%94%A5")).await.json();
    assert_eq!(users[0]["id"], "101");
}
