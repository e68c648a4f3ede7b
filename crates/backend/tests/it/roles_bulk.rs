//! Roles of many members, and many roles, in one transaction.

use crate::v1::Backend;
use serde_json::{Value, json};

impl Backend {
    /// A guild with the roles 801 and 802; its path.
    async fn with_roles(&self) -> String {
        let guild = format!("/guilds/{}", self.world.guild);
        let roles = json!({"roles": [{"id": "801", "name": "one", "position": 2}, {"id": "802", "name": "two"}]});
        let put = self.need("PUT", &format!("{guild}/roles"), roles.clone(), 200).await;
        assert_eq!(put, json!({"added": 2, "changed": 0, "unchanged": 0}));
        let again = self.need("PUT", &format!("{guild}/roles"), roles, 200).await;
        assert_eq!(again, json!({"added": 0, "changed": 0, "unchanged": 2}));
        guild
    }

    async fn roles_of(&self, user_id: u64) -> Value {
        let path = format!("/guilds/{}/members/{user_id}", self.world.guild);
        self.need("GET", &path, Value::Null, 200).await["roles"].clone()
    }
}

#[tokio::test]
async fn a_role_has_exactly_the_members_that_are_put() {
    let backend = Backend::ready().await;
    let guild = backend.with_roles().await;
    backend.need("PATCH", "/users/101", json!({"external_id": "bob"}), 200).await;
    let members = format!("{guild}/roles/801/members");
    let put = backend.need("PUT", &members, json!({"user_ids": ["100", "ext:bob"]}), 200).await;
    assert_eq!(put, json!({"changed": 2, "unchanged": 0}));
    let put = backend.need("PUT", &members, json!({"user_ids": ["101", "200"]}), 200).await;
    assert_eq!(put, json!({"changed": 2, "unchanged": 1}));
    assert_eq!(backend.roles_of(100).await, json!([]));
    assert_eq!(backend.roles_of(101).await, json!(["801"]));
    assert_eq!(backend.roles_of(200).await, json!(["801"]));
    let patch = json!({"add": ["100", "101"], "remove": ["200"]});
    let patched = backend.need("PATCH", &members, patch, 200).await;
    assert_eq!(patched, json!({"changed": 2, "unchanged": 1}));
    assert_eq!(backend.roles_of(200).await, json!([]));
    let put = backend.need("PUT", &members, json!({"user_ids": []}), 200).await;
    assert_eq!(put, json!({"changed": 2, "unchanged": 0}));

    let of_members =
        json!({"members": [{"user_id": "100", "roles": ["801", "802"]}, {"user_id": "ext:bob", "roles": []}]});
    let put = backend.need("PUT", &format!("{guild}/members/roles"), of_members, 200).await;
    assert_eq!(put, json!({"changed": 1, "unchanged": 1}));
    assert_eq!(backend.roles_of(100).await, json!(["801", "802"]));
}

#[tokio::test]
async fn z1_a_faulty_request_changes_nothing() {
    let backend = Backend::ready().await;
    let guild = backend.with_roles().await;
    let field = |answer: &Value| answer["errors"][0]["field"].as_str().unwrap_or_default().to_owned();
    let members = format!("{guild}/roles/801/members");
    let refused = backend.need("PUT", &members, json!({"user_ids": ["101", "102"]}), 400).await;
    assert_eq!(field(&refused), "user_ids[1]", "eve is no member: {refused}");
    let refused = backend.need("PATCH", &members, json!({"add": ["101"], "remove": ["102"]}), 400).await;
    assert_eq!(field(&refused), "remove[0]");
    let refused = backend.need("PATCH", &members, json!({"add": ["101"], "remove": ["101"]}), 400).await;
    assert_eq!(field(&refused), "remove[0]", "twice");
    let many: Vec<String> = (1..=1_001).map(|id| id.to_string()).collect();
    let refused = backend.need("PUT", &members, json!({"user_ids": many}), 400).await;
    assert_eq!(field(&refused), "user_ids");
    let refused =
        json!({"members": [{"user_id": "101", "roles": ["801"]}, {"user_id": "200", "roles": ["801", "999"]}]});
    let refused = backend.need("PUT", &format!("{guild}/members/roles"), refused, 400).await;
    assert_eq!(field(&refused), "members[1].roles[1]");
    let everyone = json!({"members": [{"user_id": "101", "roles": [backend.world.guild]}]});
    let refused = backend.need("PUT", &format!("{guild}/members/roles"), everyone, 400).await;
    assert_eq!(field(&refused), "members[0].roles[0]");
    assert_eq!(backend.roles_of(101).await, json!([]), "nothing of it was done");
    backend.need("PUT", &format!("{guild}/roles/999/members"), json!({"user_ids": []}), 404).await;
    let everyone = format!("{guild}/roles/{}/members", backend.world.guild);
    backend.need("PUT", &everyone, json!({"user_ids": []}), 409).await;

    let many: Vec<_> = (0..249).map(|n| json!({"id": (2_000 + n).to_string(), "name": "r"})).collect();
    backend.need("PUT", &format!("{guild}/roles"), json!({"roles": many}), 409).await;
    let twice = json!({"roles": [{"id": "803", "name": "x"}, {"id": "803", "name": "y"}, {"id": "804", "name": ""}]});
    let refused = backend.need("PUT", &format!("{guild}/roles"), twice, 400).await;
    let fields: Vec<_> = refused["errors"].as_array().unwrap().iter().map(|error| error["field"].clone()).collect();
    assert_eq!(fields, ["roles[1].id", "roles[2].name"]);
    let roles = backend.need("GET", &format!("{guild}/roles"), Value::Null, 200).await;
    assert_eq!(roles.as_array().unwrap().len(), 3, "@everyone and two: {roles}");
}
