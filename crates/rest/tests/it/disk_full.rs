//! A full disk: every route that adds something answers 503 with the reason, and changes nothing. Reads and
//! deletions go on.

use crate::support::World;
use serde_json::json;

#[tokio::test]
async fn s21_3_writes_are_refused_with_the_reason() {
    let world = World::new().await;
    let message = world.say(&world.ana, world.general, "before").await;
    let (guild, channel, bob) = (world.guild, world.general, world.bob.id);
    world.node.hold_writes(true);

    let text = json!({"content": "lost"});
    let refused = [
        ("POST", format!("/channels/{channel}/messages"), text.clone()),
        ("PATCH", format!("/channels/{channel}/messages/{message}"), text),
        ("PUT", format!("/channels/{channel}/messages/{message}/reactions/%E2%9C%A8/@me"), json!(null)),
        ("PUT", format!("/channels/{channel}/pins/{message}"), json!(null)),
        ("POST", format!("/channels/{channel}/threads"), json!({"name": "thread", "type": 11})),
        ("POST", format!("/channels/{channel}/invites"), json!({})),
        ("POST", format!("/channels/{channel}/webhooks"), json!({"name": "hook"})),
        ("PATCH", format!("/channels/{channel}"), json!({"topic": "new"})),
        ("POST", "/guilds".to_owned(), json!({"name": "another"})),
        ("PATCH", format!("/guilds/{guild}"), json!({"name": "renamed"})),
        ("POST", format!("/guilds/{guild}/channels"), json!({"name": "another"})),
        ("POST", format!("/guilds/{guild}/roles"), json!({"name": "another"})),
        ("PATCH", format!("/guilds/{guild}/members/{bob}"), json!({"nick": "b"})),
        ("PUT", format!("/guilds/{guild}/bans/{bob}"), json!({})),
        ("PATCH", "/users/@me".to_owned(), json!({"username": "renamed"})),
        ("POST", "/users/@me/channels".to_owned(), json!({"recipient_id": bob.to_string()})),
    ];
    for (method, path, body) in refused {
        let answer = world.call(&world.ana, method, &path, Some(body)).await;
        let full = json!({"code": 0, "message":
            "503: Service Unavailable: the disk is full: writes are refused, reads and deletions continue"});
        assert_eq!((answer.status, answer.json()), (503, full), "{method} {path}");
    }
    let bot = world.bot.id;
    let command = json!({"name": "roll", "description": "dice"});
    let answer = world.call(&world.bot, "POST", &format!("/applications/{bot}/commands"), Some(command)).await;
    assert_eq!(answer.status, 503, "{answer:?}");

    let read = [
        format!("/channels/{channel}/messages"),
        format!("/guilds/{guild}"),
        format!("/guilds/{guild}/audit-logs"),
        "/users/@me".to_owned(),
        format!("/applications/{bot}/commands"),
    ];
    for path in &read[..4] {
        assert_eq!(world.get(&world.ana, path).await.status, 200, "{path}");
    }
    assert_eq!(world.get(&world.bot, &read[4]).await.json(), json!([]), "nothing was written");
    assert_eq!(world.get(&world.ana, "/users/@me").await.json()["username"], "ana");
    world.call(&world.ana, "DELETE", &format!("/channels/{channel}/messages/{message}"), None).await.is_done();

    world.node.hold_writes(false);
    world.say(&world.ana, world.general, "after").await;
}
