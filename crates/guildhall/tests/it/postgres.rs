//! A node on PostgreSQL: acknowledged writes survive `kill -9`, an outage of the server passes, and no output has the
//! password. Skipped where PostgreSQL is not installed.

use crate::{
    postgres_server::{PASSWORD, PostgresServer},
    support::{Demo, Http, guildhall, rest_of, run, run_to_end, serve, stderr, wait_for},
};
use serde_json::{Value, json};
use std::{collections::HashMap, fs, path::Path, process::Output};

fn start(dir: &Path, url: &str) -> Demo {
    let url = format!("store.url={url}");
    let limits = "limits.rest_rate_percent=0";
    Demo::start(dir, &["--members", "5", "--rate", "0", "--set", limits, "--set", "server.metrics=open", "--set", &url])
}

/// A command with the database in its environment.
fn command(url: &str, data: &Path, args: &[&str]) -> Output {
    let mut command = guildhall(args);
    run_to_end(command.arg("--data").arg(data).env("GUILDHALL__STORE__URL", url))
}

fn text(output: &Output) -> String {
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(output));
    let is_shown = text.contains(PASSWORD) || text.contains("a%2Fb");
    assert!(!is_shown, "the password is shown: {text}");
    text
}

fn post(http: &mut Http, channel: &str, content: &str) -> Option<String> {
    let path = format!("/api/v10/channels/{channel}/messages");
    let answer = http.request("POST", &path, Some(&json!({"content": content}))).unwrap();
    match answer.status {
        200 => Some(answer.body["id"].as_str().expect("an id").to_owned()),
        503 => None,
        _ => panic!("{answer:?}"),
    }
}

fn ready(demo: &Demo) -> u16 {
    Http::new(demo.addr, "").get("/readyz").unwrap().status
}

#[test]
fn a_node_keeps_everything_in_postgresql() {
    let Some(server) = PostgresServer::shared() else { return };
    let (dir, url) = (tempfile::tempdir().unwrap(), server.tcp_url(&server.create_database()));
    let data = dir.path().join("data");
    let examined = command(&url, &data, &["doctor"]);
    assert!(text(&examined).contains("is empty: the first start fills it"), "{}", text(&examined));

    let demo = start(&data, &url);
    let (mut http, channel) = (demo.client("bot_token"), demo.channels()[0].clone());
    let mut stored = HashMap::new();
    for n in 0..50 {
        stored.insert(post(&mut http, &channel, &n.to_string()).unwrap(), n.to_string());
    }
    let mut user = demo.client("user_token");
    let made = user.request("POST", "/api/v10/guilds", Some(&json!({"name": "made over REST"}))).unwrap();
    assert_eq!(made.status, 201, "{made:?}");
    let guild = format!("/api/v10/guilds/{}", made.body["id"].as_str().unwrap());
    assert!(!data.join("guildhall.db").exists() && data.join("guildhall.lock").exists());

    // Nothing else starts on this database, or on this directory.
    let refused = command(&url, &dir.path().join("other"), &["token", "bot", "--new", "helper"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused).contains("a node runs on this database"), "{}", text(&refused));
    let other = server.tcp_url(&server.create_database());
    let refused = command(&other, &data, &["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused).contains("is in use by another process"), "{}", text(&refused));
    let examined = command(&url, &data, &["doctor"]);
    assert!(text(&examined).contains("schema version 54"), "{}", text(&examined));

    demo.kill();
    let demo = start(&data, &url);
    let history = demo.client("bot_token").history(&channel);
    for (id, content) in &stored {
        assert_eq!(history.get(id), Some(content));
    }
    let read = demo.client("user_token").get(&guild).unwrap();
    assert_eq!(read.body["name"], "made over REST", "{read:?}");
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn an_outage_of_postgresql_is_reported_and_ends_without_a_restart() {
    let Some(server) = PostgresServer::start(&[]) else { return };
    let (dir, url) = (tempfile::tempdir().unwrap(), server.tcp_url(&server.create_database()));
    let demo = start(dir.path(), &url);
    let (mut http, channel) = (demo.client("bot_token"), demo.channels()[0].clone());
    let mut stored = vec![post(&mut http, &channel, "before").unwrap()];
    server.crash();
    wait_for("/readyz says so", || (ready(&demo) == 503).then_some(()));
    // The node closes connections that were idle for long.
    let mut http = demo.client("bot_token");
    wait_for("refusals", || match post(&mut http, &channel, "during") {
        Some(id) => {
            // It was on its way when the server ended.
            stored.push(id);
            None
        }
        None => Some(()),
    });
    assert_eq!(Http::new(demo.addr, "").get("/healthz").unwrap().status, 200);
    let (_, metrics) = crate::metrics::get(demo.addr, "");
    assert!(metrics.contains("guildhall_store_unreachable 1\n"), "{metrics}");
    assert!(metrics.contains("guildhall_store_writes_stopped 1\n"), "{metrics}");

    server.start_again();
    wait_for("/readyz", || (ready(&demo) == 200).then_some(()));
    let mut http = demo.client("bot_token");
    stored.push(wait_for("writes", || post(&mut http, &channel, "after")));
    let history = http.history(&channel);
    for id in &stored {
        assert!(history.contains_key(id), "{id}: {history:?}");
    }
    assert_eq!(demo.terminate(), Some(0));
}

/// Two nodes that each believe that the database is theirs: the one that lost it ends.
#[test]
fn a_node_that_lost_its_database_ends() {
    let Some(server) = PostgresServer::shared() else { return };
    let (dir, database) = (tempfile::tempdir().unwrap(), server.create_database());
    let url = format!("store.url={}", server.tcp_url(&database));
    let (mut node, addr, log) = serve(dir.path(), &["--set".as_ref(), url.as_ref()]);
    assert_eq!(Http::new(addr, "").get("/readyz").unwrap().status, 200);
    // As another node would, after the lock was lost with its connection.
    server.sql(&database, "SELECT guildhall_claim_1(0)");
    server.sql(
        &database,
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 \
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    );
    let code = wait_for("the end of the node", || node.has_ended());
    assert_eq!(code, Some(1));
    let log = rest_of(&log);
    assert!(log.iter().any(|line| line["message"].to_string().contains("another node has claimed")), "{log:?}");
    assert!(!log.iter().any(|line| line.to_string().contains("a%2Fb")), "the password is in the log: {log:?}");
}

/// A node on SQLite, its database copied, and a node on the copy: all answers are the same.
#[test]
fn a_copied_database_gives_the_same_answers() {
    let Some(server) = PostgresServer::shared() else { return };
    let (dir, database) = (tempfile::tempdir().unwrap(), server.create_database());
    let (data, url) = (dir.path().join("data"), server.tcp_url(&database));
    let from = format!("sqlite:{}", data.display());
    let copy = |from: &str, to: &str| run(["store", "copy", "--from", from, "--to", to]);
    let refused = |from: &str, to: &str, code: i32, expected: &str| {
        let output = copy(from, to);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        assert!(text(&output).contains(expected), "{expected}: {}", text(&output));
    };
    refused(&from, &url, 1, "has no guildhall.db");
    refused(&url, &from, 2, "--from must be sqlite:DIR");
    refused(&from, &from, 2, "--to must be postgres://");
    refused(&from, &url.replace("127.0.0.1:", "127.0.0.1:x"), 2, "--to: ");

    let args = ["--members", "30", "--rate", "0", "--set", "limits.rest_rate_percent=0"];
    let demo = Demo::start(&data, &args);
    let channel = demo.channels()[0].clone();
    let mut http = demo.client("bot_token");
    for n in 0..50 {
        post(&mut http, &channel, &format!("number {n}")).unwrap();
    }
    refused(&from, &url, 1, "is in use by another process");
    let guild = demo.manifest["guild_id"].as_str().expect("guild_id").to_owned();
    let answers = |demo: &Demo| -> Vec<(u16, Value)> {
        let paths = [
            format!("/api/v10/guilds/{guild}"),
            format!("/api/v10/guilds/{guild}/channels"),
            format!("/api/v10/guilds/{guild}/roles"),
            format!("/api/v10/guilds/{guild}/members?limit=100"),
            format!("/api/v10/channels/{channel}"),
            format!("/api/v10/channels/{channel}/messages?limit=100"),
            "/api/v10/users/@me".to_owned(),
        ];
        let mut http = demo.client("bot_token");
        let answers = paths.iter().map(|path| http.get(path).unwrap());
        answers.map(|answer| (answer.status, answer.body)).collect()
    };
    let before = answers(&demo);
    assert!(before.iter().all(|(status, _)| *status == 200), "{before:?}");
    let (bot, user) = (demo.token("bot_token"), demo.token("user_token"));
    assert_eq!(demo.terminate(), Some(0));

    let copied = copy(&from, &url);
    assert!(copied.status.success(), "{}", text(&copied));
    assert!(text(&copied).contains("both databases have the same numbers of rows"), "{}", text(&copied));
    refused(&from, &url, 1, "the target database is not empty");

    let demo = start(&data, &url);
    assert_eq!(
        (demo.token("bot_token"), Http::new(demo.addr, &user).get("/api/v10/users/@me").unwrap().status),
        (bot, 200)
    );
    assert_eq!(answers(&demo), before);
    post(&mut demo.client("bot_token"), &channel, "and on").unwrap();
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn faults_of_a_database_are_named() {
    let Some(server) = PostgresServer::shared() else { return };
    let dir = tempfile::tempdir().unwrap();
    let url = server.tcp_url(&server.create_database());
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let check = |url: &str, args: &[&str], code: i32, expected: &str| {
        let output = command(url, dir.path(), args);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        assert!(text(&output).contains(expected), "{expected}: {}", text(&output));
    };
    check(&url.replace("guildhall:", "nobody:"), &serve, 1, "see its user and password");
    check(&url.replace("/test_", "/none_"), &serve, 1, "createdb");
    check("postgres://guildhall@127.0.0.1:1/x", &serve, 1, "see that the server runs and listens there");
    check(&format!("{url}?sslmode=verify-full"), &serve, 1, "sslmode= state");
    check(&format!("{url}?sslrootcert=/none.pem"), &serve, 2, "sslrootcert names /none.pem, which cannot be read");
    check(&format!("{url}?sslmod=none"), &serve, 2, "`sslmod` is not a parameter");
    check("mysql://guildhall:a%2Fb@127.0.0.1/x", &serve, 2, "expected sqlite:DIR or postgres://");
    let backup = dir.path().join("backup").display().to_string();
    check(&url, &["backup", &backup], 2, "pg_dump");
    check(&url, &["restore", &backup], 2, "pg_restore");
    check(&url, &["doctor"], 0, "is empty");
    check(&url.replace("/test_", "/none_"), &["doctor"], 1, "WRONG    database");
    let shown = text(&run_to_end(guildhall(["config"]).env("GUILDHALL__STORE__URL", &url)));
    assert!(shown.contains("url = \"postgres://guildhall:(hidden)@127.0.0.1"), "{shown}");
    assert!(fs::read_dir(dir.path()).unwrap().next().is_none(), "nothing was created");
}
