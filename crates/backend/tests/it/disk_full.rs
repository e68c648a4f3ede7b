//! A full disk: every route of the backend API that adds something answers 503 with the reason, and changes nothing.
//! Reads, deletions and revocations go on.

use crate::v1::Backend;
use serde_json::{Value, json};

#[tokio::test]
async fn s21_3_writes_of_backends_are_refused_with_the_reason() {
    let backend = Backend::ready().await;
    let (guild, channel) = (backend.world.guild, backend.world.general);
    backend.need("PUT", "/users/70", json!({"username": "of_before", "external_id": "p-70"}), 201).await;
    backend.need("PUT", "/users/71", json!({"username": "goes"}), 201).await;
    backend.need("PUT", &format!("/guilds/{guild}/members/71"), json!({}), 201).await;
    let key = backend.need("POST", "/keys", json!({"name": "k", "scopes": ["read"]}), 201).await;
    backend.world.node.hold_writes(true);

    let refused = [
        ("PUT", "/users/72".to_owned(), json!({"username": "new"})),
        ("PUT", "/users/ext:p-73".to_owned(), json!({"username": "new"})),
        ("PATCH", "/users/70".to_owned(), json!({"username": "renamed"})),
        ("PATCH", "/users/70".to_owned(), json!({"external_id": "p-71"})),
        ("POST", "/keys".to_owned(), json!({"name": "new", "scopes": ["read"]})),
        ("PUT", "/guilds/7000".to_owned(), json!({"name": "new", "owner_id": "70"})),
        ("PATCH", format!("/guilds/{guild}"), json!({"name": "renamed"})),
        ("PUT", format!("/guilds/{guild}/channels/7001"), json!({"name": "new", "type": 0})),
        ("PATCH", format!("/guilds/{guild}/channels/{channel}"), json!({"topic": "new"})),
        ("PUT", format!("/guilds/{guild}/roles/7002"), json!({"name": "new"})),
        ("PUT", format!("/guilds/{guild}/members/70"), json!({})),
        ("PUT", format!("/guilds/{guild}/retention"), json!({"keep_days": 3})),
        ("POST", "/directs".to_owned(), json!({"user_ids": ["70", "71"]})),
    ];
    for (method, path, body) in refused {
        let answer = backend.need(method, &path, body, 503).await;
        assert_eq!(answer["code"], "unavailable", "{method} {path}");
        let message = answer["message"].as_str().unwrap();
        assert!(message.starts_with("The disk is full: writes are refused"), "{method} {path}: {message}");
    }
    backend.need("GET", "/users/72", Value::Null, 404).await;
    backend.need("GET", "/users/ext:p-73", Value::Null, 404).await;
    let kept = backend.need("GET", "/users/70", Value::Null, 200).await;
    assert_eq!((&kept["username"], &kept["external_id"]), (&json!("of_before"), &json!("p-70")));
    let keys = backend.need("GET", "/keys", Value::Null, 200).await;
    assert!(!keys.to_string().contains("\"new\""), "{keys}");

    backend.need("DELETE", "/users/70/tokens", Value::Null, 200).await;
    backend.need("DELETE", &format!("/keys/{}", key["id"].as_str().unwrap()), Value::Null, 204).await;
    backend.need("DELETE", "/users/71", Value::Null, 204).await;
    let gone = backend.need("GET", "/users/71", Value::Null, 200).await;
    assert_eq!(gone["username"], "deleted_71");
    backend.need("GET", &format!("/guilds/{guild}/members/71"), Value::Null, 404).await;
    backend.need("DELETE", &format!("/guilds/{guild}"), Value::Null, 204).await;

    backend.world.node.hold_writes(false);
    backend.need("PUT", "/users/72", json!({"username": "new"}), 201).await;
}
