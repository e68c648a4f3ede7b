//! A full disk: reads are served, writes refused, `/readyz` says why, and it passes without a restart.

use crate::support::{Demo, Http, PATIENCE, serve, wait_for, wait_for_line};
use serde_json::json;
use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
};

fn get(addr: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn s21_3_a_full_disk_is_told_and_passes() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("g.toml"));
    let demo = Demo::start(&data, &["--members", "3", "--rate", "0"]);
    let (token, channel) = (demo.manifest["bot_token"].as_str().unwrap().to_owned(), demo.channels()[0].clone());
    assert_eq!(demo.terminate(), Some(0));

    // More than any disk has free.
    let settings =
        |free_bytes_min: &str| format!("[server]\nmetrics = \"open\"\n[store]\nfree_bytes_min = {free_bytes_min}\n");
    fs::write(&file, settings("1_000_000_000_000_000")).unwrap();
    let (node, addr, log) = serve(&data, &["--config".as_ref(), file.as_os_str()]);
    let mut http = Http::new(addr, &token);
    let path = format!("/api/v10/channels/{channel}/messages");
    for n in 0..3 {
        let answer = http.request("POST", &path, Some(&json!({"content": n.to_string()}))).unwrap();
        assert_eq!(answer.status, 503, "{answer:?}");
        assert_eq!(http.get(&path).unwrap().status, 200, "history is read");
        assert_eq!(http.get(&format!("/api/v10/channels/{channel}")).unwrap().status, 200);
    }
    let ready = get(addr, "/readyz");
    assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("the disk is full: writes are refused"), "{ready}");
    assert!(get(addr, "/healthz").starts_with("HTTP/1.1 200"));
    let metrics = get(addr, "/metrics");
    let value = |name: &str| -> f64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("guildhall_{name} ")));
        line.unwrap_or_else(|| panic!("{name}: {metrics}")).parse().unwrap()
    };
    assert_eq!(value("store_writes_stopped"), 1.0);
    assert!(value("store_database_bytes") > 10_000.0 && value("store_disk_free_bytes") > 0.0);

    fs::write(&file, settings("0")).unwrap();
    node.signal("HUP");
    wait_for_line(&log, "the disk has space again: writes are accepted");
    wait_for("/readyz", || get(addr, "/readyz").starts_with("HTTP/1.1 200").then_some(()));
    assert_eq!(http.request("POST", &path, Some(&json!({"content": "again"}))).unwrap().status, 200);
    assert_eq!(node.terminate(), Some(0));
}
