//! Accounts and unique ids of a cluster: answers to concurrent requests at two nodes hold.

use crate::{
    backend::{ANA, BOB, CHANNEL, GUILD},
    nodes::{Node, Site, two},
    support::{Answer, Http, wait_until},
    ws::{PLAIN, Ws},
};
use serde_json::{Value, json};
use std::{sync::Barrier, thread};

/// A request to a node.
struct Call<'a> {
    http: &'a mut Http,
    method: &'static str,
    path: String,
    body: Option<Value>,
}

fn send(call: Call<'_>, barrier: &Barrier) -> Answer {
    barrier.wait();
    call.http.request(call.method, &call.path, call.body.as_ref()).expect("it answers")
}

/// Both requests at the same time.
fn at_once(one: Call<'_>, other: Call<'_>) -> [Answer; 2] {
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        let one = scope.spawn(|| send(one, &barrier));
        let other = send(other, &barrier);
        [one.join().unwrap(), other]
    })
}

fn http(node: &Node) -> Http {
    node.backend().http
}

fn call<'a>(http: &'a mut Http, method: &'static str, path: impl Into<String>, body: Value) -> Call<'a> {
    let body = (!body.is_null()).then_some(body);
    Call { http, method, path: path.into(), body }
}

#[test]
fn no_change_of_an_account_is_lost() {
    let Some(site) = Site::new() else { return };
    let (first, second) = two(&site);
    let token = first.backend().token(ANA);
    let mut backends = [http(&first), http(&second)];
    let mut selves = [Http::new(first.addr, &token), Http::new(second.addr, &token)];
    let (path, own) = (format!("/v1/users/{ANA}"), "/api/v10/users/@me");
    for round in 0..60 {
        let (name, display) = (format!("ana{round}"), format!("Ana {round}"));
        let (one, other) = (json!({"username": name}), json!({"global_name": display}));
        let answers = match round % 3 {
            0 => {
                let [here, there] = &mut backends;
                at_once(call(here, "PATCH", &path, one), call(there, "PATCH", &path, other))
            }
            1 => {
                let [here, there] = &mut selves;
                at_once(call(here, "PATCH", own, one), call(there, "PATCH", own, other))
            }
            _ => at_once(call(&mut backends[0], "PATCH", &path, one), call(&mut selves[1], "PATCH", own, other)),
        };
        for answer in &answers {
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        // The store has both; a cache may take a moment.
        for node in [&first, &second] {
            wait_until("both changes", || {
                let user = node.backend().get(&format!("/users/{ANA}"));
                if (&user["username"], &user["global_name"]) == (&json!(name), &json!(display)) {
                    Ok(())
                } else {
                    Err(user)
                }
            });
        }
    }
    // The guild has the account as it is.
    wait_until("the member", || {
        let member = second.backend().get(&format!("/guilds/{GUILD}/members/{ANA}"));
        if member["user"]["username"] == "ana59" && member["user"]["global_name"] == "Ana 59" {
            Ok(())
        } else {
            Err(member)
        }
    });
}

#[test]
fn no_command_and_no_setting_is_lost() {
    let Some(site) = Site::new() else { return };
    let (first, second) = two(&site);
    const BOT: &str = "7000";
    first.backend().put(&format!("/users/{BOT}"), json!({"username": "bot", "bot": true}), 201);
    let bot = format!("Bot {}", first.backend().token(BOT));
    let ana = first.backend().token(ANA);
    let [mut here, mut there] = [&first, &second].map(|node| Http::new(node.addr, &bot));
    let commands = format!("/api/v10/applications/{BOT}/commands");
    for round in 0..20 {
        let [one, other] = ["a", "b"].map(|name| json!({"name": format!("{name}{round}"), "description": "d"}));
        let answers = at_once(call(&mut here, "POST", &commands, one), call(&mut there, "POST", &commands, other));
        assert_eq!(answers.each_ref().map(|answer| answer.status), [201, 201], "{answers:?}");
    }
    let stored = there.request("GET", &commands, None).expect("it answers").body;
    assert_eq!(stored.as_array().map(Vec::len), Some(40), "{stored}");

    // Each change increases the version by one, whatever node it is made at.
    let [mut here, mut there] = [&first, &second].map(|node| Http::new(node.addr, &ana));
    let settings = "/api/v10/users/@me/settings-proto/1";
    for _ in 0..20 {
        let [one, other] = ["EgFh", "EgFi"].map(|settings| json!({"settings": settings}));
        let answers = at_once(call(&mut here, "PATCH", settings, one), call(&mut there, "PATCH", settings, other));
        assert_eq!(answers.each_ref().map(|answer| answer.status), [200, 200], "{answers:?}");
    }
    let stored = there.request("GET", settings, None).expect("it answers").body;
    assert!(stored["settings"].as_str().is_some_and(|text| text.starts_with("CgIYKBIB")), "version 40: {stored}");
}

#[test]
fn an_acknowledgement_at_one_node_is_known_at_the_other() {
    let Some(site) = Site::new() else { return };
    let (first, second) = two(&site);
    let token = first.backend().token(ANA);
    let mut there = second.session(ANA);
    let mut here = Http::new(first.addr, &token);
    let writer = first.backend().token(BOB);
    let messages = format!("/api/v10/channels/{CHANNEL}/messages");
    let mut last = String::new();
    for round in 0..5 {
        let text = json!({"content": format!("<@{ANA}> {round}")});
        let sent = Http::new(second.addr, &writer).request("POST", &messages, Some(&text)).expect("it answers").body;
        let id = sent["id"].as_str().expect("an id").to_owned();
        let ack = here.request("POST", &format!("{messages}/{id}/ack"), Some(&json!({"token": null})));
        assert_eq!(ack.expect("it answers").status, 200);
        last = id;
    }
    there.expect("the last acknowledgement", |payload| {
        payload["t"] == "MESSAGE_ACK" && payload["d"]["message_id"] == last.as_str()
    });
    // The event follows the commit, so the next READY has the state, also at the other node.
    let mut third = Ws::connect(second.addr, "/?v=10&encoding=json", "").expect("it is let in");
    third.expect_op(10);
    third.identify(&token);
    let ready = third.expect("READY", |payload| payload["t"] == "READY");
    let state = json!({"id": CHANNEL, "last_message_id": last, "mention_count": 0});
    assert_eq!(ready["d"]["read_state"], json!([state]));
}

#[test]
fn requests_at_two_nodes_become_a_friendship() {
    let Some(site) = Site::new() else { return };
    let (first, second) = two(&site);
    let tokens = [first.backend().token(ANA), first.backend().token(BOB)];
    let [mut ana, mut bob] = [Http::new(first.addr, &tokens[0]), Http::new(second.addr, &tokens[1])];
    let mut there = second.session(ANA);
    let path = |id| format!("/api/v10/users/@me/relationships/{id}");
    for _ in 0..4 {
        let (one, other) = (call(&mut ana, "PUT", path(BOB), json!({})), call(&mut bob, "PUT", path(ANA), json!({})));
        let answers = at_once(one, other);
        assert_eq!(answers.each_ref().map(|answer| answer.status), [204, 204], "{answers:?}");
        there.expect("the friend", |payload| payload["t"] == "RELATIONSHIP_ADD" && payload["d"]["type"] == 1);
        for (http, other) in [(&mut ana, BOB), (&mut bob, ANA)] {
            let list = http.request("GET", "/api/v10/users/@me/relationships", None).expect("it answers").body;
            assert_eq!((&list[0]["id"], &list[0]["type"]), (&json!(other.to_string()), &json!(1)), "{list}");
        }
        assert_eq!(bob.request("DELETE", &path(ANA), None).expect("it answers").status, 204);
        there.expect("the end", |payload| payload["t"] == "RELATIONSHIP_REMOVE");
    }
}

#[test]
fn f2_friends_at_two_nodes_see_each_other() {
    let Some(site) = Site::new() else { return };
    let (first, second) = two(&site);
    let accounts = ["5001", "5002"];
    for id in accounts {
        first.backend().put(&format!("/users/{id}"), json!({"username": format!("friend{id}")}), 201);
    }
    let tokens = accounts.map(|id| first.backend().token(id));
    let mut here = first.session(accounts[0]);
    let path = |id: &str| format!("/api/v10/users/@me/relationships/{id}");
    let befriend = |node: &Node, token: &str, other: &str| {
        let answer = Http::new(node.addr, token).request("PUT", &path(other), Some(&json!({})));
        assert_eq!(answer.expect("it answers").status, 204);
    };
    befriend(&first, &tokens[0], accounts[1]);
    befriend(&second, &tokens[1], accounts[0]);
    let mut there = Ws::connect(second.addr, "/?v=10&encoding=json", "").expect("it is let in");
    there.expect_op(10);
    there.identify(&tokens[1]);
    let ready = there.expect_event("READY");
    assert_eq!(ready["d"]["presences"][0]["user"]["id"], accounts[0], "the session at the other node");
    let mut sees = |status: &str| {
        here.expect(status, |payload| payload["t"] == "PRESENCE_UPDATE" && payload["d"]["status"] == status)
    };
    assert_eq!(sees("online")["d"].get("guild_id"), None);
    let mut show = |status: &str| {
        there.send(&json!({"op": 3, "d": {"status": status, "since": null, "afk": false, "activities": []}}));
    };
    show("dnd");
    assert_eq!(sees("dnd")["d"]["user"]["id"], accounts[1]);
    show("invisible");
    assert_eq!(sees("offline")["d"]["client_status"], json!({}));
}

#[test]
fn no_deletion_is_undone() {
    let Some(site) = Site::new() else { return };
    let (first, second) = two(&site);
    let mut backends = [http(&first), http(&second)];
    for n in 5000..5030 {
        first.backend().put(&format!("/users/{n}"), json!({"username": "mortal"}), 201);
        let path = format!("/v1/users/{n}");
        let [here, there] = &mut backends;
        let change = json!({"username": "alive", "global_name": "Alive"});
        let answers = at_once(call(here, "DELETE", &path, Value::Null), call(there, "PATCH", &path, change));
        assert_eq!(answers[0].status, 204, "{answers:?}");
        assert!([200, 404].contains(&answers[1].status), "{answers:?}");
        for node in [&first, &second] {
            wait_until("the deleted account", || {
                let user = node.backend().get(&format!("/users/{n}"));
                if user["username"] == format!("deleted_{n}") && user["global_name"].is_null() {
                    Ok(())
                } else {
                    Err(user)
                }
            });
        }
    }
}

#[test]
fn an_external_id_has_one_object() {
    let Some(site) = Site::new() else { return };
    let (first, second) = two(&site);
    let mut backends = [http(&first), http(&second)];
    for round in 0..40_u64 {
        let text = format!("ext-{round}");
        let (one, other) = (6000 + 2 * round, 6001 + 2 * round);
        if round % 2 == 1 {
            for id in [one, other] {
                first.backend().put(&format!("/users/{id}"), json!({"username": "known"}), 201);
            }
        }
        let [here, there] = &mut backends;
        let (method, body) = match round % 2 {
            0 => ("PUT", json!({"username": "new", "external_id": text})),
            _ => ("PATCH", json!({"external_id": text})),
        };
        let path = |id: u64| format!("/v1/users/{id}");
        let answers = at_once(call(here, method, path(one), body.clone()), call(there, method, path(other), body));
        let mut statuses = answers.each_ref().map(|answer| answer.status);
        let winner = if statuses[0] < 300 { one } else { other };
        statuses.sort_unstable();
        assert!(statuses[0] < 300 && statuses[1] == 409, "{answers:?}");
        let found = second.backend().get(&format!("/users?external_id={text}"));
        assert_eq!(found["users"][0]["id"], winner.to_string(), "{found}");
    }
    // Of guilds too, which their owners store.
    for round in 0..10_u64 {
        let text = format!("ext-{round}");
        let [here, there] = &mut backends;
        let body = json!({"name": "guild", "owner_id": ANA, "external_id": text});
        let path = |n: u64| format!("/v1/guilds/{}", 7000 + 2 * round + n);
        let answers = at_once(call(here, "PUT", path(0), body.clone()), call(there, "PUT", path(1), body));
        let mut statuses = answers.each_ref().map(|answer| answer.status);
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409], "{answers:?}");
    }
}

#[test]
fn the_id_of_a_channel_is_one_guild_s() {
    let Some(site) = Site::new() else { return };
    let (first, second) = two(&site);
    let mut backends = [http(&first), http(&second)];
    const OTHER: &str = "1200000000000000090";
    first.backend().put(&format!("/guilds/{OTHER}"), json!({"name": "other", "owner_id": ANA}), 201);
    let mut expected: [Vec<String>; 2] = [vec![CHANNEL.to_owned()], Vec::new()];
    for n in 8000..8020 {
        let [here, there] = &mut backends;
        let path = |guild: &str| format!("/v1/guilds/{guild}/channels/{n}");
        let body = json!({"name": "twice", "type": 0});
        let answers = at_once(call(here, "PUT", path(GUILD), body.clone()), call(there, "PUT", path(OTHER), body));
        let statuses = answers.each_ref().map(|answer| answer.status);
        match statuses {
            [201, 409] => expected[0].push(n.to_string()),
            [409, 201] => expected[1].push(n.to_string()),
            _ => panic!("{answers:?}"),
        }
    }
    let channels = |node: &Node, guild: &str| {
        let list = node.backend().get(&format!("/guilds/{guild}/channels"));
        let mut ids: Vec<String> =
            list.as_array().unwrap().iter().map(|of| of["id"].as_str().unwrap().to_owned()).collect();
        ids.retain(|id| *id != crate::backend::SECRET);
        ids.sort_unstable_by_key(|id| (id.len(), id.clone()));
        ids
    };
    expected[0].rotate_left(1);
    for node in [&first, &second] {
        assert_eq!([GUILD, OTHER].map(|guild| channels(node, guild)), expected);
    }
    // A deleted one is free, at any node.
    if let Some(n) = expected[1].first() {
        second.backend().request("DELETE", &format!("/guilds/{OTHER}/channels/{n}"), None, 204);
        first.backend().put(&format!("/guilds/{GUILD}/channels/{n}"), json!({"name": "again", "type": 0}), 201);
    }
}

#[test]
fn every_node_refuses_accounts_that_are_being_deleted() {
    // The first node carries jobs out, and is a member while it is stopped.
    let Some(site) = Site::with(&["cluster.lease_ms=60000"]) else { return };
    let (first, second) = two(&site);
    let (n, job) = (9000..9020)
        .find_map(|n| {
            let path = format!("/users/{n}");
            first.backend().put(&path, json!({"username": "mortal"}), 201);
            let job = second.backend().request("DELETE", &format!("{path}?erase=true"), None, 202);
            let job = job["id"].as_str().unwrap().to_owned();
            first.process.pause();
            if second.backend().get(&format!("/jobs/{job}"))["state"] == "running" {
                return Some((n, job));
            }
            first.process.resume();
            None
        })
        .expect("one of twenty is stopped in time");
    let path = format!("/users/{n}");
    let mut backend = second.backend();
    for (method, path, body) in [
        ("PUT", path.clone(), json!({"username": "again"})),
        ("PATCH", path.clone(), json!({"username": "again"})),
        ("POST", format!("{path}/tokens"), json!({})),
        ("DELETE", path.clone(), Value::Null),
    ] {
        let refused = backend.request(method, &path, (!body.is_null()).then_some(body), 409);
        assert!(refused["message"].as_str().unwrap().contains(&format!("/v1/jobs/{job}")), "{method}: {refused}");
    }
    first.process.resume();
    for node in [&second, &first] {
        wait_until("the end of the job", || {
            let job = node.backend().get(&format!("/jobs/{job}"));
            if job["state"] == "done" { Ok(()) } else { Err(job) }
        });
    }
    backend.put(&path, json!({"username": "again"}), 200);
}

#[test]
fn a_node_that_was_away_knows_accounts_as_they_are() {
    let Some(site) = Site::new() else { return };
    let (first, second) = two(&site);
    // It has both in its cache.
    for id in [ANA, BOB] {
        assert!(second.backend().get(&format!("/users/{id}"))["username"].is_string());
    }
    second.process.pause();
    first.wait_for_members(1);
    let mut backend = first.backend();
    backend.request("PATCH", &format!("/users/{ANA}"), Some(json!({"username": "renamed"})), 200);
    backend.request("DELETE", &format!("/users/{BOB}"), None, 204);
    second.process.resume();
    first.wait_for_members(2);
    second.wait_for_service();
    // A change that begins here is of what is stored, whatever this node remembers.
    let changed = second.backend().request("PATCH", &format!("/users/{ANA}"), Some(json!({"global_name": "Ana"})), 200);
    assert_eq!((&changed["username"], &changed["global_name"]), (&json!("renamed"), &json!("Ana")), "{changed}");
    second.backend().request("PATCH", &format!("/users/{BOB}"), Some(json!({"username": "alive"})), 404);
    for (id, name) in [(ANA, "renamed".to_owned()), (BOB, format!("deleted_{BOB}"))] {
        for node in [&first, &second] {
            wait_until("the account", || {
                let user = node.backend().get(&format!("/users/{id}"));
                if user["username"] == name { Ok(()) } else { Err(user) }
            });
        }
    }
}

/// IDENTIFYs that come together go to their homes together: each gets its own answer.
#[test]
fn accounts_that_identify_at_once_have_the_sessions_that_they_may() {
    let Some(site) = Site::with(&["limits.user_sessions_max=1"]) else { return };
    let (first, second) = two(&site);
    let mut backend = first.backend();
    let mint = |n: u32| {
        let user_id = (8000 + n).to_string();
        backend.put(&format!("/users/{user_id}"), json!({"username": format!("user{n}")}), 201);
        backend.token(&user_id)
    };
    let tokens: Vec<String> = (0..60).map(mint).collect();
    // Every third account has its session already, at the other node.
    let _held: Vec<Ws> = tokens.iter().step_by(3).map(|token| Ws::session(first.addr, token)).collect();
    for round in 0..2 {
        let connect = |_| {
            let mut client = Ws::connect(second.addr, PLAIN, "").expect("it is let in");
            client.expect_op(10);
            client
        };
        let mut clients: Vec<Ws> = (0..tokens.len()).map(connect).collect();
        for (client, token) in clients.iter_mut().zip(&tokens) {
            client.identify(token);
        }
        for (n, client) in clients.iter_mut().enumerate() {
            // Each of the others has a session after the first round.
            if n % 3 == 0 || round > 0 {
                assert_eq!(client.close_code(), Some(4015), "account {n} in round {round}");
            } else {
                client.expect_event("READY");
            }
        }
    }
}
