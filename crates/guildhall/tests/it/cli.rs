//! Commands, exit codes, and error messages.

use crate::support::{Demo, Http, end_of, guildhall, run, run_to_end, serve, stderr, wait_for};
use serde_json::json;
use std::{fs, io::Write as _, process::Stdio};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn wrong_arguments_and_settings_are_code_2() {
    let check = |args: &[&str], expected: &str| {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(expected), "{args:?}: {}", stderr(&output));
    };
    check(&["dance"], "unrecognized subcommand");
    check(&["serve", "--listen", "here"], "command line, --listen: server.listen cannot be \"here\"");
    check(&["serve", "--set", "server.partition=1"], "did you mean `server.partitions`?");
    check(&["serve", "--config", "/no/such.toml"], "/no/such.toml cannot be read");
    check(&["demo", "--rate", "-1"], "--rate");
    let output = run_to_end(guildhall(["config"]).env("GUILDHALL__LOG__COLOUR", "1"));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("environment variable GUILDHALL__LOG__COLOUR"), "{}", stderr(&output));
}

#[test]
fn the_configuration_explains_itself() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("g.toml");
    let documented = run(["config", "default"]);
    assert!(documented.status.success());
    fs::write(&file, &documented.stdout).unwrap();
    let checked = run(["config", "check", file.to_str().unwrap()]);
    assert!(checked.status.success(), "{}", stderr(&checked));
    fs::write(&file, "[server]\npartitions = 3\n[log]\nlevel = \"loud\"\n").unwrap();
    let checked = run(["config", "check", file.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(2));
    assert!(stderr(&checked).contains("g.toml:4: log.level"), "{}", stderr(&checked));
    fs::write(&file, "[server]\npartitions = 3\n").unwrap();
    let shown = run_to_end(guildhall(["config"]).env("GUILDHALL_CONFIG", &file).env("GUILDHALL__LOG__LEVEL", "warn"));
    let shown = text(&shown.stdout);
    assert!(shown.contains("partitions = 3  # ") && shown.contains("g.toml:2"), "{shown}");
    assert!(shown.contains("level = \"warn\"  # environment variable GUILDHALL__LOG__LEVEL"), "{shown}");
}

#[test]
fn a_taken_address_or_directory_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one"), dir.path().join("two"));
    let demo = Demo::start(&one, &["--members", "3", "--rate", "0"]);
    let listen = demo.addr.to_string();
    let port = run(["demo", "--listen", &listen, "--data", two.to_str().unwrap()]);
    assert_eq!(port.status.code(), Some(1));
    let message = stderr(&port);
    assert!(message.contains(&format!("cannot listen on {listen}: choose another port, or 0")), "{message}");
    assert!(!two.exists(), "nothing was created");
    for args in [vec!["serve", "--listen", "127.0.0.1:0", "--data"], vec!["token", "bot", "--new", "helper", "--data"]]
    {
        let output = run_to_end(guildhall(&args).arg(&one));
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(stderr(&output).contains("is in use by another process"), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn from_nothing_to_a_bot_that_is_let_in_and_out() {
    let dir = tempfile::tempdir().unwrap();
    let token_of = |args: &[&str]| {
        let output = run_to_end(guildhall(["token"]).args(args).arg("--data").arg(dir.path()));
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(text(&output.stdout).lines().count(), 1, "only the token");
        text(&output.stdout).trim().to_owned()
    };
    let bot = token_of(&["bot", "--new", "helper"]);
    let user = token_of(&["user", "--new", "mara", "--ttl", "1h"]);

    let (node, addr, _) = serve(dir.path(), &[]);
    let mut bot_http = Http::new(addr, &format!("Bot {bot}"));
    let me = bot_http.get("/api/v10/users/@me").unwrap();
    assert_eq!((me.status, &me.body["username"]), (200, &json!("helper")));
    assert_eq!(Http::new(addr, &user).get("/api/v10/users/@me").unwrap().body["username"], "mara");
    let guilds = bot_http.get("/api/v10/users/@me/guilds").unwrap();
    assert_eq!((guilds.status, guilds.body), (200, json!([])));
    assert_eq!(node.terminate(), Some(0));

    let revoke = |token: &str| {
        let mut command = guildhall(["token", "revoke", "--data"]);
        command.arg(dir.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        writeln!(child.stdin.take().unwrap(), "{token}").unwrap();
        end_of(child, "token revoke")
    };
    assert!(revoke(&bot).status.success());
    let again = revoke(&bot);
    assert_eq!(again.status.code(), Some(1), "{}", stderr(&again));
    let (node, addr, _) = serve(dir.path(), &[]);
    wait_for("the node", || (Http::new(addr, "").get("/readyz").ok()?.status == 200).then_some(()));
    assert_eq!(Http::new(addr, &format!("Bot {bot}")).get("/api/v10/users/@me").unwrap().status, 401);
    assert_eq!(node.terminate(), Some(0));
}

#[test]
fn accounts_that_do_not_fit() {
    let dir = tempfile::tempdir().unwrap();
    let check = |args: &[&str], expected: &str| {
        let output = run_to_end(guildhall(["token"]).args(args).arg("--data").arg(dir.path()));
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(stderr(&output).contains(expected) && output.stdout.is_empty(), "{args:?}: {}", stderr(&output));
    };
    check(&["bot", "--id", "5"], "has no guildhall.db");
    assert!(run_to_end(guildhall(["token", "bot", "--new", "first", "--data"]).arg(dir.path())).status.success());
    check(&["bot", "--id", "5"], "there is no account 5");
    check(&["bot", "--new", "x"], "cannot be a name");
    check(&["bot", "--new", "a@b"], "cannot be a name");
    let made = run_to_end(guildhall(["token", "user", "--new", "mara", "--data"]).arg(dir.path()));
    let id = stderr(&made).split(' ').nth(1).expect("account ID (name)").to_owned();
    check(&["bot", "--id", &id], "is a user");
}
