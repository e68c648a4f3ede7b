//! External ids: given, looked up, used in paths and bodies, and never shown to clients.

use crate::v1::Backend;
use guildhall_backend::V1Limits;
use guildhall_store::ExternalKind;
use serde_json::{Value, json};

impl Backend {
    pub async fn ready() -> Self {
        Self::new(V1Limits::default()).await
    }

    /// The answer must have this status.
    #[track_caller]
    pub fn need(
        &self,
        method: &'static str,
        path: &str,
        body: Value,
        status: u16,
    ) -> impl Future<Output = Value> + use<'_> {
        let (path, body) = (path.to_owned(), if body.is_null() { String::new() } else { body.to_string() });
        let caller = std::panic::Location::caller();
        async move {
            let answer = self.request(&self.key, method, &path, body).await;
            assert_eq!(answer.status, status, "{caller}: {method} {path}: {}", answer.body);
            if answer.body.is_empty() { Value::Null } else { answer.json() }
        }
    }
}

#[tokio::test]
async fn an_account_is_put_and_found_by_its_external_id() {
    let backend = Backend::ready().await;
    let unknown = backend.need("GET", "/users/ext:auth0%7Cada", Value::Null, 404).await;
    assert!(unknown["message"].as_str().unwrap().contains("external id \"auth0|ada\""), "{unknown}");

    let made = backend.need("PUT", "/users/ext:auth0%7Cada", json!({"username": "ada"}), 201).await;
    assert_eq!((&made["username"], &made["external_id"]), (&json!("ada"), &json!("auth0|ada")));
    let id = made["id"].as_str().unwrap().to_owned();
    let again = backend.need("PUT", "/users/ext:auth0%7Cada", json!({"username": "ada l"}), 200).await;
    assert_eq!((&again["id"], &again["external_id"]), (&made["id"], &made["external_id"]));
    for path in [format!("/users/{id}"), "/users/ext:auth0%7Cada".to_owned()] {
        assert_eq!(backend.need("GET", &path, Value::Null, 200).await, again);
    }
    let found = backend.need("GET", "/users?external_id=auth0%7Cada", Value::Null, 200).await;
    assert_eq!(found, json!({"users": [again]}));
    let nobody = backend.need("GET", "/users?external_id=nobody", Value::Null, 200).await;
    assert_eq!(nobody, json!({"users": []}));
    let all = backend.need("GET", "/users", Value::Null, 200).await;
    let texts: Vec<_> = all["users"].as_array().unwrap().iter().map(|user| &user["external_id"]).collect();
    assert_eq!(texts.iter().filter(|text| ***text == "auth0|ada").count(), 1, "{all}");

    let kept = backend.need("PUT", &format!("/users/{id}"), json!({"username": "ada"}), 200).await;
    assert_eq!(kept["external_id"], "auth0|ada", "left out: as it was");
    backend.need("PATCH", &format!("/users/{id}"), json!({"external_id": "17"}), 200).await;
    backend.need("GET", "/users/ext:auth0%7Cada", Value::Null, 404).await;
    assert_eq!(backend.need("GET", "/users/ext:17", Value::Null, 200).await["id"], made["id"]);
    let cleared = backend.need("PATCH", "/users/ext:17", json!({"external_id": null}), 200).await;
    assert_eq!(cleared["external_id"], Value::Null);
    backend.need("GET", "/users/ext:17", Value::Null, 404).await;
    backend.need("PATCH", "/users/ext:17", json!({}), 404).await;
    backend.need("DELETE", "/users/ext:17", Value::Null, 404).await;
}

#[tokio::test]
async fn an_external_id_belongs_to_one_object() {
    let backend = Backend::ready().await;
    backend.need("PUT", "/users/501", json!({"username": "a", "external_id": "x"}), 201).await;
    let taken = backend.need("PUT", "/users/502", json!({"username": "b", "external_id": "x"}), 409).await;
    assert!(taken["message"].as_str().unwrap().contains("belongs to the user 501"), "{taken}");
    backend.need("GET", "/users/502", Value::Null, 404).await;
    backend.need("PUT", "/users/502", json!({"username": "b", "external_id": "y"}), 201).await;
    backend.need("PATCH", "/users/502", json!({"external_id": "x"}), 409).await;
    assert_eq!(backend.need("GET", "/users/502", Value::Null, 200).await["external_id"], "y");
    let moved = backend.need("PUT", "/users/ext:z", json!({"username": "c", "external_id": "y"}), 400).await;
    assert_eq!(moved["errors"][0]["field"], "external_id");

    // A refused request changes nothing.
    backend.need("PATCH", "/users/502", json!({"bot": true, "external_id": "new"}), 409).await;
    assert_eq!(backend.need("GET", "/users/502", Value::Null, 200).await["external_id"], "y");
    backend.need("GET", "/users/ext:new", Value::Null, 404).await;

    // Kinds are apart.
    let guild = json!({"name": "g", "owner_id": "ext:x", "external_id": "x"});
    assert_eq!(backend.need("PUT", "/guilds/600", guild, 201).await["owner_id"], "501");

    // A claim whose object never came, as after a crash: others may take it, and its own object finds it.
    let store = backend.world.node.store();
    store.put_external_ids(ExternalKind::User, &[(700, Some("left".to_owned()))]).await.unwrap();
    store.put_external_ids(ExternalKind::User, &[(701, Some("mine".to_owned()))]).await.unwrap();
    backend.need("GET", "/users/ext:left", Value::Null, 404).await;
    backend.need("PATCH", "/users/501", json!({"external_id": "left"}), 200).await;
    assert_eq!(backend.need("PUT", "/users/ext:mine", json!({"username": "d"}), 201).await["id"], "701");

    for bad in ["", " ", "a b", "\u{e4}", &"x".repeat(129)] {
        let refused = backend.need("PATCH", "/users/501", json!({"external_id": bad}), 400).await;
        assert_eq!(refused["errors"][0]["field"], "external_id", "{refused}");
    }
    for bad in
        ["/users/ext:", "/users/ext:a%20b", "/users/ext:%C3%A4", "/guilds/600/roles/ext:a", "/users?external_id="]
    {
        backend.need("GET", bad, Value::Null, 400).await;
    }
    backend.need("PUT", "/users/ext:a%2Fb", json!({"username": "slash"}), 201).await;

    // An account that is deleted releases it.
    backend.need("DELETE", "/users/502", Value::Null, 204).await;
    backend.need("PUT", "/users/503", json!({"username": "e", "external_id": "y"}), 201).await;
}

#[tokio::test]
async fn guilds_and_channels_have_them_too() {
    let backend = Backend::ready().await;
    let owner = backend.need("PUT", "/users/ext:owner", json!({"username": "owner"}), 201).await;
    let guild = json!({"name": "g", "owner_id": "ext:owner"});
    let guild = backend.need("PUT", "/guilds/ext:team-1", guild, 201).await;
    assert_eq!((&guild["owner_id"], &guild["external_id"]), (&owner["id"], &json!("team-1")));
    let found = backend.need("GET", "/guilds?external_id=team-1", Value::Null, 200).await;
    assert_eq!(found, json!({"guild_ids": [guild["id"]]}));
    let nobody = backend.need("PUT", "/guilds/ext:team-2", json!({"name": "g", "owner_id": "ext:nobody"}), 400).await;
    assert_eq!(nobody["errors"][0]["field"], "owner_id");
    backend.need("GET", "/guilds/ext:team-2", Value::Null, 404).await;

    let channel = json!({"name": "c", "type": 0});
    let made = backend.need("PUT", "/guilds/ext:team-1/channels/ext:room", channel.clone(), 201).await;
    assert_eq!((&made["external_id"], &made["guild_id"]), (&json!("room"), &guild["id"]));
    backend.need("PUT", "/guilds/ext:team-1/channels/ext:room", channel.clone(), 200).await;
    let taken = format!("/guilds/{}/channels/900", backend.world.guild);
    let body = json!({"name": "c", "type": 0, "external_id": "room"});
    backend.need("PUT", &taken, body.clone(), 409).await;
    let listed = backend.need("GET", "/guilds/ext:team-1/channels?external_id=room", Value::Null, 200).await;
    assert_eq!(listed, json!([made]));
    let listed = backend.need("GET", "/guilds/ext:team-1/channels?external_id=other", Value::Null, 200).await;
    assert_eq!(listed, json!([]));
    backend.need("PATCH", "/guilds/ext:team-1/channels/ext:room", json!({"topic": "t"}), 200).await;

    // In bodies.
    let event = |audience: Value| json!({"t": "X", "d": {}, "audience": audience});
    for audience in [
        json!({"channel": "ext:room"}),
        json!({"guild": "ext:team-1"}),
        json!({"guild": "ext:team-1", "channel": "ext:room"}),
        json!({"users": ["ext:owner"]}),
    ] {
        backend.need("POST", "/publish", event(audience), 200).await;
    }
    let refused = backend.need("POST", "/publish", event(json!({"users": ["100", "ext:nobody"]})), 400).await;
    assert_eq!(refused["errors"][0]["field"], "audience.users[1]");
    backend.need("POST", "/directs", json!({"user_ids": ["ext:owner", "101"]}), 200).await;
    backend.need("POST", "/users/ext:owner/tokens", json!({"ttl_s": 60}), 201).await;
    let member = backend.need("PUT", "/guilds/ext:team-1/members/101", json!({}), 201).await;
    assert_eq!(member["user"]["external_id"], Value::Null);
    let members = backend.need("GET", "/guilds/ext:team-1/members", Value::Null, 200).await;
    let texts: Vec<_> = members.as_array().unwrap().iter().map(|member| &member["user"]["external_id"]).collect();
    assert!(texts.contains(&&json!("owner")), "{members}");

    // A deleted object releases its external id.
    backend.need("DELETE", "/guilds/ext:team-1/channels/ext:room", Value::Null, 204).await;
    backend.need("PUT", &taken, body, 201).await;
    backend.need("DELETE", "/guilds/ext:team-1", Value::Null, 204).await;
    backend.need("GET", "/guilds/ext:team-1", Value::Null, 404).await;
    let again = backend.need("PUT", "/guilds/ext:team-1", json!({"name": "g", "owner_id": "ext:owner"}), 201).await;
    assert_ne!(again["id"], guild["id"]);
}

#[tokio::test]
async fn x2_clients_never_see_one() {
    let backend = Backend::ready().await;
    let world = &backend.world;
    let guild = world.guild;
    backend.need("PATCH", "/users/101", json!({"external_id": "hidden-user"}), 200).await;
    backend.need("PATCH", &format!("/guilds/{guild}"), json!({"external_id": "hidden-guild"}), 200).await;
    let channel = format!("/guilds/{guild}/channels/{}", world.general);
    backend.need("PATCH", &channel, json!({"external_id": "hidden-channel"}), 200).await;
    for path in [
        "/users/@me".to_owned(),
        "/users/@me/guilds".to_owned(),
        format!("/guilds/{guild}"),
        format!("/guilds/{guild}/channels"),
        format!("/guilds/{guild}/members/101"),
        format!("/channels/{}", world.general),
    ] {
        let answer = world.get(&world.bob, &path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert!(!answer.body.contains("hidden") && !answer.body.contains("external"), "{path}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_key_with_accounts_learns_no_external_ids_of_others() {
    let backend = Backend::ready().await;
    for (id, text) in [(101, "bob"), (102, "eve")] {
        backend.need("PATCH", &format!("/users/{id}"), json!({"external_id": text}), 200).await;
    }
    let (_, login) = backend.world.node.create_key_for("login", &[backend.world.bob.id]).await.unwrap();
    for (path, status) in [("bob", 200), ("eve", 403), ("nobody", 403)] {
        let answer = backend.request(&login, "GET", &format!("/users/ext:{path}/tokens"), "").await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
    }
}

#[tokio::test]
async fn an_account_stays_a_bot_or_a_user() {
    let backend = Backend::ready().await;
    for (method, body) in [("PATCH", json!({"bot": true})), ("PUT", json!({"username": "bob", "bot": true}))] {
        let refused = backend.need(method, "/users/101", body, 409).await;
        assert_eq!(refused["code"], "conflict", "{method}: {refused}");
    }
    assert_eq!(backend.need("PATCH", "/users/101", json!({"bot": false}), 200).await["bot"], false);
}
