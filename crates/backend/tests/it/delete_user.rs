//! Accounts deleted with what they wrote: in the background, over restarts, and as clients see it.

use crate::{
    support::{World, until},
    v1::Backend,
};
use guildhall_backend::V1Limits;
use guildhall_rest::ApiLimits;
use guildhall_store::{SqliteStore, Store};
use serde_json::{Value, json};
use std::sync::Arc;

impl Backend {
    /// The job, once it has ended.
    async fn ended(&self, job: &Value) -> Value {
        let path = format!("/jobs/{}", job["id"].as_str().unwrap());
        until("the end of the job", async || {
            let answer = self.request(&self.key, "GET", &path, "").await;
            let is_over = answer.status == 200 && answer.json()["state"] != "running";
            if is_over { Ok(answer.json()) } else { Err(answer) }
        })
        .await
    }

    /// Answers once the jobs of the store were read.
    async fn delete(&self, query: &str, status: u16) -> Value {
        let answer = until("an answer other than 503", async || {
            let answer = self.request(&self.key, "DELETE", &format!("/users/101?{query}"), "").await;
            if answer.status == 503 { Err(answer) } else { Ok(answer) }
        });
        let answer = answer.await;
        assert_eq!(answer.status, status, "{}", answer.body);
        answer.json()
    }

    /// Bob writes to the guild, to a thread that is closed then, and to ana; he reacts, and so does she.
    async fn with_content(&self) -> Content {
        let world = &self.world;
        let general = world.general;
        let hers = world.say(&world.ana, general, "hers").await;
        for n in 0..3 {
            world.say(&world.bob, general, &format!("his {n}")).await;
        }
        let reply = json!({"content": "re", "message_reference": {"message_id": hers}});
        assert_eq!(world.post(&world.bob, &format!("/channels/{general}/messages"), reply).await.status, 200);
        let thread = json!({"name": "t", "type": 11});
        let thread = world.post(&world.ana, &format!("/channels/{general}/threads"), thread).await.json();
        let thread = thread["id"].as_str().unwrap().to_owned();
        let answer = world.post(&world.bob, &format!("/channels/{thread}/messages"), json!({"content": "in it"})).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let path = format!("/channels/{thread}/messages");
        let in_thread_hers = world.post(&world.ana, &path, json!({"content": "hers"})).await.json();
        let in_thread_hers = in_thread_hers["id"].as_str().unwrap().to_owned();
        for (channel, message) in [(general.to_string(), &hers), (thread.clone(), &in_thread_hers)] {
            let reaction = format!("/channels/{channel}/messages/{message}/reactions/%F0%9F%91%8D/@me");
            for who in [&world.ana, &world.bob] {
                assert_eq!(world.call(who, "PUT", &reaction, None).await.status, 204);
            }
        }
        let close = json!({"archived": true});
        assert_eq!(world.call(&world.ana, "PATCH", &format!("/channels/{thread}"), Some(close)).await.status, 200);
        let direct = world.post(&world.bob, "/users/@me/channels", json!({"recipient_id": "100"})).await.json();
        let direct = direct["id"].as_str().unwrap().to_owned();
        for who in [&world.bob, &world.ana] {
            let created = world.post(who, &format!("/channels/{direct}/messages"), json!({"content": "hi"})).await;
            assert_eq!(created.status, 200, "{}", created.body);
        }
        Content { general: general.to_string(), thread, direct }
    }

    /// Author and number of reactions of each message of a channel, oldest first.
    async fn history(&self, channel: &str) -> Vec<(String, u64)> {
        let answer = self.world.get(&self.world.ana, &format!("/channels/{channel}/messages?limit=100")).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let of = |message: &Value| {
            let count = message["reactions"][0]["count"].as_u64().unwrap_or(0);
            (message["author"]["username"].as_str().unwrap().to_owned(), count)
        };
        answer.json().as_array().unwrap().iter().rev().map(of).collect()
    }
}

struct Content {
    general: String,
    thread: String,
    direct: String,
}

fn named(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

async fn on(store: Arc<dyn Store>) -> Backend {
    Backend::of(World::with(ApiLimits::unlimited(), store).await, V1Limits::default()).await
}

async fn sqlite() -> Arc<dyn Store> {
    Arc::new(SqliteStore::open_in_memory().await.unwrap())
}

#[tokio::test]
async fn erase_deletes_the_messages_of_an_account() {
    let backend = on(sqlite().await).await;
    let world = &backend.world;
    backend
        .need("PATCH", "/users/101", json!({"global_name": "Bob B", "avatar": "abc", "external_id": "bob"}), 200)
        .await;
    let content = backend.with_content().await;
    // Another guild banned him.
    backend.need("PUT", "/guilds/901", json!({"name": "hers", "owner_id": "100"}), 201).await;
    let ban = world.call(&world.ana, "PUT", "/guilds/901/bans/101", Some(json!({}))).await;
    assert_eq!(ban.status, 204, "{}", ban.body);
    assert_eq!(world.get(&world.ana, "/guilds/901/bans").await.json()[0]["user"]["global_name"], "Bob B");
    let job = backend.delete("erase=true", 202).await;
    assert_eq!((&job["user_id"], &job["reassign"]), (&json!("101"), &Value::Null));
    assert_eq!(world.get(&world.bob, "/users/@me").await.status, 401, "locked out at once");
    let done = backend.ended(&job).await;
    assert_eq!((&done["state"], &done["error"]), (&json!("done"), &Value::Null), "{done}");
    assert_eq!((&done["reactions"], &done["guilds"]), (&json!(2), &json!(1)), "{done}");
    assert!(done["messages"].as_u64() >= Some(6), "{done}");

    let ban = world.get(&world.ana, "/guilds/901/bans/101").await.json();
    assert_eq!((&ban["user"]["username"], &ban["user"]["global_name"]), (&json!("deleted_101"), &Value::Null));
    let general = backend.history(&content.general).await;
    assert!(general.iter().all(|(name, _)| name == "ana"), "{general:?}");
    assert!(general.contains(&("ana".to_owned(), 1)), "her reaction stays: {general:?}");
    assert_eq!(backend.history(&content.direct).await, named(&[("ana", 0)]));
    let thread = backend.history(&content.thread).await;
    assert!(thread.iter().all(|(name, _)| name == "ana") && thread.contains(&("ana".to_owned(), 1)), "{thread:?}");

    let tombstone = backend.need("GET", "/users/101", Value::Null, 200).await;
    assert_eq!((&tombstone["username"], &tombstone["global_name"]), (&json!("deleted_101"), &Value::Null));
    assert_eq!((&tombstone["avatar"], &tombstone["external_id"]), (&Value::Null, &Value::Null));
    backend.need("GET", "/users/ext:bob", Value::Null, 404).await;
    backend.need("GET", &format!("/guilds/{}/members/101", world.guild), Value::Null, 404).await;
    let list = backend.need("GET", "/jobs", Value::Null, 200).await;
    assert_eq!(list, json!({"jobs": [done]}));
    backend.need("POST", "/users/101/tokens", json!({}), 404).await;
    // Once more: nothing is left.
    let again = backend.delete("erase=true", 202).await;
    assert_ne!(again["id"], job["id"]);
    assert_eq!(backend.ended(&again).await["messages"], 0);
}

#[tokio::test]
async fn reassign_gives_messages_and_guilds_to_another_account() {
    let backend = on(sqlite().await).await;
    let world = &backend.world;
    let content = backend.with_content().await;
    backend.need("PUT", "/guilds/900", json!({"name": "his", "owner_id": "101"}), 201).await;
    let refused = backend.delete("erase=true", 409).await;
    assert!(refused["message"].as_str().unwrap().contains("900"), "{refused}");
    for (query, status) in [("reassign=101", 400), ("reassign=999", 400), ("reassign=102&erase=true", 400)] {
        backend.delete(query, status).await;
    }
    let job = backend.delete("reassign=102", 202).await;
    let done = backend.ended(&job).await;
    assert_eq!((&done["state"], &done["reassign"]), (&json!("done"), &json!("102")), "{done}");
    assert_eq!(backend.need("GET", "/guilds/900", Value::Null, 200).await["owner_id"], "102");
    let general = backend.history(&content.general).await;
    assert_eq!(general.iter().filter(|(name, _)| name == "eve").count(), 4, "{general:?}");
    assert!(general.iter().all(|(name, _)| name != "bob"), "{general:?}");
    assert_eq!(backend.history(&content.direct).await, named(&[("eve", 0), ("ana", 0)]));
    assert!(backend.history(&content.thread).await.contains(&("eve".to_owned(), 0)));
    // A member of the past is found by the new author, not by the old one.
    let store = world.node.store();
    let zero = (guildhall_model::Id::new(0), guildhall_model::Id::new(0));
    assert_eq!(store.content_of(world.bob.id, zero, 1_000).await.unwrap().messages, []);
    assert!(store.content_of(world.eve.id, zero, 1_000).await.unwrap().messages.len() >= 6);
}

#[tokio::test]
async fn j1_a_job_goes_on_after_a_restart() {
    let store = sqlite().await;
    let backend = on(store.clone()).await;
    let content = backend.with_content().await;
    let job = backend.delete("erase=true", 202).await;
    let again = backend.delete("erase=true", 202).await;
    assert_eq!(job["id"], again["id"], "one job for an account");
    // While it runs no request can create the account again. It may have ended already.
    let put = backend.request(&backend.key, "PUT", "/users/101", json!({"username": "bob"}).to_string()).await.status;
    let minted = backend.request(&backend.key, "POST", "/users/101/tokens", "{}").await.status;
    let ended = backend.request(&backend.key, "GET", &format!("/jobs/{}", job["id"].as_str().unwrap()), "").await;
    if ended.json()["state"] == "running" {
        assert_eq!((put, minted), (409, 409));
    }
    // The API ends in the middle, and another begins on the same store.
    let Backend { world, api, key, .. } = backend;
    drop((api, key));
    let backend = Backend::of(world, V1Limits::default()).await;
    let done = backend.ended(&job).await;
    assert_eq!(done["state"], "done", "{done}");
    let general = backend.history(&content.general).await;
    assert!(general.iter().all(|(name, _)| name == "ana"), "{general:?}");
}
