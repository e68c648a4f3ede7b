//! SIGHUP: a changed setting takes effect or is logged as needing a restart; a faulty configuration changes nothing.

use crate::{
    support::{Http, guildhall, next_line, run, run_to_end, serve, stderr, wait_for, wait_for_line},
    ws::{Got, Ws},
};
use serde_json::{Value, json};
use std::{fs, net::SocketAddr};

const ADMIN_KEY: &str = "an-admin-key-of-more-than-thirty-two-bytes";

/// How many heartbeats a new session may send before it is closed with 4008.
fn heartbeats(addr: SocketAddr, token: &str) -> usize {
    let mut ws = Ws::session(addr, token);
    for _ in 0..200 {
        ws.send(&json!({"op": 1, "d": null}));
    }
    let mut answered = 0;
    let code = ws.until("a close frame", |got| match got {
        Got::Close(code) => Ok(code),
        other => {
            answered += usize::from(matches!(&other, Got::Payload(payload) if payload["op"] == 11));
            Err(other)
        }
    });
    assert_eq!(code, Some(4008));
    answered
}

#[test]
fn limits_change_and_the_log_names_them() {
    let dir = tempfile::tempdir().unwrap();
    let (file, data) = (dir.path().join("g.toml"), dir.path().join("data"));
    let made = run_to_end(guildhall(["token", "user", "--new", "mara", "--data"]).arg(&data));
    let token = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    fs::write(&file, "[limits]\ninbound_per_minute_max = 100\n").unwrap();
    let (node, addr, log) = serve(&data, &["--config".as_ref(), file.as_ref()]);
    // IDENTIFY is one of them.
    assert_eq!(heartbeats(addr, &token), 99);

    fs::write(&file, "[limits]\ninbound_per_minute_max = 20\nrest_rate_percent = 7\n[server]\npartitions = 9\n")
        .unwrap();
    node.signal("HUP");
    let read = wait_for_line(&log, "configuration read again");
    assert_eq!((&read["changed"], &read["need_restart"]), (&json!(1), &json!(2)));
    for setting in ["server.partitions", "limits.rest_rate_percent"] {
        let line = next_line(&log, "a setting that needs a restart", |line| {
            let is_it = line["message"] == "a setting changed that needs a restart";
            if !is_it {
                assert_eq!(line["message"], "a setting changed");
                assert_eq!((&line["setting"], &line["to"]), (&json!("limits.inbound_per_minute_max"), &json!("20")));
            }
            is_it
        });
        assert_eq!(line["setting"], setting);
    }
    assert_eq!(heartbeats(addr, &token), 19);

    fs::write(&file, "[limits]\ninbound_per_minute_max = \"many\"\n").unwrap();
    node.signal("HUP");
    let wrong = wait_for_line(&log, "the configuration is wrong: nothing was changed");
    assert!(wrong["error"].as_str().unwrap().contains("g.toml:2: limits.inbound_per_minute_max"), "{wrong}");
    assert_eq!(heartbeats(addr, &token), 19);
    assert_eq!(node.terminate(), Some(0));
}

/// Which codec writes the streams of each session, oldest first.
fn writers(addr: SocketAddr, count: usize) -> Vec<Value> {
    let mut http = Http::new(addr, &format!("Bearer {ADMIN_KEY}"));
    wait_for("the sessions are listed", || {
        let listed = http.request("GET", "/v1/sessions", None).unwrap().body;
        let sessions = listed["sessions"].as_array().unwrap();
        (sessions.len() == count).then(|| sessions.iter().map(|session| session["writer"].clone()).collect())
    })
}

#[test]
fn the_codec_of_new_connections_changes_and_old_ones_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let (file, data) = (dir.path().join("g.toml"), dir.path().join("data"));
    let made = run_to_end(guildhall(["token", "user", "--new", "mara", "--data"]).arg(&data));
    let token = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let write = |streams: &str| {
        let all = format!(
            "[auth]\nadmin_key = \"{ADMIN_KEY}\"\n[server]\npartitions = 1\n[codec]\nstreams = \"{streams}\"\nupgrades = \"off\"\n"
        );
        fs::write(&file, all).unwrap();
    };
    write("per-connection");
    let (node, addr, log) = serve(&data, &["--config".as_ref(), file.as_ref()]);
    let new = || {
        let mut ws = Ws::connect(addr, "/?v=10&encoding=json&compress=zstd-stream", "").unwrap();
        ws.identify(&token);
        ws
    };
    let first = new();
    assert_eq!(writers(addr, 1), ["per-connection"]);
    write("shared-match");
    node.signal("HUP");
    let read = wait_for_line(&log, "configuration read again");
    assert_eq!((&read["changed"], &read["need_restart"]), (&json!(1), &json!(0)));
    let second = new();
    assert_eq!(writers(addr, 2), ["per-connection", "shared-match"]);
    write("per-connection");
    node.signal("HUP");
    wait_for_line(&log, "configuration read again");
    let third = new();
    assert_eq!(writers(addr, 3), ["per-connection", "shared-match", "per-connection"]);
    drop((first, second, third));
    assert_eq!(node.terminate(), Some(0));
}

#[test]
fn config_check_prints_the_settings_in_force_without_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let (file, key) = (dir.path().join("g.toml"), dir.path().join("key"));
    let secret = "s3cret-".repeat(8);
    fs::write(&file, format!("[auth]\njwt_secret = \"{secret}\"\n[server]\npartitions = 3\n")).unwrap();
    let file = file.to_str().unwrap();
    let checked = run(["config", "check", "--config", file, "--set", "limits.write_stall_ms=2000"]);
    let shown = String::from_utf8(checked.stdout.clone()).unwrap();
    assert!(checked.status.success(), "{}", stderr(&checked));
    assert!(shown.contains("partitions = 3  # ") && shown.contains("write_stall_ms = 2000"), "{shown}");
    assert!(shown.contains("jwt_secret = \"(hidden)\"") && !shown.contains("s3cret"), "{shown}");
    let wrong = run(["config", "check", "--config", file, "--set", "limits.write_stall=2000"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("did you mean `limits.write_stall_ms`?"), "{}", stderr(&wrong));
    fs::write(&key, "short").unwrap();
    let short = format!("auth.admin_key_file={}", key.display());
    let wrong = run(["config", "check", "--config", file, "--set", &short]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        stderr(&wrong).contains("auth.admin_key_file") && stderr(&wrong).contains("32 bytes"),
        "{}",
        stderr(&wrong)
    );
}
