//! Reactions over REST.

use crate::support::World;
use guildhall_model::Permissions;
use serde_json::json;

const FIRE: &str = "%F0%9F%94%A5";
const THUMB: &str = "%F0%9F%91%8D";

#[tokio::test]
async fn given_listed_and_taken_back() {
    let world = World::new().await;
    let id = world.say(&world.ana, world.general, "hi").await;
    let message = format!("/channels/{}/messages/{id}", world.general);
    let reactions = format!("{message}/reactions");
    for who in [&world.ana, &world.bob, &world.bot] {
        world.call(who, "PUT", &format!("{reactions}/{FIRE}/@me"), None).await.is_done();
    }
    world.call(&world.bob, "PUT", &format!("{reactions}/{FIRE}/%40me"), None).await.is_done();
    world.call(&world.bob, "PUT", &format!("{reactions}/{THUMB}/@me"), None).await.is_done();

    let seen = world.get(&world.ana, &message).await.json();
    let counts: Vec<_> =
        seen["reactions"].as_array().unwrap().iter().map(|r| (r["count"].clone(), r["me"].clone())).collect();
    assert_eq!(counts, [(json!(3), json!(true)), (json!(1), json!(false))]);
    assert_eq!(seen["reactions"][0]["emoji"], json!({"id": null, "name": "🔥", "animated": false}));

    let users = async |query: &str| {
        let answer = world.get(&world.ana, &format!("{reactions}/{FIRE}?{query}")).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json().as_array().unwrap().iter().map(|user| user["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(users("").await, ["100", "101", "200"]);
    assert_eq!(users("limit=1&after=100").await, ["101"]);
    assert!(users("type=1").await.is_empty());

    // Removing another user's reaction needs MANAGE_MESSAGES, which the owner has.
    world.call(&world.bob, "DELETE", &format!("{reactions}/{FIRE}/100"), None).await.has(403, 50013);
    world.call(&world.ana, "DELETE", &format!("{reactions}/{FIRE}/101"), None).await.is_done();
    world.call(&world.bot, "DELETE", &format!("{reactions}/{FIRE}/@me"), None).await.is_done();
    assert_eq!(users("").await, ["100"]);

    world.call(&world.bob, "DELETE", &format!("{reactions}/{THUMB}"), None).await.has(403, 50013);
    world.call(&world.ana, "DELETE", &format!("{reactions}/{THUMB}"), None).await.is_done();
    world.call(&world.bob, "DELETE", &reactions, None).await.has(403, 50013);
    world.call(&world.ana, "DELETE", &reactions, None).await.is_done();
    assert!(world.get(&world.ana, &message).await.json().get("reactions").is_none());
}

#[tokio::test]
async fn invalid_emoji_are_refused() {
    let world = World::new().await;
    let id = world.say(&world.ana, world.general, "hi").await;
    let reactions = format!("/channels/{}/messages/{id}/reactions", world.general);
    for emoji in ["fire", "party:", "par%20ty:1", "party:123"] {
        let answer = world.call(&world.bob, "PUT", &format!("{reactions}/{emoji}/@me"), None).await;
        answer.is(400, json!({"message": "Unknown Emoji", "code": 10014}));
    }
    let unknown = format!("/channels/{}/messages/5/reactions/{FIRE}", world.general);
    world.call(&world.bob, "PUT", &format!("{unknown}/@me"), None).await.has(404, 10008);
    world.get(&world.bob, &unknown).await.has(404, 10008);
}

#[tokio::test]
async fn adding_reactions_needs_permissions() {
    let world = World::new().await;
    let shy = world.channel("shy", vec![world.deny(Permissions::ADD_REACTIONS)]).await;
    let id = world.say(&world.ana, shy, "hi").await;
    let fire = format!("/channels/{shy}/messages/{id}/reactions/{FIRE}/@me");
    world.call(&world.bob, "PUT", &fire, None).await.has(403, 50013);
    world.call(&world.ana, "PUT", &fire, None).await.is_done();
    // The first use of an emoji needs the permission, joining in does not.
    world.call(&world.bob, "PUT", &fire, None).await.is_done();
    world.call(&world.eve, "PUT", &fire, None).await.has(403, 50001);
}
