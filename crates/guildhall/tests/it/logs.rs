//! The access log: a line per request and per WebSocket, without secrets; reopened at SIGHUP.

use crate::{
    support::{Http, guildhall, run_to_end, serve, wait_for, wait_for_line},
    ws::Ws,
};
use serde_json::{Value, json};
use std::{fs, path::Path};

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect()
}

#[test]
fn requests_and_connections_have_a_line_each() {
    const ROOT: &str = "an-admin-key-of-more-than-thirty-two-bytes";
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("access.log"));
    let made = run_to_end(guildhall(["token", "user", "--new", "mara", "--data"]).arg(&data));
    let token = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let (setting, key) = (format!("log.access_file={}", file.display()), format!("auth.admin_key={ROOT}"));
    let (node, addr, log) = serve(&data, &["--set".as_ref(), setting.as_ref(), "--set".as_ref(), key.as_ref()]);
    let mut http = Http::new(addr, &token);
    let me = http.get("/api/v10/users/@me?secret=SECRET").unwrap().body["id"].as_str().unwrap().to_owned();
    assert_eq!(http.get("/api/v10/webhooks/1/SECRET").unwrap().status, 404);
    assert_eq!(http.get("/api/v10/SECRET").unwrap().status, 404);
    assert_eq!(Http::new(addr, "x.SECRET.z").get("/api/v10/users/@me").unwrap().status, 401);
    assert_eq!(Http::new(addr, &format!("Bearer {ROOT}")).get("/v1/guilds").unwrap().status, 200);
    assert!(Ws::connect(addr, "/?v=10&token=SECRET", "Sec-WebSocket-Version: 7\r\n").is_err());
    let mut ws = Ws::session(addr, &token);
    ws.frame(guildhall_ws_proto::Opcode::Close, &1000u16.to_be_bytes());
    ws.close_code();
    drop(ws);
    let is_web_socket = |line: &&Value| line["kind"] == "websocket" && line["status"] == 101;
    wait_for("the line of the WebSocket", || lines(&file).iter().find(is_web_socket).map(drop));

    // After a rotation the next lines are in a new file.
    let moved = dir.path().join("access.log.1");
    fs::rename(&file, &moved).unwrap();
    node.signal("HUP");
    wait_for_line(&log, "configuration read again");
    wait_for("the new file", || file.exists().then_some(()));
    assert_eq!(http.get("/healthz").unwrap().status, 200);
    assert_eq!(node.terminate(), Some(0));

    let text = fs::read_to_string(&moved).unwrap();
    for secret in ["SECRET", &*token, ROOT] {
        assert!(!text.contains(secret), "{text}");
    }
    let before = lines(&moved);
    let found = |route: &str, status: u16| {
        let is_it = |line: &&Value| line["route"] == route && line["status"] == status;
        before.iter().find(is_it).unwrap_or_else(|| panic!("{route} {status}: {text}"))
    };
    let own = found("/api/users/@me", 200);
    assert_eq!((&own["user_id"], &own["method"], &own["address"]), (&json!(me), &json!("GET"), &json!("127.0.0.1")));
    assert_eq!(found("/api/users/@me", 401).get("user_id"), None);
    found("/api/webhooks/{webhook_id}/{webhook_token}", 404);
    assert_eq!(found("/v1/guilds", 200)["key_id"], "0", "the root key");
    let ended = before.iter().find(is_web_socket).unwrap();
    assert_eq!(
        (&ended["user_id"], &ended["close_code"], &ended["closed_by"]),
        (&json!(me), &json!(1000), &json!("client"))
    );
    assert_eq!((&ended["encoding"], &ended["compression"]), (&json!("json"), &json!("none")));
    assert!(before.iter().any(|line| line["kind"] == "websocket" && line["status"] != 101), "{text}");
    assert_eq!(lines(&file).iter().filter(|line| line["route"] == "/healthz").count(), 1);
}

#[test]
fn a_log_that_cannot_be_opened_keeps_the_node_from_starting() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("nowhere/access.log");
    let mut command = guildhall(["serve", "--listen", "127.0.0.1:0", "--data"]);
    command.arg(dir.path().join("data")).args(["--set", &format!("log.access_file={}", file.display())]);
    let refused = run_to_end(&mut command);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("log.access_file"), "{refused:?}");
}
