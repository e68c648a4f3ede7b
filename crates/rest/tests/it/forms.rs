//! What bodies may look like, and what names and emoji are.

use crate::support::World;
use axum::{
    body::Body,
    http::{Request, header},
};
use serde_json::{Value, json};

/// Blank in several ways.
const BLANK: [&str; 5] = ["   ", "\u{a0}\u{2003}", "\u{200b}", "\u{3164}", " \u{2060}\u{feff}\n"];

#[tokio::test]
async fn names_are_trimmed_and_not_blank() {
    let world = World::new().await;
    let (guild, general, ana) = (&world.guild, &world.general, &world.ana);
    let (channels, roles) = (format!("/guilds/{guild}/channels"), format!("/guilds/{guild}/roles"));
    let role = world.post(ana, &roles, json!({"name": "r"})).await.json()["id"].as_str().unwrap().to_owned();
    let event = json!({"name": "n", "scheduled_start_time": "2030-05-01T12:00:00Z",
        "scheduled_end_time": "2030-05-01T13:00:00Z", "entity_type": 3, "privacy_level": 2, "entity_metadata": {"location": "here"}});
    let image = "data:image/png;base64,iVBORw0KGgo=";
    for (method, path, body, key) in [
        ("POST", channels.clone(), json!({"name": "n"}), "name"),
        ("PATCH", format!("/channels/{general}"), json!({"name": "n"}), "name"),
        ("POST", roles.clone(), json!({"name": "n"}), "name"),
        ("PATCH", format!("{roles}/{role}"), json!({"name": "n"}), "name"),
        ("PATCH", format!("/guilds/{guild}"), json!({"name": "nn"}), "name"),
        ("POST", "/guilds".to_owned(), json!({"name": "nn"}), "name"),
        ("POST", format!("/channels/{general}/threads"), json!({"name": "n", "type": 11}), "name"),
        ("POST", format!("/channels/{general}/webhooks"), json!({"name": "n"}), "name"),
        ("POST", format!("/guilds/{guild}/scheduled-events"), event, "name"),
        ("PATCH", "/users/@me".to_owned(), json!({"username": "ana"}), "username"),
        ("POST", "/applications/100/commands".to_owned(), json!({"name": "n", "type": 2}), "name"),
    ] {
        // Commands are a bot's.
        let who = if path.starts_with("/applications") { &world.bot } else { ana };
        let path = path.replace("/100/", "/200/");
        let with = |name: String| {
            let mut body = body.clone();
            body[key] = json!(name);
            body
        };
        for blank in BLANK {
            let answer = world.call(who, method, &path, Some(with(blank.to_owned()))).await;
            assert_eq!((answer.status, &answer.json()["code"]), (400, &json!(50035)), "{method} {path} {blank:?}");
        }
        let name = body[key].as_str().unwrap();
        let answer = world.call(who, method, &path, Some(with(format!(" \u{200b}{name}\u{a0} ")))).await;
        assert!(answer.status < 300, "{method} {path}: {}", answer.body);
        assert_eq!(answer.json()[key], name, "{method} {path}");
    }
    world.post(ana, &format!("/guilds/{guild}/emojis"), json!({"name": "  ", "image": image})).await.has(400, 50035);
    // A blank nick is none.
    let own = format!("/guilds/{guild}/members/@me");
    let nick = async |nick: &str| {
        let answer = world.call(ana, "PATCH", &own, Some(json!({"nick": nick}))).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()["nick"].clone()
    };
    assert_eq!(nick("  a  b\u{200b} ").await, "a b");
    assert_eq!(nick(BLANK[3]).await, Value::Null);
}

#[tokio::test]
async fn words_that_names_must_not_have() {
    let world = World::new().await;
    for name in ["everyone", "HERE", "a@b", "a#b", "a:b", "a```b", "my Discord"] {
        let answer = world.call(&world.ana, "PATCH", "/users/@me", Some(json!({"username": name}))).await;
        assert_eq!(answer.status, 400, "{name}");
        assert_eq!(answer.json()["errors"]["username"]["_errors"][0]["code"], "USERNAME_INVALID_CONTAINS", "{name}");
    }
    let webhooks = format!("/channels/{}/webhooks", world.general);
    world.post(&world.ana, &webhooks, json!({"name": "Clyde"})).await.has(400, 50035);
    let webhook = world.post(&world.ana, &webhooks, json!({"name": "everyone: #1"})).await;
    assert_eq!(webhook.status, 200, "{}", webhook.body);
}

#[tokio::test]
async fn emoji_of_tags_and_roles() {
    let world = World::new().await;
    let channels = format!("/guilds/{}/channels", world.guild);
    let roles = format!("/guilds/{}/roles", world.guild);
    for (emoji, is_one) in [("👍🏽", true), ("❤", true), ("1️⃣", true), ("fire", false), ("1", false), ("👍👍", false)]
    {
        let tag = json!({"name": "f", "type": 15, "available_tags": [{"name": "t", "emoji_name": emoji}]});
        let button = json!({"name": "f", "type": 15, "default_reaction_emoji": {"emoji_name": emoji}});
        for (path, body) in [(&channels, tag), (&channels, button), (&roles, json!({"unicode_emoji": emoji}))] {
            let answer = world.post(&world.ana, path, body).await;
            if is_one {
                assert!(answer.status < 300, "{emoji} {path}: {}", answer.body);
            } else {
                answer.has(400, 10014);
            }
        }
    }
}

#[tokio::test]
async fn texts_of_embeds() {
    let world = World::new().await;
    let path = format!("/channels/{}/messages", world.general);
    let post = async |embed: Value| world.post(&world.ana, &path, json!({"embeds": [embed]})).await;
    for blank in [" ", "\u{a0}\n", ""] {
        for (embed, at) in [
            (json!({"title": "t", "fields": [{"name": blank, "value": "v"}]}), "/fields/0/name"),
            (json!({"title": "t", "fields": [{"name": "n", "value": blank}]}), "/fields/0/value"),
            (json!({"title": "t", "footer": {"text": blank}}), "/footer/text"),
            (json!({"title": "t", "author": {"name": blank}}), "/author/name"),
            // An empty one is as if it were not there, and nothing else is.
            (json!({"title": blank}), if blank.is_empty() { "/description" } else { "/title" }),
            (json!({"description": blank}), "/description"),
        ] {
            let answer = post(embed.clone()).await;
            assert_eq!(answer.status, 400, "{embed}");
            assert!(answer.json()["errors"]["embeds"]["0"].pointer(at).is_some(), "{embed}: {}", answer.body);
        }
    }
    assert_eq!(post(json!({"title": "\u{200b}", "fields": [{"name": "\u{200b}", "value": "v"}]})).await.status, 200);
    let embed = post(json!({"title": "", "description": "d"})).await.json()["embeds"][0].clone();
    assert_eq!(embed, json!({"type": "rich", "description": "d"}));
}

async fn raw(world: &World, content_type: &str, body: &str) -> crate::support::Answer {
    let request = Request::post(format!("/api/v10/channels/{}/messages", world.general))
        .header(header::AUTHORIZATION, &world.ana.token)
        .header(header::CONTENT_TYPE, content_type)
        .body(Body::from(body.to_owned()));
    world.send(request.unwrap()).await
}

#[tokio::test]
async fn bodies_in_every_form() {
    let world = World::new().await;
    const FORM: &str = "application/x-www-form-urlencoded";
    let content = async |content_type: &str, body: &str| {
        let answer = raw(&world, content_type, body).await;
        assert_eq!(answer.status, 200, "{body}: {}", answer.body);
        answer.json()["content"].as_str().unwrap().to_owned()
    };
    assert_eq!(content(FORM, "content=a+b%26%C3%A4&tts=false").await, "a b&ä");
    assert_eq!(content(FORM, "payload_json=%7B%22content%22%3A%22x%22%7D&content=y").await, "x");
    // The default type of a script's HTTP client.
    assert_eq!(content(FORM, r#"{"content":"a=b&c"}"#).await, "a=b&c");
    raw(&world, FORM, "contents=x").await.has(400, 50006);
    raw(&world, FORM, &"a=b&".repeat(100)).await.has(400, 50109);
    let form = "--b\nContent-Disposition: FORM-DATA; NAME=content\n\nx\ny\n--b--\n";
    assert_eq!(content("Multipart/Form-Data; boundary=b", form).await, "x\ny");

    assert_eq!(content("application/json", r#"{"content":"x\ud83d","flags":4.0,"nonce":5.0}"#).await, "x\u{fffd}");
    raw(&world, "application/json", r#"{"content":"x","flags":4.5}"#).await.has(400, 50035);
    raw(&world, "application/json", r#"{"content":"x\ud8"}"#).await.has(400, 50109);
}

#[tokio::test]
async fn times_in_every_form() {
    let world = World::new().await;
    let path = format!("/channels/{}/messages", world.general);
    for (text, expected) in [
        ("2024-01-01T10:20:30", Some("2024-01-01T10:20:30.000000+00:00")),
        ("2024-01-01 10:20:30.123456", Some("2024-01-01T10:20:30.123000+00:00")),
        ("2024-01-01T10:20:30-0530", Some("2024-01-01T15:50:30.000000+00:00")),
        ("2024-01-01T10:20Z", Some("2024-01-01T10:20:00.000000+00:00")),
        ("2024-01-01T10:20:30+9999", None),
        ("2024-02-30T00:00:00Z", None),
    ] {
        let embeds = json!({"embeds": [{"title": "t", "timestamp": text}]});
        let answer = world.post(&world.ana, &path, embeds).await;
        let timestamp = answer.json()["embeds"][0]["timestamp"].as_str().map(str::to_owned);
        assert_eq!(timestamp.as_deref(), expected, "{text}: {}", answer.body);
    }
}

#[tokio::test]
async fn settings_of_clients() {
    let world = World::new().await;
    let path = "/users/@me/settings-proto/1";
    world.get(&world.ana, path).await.is(200, json!({"settings": ""}));
    world.get(&world.bot, path).await.has(403, 20001);
    world.get(&world.ana, "/users/@me/settings-proto/9").await.has(400, 50035);
    let patch = async |body: Value| world.call(&world.ana, "PATCH", path, Some(body)).await;
    // Field 2, a text; the node adds `versions { data_version: 1 }`.
    let first = patch(json!({"settings": "EgFh"})).await;
    first.is(200, json!({"settings": "CgIYARIBYQ=="}));
    patch(json!({"settings": "EgFi", "required_data_version": 0}))
        .await
        .is(200, json!({"settings": "CgIYARIBYQ==", "out_of_date": true}));
    patch(json!({"settings": "GAU", "required_data_version": 1.0})).await.is(200, json!({"settings": "CgIYAhIBYRgF"}));
    world.get(&world.ana, path).await.is(200, json!({"settings": "CgIYAhIBYRgF"}));
    world.get(&world.ana, "/users/@me/settings-proto/2").await.is(200, json!({"settings": ""}));
    patch(json!({})).await.has(400, 50035);
    patch(json!({"settings": "!"})).await.has(400, 50035);
    patch(json!({"settings": "EgUh"})).await.has(400, 50035);
    // Field 2 with 48,000 bytes, twice under different numbers.
    let large = |number: u8| {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let field = [&[number << 3 | 2, 0x80, 0xf7, 0x02][..], &[b'x'; 48_000]].concat();
        json!({"settings": STANDARD.encode(field)})
    };
    assert_eq!(patch(large(2)).await.status, 200);
    patch(large(3)).await.has(400, 50035);
}
