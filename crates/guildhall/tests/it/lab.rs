//! `guildhall lab` against a running node: a recording without secrets, and what it is good for.

use crate::{
    backend::{ANA, BOT, Backend, CHANNEL},
    nodes::{KEY, Node, Site, two},
    support::{Demo, Http, end_of, guildhall, run, run_to_end, stderr, wait_until},
    ws::Ws,
};
use guildhall_lab::{Line, RecordingReader};
use serde_json::{Value, json};
use std::{
    fs,
    process::{Child, Command, Stdio},
};

const SECRET: &str = "Xylophonist-Quetzalcoatl vortigern@example.org 198.51.100.234";
const NEEDLES: [&str; 5] = ["xylophonist", "quetzalcoatl", "vortigern", "198.51", "100.234"];

fn admin_key(demo: &Demo) -> String {
    demo.manifest["admin_key"].as_str().unwrap().to_owned()
}

fn lab(demo: &Demo, args: &[&str]) -> Command {
    let mut command = guildhall(["lab"].iter().chain(args));
    command.env("GUILDHALL_KEY", admin_key(demo));
    command
}

fn recordings(demo: &Demo) -> Value {
    Http::new(demo.addr, &format!("Bearer {}", admin_key(demo))).get("/v1/lab/recordings").unwrap().body
}

/// Starts `lab record` for an hour. Returns when the recording runs.
fn record(demo: &Demo, server: &str, out: &str) -> Child {
    let mut command = lab(demo, &["record", "--server", server, "--out", out, "--minutes", "60"]);
    let recorder = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_recordings(demo, "the recording begins", |all| all[0]["ended"].is_null() && all[0]["id"].is_string());
    recorder
}

/// Waits until the node's list of recordings satisfies `is_it`.
fn wait_for_recordings(demo: &Demo, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    wait_until(what, || {
        let answer = recordings(demo);
        if is_it(&answer) { Ok(answer) } else { Err(answer) }
    })
}

#[test]
fn a_recording_of_a_node_has_no_secret_and_feeds_the_codecs() {
    let dir = tempfile::tempdir().unwrap();
    let demo = Demo::start(dir.path(), &["--members", "5", "--rate", "0", "--set", "limits.rest_rate_percent=0"]);
    let (token, channel) = (demo.token("bot_token"), demo.channels()[0].clone());
    let mut before = Ws::session(demo.addr, &token);
    before.expect_event("GUILD_CREATE");
    let (server, file) = (format!("http://{}", demo.addr), dir.path().join("talk.ndjson.zst"));
    let out = file.to_str().unwrap();
    let recorder = record(&demo, &server, out);
    // One session that was there, and one that comes.
    let mut session = Ws::session(demo.addr, &token);
    session.expect_event("GUILD_CREATE");
    let mut bot = demo.client("bot_token");
    let path = format!("/api/v10/channels/{channel}/messages");
    for number in 0..20 {
        let message = json!({"content": format!("{SECRET} {number}")});
        assert_eq!(bot.request("POST", &path, Some(&message)).unwrap().status, 200);
        session.expect_event("MESSAGE_CREATE");
    }
    let recording =
        wait_for_recordings(&demo, "20 messages to two sessions", |all| all[0]["dispatches"].as_u64() >= Some(42));
    assert_eq!((&recording[0]["sessions"], &recording[0]["scrubbed"]), (&json!(2), &json!(true)));
    let again = run_to_end(&mut lab(&demo, &["record", "--server", &server, "--out", &format!("{out}.2")]));
    assert!(!again.status.success() && stderr(&again).contains("Another recording runs"), "{}", stderr(&again));
    let id = recording[0]["id"].as_str().unwrap();
    assert_eq!(
        Http::new(demo.addr, &format!("Bearer {}", admin_key(&demo)))
            .request("DELETE", &format!("/v1/lab/recordings/{id}"), None)
            .unwrap()
            .status,
        204
    );
    let ended = end_of(recorder, "lab record");
    assert!(ended.status.success(), "{}", stderr(&ended));
    let text = String::from_utf8(ended.stdout).unwrap();
    assert!(text.contains("2 sessions") && text.contains("ended: stopped"), "{text}");
    assert_eq!(recordings(&demo), json!([]), "the node keeps nothing");

    // No text of a message is in the file, in any form.
    let bytes = fs::read(&file).unwrap();
    let mut reader = RecordingReader::new(&*bytes).unwrap();
    let (mut messages, mut readies) = (0, 0);
    while let Some(line) = reader.next_line().unwrap() {
        let Line::Dispatch(dispatch) = line else { continue };
        let body = dispatch.body.get().to_lowercase();
        for needle in NEEDLES.iter().chain([&&*channel]) {
            assert!(!body.contains(needle), "{needle} in {body}");
        }
        messages += u32::from(dispatch.event == "MESSAGE_CREATE");
        readies += u32::from(dispatch.event == "READY");
    }
    assert_eq!((messages, readies), (40, 1));

    let shown = run(["lab", "show", out, "--arm", "zlib", "--arm", "zstd", "--arm", "zstd-once"]);
    assert!(shown.status.success(), "{}", stderr(&shown));
    let text = String::from_utf8(shown.stdout).unwrap();
    for part in ["scrubbed", "2 json", "MESSAGE_CREATE", "arm 3: zstd-once:level=3", "KiB per connection"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    // A file is never overwritten.
    let again = run_to_end(&mut lab(&demo, &["record", "--server", &server, "--out", out]));
    assert!(again.status.code() == Some(2) && stderr(&again).contains("name a file that does not exist"));
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn wrong_arguments_are_refused_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let demo = Demo::start(dir.path(), &["--members", "2", "--rate", "0"]);
    let mut api = Http::new(demo.addr, &format!("Bearer {}", admin_key(&demo)));
    for (body, because) in [
        (json!({"one_in": 0}), "Must be 1 to 1000000."),
        (json!({"sessions_max": 1_001}), "Must be 1 to 1000."),
        (json!({"seconds_max": 0}), "Must be 1 to 86400."),
        (json!({"bytes_max": 1}), "Must be 65536 to 4294967296."),
        (json!({"platform": "fridge"}), "Must be one of desktop, mobile, web, embedded, vr."),
        (json!({"encoding": "xml"}), "Must be json or etf."),
        (json!({"scrubbed": false}), "There is no field `scrubbed`"),
    ] {
        let answer = api.request("POST", "/v1/lab/recordings", Some(&body)).unwrap();
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        assert!(answer.body.to_string().contains(because), "{body}: {}", answer.body);
    }
    for path in ["/v1/lab/recordings/7", "/v1/lab/recordings/7/frames"] {
        assert_eq!(api.get(path).unwrap().status, 404);
    }
    let made = api.request("POST", "/v1/lab/recordings", Some(&json!({}))).unwrap();
    assert_eq!(made.status, 201, "{made:?}");
    let id = made.body["id"].as_str().unwrap().to_owned();
    let wrong = api.get(&format!("/v1/lab/recordings/{id}/frames?from=1000000")).unwrap();
    assert!(wrong.status == 409 && wrong.body.to_string().contains("number of bytes"), "{wrong:?}");
    let key = api.request("POST", "/v1/keys", Some(&json!({"name": "reader", "scopes": ["read"]}))).unwrap();
    let mut reader = Http::new(demo.addr, &format!("Bearer {}", key.body["key"].as_str().unwrap()));
    let refused = reader.get("/v1/lab/recordings").unwrap();
    assert!(refused.status == 403 && refused.body.to_string().contains("lab"), "{refused:?}");

    // The same from the command line: a key without the scope, none, a node that is not there, a folder that is not.
    let server = format!("http://{}", demo.addr);
    let reading = key.body["key"].as_str().unwrap();
    let out = dir.path().join("r.zst").to_str().unwrap().to_owned();
    let no_folder = dir.path().join("none/r.zst").to_str().unwrap().to_owned();
    for (key, server, out, because) in [
        (reading, &*server, &out, "scope `lab`"),
        ("ghk_wrong", &*server, &out, "401"),
        (reading, "http://127.0.0.1:1", &out, "no node answers at 127.0.0.1:1"),
        (&*admin_key(&demo), &*server, &no_folder, "in a folder that does"),
    ] {
        let mut command = guildhall(["lab", "record", "--server", server, "--out", out]);
        let output = run_to_end(command.env("GUILDHALL_KEY", key));
        assert!(!output.status.success() && stderr(&output).contains(because), "{because}: {}", stderr(&output));
        assert!(!fs::exists(out).unwrap(), "{because}: no file is left");
    }
    for words in [["record", "--out", &*out], ["dark", "start", "--arm=zlib"], ["dark", "status", "--types"]] {
        let mut command = lab(&demo, &words);
        let output = run_to_end(command.args(["--server", &server, "--node", "3"]));
        assert!(!output.status.success() && stderr(&output).contains("leave --node out"), "{}", stderr(&output));
    }
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn a_wrong_file_is_named_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let good = path("good.zst");
    made_recording(good.as_ref(), true);
    let bytes = fs::read(&good).unwrap();
    let newer = {
        let mut writer = guildhall_lab::RecordingWriter::new().unwrap();
        writer.push(&json!({"format": guildhall_lab::FORMAT, "version": 7})).unwrap();
        writer.flush().unwrap();
        writer.take()
    };
    let text = b"{\"format\":\"guildhall-recording\",\"version\":1}\n";
    // A frame with a window of 128 MiB.
    let large = [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x88, 0x01, 0x00, 0x00][..]].concat();
    let own = path("own.zst");
    made_recording(own.as_ref(), false);
    for (name, content, because) in [
        ("text.zst", &b"some text\n"[..], "make one with `guildhall lab record`"),
        ("json.ndjson", text, "`zstd FILE` makes a recording of it"),
        ("empty.zst", b"", "the file is empty"),
        ("cut.zst", &bytes[..bytes.len() - 9], "the file was cut: copy it again"),
        ("newer.zst", &newer, "version 7, this program reads versions up to 1: use a newer one"),
        ("large.zst", &large, "its window is larger than 8 MiB: `zstd -dc --long=31 FILE"),
    ] {
        let file = path(name);
        fs::write(&file, content).unwrap();
        for command in ["show", "tune", "train"] {
            for files in [vec![&*file], vec![&*good, &*file]] {
                let mut args = [vec!["lab", command], files].concat();
                let out = path("out");
                args.extend(if command == "train" { vec!["--out", &*out] } else { vec![] });
                let output = run(&args);
                let printed = stderr(&output);
                assert!(output.status.code() == Some(2) && printed.contains(because), "{args:?}: {printed}");
                assert!(printed.contains(&file), "{args:?} names the file: {printed}");
            }
        }
    }
    let folder = path("folder");
    fs::create_dir(&folder).unwrap();
    for (args, because) in [
        (vec!["lab", "show", &good, &folder], "is a folder: name the recordings in it"),
        (vec!["lab", "tune", &folder], "is a folder: name the recordings in it"),
        (vec!["lab", "show", "/does/not/exist"], "/does/not/exist cannot be read"),
        (vec!["lab", "show", &good, "--arm", "zlib:level=10"], "from 0 to 9"),
        (vec!["lab", "show", &good, "--dictionaries", "/does/not/exist"], "/does/not/exist"),
        (vec!["lab", "train", &good, &own, "--out", &folder, "--allow-few-samples"], "--with-contents-of-users"),
    ] {
        let output = run(args.iter());
        assert!(output.status.code() == Some(2) && stderr(&output).contains(because), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_recording_of_a_node_that_goes_away_is_whole_up_to_then() {
    let dir = tempfile::tempdir().unwrap();
    let demo = Demo::start(dir.path(), &["--members", "3", "--rate", "0"]);
    let (token, server) = (demo.token("bot_token"), format!("http://{}", demo.addr));
    let file = dir.path().join("r.zst");
    let recorder = record(&demo, &server, file.to_str().unwrap());
    let mut session = Ws::session(demo.addr, &token);
    session.expect_event("GUILD_CREATE");
    wait_until("frames are in the file", || {
        let bytes = fs::read(&file).unwrap();
        if RecordingReader::new(&*bytes).is_ok_and(|mut reader| matches!(reader.next_line(), Ok(Some(_)))) {
            Ok(())
        } else {
            Err(bytes.len())
        }
    });
    demo.kill();
    let ended = end_of(recorder, "lab record");
    let printed = stderr(&ended);
    assert!(ended.status.code() == Some(1), "{printed}");
    for part in ["is given up after 10 s", "no node answers at", "is whole up to then"] {
        assert!(printed.contains(part), "{part} is missing in {printed}");
    }
    let shown = run(["lab", "show", file.to_str().unwrap()]);
    let text = String::from_utf8(shown.stdout.clone()).unwrap();
    assert!(shown.status.success() && text.contains("READY"), "{text}{}", stderr(&shown));
}

/// Recordings and dark launches of a cluster, by way of one of its nodes.
#[test]
fn all_nodes_record_and_have_the_dark_launch() {
    let Some(site) = Site::new() else { return };
    let (first, second) = two(&site);
    let (mut session, mut other) = (first.session(BOT), second.session(BOT));
    for session in [&mut session, &mut other] {
        session.expect_event("GUILD_CREATE");
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("all.zst");
    let server = format!("http://{}", first.addr);
    let lab = |words: &[&str]| {
        let mut command = guildhall(["lab"].iter().chain(words).chain(&["--server", &*server]));
        command.env("GUILDHALL_KEY", KEY);
        command
    };
    let done = |words: &[&str]| {
        let output = run_to_end(&mut lab(words));
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(done(&["dark", "start", "--arm", "zlib", "--arm", "zstd"]).contains("on 2 nodes"));
    let again = run_to_end(&mut lab(&["dark", "start", "--arm", "zlib"]));
    let printed = stderr(&again);
    assert!(
        !again.status.success() && printed.contains("node 0") && printed.contains("Another dark launch"),
        "{printed}"
    );
    let recorder = lab(&["record", "--out", file.to_str().unwrap(), "--minutes", "60", "--sessions", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let recordings = |node: u8, at: &Node| at.backend().get(&format!("/lab/recordings?node={node}"));
    let wait = |what: &str, is_it: &dyn Fn(&Value) -> bool| {
        for node in [0, 1] {
            wait_until(&format!("{what} at node {node}"), || {
                let all = recordings(node, &first);
                if is_it(&all) { Ok(()) } else { Err(all) }
            });
        }
    };
    wait("a recording", &|all| all[0]["ended"].is_null() && all[0]["id"].is_string());
    for number in 0..5 {
        let body = json!({"content": format!("message {number}")});
        let token = first.backend().token(ANA);
        let path = format!("/api/v10/channels/{CHANNEL}/messages");
        assert_eq!(Http::new(first.addr, &token).request("POST", &path, Some(&body)).unwrap().status, 200);
        for session in [&mut session, &mut other] {
            session.expect_event("MESSAGE_CREATE");
        }
    }
    wait("five messages", &|all| all[0]["dispatches"].as_u64() >= Some(5));
    for node in [0_u8, 1] {
        let all = recordings(node, &second);
        assert_eq!(all[0]["node"], node);
        let path = format!("/lab/recordings/{}?node={node}", all[0]["id"].as_str().unwrap());
        second.backend().request("DELETE", &path, None, 204);
    }
    let ended = end_of(recorder, "lab record");
    let text = String::from_utf8(ended.stdout.clone()).unwrap();
    assert!(ended.status.success(), "{}", stderr(&ended));
    for node in [0, 1] {
        assert!(text.contains(&format!("of node {node}: 1 sessions, ")), "{text}");
    }
    let bytes = fs::read(&file).unwrap();
    let mut reader = RecordingReader::new(&*bytes).unwrap();
    let mut messages = std::collections::BTreeMap::new();
    while let Some(line) = reader.next_line().unwrap() {
        let Line::Dispatch(dispatch) = line else { continue };
        *messages.entry(dispatch.session).or_insert(0) += u32::from(dispatch.event == "MESSAGE_CREATE");
    }
    assert_eq!(messages.into_values().collect::<Vec<_>>(), [5, 5]);

    let status = wait_until("ten messages in the dark launch", || {
        let text = done(&["dark", "status", "--types"]);
        let is_whole = text.lines().any(|line| line.split_whitespace().take(2).eq(["MESSAGE_CREATE", "10"]));
        if is_whole { Ok(text) } else { Err(text) }
    });
    assert!(status.contains("node 0, running: 1 sessions, 1 now") && status.contains("node 1, running"), "{status}");
    assert!(done(&["dark", "stop", "--node", "second"]).contains("node 1, stopped"));
    assert!(done(&["dark", "stop"]).contains("node 0, stopped"));
    let wrong = run_to_end(&mut lab(&["dark", "status", "--node", "third"]));
    assert!(stderr(&wrong).contains("--node may be 0 (first), 1 (second)"), "{}", stderr(&wrong));
    // The other node checks the key's scope.
    let key = first.backend().request("POST", "/keys", Some(json!({"name": "reader", "scopes": ["read"]})), 201);
    Backend::with(first.addr, key["key"].as_str().unwrap()).request("GET", "/lab/dark?node=1", None, 403);
}

#[test]
fn a_dark_launch_compares_four_arms_on_a_running_node() {
    let dir = tempfile::tempdir().unwrap();
    let demo = Demo::start(dir.path(), &["--members", "5", "--rate", "0", "--set", "limits.rest_rate_percent=0"]);
    let (token, channel) = (demo.token("bot_token"), demo.channels()[0].clone());
    let server = format!("http://{}", demo.addr);
    let arms = ["zlib", "zstd", "zstd:level=3", "zstd-once"];
    let with_arms = arms.iter().flat_map(|arm| ["--arm", *arm]);
    let start: Vec<&str> = ["dark", "start", "--server", &server].into_iter().chain(with_arms).collect();
    let started = run_to_end(&mut lab(&demo, &start));
    assert!(started.status.success(), "{}", stderr(&started));
    let again = run_to_end(&mut lab(&demo, &start));
    assert!(!again.status.success() && stderr(&again).contains("DELETE /v1/lab/dark"), "{}", stderr(&again));
    let mut session = Ws::session(demo.addr, &token);
    session.expect_event("GUILD_CREATE");
    let mut bot = demo.client("bot_token");
    let path = format!("/api/v10/channels/{channel}/messages");
    for number in 0..30 {
        let message = json!({"content": format!("number {number} of the messages here")});
        assert_eq!(bot.request("POST", &path, Some(&message)).unwrap().status, 200);
        session.expect_event("MESSAGE_CREATE");
    }
    let mut api = Http::new(demo.addr, &format!("Bearer {}", admin_key(&demo)));
    let launch = wait_until("32 dispatches in four arms", || {
        let answer = api.get("/v1/lab/dark").unwrap().body;
        let is_whole = |arm: &Value| arm["total"]["count"] == 32;
        let arms = answer["arms"].as_array().unwrap();
        if arms.len() == 4 && arms.iter().all(is_whole) { Ok(answer) } else { Err(answer) }
    });
    assert_eq!((&launch["state"], &launch["sessions"]), (&json!("running"), &json!(1)));
    let bytes = |at: usize| {
        let types = launch["arms"][at]["types"].as_array().unwrap();
        let messages = types.iter().find(|of| of["name"] == "MESSAGE_CREATE").unwrap();
        assert_eq!(messages["count"], 30);
        messages["wire_bytes"].as_u64().unwrap()
    };
    assert!(bytes(3) > bytes(0) && bytes(3) > bytes(1) && bytes(3) > bytes(2), "a frame per message is the worst");
    let stopped = run_to_end(&mut lab(&demo, &["dark", "stop", "--server", &server]));
    let text = String::from_utf8(stopped.stdout.clone()).unwrap();
    for part in ["stopped: 1 sessions", "zstd-once:level=3", "MESSAGE_CREATE", "ratio"] {
        assert!(text.contains(part), "{part} is missing in\n{text}{}", stderr(&stopped));
    }
    // Its figures stay until they are discarded.
    assert_eq!(api.get("/v1/lab/dark").unwrap().body["state"], "stopped");
    assert_eq!(api.request("DELETE", "/v1/lab/dark", None).unwrap().status, 204);
    assert_eq!(api.get("/v1/lab/dark").unwrap().status, 404);
    for (body, because) in [
        (json!({"arms": []}), "Must have 1 to 4 items"),
        (json!({"arms": ["zlib", "zlib", "zlib", "zlib", "zlib"]}), "Must have 1 to 4 items"),
        (json!({"arms": ["zlib:level=10"]}), "whole number from 0 to 9"),
        (json!({"arms": ["zstd:dict=00112233445566778899aabbccddeeff"]}), "load it, or leave dict out"),
        (json!({"arms": ["zlib"], "cpu_permille": 501}), "Must be 0 to 500."),
        (json!({"arms": ["zlib"], "memory_bytes_max": 1}), "Must be 1048576 to 1073741824."),
    ] {
        let answer = api.request("POST", "/v1/lab/dark", Some(&body)).unwrap();
        assert!(answer.status == 400 && answer.body.to_string().contains(because), "{body}: {}", answer.body);
    }
    assert_eq!(demo.terminate(), Some(0));
}

/// A recording of two sessions with the same events, one in each encoding or both in JSON.
fn made_recording(path: &std::path::Path, scrubbed: bool) {
    let mut writer = guildhall_lab::RecordingWriter::new().unwrap();
    let format = guildhall_lab::FORMAT.to_owned();
    let header = guildhall_lab::Header { format, version: 1, scrubbed, private: false, started_at: 7, node: None };
    writer.push(&header).unwrap();
    for n in 0..400_u64 {
        let user = 1_000_000_000_000_000_000 + n % 9 * 7_919;
        let body = json!({"author": {"id": user.to_string(), "username": format!("user{user}")}, "channel_id": "15",
            "content": format!("word{} and word{}", n % 23, n * n % 31), "guild_id": "7", "tts": false});
        for session in 0..4_u64 {
            writer
                .push(&json!({"at_ms": n, "session": session, "encoding": "json", "event": "MESSAGE_CREATE",
                    "seq": n + 1, "bytes": 200, "rule": "public+content", "body": body}))
                .unwrap();
        }
    }
    writer.flush().unwrap();
    fs::write(path, writer.take()).unwrap();
}

#[test]
fn a_recording_trains_a_dictionary_and_tunes_arms() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (file, own, out) = (path("r.zst"), path("own.zst"), path("dictionaries"));
    made_recording(file.as_ref(), true);
    made_recording(own.as_ref(), false);
    let few = run(["lab", "train", &file, "--out", &out]);
    assert!(few.status.code() == Some(2) && stderr(&few).contains("record for longer"), "{}", stderr(&few));
    let refused = run(["lab", "train", &own, "--out", &out, "--allow-few-samples"]);
    assert!(refused.status.code() == Some(2) && stderr(&refused).contains("without --with-contents-of-users"));
    let trained = run(["lab", "train", &file, "--out", &out, "--allow-few-samples"]);
    let text = String::from_utf8(trained.stdout.clone()).unwrap();
    for part in ["fastCOVER 16 KiB", "first 100", "MESSAGE_CREATE", "held-out sessions"] {
        assert!(text.contains(part), "{part} is missing in\n{text}{}", stderr(&trained));
    }
    let id = text.split(' ').next().unwrap();
    let shown =
        run(["lab", "show", &file, "--dictionaries", &out, "--arm", "zstd", "--arm", &format!("zstd:dict={id}")]);
    assert!(shown.status.success(), "{}", stderr(&shown));

    let (state, svg) = (path("state"), path("tune.svg"));
    let tune = |more: &[&str]| {
        let args = ["lab", "tune", &file, "--state", &state, "--svg", &svg, "--arm", "zlib:level=1"];
        run(args.iter().chain(more))
    };
    let first = tune(&["--random", "3"]);
    let text = String::from_utf8(first.stdout.clone()).unwrap();
    assert!(text.contains("* zstd:level=6,window=18") && text.contains("KiB"), "{text}{}", stderr(&first));
    assert!(stderr(&first).contains("5/5"), "{}", stderr(&first));
    assert!(fs::read_to_string(&svg).unwrap().contains(">published</text>"));
    // The search repeats no measurement but that of the line that was cut.
    let measured = fs::read_to_string(&state).unwrap();
    assert_eq!(measured.lines().count(), 6);
    fs::write(&state, &measured[..measured.len() - 20]).unwrap();
    let again = tune(&["--random", "3"]);
    assert!(stderr(&again).contains("1/1") && !stderr(&again).contains("2/"), "{}", stderr(&again));
    let other = path("other.zst");
    made_recording(other.as_ref(), true);
    fs::write(&state, "{\"started_at\":1,\"dispatches\":1}\n").unwrap();
    let wrong = tune(&[]);
    assert!(wrong.status.code() == Some(2) && stderr(&wrong).contains("another recording"), "{}", stderr(&wrong));
}
