//! Search for messages of a guild, and of a direct message.

use crate::support::{Account, World, invalid_form};
use guildhall_model::{ChannelId, Permissions};
use serde_json::{Value, json};

async fn search(world: &World, caller: &Account, query: &str) -> Value {
    let answer = world.get(caller, &format!("/guilds/{}/messages/search?{query}", world.guild)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// Contents of the found messages, and the number of results.
async fn found(world: &World, caller: &Account, query: &str) -> (Vec<String>, u64) {
    let body = search(world, caller, query).await;
    let content = |hit: &Value| {
        assert_eq!((hit.as_array().unwrap().len(), &hit[0]["hit"]), (1, &json!(true)), "{hit}");
        hit[0]["content"].as_str().unwrap().to_owned()
    };
    let contents = body["messages"].as_array().unwrap().iter().map(content).collect();
    (contents, body["total_results"].as_u64().unwrap())
}

async fn thread(world: &World, caller: &Account, parent: ChannelId, kind: u8) -> String {
    let body = json!({"name": "thread", "type": kind});
    let answer = world.post(caller, &format!("/channels/{parent}/threads"), body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn messages_are_found_in_pages() {
    let world = World::new().await;
    for n in 1..=4 {
        world.say(&world.ana, world.general, &format!("hello number{n}")).await;
    }
    world.say(&world.trusted, world.general, "other words").await;
    let body = search(&world, &world.bob, "content=HELLO").await;
    assert_eq!(body["total_results"], 4);
    assert_eq!(body["doing_deep_historical_index"], false);
    assert_eq!((&body["threads"], &body["members"]), (&json!([]), &json!([])));
    let first = &body["messages"][0][0];
    assert_eq!((&first["content"], &first["author"]["id"]), (&json!("hello number4"), &json!(world.ana.id)));
    let page = |contents: &[&str], total: u64| (contents.iter().map(|c| (*c).to_owned()).collect::<Vec<_>>(), total);
    let check = async |query: &str, contents: &[&str], total| {
        assert_eq!(found(&world, &world.bob, query).await, page(contents, total), "{query}");
    };
    check("content=hello&limit=1&offset=1", &["hello number3"], 4).await;
    check("content=hello&limit=1&sort_order=asc", &["hello number1"], 4).await;
    check(&format!("author_id={}&author_id=5", world.trusted.id), &["other words"], 1).await;
    check("author_type=bot", &["other words"], 1).await;
    check("author_type=-bot&content=number2&slop=3&sort_by=timestamp", &["hello number2"], 1).await;
    check("content=%22", &[], 0).await;
    check(&format!("channel_id={}&content=other", world.general), &["other words"], 1).await;
    check("channel_id=5&content=other", &[], 0).await;
    // A bot with MESSAGE_CONTENT searches as users do.
    assert_eq!(found(&world, &world.trusted, "content=other").await, page(&["other words"], 1));
}

#[tokio::test]
async fn wrong_queries_are_refused() {
    let world = World::new().await;
    let check = async |query: &str, field: &str, code: &str, message: &str| {
        let answer = world.get(&world.ana, &format!("/guilds/{}/messages/search?{query}", world.guild)).await;
        answer.is(400, invalid_form(json!({field: {"_errors": [{"code": code, "message": message}]}})));
    };
    check("limit=26", "limit", "NUMBER_TYPE_MAX", "int value should be less than or equal to 25.").await;
    check("limit=0", "limit", "NUMBER_TYPE_MIN", "int value should be greater than or equal to 1.").await;
    check("offset=9976", "offset", "NUMBER_TYPE_MAX", "int value should be less than or equal to 9975.").await;
    let long = format!("content={}", "x".repeat(1_025));
    check(&long, "content", "BASE_TYPE_MAX_LENGTH", "Must be 1024 or fewer in length.").await;
    let words: Vec<String> = (0..65).map(|n| n.to_string()).collect();
    let many = format!("content={}", words.join("+"));
    check(&many, "content", "BASE_TYPE_MAX_LENGTH", "Must have 64 or fewer different words.").await;
    let kinds = "Value must be one of ('user', 'bot', 'webhook').";
    let in_list = json!({"author_type": {"1": {"_errors": [{"code": "BASE_TYPE_CHOICES", "message": kinds}]}}});
    let path = format!("/guilds/{}/messages/search?author_type=bot&author_type=-cat", world.guild);
    world.get(&world.ana, &path).await.is(400, invalid_form(in_list));
    check("sort_by=relevance", "sort_by", "BASE_TYPE_CHOICES", "Value must be one of ('timestamp').").await;
    let unknown = "Search does not know the types of embeds. Leave this field out.";
    check("embed_type=image", "embed_type", "UNSUPPORTED", unknown).await;
}

#[tokio::test]
async fn a_bot_without_message_content_may_not_search() {
    let world = World::new().await;
    let path = format!("/guilds/{}/messages/search?author_id=1", world.guild);
    let answer = world.get(&world.bot, &path).await;
    answer.has(403, 50001);
    assert!(answer.json()["message"].as_str().unwrap().contains("MESSAGE_CONTENT"), "{answer:?}");
    world.get(&world.eve, &path).await.has(404, 10004);
}

/// S1: nothing of an answer depends on what the caller may not read, pages and totals included.
#[tokio::test]
async fn s1_hidden_messages_change_nothing() {
    let worlds = [World::new().await, World::new().await];
    let mut answers = Vec::new();
    for (world, writes_hidden) in worlds.iter().zip([false, true]) {
        let hidden = world.channel("hidden", vec![world.deny(Permissions::VIEW_CHANNEL)]).await;
        let no_history = world.channel("no-history", vec![world.deny(Permissions::READ_MESSAGE_HISTORY)]).await;
        let private = thread(world, &world.ana, world.general, 12).await.parse().unwrap();
        let in_hidden = thread(world, &world.ana, hidden, 11).await.parse().unwrap();
        for n in 0..6 {
            world.clock.advance_ms(10_000);
            world.say(&world.ana, world.general, &format!("secret {n}")).await;
            for channel_id in [hidden, no_history, private, in_hidden] {
                if writes_hidden {
                    world.clock.advance_ms(10_000);
                    world.say(&world.ana, channel_id, "secret").await;
                }
            }
        }
        let mut of_bob = Vec::new();
        for query in [
            "content=secret".to_owned(),
            "content=secret&limit=2&offset=3".to_owned(),
            "content=secret&sort_order=asc&limit=4".to_owned(),
            format!("author_id={}", world.ana.id),
            format!("channel_id={hidden}&channel_id={private}&channel_id={}", world.general),
            format!("channel_id={no_history}&content=secret"),
        ] {
            of_bob.push(found(world, &world.bob, &query).await);
        }
        answers.push(of_bob);
        let (_, total) = found(world, &world.ana, "content=secret").await;
        assert_eq!(total, if writes_hidden { 30 } else { 6 }, "the owner finds all of them");
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0][0].1, 6);
}

#[tokio::test]
async fn s1_recipients_search_their_direct_message() {
    let world = World::new().await;
    let with_bob = json!({"recipient_id": world.bob.id.to_string()});
    let direct = world.post(&world.ana, "/users/@me/channels", with_bob).await.json();
    let direct: ChannelId = direct["id"].as_str().unwrap().parse().unwrap();
    world.say(&world.ana, direct, "secret between us").await;
    world.say(&world.ana, world.general, "no secret").await;
    let path = format!("/channels/{direct}/messages/search?content=secret");
    for caller in [&world.ana, &world.bob] {
        let answer = world.get(caller, &path).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let body = answer.json();
        assert_eq!((&body["total_results"], body["messages"][0][0].get("guild_id")), (&json!(1), None));
        assert_eq!(body["messages"][0][0]["content"], "secret between us");
        let other = world.get(caller, &format!("{path}&channel_id={}", world.general)).await.json();
        assert_eq!((&other["total_results"], &other["messages"]), (&json!(0), &json!([])));
    }
    let contents = found(&world, &world.bob, "content=secret").await;
    assert_eq!(contents, (vec!["no secret".to_owned()], 1), "the guild's search has none of it");
    world.get(&world.eve, &path).await.has(403, 50001);
    world.get(&world.trusted, &path).await.has(403, 20001);
    let of_guild = world.get(&world.ana, &format!("/channels/{}/messages/search", world.general)).await;
    of_guild.has(400, 50024);
    assert!(of_guild.json()["message"].as_str().unwrap().contains("/guilds/{guild_id}/messages/search"));
    world.get(&world.ana, &format!("{path}&limit=26")).await.has(400, 50035);
}

#[tokio::test]
async fn threads_come_with_their_messages() {
    let world = World::new().await;
    let public = thread(&world, &world.ana, world.general, 11).await;
    let private = thread(&world, &world.ana, world.general, 12).await;
    for thread_id in [&public, &private] {
        world.say(&world.ana, thread_id.parse().unwrap(), "within").await;
    }
    let of_ana = search(&world, &world.ana, "content=within&sort_order=asc").await;
    let ids: Vec<&Value> = of_ana["threads"].as_array().unwrap().iter().map(|thread| &thread["id"]).collect();
    assert_eq!(ids, [&json!(public), &json!(private)]);
    let members: Vec<&Value> = of_ana["members"].as_array().unwrap().iter().map(|member| &member["id"]).collect();
    assert_eq!(members, [&json!(public), &json!(private)]);
    let of_bob = search(&world, &world.bob, "content=within").await;
    assert_eq!((&of_bob["total_results"], &of_bob["threads"][0]["id"]), (&json!(1), &json!(public)));
    assert_eq!(of_bob["members"], json!([]));
    // A new member of the private thread finds its messages.
    let path = format!("/channels/{private}/thread-members/{}", world.bob.id);
    world.call(&world.ana, "PUT", &path, None).await.is_done();
    assert_eq!(found(&world, &world.bob, "content=within").await.1, 2);
}

#[tokio::test]
async fn age_restricted_channels_need_include_nsfw() {
    let world = World::new().await;
    let adult = world.channel("adult", Vec::new()).await;
    let patched = world.call(&world.ana, "PATCH", &format!("/channels/{adult}"), Some(json!({"nsfw": true}))).await;
    assert_eq!(patched.status, 200, "{patched:?}");
    let below = thread(&world, &world.ana, adult, 11).await;
    world.say(&world.ana, adult, "grown").await;
    world.say(&world.ana, below.parse().unwrap(), "grown").await;
    assert_eq!(found(&world, &world.bob, "content=grown").await.1, 0);
    assert_eq!(found(&world, &world.bob, "content=grown&include_nsfw=true").await.1, 2);
}
