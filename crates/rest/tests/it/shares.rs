//! Shares of the files: one account and one guild leave room for others, and messages leave room for pictures.

use crate::support::{Account, Answer, World};
use axum::{body::Body, http::Request};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0";

async fn upload(world: &World, who: &Account, path: &str, bytes: usize) -> Answer {
    let head = "--XX\r\nContent-Disposition: form-data; name=\"files[0]\"; filename=\"a.txt\"\r\n\r\n";
    let body = [head.as_bytes(), &vec![b'a'; bytes], b"\r\n--XX--\r\n"].concat();
    let request = Request::builder().method("POST").uri(format!("/api/v10{path}"));
    let request = request.header("authorization", &who.token);
    let request = request.header("content-type", "multipart/form-data; boundary=XX");
    world.send(request.body(Body::from(body)).unwrap()).await
}

#[track_caller]
fn is_refused(answer: &Answer, setting: &str) {
    assert_eq!(answer.status, 507, "{}", answer.body);
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains(setting), "{message}");
}

async fn general_of_another_guild(world: &World) -> String {
    let guild = world.post(&world.ana, "/guilds", json!({"name": "another"})).await.json();
    let path = format!("/guilds/{}/channels", guild["id"].as_str().unwrap());
    let channel = world.post(&world.ana, &path, json!({"name": "general"})).await.json();
    format!("/channels/{}/messages", channel["id"].as_str().unwrap())
}

#[tokio::test]
async fn s1_s3_a_guild_leaves_room_for_others_and_all_of_them_for_pictures() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::with_shares(dir.path(), None, 100_000, [100, 50, 20]).await;
    let general = format!("/channels/{}/messages", world.general);
    assert_eq!(upload(&world, &world.ana, &general, 30_000).await.status, 200);
    for who in [&world.ana, &world.bob] {
        is_refused(&upload(&world, who, &general, 30_000).await, "uploads.guild_percent");
    }
    assert_eq!(upload(&world, &world.bob, &general, 15_000).await.status, 200, "there is room for a smaller one");
    let another = general_of_another_guild(&world).await;
    assert_eq!(upload(&world, &world.ana, &another, 30_000).await.status, 200);

    // A direct message has a share of its own, but here the reserve for pictures begins.
    let direct = world.post(&world.ana, "/users/@me/channels", json!({"recipient_id": world.bob.id.to_string()})).await;
    let direct = format!("/channels/{}/messages", direct.json()["id"].as_str().unwrap());
    is_refused(&upload(&world, &world.ana, &direct, 30_000).await, "uploads.bytes_max");
    let avatar = json!({"avatar": format!("data:image/png;base64,{}", STANDARD.encode(PNG))});
    assert_eq!(world.call(&world.bob, "PATCH", "/users/@me", Some(avatar)).await.status, 200);
    // The refused upload takes no bytes of the share.
    assert_eq!(upload(&world, &world.ana, &direct, 4_000).await.status, 200);
}

#[tokio::test]
async fn s2_an_account_has_its_share_of_a_day_in_all_guilds_together() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::with_shares(dir.path(), None, 100_000, [10, 100, 0]).await;
    let general = format!("/channels/{}/messages", world.general);
    assert_eq!(upload(&world, &world.ana, &general, 9_000).await.status, 200);
    is_refused(&upload(&world, &world.ana, &general, 2_000).await, "uploads.account_day_percent");
    let another = general_of_another_guild(&world).await;
    is_refused(&upload(&world, &world.ana, &another, 2_000).await, "uploads.account_day_percent");
    assert_eq!(upload(&world, &world.bob, &general, 2_000).await.status, 200);
    assert_eq!(upload(&world, &world.ana, &general, 900).await.status, 200);
}
