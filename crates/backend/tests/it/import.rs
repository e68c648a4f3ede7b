//! Imports that name accounts by external ids, that only look, and that remove who is not in the file.

use crate::v1::Backend;
use axum::body::Bytes;
use axum::{body::Body, http::Request};
use futures_util::stream;
use serde_json::{Value, json};
use std::convert::Infallible;
use tower::ServiceExt as _;

impl Backend {
    fn import_path(&self, query: &str) -> String {
        format!("/guilds/{}/members/import?{query}", self.world.guild)
    }

    /// The lines of the answer.
    async fn import(&self, query: &str, lines: &[Value]) -> Vec<Value> {
        let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let answer = self.request(&self.key, "POST", &self.import_path(query), body).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    async fn member_ids(&self) -> Vec<String> {
        let members = self.need("GET", &format!("/guilds/{}/members", self.world.guild), Value::Null, 200).await;
        let ids = members.as_array().unwrap().iter().map(|member| member["user"]["id"].as_str().unwrap().to_owned());
        ids.collect()
    }
}

fn line(id: u64, name: &str) -> Value {
    json!({"user": {"id": id.to_string(), "username": name}})
}

/// added, changed, unchanged, removed, failed, done
fn counts(line: &Value) -> (u64, u64, u64, u64, u64, bool) {
    let count = |name: &str| line[name].as_u64().unwrap();
    let done = line["done"].as_bool().unwrap();
    (count("added"), count("changed"), count("unchanged"), count("removed"), count("failed"), done)
}

#[tokio::test]
async fn accounts_of_an_import_may_have_external_ids_alone() {
    let backend = Backend::ready().await;
    backend.need("PATCH", "/users/101", json!({"external_id": "bob"}), 200).await;
    let by_name = |text: &str| json!({"user": {"external_id": text, "username": text}});
    let lines = [by_name("ada"), by_name("bob"), json!({"user": {"username": "nobody"}})];
    let answer = backend.import("", &lines).await;
    assert_eq!(answer[0]["errors"][0]["field"], "user.id", "{answer:?}");
    assert_eq!(counts(&answer[1]), (1, 0, 1, 0, 1, true), "bob is a member already: {answer:?}");
    let ada = backend.need("GET", "/users/ext:ada", Value::Null, 200).await;
    backend.need("GET", &format!("/guilds/{}/members/ext:ada", backend.world.guild), Value::Null, 200).await;
    let again = backend.import("", &lines[..2]).await;
    assert_eq!(counts(&again[0]), (0, 0, 2, 0, 0, true), "the same accounts: {again:?}");

    let mut other = line(777, "other");
    other["user"]["external_id"] = json!("ada");
    let taken = backend.import("", &[line(778, "fine"), other]).await;
    assert!(taken[0]["message"].as_str().unwrap().contains(ada["id"].as_str().unwrap()), "{taken:?}");
    assert_eq!((taken[0]["line"].as_u64(), counts(&taken[1])), (Some(2), (1, 0, 0, 0, 1, true)), "{taken:?}");
    backend.need("GET", "/users/777", Value::Null, 404).await;

    let dry = backend.import("dry_run=true", &[by_name("new"), line(779, "new too")]).await;
    assert_eq!(counts(&dry[0]), (2, 0, 0, 0, 0, true), "{dry:?}");
    backend.need("GET", "/users/ext:new", Value::Null, 404).await;
    backend.need("GET", "/users/779", Value::Null, 404).await;
}

#[tokio::test]
async fn progress_counts_bytes_of_the_body() {
    let backend = Backend::ready().await;
    let body = format!("{}\n{}\n", line(101, "bob"), line(300, "new"));
    for announced in [None, Some(body.len())] {
        let path = format!("/v1{}", backend.import_path(""));
        let mut request = Request::post(path).header("authorization", format!("Bearer {}", backend.key));
        if let Some(bytes) = announced {
            request = request.header("content-length", bytes);
        }
        let answer = backend.api.clone().oneshot(request.body(Body::from(body.clone())).unwrap()).await.unwrap();
        let text = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        let last: Value = serde_json::from_slice(text.trim_ascii()).unwrap();
        assert_eq!((&last["bytes"], &last["bytes_total"]), (&json!(body.len()), &json!(announced)));
    }
}

#[tokio::test]
async fn m3_replace_makes_the_members_those_of_the_file() {
    let backend = Backend::ready().await;
    let before = backend.member_ids().await;
    assert_eq!(before, ["100", "101", "200", "201"]);
    let file = [line(101, "bob"), line(102, "eve"), line(300, "new")];
    let dry = backend.import("replace=true&dry_run=true", &file).await;
    assert_eq!(counts(&dry[0]), (2, 0, 1, 2, 0, true), "{dry:?}");
    assert_eq!(dry[0]["dry_run"], true);
    assert_eq!((&dry[0]["added_first"], &dry[0]["removed_first"]), (&json!(["102", "300"]), &json!(["200", "201"])));
    assert_eq!(backend.member_ids().await, before, "nothing happened");
    backend.need("GET", "/users/300", Value::Null, 404).await;

    let done = backend.import("replace=true", &file).await;
    assert_eq!(counts(&done[0]), (2, 0, 1, 2, 0, true), "as in the dry run: {done:?}");
    assert_eq!(done[0].get("removed_first"), None);
    assert_eq!(backend.member_ids().await, ["100", "101", "102", "300"], "the owner stays");
    let again = backend.import("replace=true", &file).await;
    assert_eq!(counts(&again[0]), (0, 0, 3, 0, 0, true), "{again:?}");
    let guilds = backend.need("GET", "/users/200/guilds", Value::Null, 200).await;
    assert_eq!(guilds, json!({"guild_ids": []}), "the account stays, and is no member");
}

#[tokio::test]
async fn m3_a_faulty_or_empty_file_removes_no_member() {
    let backend = Backend::ready().await;
    let before = backend.member_ids().await;
    let faulty = backend.import("replace=true", &[line(101, "bob"), json!({"user": {"id": "102"}})]).await;
    let last = faulty.last().unwrap();
    assert!(last["message"].as_str().unwrap().starts_with("No member was removed, because 1 lines"), "{faulty:?}");
    assert!(faulty.iter().all(|line| line["done"] != true), "{faulty:?}");
    let empty = backend.import("replace=true", &[]).await;
    assert!(empty.last().unwrap()["errors"][0]["message"].as_str().unwrap().contains("empty"), "{empty:?}");
    assert_eq!(backend.member_ids().await, before);
    let refused = backend.request(&backend.key, "POST", &backend.import_path("replace=true&skip=5"), "").await;
    assert_eq!((refused.status, &refused.json()["errors"][0]["field"]), (400, &json!("skip")));
}

#[tokio::test]
async fn m3_a_member_who_joins_during_the_import_stays() {
    let backend = Backend::ready().await;
    let (sender, receiver) = tokio::sync::mpsc::channel::<Bytes>(1);
    let pieces = stream::unfold(receiver, |mut receiver| async move {
        Some((Ok::<_, Infallible>(receiver.recv().await?), receiver))
    });
    let request = Request::post(format!("/v1{}", backend.import_path("replace=true")));
    let request = request.header("authorization", format!("Bearer {}", backend.key));
    // The members are listed before the answer begins.
    let answer = backend.api.clone().oneshot(request.body(Body::from_stream(pieces)).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200);
    backend.need("PUT", &format!("/guilds/{}/members/102", backend.world.guild), json!({}), 201).await;
    sender.send(format!("{}\n", line(101, "bob")).into()).await.unwrap();
    drop(sender);
    let answer = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    let last: Value =
        serde_json::from_slice(answer.trim_ascii().split(|byte| *byte == b'\n').next_back().unwrap()).unwrap();
    assert_eq!(counts(&last), (0, 0, 1, 2, 0, true), "{last}");
    assert_eq!(backend.member_ids().await, ["100", "101", "102"]);
}
