//! Pictures: upload, announcement, download, replacement and removal.

use crate::support::{Account, World, invalid_form};
use axum::{body::Body, http::Request};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use guildhall_model::{Permissions, UserId};
use serde_json::{Value, json};
use std::{fs, path::Path};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0";
const JPEG: &[u8] = b"\xff\xd8\xff\xe0\0\x10JFIF";
const GIF: &[u8] = b"GIF89a\x01\0\x01\0\0\0\0\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0\x3b";

fn data_url(bytes: &[u8]) -> Value {
    json!(format!("data:image/png;base64,{}", STANDARD.encode(bytes)))
}

async fn patch(world: &World, who: &Account, path: &str, body: Value) -> Value {
    let answer = world.call(who, "PATCH", path, Some(body)).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

/// The picture at a path is this one.
#[track_caller]
fn served(answer: &crate::support::Answer, content_type: &str, bytes: &[u8]) {
    assert_eq!((answer.status, answer.header("content-type")), (200, content_type), "{}", answer.body);
    assert_eq!(answer.bytes, bytes);
    assert_eq!(answer.header("cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.header("content-security-policy"), "default-src 'none'; sandbox");
}

async fn fetch(world: &World, path: &str) -> crate::support::Answer {
    world.anonymous("GET", path, "192.0.2.1").await
}

/// Everything below the folder of pictures.
fn files(dir: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for folder in ["users", "guilds", "members"] {
        // Made for the first picture.
        for owner in fs::read_dir(dir.join("files/pictures").join(folder)).into_iter().flatten() {
            for file in fs::read_dir(owner.unwrap().path()).unwrap() {
                let path = file.unwrap().path();
                all.push(path.strip_prefix(dir.join("files/pictures")).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    all.sort();
    all
}

async fn world() -> (World, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (World::with_files(dir.path(), 1 << 20).await, dir)
}

#[tokio::test]
async fn an_avatar_is_kept_served_replaced_and_removed() {
    let (world, dir) = world().await;
    let changed =
        patch(&world, &world.ana, "/users/@me", json!({"avatar": data_url(PNG), "banner": data_url(GIF)})).await;
    let (avatar, banner) = (changed["avatar"].as_str().unwrap(), changed["banner"].as_str().unwrap());
    assert_eq!((avatar.len(), banner.len(), &banner[..2]), (32, 34, "a_"));
    assert_eq!(files(dir.path()), [format!("users/100/{avatar}"), format!("users/100/{banner}")]);
    let shown = world.get(&world.bob, "/users/100").await.json();
    assert_eq!((&shown["avatar"], &shown["banner"]), (&json!(avatar), &json!(banner)));
    assert_eq!(
        world.get(&world.bob, &format!("/guilds/{}/members/100", world.guild)).await.json()["user"]["avatar"],
        avatar
    );

    served(&fetch(&world, &format!("/avatars/100/{avatar}.png?size=1024")).await, "image/png", PNG);
    served(&fetch(&world, &format!("/avatars/100/{avatar}.webp?size=32")).await, "image/png", PNG);
    served(&fetch(&world, &format!("/banners/100/{banner}.gif")).await, "image/gif", GIF);
    let still = fetch(&world, &format!("/avatars/100/{avatar}.gif")).await;
    assert_eq!(still.status, 415, "{}", still.body);
    for nothing in [
        format!("/avatars/101/{avatar}.png"),
        format!("/avatars/100/{avatar}"),
        format!("/avatars/100/{avatar}.html"),
        format!("/avatars/100/{avatar}.json"),
        format!("/avatars/0100x/{avatar}.png"),
        "/avatars/100/..%2F..%2F..%2Fsecret.png".to_owned(),
        format!("/icons/100/{avatar}.png"),
    ] {
        assert_eq!(fetch(&world, &nothing).await.status, 404, "{nothing}");
    }

    // The same again changes nothing; another one takes its place.
    patch(&world, &world.ana, "/users/@me", json!({"avatar": data_url(PNG)})).await;
    assert_eq!(files(dir.path()).len(), 2);
    let changed = patch(&world, &world.ana, "/users/@me", json!({"avatar": data_url(JPEG)})).await;
    assert_eq!(changed["banner"], banner);
    assert_eq!(fetch(&world, &format!("/avatars/100/{avatar}.png")).await.status, 404);
    let path = format!("/avatars/100/{}.png", changed["avatar"].as_str().unwrap());
    served(&fetch(&world, &path).await, "image/jpeg", JPEG);
    let changed = patch(&world, &world.ana, "/users/@me", json!({"avatar": null, "banner": ""})).await;
    assert_eq!((&changed["avatar"], &changed["banner"]), (&json!(null), &json!(null)));
    assert_eq!((files(dir.path()), fetch(&world, &path).await.status), (Vec::new(), 404));
    let kept = world.node.store().user(UserId::new(100)).await.unwrap().unwrap();
    assert_eq!((&kept.avatar, &kept.banner), (&None, &None));
}

#[tokio::test]
async fn a_guild_its_roles_and_members_have_pictures() {
    let (world, dir) = world().await;
    let guild = world.guild;
    let path = format!("/guilds/{guild}");
    let all = json!({"icon": data_url(PNG), "splash": data_url(JPEG), "discovery_splash": data_url(PNG), "banner": data_url(GIF)});
    let denied = world.call(&world.bob, "PATCH", &path, Some(all.clone())).await;
    denied.has(403, 50013);
    assert_eq!(files(dir.path()), Vec::<String>::new(), "nothing is written without the permission");
    let changed = patch(&world, &world.ana, &path, all).await;
    for (field, folder, content_type, bytes) in [
        ("icon", "icons", "image/png", PNG),
        ("splash", "splashes", "image/jpeg", JPEG),
        ("discovery_splash", "discovery-splashes", "image/png", PNG),
        ("banner", "banners", "image/gif", GIF),
    ] {
        let hash = changed[field].as_str().unwrap();
        served(&fetch(&world, &format!("/{folder}/{guild}/{hash}.png")).await, content_type, bytes);
    }
    assert_eq!(world.get(&world.bob, &path).await.json()["banner"], changed["banner"]);
    let own = world.get(&world.bob, "/users/@me/guilds").await.json();
    assert_eq!((&own[0]["icon"], &own[0]["banner"]), (&changed["icon"], &changed["banner"]));
    patch(&world, &world.ana, &path, json!({"icon": null, "discovery_splash": null})).await;
    assert_eq!(files(dir.path()).len(), 2);

    let role =
        world.post(&world.ana, &format!("{path}/roles"), json!({"name": "r", "icon": data_url(PNG)})).await.json();
    let (id, hash) = (role["id"].as_str().unwrap(), role["icon"].as_str().unwrap());
    served(&fetch(&world, &format!("/role-icons/{id}/{hash}.png")).await, "image/png", PNG);
    let other =
        world.post(&world.ana, &format!("{path}/roles"), json!({"name": "s", "icon": data_url(PNG)})).await.json();
    let changed = patch(&world, &world.ana, &format!("{path}/roles/{id}"), json!({"unicode_emoji": "🔥"})).await;
    assert_eq!((&changed["icon"], &changed["unicode_emoji"]), (&json!(null), &json!("🔥")));
    assert_eq!(fetch(&world, &format!("/role-icons/{id}/{hash}.png")).await.status, 404);
    served(
        &fetch(&world, &format!("/role-icons/{}/{hash}.png", other["id"].as_str().unwrap())).await,
        "image/png",
        PNG,
    );
    world.call(&world.ana, "DELETE", &format!("{path}/roles/{}", other["id"].as_str().unwrap()), None).await.is_done();
    assert_eq!(files(dir.path()).len(), 2);

    let own = format!("{path}/members/@me");
    let changed = patch(&world, &world.bob, &own, json!({"avatar": data_url(GIF), "banner": data_url(PNG)})).await;
    let (avatar, banner) = (changed["avatar"].as_str().unwrap(), changed["banner"].as_str().unwrap());
    served(&fetch(&world, &format!("/guilds/{guild}/users/101/avatars/{avatar}.gif")).await, "image/gif", GIF);
    served(&fetch(&world, &format!("/guilds/{guild}/users/101/banners/{banner}.png")).await, "image/png", PNG);
    assert_eq!(changed["user"]["avatar"], json!(null));
    let changed = patch(&world, &world.bob, &own, json!({"avatar": null})).await;
    assert_eq!((&changed["avatar"], &changed["banner"]), (&json!(null), &json!(banner)));
    assert_eq!(files(dir.path()).len(), 3);

    world.call(&world.ana, "DELETE", &path, None).await.is_done();
    assert_eq!(files(dir.path()), [format!("members/{guild}-101/{banner}")], "the sweep removes those of its members");
}

fn sticker(world: &World, who: &Account, bytes: &[u8]) -> Request<Body> {
    let part =
        |name: &str, more: &str| format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n");
    let body = [
        format!("{}wave\r\n{}wave\r\n{}", part("name", ""), part("tags", ""), part("file", "; filename=\"x.png\""))
            .as_bytes(),
        bytes,
        b"\r\n--XX--\r\n",
    ]
    .concat();
    let request = Request::post(format!("/api/v10/guilds/{}/stickers", world.guild));
    let request = request.header("authorization", &who.token);
    request.header("content-type", "multipart/form-data; boundary=XX").body(Body::from(body)).unwrap()
}

#[tokio::test]
async fn emoji_and_stickers_are_served_by_their_ids() {
    let (world, dir) = world().await;
    let path = format!("/guilds/{}/emojis", world.guild);
    let form = |bytes: &[u8]| json!({"name": "party", "image": data_url(bytes)});
    world.post(&world.bob, &path, form(PNG)).await.has(403, 50013);
    world.call(&world.bob, "POST", &path, Some(json!({"name": "party"}))).await.has(400, 50035);
    assert_eq!(files(dir.path()), Vec::<String>::new());
    let still = world.post(&world.ana, &path, form(PNG)).await.json();
    let moving = world.post(&world.ana, &path, form(GIF)).await.json();
    assert_eq!((&still["animated"], &moving["animated"]), (&json!(false), &json!(true)));
    let (still, moving) = (still["id"].as_str().unwrap(), moving["id"].as_str().unwrap());
    served(&fetch(&world, &format!("/emojis/{still}.webp?size=48&quality=lossless")).await, "image/png", PNG);
    served(&fetch(&world, &format!("/emojis/{moving}.gif")).await, "image/gif", GIF);
    assert_eq!(fetch(&world, "/emojis/1.png").await.status, 404);
    world.call(&world.ana, "DELETE", &format!("{path}/{still}"), None).await.is_done();
    assert_eq!(fetch(&world, &format!("/emojis/{still}.png")).await.status, 404);
    let large = world.post(&world.ana, &path, form(&[PNG, &vec![0; 256 << 10]].concat())).await;
    let message = "File cannot be larger than 256 kb.";
    large.is(400, invalid_form(json!({"image": {"_errors": [{"code": "BINARY_TYPE_MAX_SIZE", "message": message}]}})));

    let lottie = br#"{"v": "5.5.7", "fr": 60, "w": 320, "h": 320, "layers": [{}]}"#;
    world.grant(&world.bob, Permissions::CREATE_GUILD_EXPRESSIONS).await;
    for (bytes, format_type, extension, content_type) in
        [(PNG, 1, "png", "image/png"), (GIF, 4, "gif", "image/gif"), (&lottie[..], 3, "json", "application/json")]
    {
        let answer = world.send(sticker(&world, &world.bob, bytes)).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        assert_eq!(answer.json()["format_type"], format_type);
        let link = format!("/stickers/{}.{extension}", answer.json()["id"].as_str().unwrap());
        served(&fetch(&world, &link).await, content_type, bytes);
    }
    for wrong in [JPEG, b"<svg/>", b"[]"] {
        let answer = world.send(sticker(&world, &world.bob, wrong)).await;
        let message = "Invalid Asset: a sticker is PNG, APNG, GIF or Lottie.";
        answer.is(400, invalid_form(json!({"file": {"_errors": [{"code": "IMAGE_INVALID", "message": message}]}})));
    }
    let answer = world.send(sticker(&world, &world.bob, &[PNG, &vec![0; 512 << 10]].concat())).await;
    assert_eq!((answer.status, &answer.json()["code"]), (413, &json!(40005)), "{}", answer.body);
    let answer = world.send(sticker(&world, &world.bot, PNG)).await;
    answer.has(403, 50013);
    assert_eq!(files(dir.path()).len(), 4);
    assert!(fs::read_dir(dir.path().join("files/incoming")).unwrap().next().is_none(), "nothing is left half written");
}

#[tokio::test]
async fn a_webhook_has_an_avatar() {
    let (world, dir) = world().await;
    let path = format!("/channels/{}/webhooks", world.general);
    let body = json!({"name": "hook", "avatar": data_url(PNG)});
    world.post(&world.bob, &path, body.clone()).await.has(403, 50013);
    assert_eq!(files(dir.path()), Vec::<String>::new());
    let hook = world.post(&world.ana, &path, body).await.json();
    let (id, token, avatar) =
        (hook["id"].as_str().unwrap(), hook["token"].as_str().unwrap(), hook["avatar"].as_str().unwrap());
    served(&fetch(&world, &format!("/avatars/{id}/{avatar}.png")).await, "image/png", PNG);
    let message =
        world.post(&world.ana, &format!("/webhooks/{id}/{token}?wait=true"), json!({"content": "hi"})).await.json();
    assert_eq!(message["author"]["avatar"], avatar);
    let changed = patch(&world, &world.ana, &format!("/webhooks/{id}/{token}"), json!({"avatar": data_url(GIF)})).await;
    assert_eq!(files(dir.path()), [format!("users/{id}/{}", changed["avatar"].as_str().unwrap())]);
    world.call(&world.ana, "DELETE", &format!("/webhooks/{id}"), None).await.is_done();
    assert_eq!(files(dir.path()), Vec::<String>::new());
}

#[tokio::test]
async fn invalid_and_large_pictures_are_refused() {
    let (world, dir) = world().await;
    let refused =
        |code: &str, message: &str| invalid_form(json!({"avatar": {"_errors": [{"code": code, "message": message}]}}));
    let formats = "Invalid image data: this server keeps PNG, JPEG, GIF, WebP and AVIF.";
    for (avatar, code, message) in [
        (json!(7), "IMAGE_INVALID", "Invalid image data: expected data:image/…;base64,…"),
        (json!("https://example.net/a.png"), "IMAGE_INVALID", "Invalid image data: expected data:image/…;base64,…"),
        (json!("data:image/png;base64,%"), "IMAGE_INVALID", "Invalid image data: not base64."),
        (data_url(b"<svg xmlns='http://www.w3.org/2000/svg'/>"), "IMAGE_INVALID", formats),
        (data_url(b"<html>"), "IMAGE_INVALID", formats),
        (data_url(&[PNG, &vec![0; 300 << 10]].concat()), "BINARY_TYPE_MAX_SIZE", "File cannot be larger than 300 kb."),
    ] {
        world
            .call(&world.ana, "PATCH", "/users/@me", Some(json!({"avatar": avatar})))
            .await
            .is(400, refused(code, message));
    }
    // Four of them are more than all files together may have.
    for n in 0..4 {
        let picture = [PNG, &vec![n; 299 << 10]].concat();
        let body = json!({"avatar": data_url(&picture)});
        let who = [&world.ana, &world.bob, &world.eve, &world.bot][usize::from(n)];
        let answer = world.call(who, "PATCH", "/users/@me", Some(body)).await;
        assert_eq!(answer.status, if n < 3 { 200 } else { 507 }, "{}", answer.body);
    }
    assert_eq!(files(dir.path()).len(), 3);
    assert_eq!(world.get(&world.bot, "/users/@me").await.json()["avatar"], json!(null));
}

#[tokio::test]
async fn where_no_files_are_kept_pictures_are_refused() {
    let world = World::new().await;
    let message = "This server does not store pictures (uploads.mode is \"off\").";
    let error = json!({"_errors": [{"code": "UNSUPPORTED", "message": message}]});
    let answer = world.call(&world.ana, "PATCH", "/users/@me", Some(json!({"avatar": data_url(PNG)}))).await;
    answer.is(400, invalid_form(json!({"avatar": error})));
    let path = format!("/guilds/{}/emojis", world.guild);
    let answer = world.post(&world.ana, &path, json!({"name": "party", "image": data_url(PNG)})).await;
    answer.is(400, invalid_form(json!({"image": error})));
    world.send(sticker(&world, &world.ana, PNG)).await.is(400, invalid_form(json!({"file": error})));
    // None is always one.
    patch(&world, &world.ana, "/users/@me", json!({"avatar": null})).await;
    let event = json!({"name": "e", "privacy_level": 2, "entity_type": 3, "scheduled_start_time": "2030-01-01T00:00:00Z",
                       "scheduled_end_time": "2030-01-01T01:00:00Z", "entity_metadata": {"location": "x"}, "image": data_url(PNG)});
    world.post(&world.ana, &format!("/guilds/{}/scheduled-events", world.guild), event).await.has(400, 50035);
}

#[tokio::test]
async fn a_scheduled_event_has_a_cover() {
    let (world, dir) = world().await;
    let path = format!("/guilds/{}/scheduled-events", world.guild);
    let form = |image: Value| {
        json!({"name": "fair", "privacy_level": 2, "entity_type": 3, "entity_metadata": {"location": "here"}, "image": image,
            "scheduled_start_time": "2030-01-01T00:00:00Z", "scheduled_end_time": "2030-01-02T00:00:00Z"})
    };
    world.post(&world.bob, &path, form(data_url(PNG))).await.has(403, 50013);
    assert_eq!(files(dir.path()), [""; 0], "nothing was written for an account without the right");
    let event = world.post(&world.ana, &path, form(data_url(PNG))).await.json();
    let (id, image) = (event["id"].as_str().unwrap().to_owned(), event["image"].as_str().unwrap().to_owned());
    let link = |image: &str| format!("/guild-events/{id}/{image}.png");
    served(&fetch(&world, &format!("{}?size=512", link(&image))).await, "image/png", PNG);
    assert_eq!(fetch(&world, &format!("/guild-events/5/{image}.png")).await.status, 404);
    assert_eq!(fetch(&world, &format!("/icons/{}/{image}.png", world.guild)).await.status, 404);

    let path = format!("{path}/{id}");
    let renamed = patch(&world, &world.ana, &path, json!({"name": "fair 2"})).await;
    assert_eq!((&renamed["name"], &renamed["image"]), (&json!("fair 2"), &json!(image)), "the rest stays");
    served(&fetch(&world, &link(&image)).await, "image/png", PNG);
    world.call(&world.bob, "PATCH", &path, Some(json!({"image": null}))).await.has(403, 50013);
    let other = patch(&world, &world.ana, &path, json!({"image": data_url(JPEG)})).await["image"].clone();
    served(&fetch(&world, &link(other.as_str().unwrap())).await, "image/jpeg", JPEG);
    assert_eq!(fetch(&world, &link(&image)).await.status, 404, "it was replaced");
    assert_eq!(world.get(&world.bob, &path).await.json()["image"], other);
    assert_eq!(patch(&world, &world.ana, &path, json!({"image": null})).await["image"], json!(null));
    assert_eq!(files(dir.path()), [""; 0]);

    patch(&world, &world.ana, &path, json!({"image": data_url(JPEG)})).await;
    assert_eq!(files(dir.path()).len(), 1);
    world.call(&world.ana, "DELETE", &path, None).await.is_done();
    assert_eq!(files(dir.path()), [""; 0], "it goes with its event");
    let unknown = format!("/guilds/{}/scheduled-events/77", world.guild);
    world.call(&world.ana, "PATCH", &unknown, Some(json!({"name": "x"}))).await.has(404, 10070);
}
