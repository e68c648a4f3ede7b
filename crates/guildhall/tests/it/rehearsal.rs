//! `guildhall mock`, `capture` and `replay` as processes. Tests of their contents are in `guildhall-rehearsal`.

use crate::support::{run, stderr};
use serde_json::Value;
use std::fs;

#[test]
fn the_scenarios_are_listed_and_shown() {
    let listed = run(["mock", "--list"]);
    assert!(listed.status.success());
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.lines().count() >= 20, "{listed}");
    let folder = tempfile::tempdir().unwrap();
    for name in listed.lines().filter_map(|line| line.split(' ').next()) {
        let shown = run(["mock", "--show", name]);
        assert!(shown.status.success(), "{name}");
        fs::write(folder.path().join(name), shown.stdout).unwrap();
    }
    let unknown = run(["mock", "--show", "op-8"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("no scenario is called op-8"), "{}", stderr(&unknown));
}

#[test]
fn exit_codes_are_the_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("away.toml");
    let head = "name = \"away\"\nabout = \"Nothing happens.\"\nrule = \"The client stays away.\"\n";
    let path = file.to_str().unwrap();
    let play = |scenario: &str, command: &str| {
        run(["mock", scenario, "--listen", "127.0.0.1:0", "--json", "--", "sh", "-c", command])
    };

    fs::write(&file, format!("{head}steps = [{{ stays_away = {{ for_ms = 100 }} }}]\n")).unwrap();
    let passed = play(path, "test $SCENARIO = away && test -n $GATEWAY$API_BASE$BOT_TOKEN && sleep 100");
    assert_eq!(passed.status.code(), Some(0), "{}", stderr(&passed));
    let verdict: Value = serde_json::from_slice(&passed.stdout).unwrap();
    assert_eq!((&verdict["outcome"], &verdict["format"]), (&"passed".into(), &"guildhall-verdict".into()));

    let failed = play("plain", "exit 3");
    assert_eq!(failed.status.code(), Some(1));
    let verdict: Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!(verdict["reason"], "the client's process ended early: exit status: 3");
    assert_eq!((&verdict["step"]["number"], &verdict["step"]["step"]), (&1.into(), &"connect".into()));

    fs::write(&file, format!("{head}steps = [\n  {{ conect = {{}} }},\n]\n")).unwrap();
    let wrong = play(path, "true");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("line 5: ") && stderr(&wrong).contains("write `connect`"), "{}", stderr(&wrong));
}

#[test]
fn a_file_that_is_no_capture_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    fs::write(&file, "hello").unwrap();
    let path = file.to_str().unwrap();
    let replayed = run(["replay", path, "--listen", "127.0.0.1:0"]);
    assert_eq!(replayed.status.code(), Some(2));
    assert!(stderr(&replayed).contains("make one with `guildhall capture`"), "{}", stderr(&replayed));
    let captured = run(["capture", "--to", "ws://127.0.0.1:9", "--out", path, "--listen", "127.0.0.1:0"]);
    assert_eq!(captured.status.code(), Some(1));
    assert!(stderr(&captured).contains("name a file that does not exist"), "{}", stderr(&captured));
    assert_eq!(run(["capture", "--to", "http://127.0.0.1:9", "--out", "x"]).status.code(), Some(2));
}
