//! Roles over REST.

use crate::support::World;
use guildhall_model::Permissions;
use serde_json::json;

#[tokio::test]
async fn made_changed_and_removed() {
    let world = World::new().await;
    let roles = format!("/guilds/{}/roles", world.guild);
    let all = world.get(&world.bob, &roles).await.json();
    assert_eq!((all.as_array().unwrap().len(), &all[0]["name"]), (1, &json!("@everyone")));
    for key in ["id", "name", "position", "permissions", "mentionable", "managed", "hoist", "flags", "color", "colors"]
    {
        assert!(all[0].get(key).is_some(), "{key}");
    }

    world.post(&world.bob, &roles, json!({})).await.has(403, 50013);
    let plain = world.post(&world.ana, &roles, json!({})).await;
    assert_eq!(plain.status, 200, "{}", plain.body);
    let plain = plain.json();
    assert_eq!((&plain["name"], &plain["permissions"]), (&json!("new role"), &all[0]["permissions"]));

    let body = json!({"name": "mods", "colors": {"primary_color": 0xff00}, "hoist": true, "permissions": "8192"});
    let made = world.post(&world.ana, &roles, body).await.json();
    assert_eq!((&made["color"], &made["hoist"], &made["permissions"]), (&json!(0xff00), &json!(true), &json!("8192")));
    let role = format!("{roles}/{}", made["id"].as_str().unwrap());
    world.get(&world.bob, &role).await.is(200, made);
    let changed = world.call(&world.ana, "PATCH", &role, Some(json!({"name": "moderators", "color": 0}))).await.json();
    assert_eq!(
        (&changed["name"], &changed["color"], &changed["permissions"]),
        (&json!("moderators"), &json!(0), &json!("8192"))
    );
    world.call(&world.bob, "DELETE", &role, None).await.has(403, 50013);
    world.call(&world.ana, "DELETE", &role, None).await.is_done();
    world.get(&world.ana, &role).await.is(404, json!({"message": "Unknown Role", "code": 10011}));
}

#[tokio::test]
async fn members_cannot_grant_permissions_they_lack() {
    let world = World::new().await;
    world.grant(&world.bob, Permissions::MANAGE_ROLES).await;
    let roles = format!("/guilds/{}/roles", world.guild);
    world.post(&world.bob, &roles, json!({"permissions": "8"})).await.has(403, 50013);
    world.post(&world.bob, &roles, json!({"permissions": "1024"})).await.has(200, 0);
    world.post(&world.bob, &roles, json!({"permissions": "lots", "name": ""})).await.has(400, 50035);
}
