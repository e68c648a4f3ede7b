//! Reports of `/v1/node`: bandwidth by dispatch type, and guilds by busy time, against the actions of clients.

use crate::{
    support::{Demo, Http, ask, wait_for, wait_until},
    ws::Ws,
};
use serde_json::{Value, json};

const MESSAGES: u64 = 12;

/// The element with this name.
fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let found = list.as_array().unwrap().iter().find(|each| each["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {list}"))
}

#[test]
fn bandwidth_and_guilds_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let demo = Demo::start(dir.path(), &["--members", "5", "--rate", "0", "--set", "limits.rest_rate_percent=0"]);
    let (token, channel) = (demo.token("bot_token"), demo.channels()[0].clone());
    let mut sessions = [Ws::session(demo.addr, &token), Ws::session(demo.addr, &token)];
    // Events of the time before are not for these sessions.
    sessions.iter_mut().for_each(|session| drop(session.expect_event("GUILD_CREATE")));
    let mut bot = demo.client("bot_token");
    for number in 0..MESSAGES {
        let message = json!({"content": format!("number {number} {}", "words and words ".repeat(20))});
        assert_eq!(
            bot.request("POST", &format!("/api/v10/channels/{channel}/messages"), Some(&message)).unwrap().status,
            200
        );
    }
    for session in &mut sessions {
        (0..MESSAGES).for_each(|_| drop(session.expect_event("MESSAGE_CREATE")));
    }
    let mut admin = Http::new(demo.addr, &format!("Bearer {}", demo.manifest["admin_key"].as_str().unwrap()));
    let mut report = |path: &str| {
        let answer = admin.get(&format!("/v1/node/{path}")).unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    };

    // The node counts a message when it has written it.
    let bandwidth = wait_until("all messages are counted", || {
        let bandwidth = report("bandwidth");
        let is_it = |of: &Value| of["name"] == "MESSAGE_CREATE" && of["ways"][0]["count_total"] == 2 * MESSAGES;
        let is_whole = bandwidth["types"].as_array().is_some_and(|types| types.iter().any(is_it));
        if is_whole { Ok(bandwidth) } else { Err(bandwidth) }
    });
    let [way] = &named(&bandwidth["types"], "MESSAGE_CREATE")["ways"].as_array().unwrap()[..] else {
        panic!("{bandwidth}")
    };
    assert_eq!((&way["codec"], &way["encoding"]), (&json!("none"), &json!("json")));
    assert_eq!(way["count_total"], 2 * MESSAGES);
    let bytes = |name: &str| way[name].as_u64().unwrap();
    assert_eq!(bytes("wire_bytes_total") - bytes("raw_bytes_total"), 2 * MESSAGES * 4, "a header each");
    assert_eq!(named(&bandwidth["types"], "READY")["ways"][0]["count_total"], 2);

    // Both sessions are sampled, because they are the first. The worker looks for their frames a few times a second.
    let bill = wait_until("a bill of all messages", || {
        let bill = report("bandwidth")["bill"].take();
        let is_it = |of: &Value| of["name"] == "MESSAGE_CREATE" && of["sample"]["count_total"] == 2 * MESSAGES;
        let is_whole = bill["types"].as_array().is_some_and(|types| types.iter().any(is_it));
        if is_whole { Ok(bill) } else { Err(bill) }
    });
    let messages = named(&bill["types"], "MESSAGE_CREATE");
    let estimate = |name: &str| messages["estimate"][name].as_u64().unwrap();
    assert_eq!(messages["sample"], messages["estimate"], "the sample is all there is");
    assert_eq!(estimate("raw_bytes_total"), bytes("raw_bytes_total"));
    assert_eq!(estimate("plain_bytes_total"), estimate("wire_bytes_total"), "they are sent without compression");
    assert!(estimate("zlib_bytes_total") < estimate("plain_bytes_total") / 2, "{messages}");
    assert!(estimate("zstd_bytes_total") < estimate("plain_bytes_total") / 2, "{messages}");

    let session = &report("sessions?limit=1")["sessions"][0]["id"].as_str().unwrap().to_owned();
    let session = report(&format!("sessions/{session}"));
    let (raw, wire) = (session["raw_bytes_total"].as_u64().unwrap(), session["wire_bytes_total"].as_u64().unwrap());
    assert!(raw > bytes("raw_bytes_total") / 2 && wire > raw, "{session}");

    let guilds = report("guilds?limit=1");
    let guild_id = demo.manifest["guild_id"].as_str().unwrap();
    let guild = report(&format!("guilds/{guild_id}"));
    assert!(guilds["loaded"].as_u64().unwrap() >= 1 && guilds["guilds"].as_array().unwrap().len() == 1, "{guilds}");
    assert_eq!(named(&guild["types"], "create_message")["times"]["count_total"], MESSAGES);
    let totals = &guild["guild"];
    assert!(totals["busy_ns_total"].as_u64().unwrap() > 0 && totals["members"].as_u64().unwrap() >= 5, "{totals}");
    assert!(totals["deliveries_total"].as_u64().unwrap() >= 2 * MESSAGES, "{totals}");
    let sessions_count = |of: &Value| of["active"].as_u64().unwrap() + of["passive"].as_u64().unwrap();
    assert!(guild["relays"].as_array().unwrap().iter().map(sessions_count).sum::<u64>() >= 2, "{guild}");
    let name = totals["name"].as_str().unwrap();
    let mut channels = guild["channels"].as_array().unwrap().iter();
    let of_channel = channels.find(|each| each["id"] == *channel).unwrap_or_else(|| panic!("{guild}"));
    assert_eq!(of_channel["events_total"], MESSAGES);
    assert_eq!((&of_channel["name"], &of_channel["kind"]), (&json!("general"), &json!("text")));
    let mut subscriptions = session["subscriptions"].as_array().unwrap().iter();
    let subscription = subscriptions.find(|each| each["guild_id"] == *guild_id).unwrap_or_else(|| panic!("{session}"));
    assert!(!name.is_empty() && subscription["name"] == name, "{subscription}");

    // Owners of memory are estimated from time to time.
    let overview = wait_until("an estimate of the members' memory", || {
        let overview = report("overview");
        let owners = overview["memory"]["owners"].as_array().unwrap();
        let is_there = owners.iter().any(|owner| owner["name"] == "guild_members");
        if is_there { Ok(overview) } else { Err(overview) }
    });
    let loops: Vec<&str> =
        overview["loops"].as_array().unwrap().iter().map(|each| each["name"].as_str().unwrap()).collect();
    assert!(["guild_worker", "partition", "store"].iter().all(|name| loops.contains(name)), "{loops:?}");
    let memory = &overview["memory"];
    let bytes_of = |owner: &str| named(&memory["owners"], owner)["bytes"].as_u64().unwrap();
    assert!(bytes_of("guild_members") > 0 && bytes_of("program") > 1 << 20, "{memory}");
    let sum: u64 = memory["owners"].as_array().unwrap().iter().map(|owner| owner["bytes"].as_u64().unwrap()).sum();
    assert!(sum < 2 * memory["resident_bytes"].as_u64().unwrap(), "{memory}");
    let create = &named(&guild["types"], "create_message")["times"];
    let times = |name: &str| create[name].as_u64().unwrap();
    assert!(
        times("p50_ns") > 0 && times("p50_ns") <= times("p99_ns") && times("p99_ns") <= times("max_ns"),
        "{create}"
    );
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn relays_return_canaries_and_clients_receive_none() {
    let dir = tempfile::tempdir().unwrap();
    let settings =
        ["server.metrics=open", "canaries.members_min=1", "canaries.interval_s=1", "limits.rest_rate_percent=0"];
    let settings = settings.iter().flat_map(|setting| ["--set", *setting]);
    let args: Vec<&str> = ["--members", "5", "--rate", "0"].into_iter().chain(settings).collect();
    let demo = Demo::start(dir.path(), &args);
    let mut session = Ws::session(demo.addr, &demo.token("bot_token"));
    session.expect_event("GUILD_CREATE");
    let seq = session.last_seq;
    let value = |name: &str| -> f64 {
        let (_, text) = crate::metrics::get(demo.addr, "");
        let line = text.lines().find(|line| line.starts_with(&format!("guildhall_{name} "))).map(ToOwned::to_owned);
        line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    };
    wait_for("three canaries", || (value("canaries_returned_total") >= 3.0).then_some(()));
    assert_eq!(value("relay_ghosts"), 0.0);
    assert!(value("canary_seconds_count{members_from=\"0\"}") >= 3.0);
    assert!(value("canary_seconds_sum{members_from=\"0\"}") > 0.0);
    let path = format!("/api/v10/channels/{}/messages", demo.channels()[0]);
    let created = demo.client("bot_token").request("POST", &path, Some(&json!({"content": "a"}))).unwrap();
    assert_eq!(created.status, 200);
    session.expect_event("MESSAGE_CREATE");
    assert_eq!(session.last_seq, seq + 1, "no canary took a sequence number");
    assert_eq!(value("rest_request_seconds_count{route=\"POST /api/channels/{channel_id}/messages\"}"), 1.0);
}

#[test]
fn the_loudest_callers_and_the_owners_of_files_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    // So little room that an account's share recovers by a byte a second.
    let settings = ["--set", "limits.rest_rate_percent=0", "--set", "uploads.bytes_max=1000000"];
    let demo = Demo::start(dir.path(), &[&["--members", "5", "--rate", "0"], &settings[..]].concat());
    let channel = demo.channels()[0].clone();
    let mut bot = demo.client("bot_token");
    let me = bot.get("/api/v10/users/@me").unwrap().body;
    for _ in 0..40 {
        assert_eq!(bot.get(&format!("/api/v10/channels/{channel}")).unwrap().status, 200);
    }
    let mut admin = Http::new(demo.addr, &format!("Bearer {}", demo.manifest["admin_key"].as_str().unwrap()));
    let made = admin.request("POST", "/v1/keys", Some(&json!({"name": "loud", "scopes": ["read"]}))).unwrap().body;
    let mut loud = Http::new(demo.addr, &format!("Bearer {}", made["key"].as_str().unwrap()));
    for _ in 0..20 {
        assert_eq!(loud.get("/v1/node").unwrap().status, 200);
    }
    assert_eq!(loud.get("/v1/node/callers").unwrap().status, 403, "it names accounts and addresses");

    let report = wait_until("all requests are counted", || {
        let report = admin.get("/v1/node/callers?limit=2").unwrap().body;
        let count = |kind: &str| report[kind][0]["requests"].as_u64().unwrap_or(0);
        if count("accounts") >= 41 && count("keys") >= 21 { Ok(report) } else { Err(report) }
    });
    assert_eq!(
        (&report["accounts"][0]["id"], &report["accounts"][0]["name"]),
        (&me["id"], &me["username"]),
        "{report}"
    );
    assert_eq!((&report["keys"][0]["id"], &report["keys"][0]["name"]), (&made["id"], &json!("loud")), "{report}");
    assert_eq!((&report["keys"][1]["id"], &report["keys"][1]["name"]), (&json!("0"), &json!("root key")), "{report}");
    assert_eq!(report["addresses"][0]["id"], "127.0.0.1", "{report}");
    let (all, of_bot) = (report["busy_ns"].as_u64().unwrap(), report["accounts"][0]["busy_ns"].as_u64().unwrap());
    assert!(report["requests"].as_u64().unwrap() >= 62 && of_bot > 0 && of_bot < all, "{report}");
    assert_eq!(admin.get("/v1/node/callers?limit=0").unwrap().status, 400);

    let upload = format!(
        "--XX\r\nContent-Disposition: form-data; name=\"files[0]\"; filename=\"a.txt\"\r\n\r\n{}\r\n--XX--\r\n",
        "a".repeat(1_000)
    );
    let headers = format!(
        "Authorization: {}\r\nContent-Type: multipart/form-data; boundary=XX\r\n",
        demo.manifest["bot_token"].as_str().unwrap()
    );
    let path = format!("/api/v10/channels/{channel}/messages");
    assert_eq!(ask(demo.addr, "POST", &path, &headers, upload.as_bytes()).status, 200);
    let files = admin.get("/v1/node/files").unwrap().body;
    let guild =
        json!({"id": demo.manifest["guild_id"], "name": files["guilds"][0]["name"], "files": 1, "bytes": 1_000});
    assert_eq!(files["guilds"], json!([guild]), "{files}");
    assert_ne!(guild["name"], "");
    let day_bytes = files["uploaders"][0]["day_bytes"].as_u64().unwrap_or(0);
    assert!((900..=1_000).contains(&day_bytes), "{files}");
    let uploader = json!({"id": me["id"], "name": me["username"], "day_bytes": day_bytes});
    assert_eq!(files["uploaders"], json!([uploader]), "{files}");
    let bytes_max = files["bytes_max"].as_u64().unwrap();
    assert_eq!(files["guild_bytes_max"].as_u64().unwrap(), bytes_max / 2, "{files}");
    assert_eq!(files["account_day_bytes_max"].as_u64().unwrap(), bytes_max / 10, "{files}");

    // Files from before the start count as well, once their guild is known.
    assert_eq!(demo.terminate(), Some(0));
    let demo = Demo::start(dir.path(), &["--members", "5", "--rate", "0"]);
    let mut admin = Http::new(demo.addr, &format!("Bearer {}", demo.manifest["admin_key"].as_str().unwrap()));
    wait_until("the guild of the file", || {
        let files = admin.get("/v1/node/files").unwrap().body;
        if files["guilds"] == json!([guild]) { Ok(()) } else { Err(files) }
    });
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn the_history_goes_on_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let start = || Demo::start(dir.path(), &["--members", "5", "--rate", "0"]);
    let history = |demo: &Demo| {
        let key = format!("Bearer {}", demo.manifest["admin_key"].as_str().unwrap());
        let answer = Http::new(demo.addr, &key).get("/v1/node/history?window_s=600&series=sessions").unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    };
    let times = |history: &Value| -> Vec<u64> {
        history["at_ms"].as_array().unwrap().iter().map(|at_ms| at_ms.as_u64().unwrap()).collect()
    };
    let demo = start();
    let before = wait_until("three samples", || {
        let history = history(&demo);
        if times(&history).len() >= 3 { Ok(history) } else { Err(history) }
    });
    assert_eq!(demo.terminate(), Some(0));
    let demo = start();
    let after = wait_until("a sample of the new process", || {
        let history = history(&demo);
        if times(&history).len() > times(&before).len() + 1 { Ok(history) } else { Err(history) }
    });
    assert!(times(&after).starts_with(&times(&before)), "{before} {after}");
    assert!(times(&after).is_sorted(), "{after}");
    let series = |history: &Value| history["series"]["sessions{state=\"live\"}"].clone();
    assert_eq!(series(&after)[0], series(&before)[0], "{after}");
    assert_eq!(demo.terminate(), Some(0));
}
