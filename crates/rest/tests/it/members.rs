//! Members over REST.

use crate::support::World;
use guildhall_model::Permissions;
use serde_json::{Value, json};

fn ids(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|member| member["user"]["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn reading() {
    let world = World::new().await;
    let members = format!("/guilds/{}/members", world.guild);
    let bob = world.get(&world.ana, &format!("{members}/101")).await.json();
    for key in ["user", "roles", "joined_at", "deaf", "mute", "flags", "nick", "communication_disabled_until"] {
        assert!(bob.get(key).is_some(), "{key}");
    }
    assert_eq!(bob["user"]["username"], "bob");
    world.get(&world.bob, &format!("/users/@me/guilds/{}/member", world.guild)).await.is(200, bob);
    world.get(&world.ana, &format!("{members}/102")).await.is(404, json!({"message": "Unknown Member", "code": 10007}));
    world.get(&world.eve, &format!("{members}/101")).await.has(404, 10004);
}

#[tokio::test]
async fn pages_need_the_grant() {
    let world = World::new().await;
    let members = format!("/guilds/{}/members", world.guild);
    world.get(&world.bot, &members).await.is(403, json!({"message": "Missing Access", "code": 50001}));
    assert_eq!(ids(&world.get(&world.trusted, &members).await.json()), ["100"]);
    assert_eq!(
        ids(&world.get(&world.trusted, &format!("{members}?limit=1000")).await.json()),
        ["100", "101", "200", "201"]
    );
    assert_eq!(ids(&world.get(&world.trusted, &format!("{members}?limit=2&after=100")).await.json()), ["101", "200"]);
    world.get(&world.trusted, &format!("{members}?limit=1001")).await.has(400, 50035);
}

#[tokio::test]
async fn searching() {
    let world = World::new().await;
    let search = format!("/guilds/{}/members/search", world.guild);
    assert_eq!(ids(&world.get(&world.bot, &format!("{search}?query=BO&limit=10")).await.json()), ["101", "200"]);
    assert_eq!(ids(&world.get(&world.bot, &format!("{search}?query=bo")).await.json()), ["101"]);
    assert!(ids(&world.get(&world.bot, &format!("{search}?query=zz")).await.json()).is_empty());
    world.get(&world.bot, &search).await.has(400, 50035);
    world.get(&world.eve, &format!("{search}?query=bo")).await.has(404, 10004);
}

#[tokio::test]
async fn changing() {
    let world = World::new().await;
    let members = format!("/guilds/{}/members", world.guild);
    let bob = format!("{members}/101");
    let own = world.call(&world.bob, "PATCH", &format!("{members}/@me"), Some(json!({"nick": "bobby"}))).await;
    assert_eq!((own.status, &own.json()["nick"]), (200, &json!("bobby")));
    world.call(&world.bot, "PATCH", &bob, Some(json!({"nick": "x"}))).await.has(403, 50013);
    let role = world.grant(&world.bot, Permissions::MANAGE_NICKNAMES).await;
    let renamed = world.call(&world.bot, "PATCH", &bob, Some(json!({"nick": null}))).await;
    assert_eq!((renamed.status, &renamed.json()["nick"]), (200, &Value::Null));

    let until = "2025-06-20T12:00:00.000000+00:00";
    let body = json!({"roles": [role, role], "communication_disabled_until": until});
    let changed = world.call(&world.ana, "PATCH", &bob, Some(body)).await.json();
    assert_eq!((&changed["roles"], &changed["communication_disabled_until"]), (&json!([role]), &json!(until)));
    let path = format!("/channels/{}/messages", world.general);
    world.post(&world.bob, &path, json!({"content": "x"})).await.has(403, 50013);

    world.call(&world.ana, "PATCH", &bob, Some(json!({"nick": "x".repeat(33)}))).await.has(400, 50035);
    let far = json!({"communication_disabled_until": "2099-01-01T00:00:00Z"});
    world.call(&world.ana, "PATCH", &bob, Some(far)).await.has(400, 50035);
}

#[tokio::test]
async fn giving_and_taking_roles() {
    let world = World::new().await;
    let role = world.grant(&world.bot, Permissions::NONE).await;
    let path = format!("/guilds/{}/members/101/roles/{role}", world.guild);
    world.call(&world.bob, "PUT", &path, None).await.has(403, 50013);
    world.call(&world.ana, "PUT", &path, None).await.is_done();
    let bob = format!("/guilds/{}/members/101", world.guild);
    assert_eq!(world.get(&world.ana, &bob).await.json()["roles"], json!([role]));
    world.call(&world.ana, "DELETE", &path, None).await.is_done();
    assert_eq!(world.get(&world.ana, &bob).await.json()["roles"], json!([]));
    world.call(&world.ana, "PUT", &format!("{bob}/roles/5"), None).await.has(404, 10011);
}

#[tokio::test]
async fn removing() {
    let world = World::new().await;
    let bob = format!("/guilds/{}/members/101", world.guild);
    world.call(&world.bot, "DELETE", &bob, None).await.has(403, 50013);
    world.call(&world.ana, "DELETE", &bob, None).await.is_done();
    world.get(&world.ana, &bob).await.has(404, 10007);
    world.get(&world.bob, &format!("/guilds/{}", world.guild)).await.has(404, 10004);
    world.get(&world.bob, &format!("/channels/{}", world.general)).await.has(403, 50001);
}
