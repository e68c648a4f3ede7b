//! A full disk: reads are served, writes refused, `/readyz` has the reason, and writes work again without a restart.

use crate::support::{Demo, Http, Raw, ask, metric, serve, wait_for, wait_for_line};
use serde_json::json;
use std::{fs, net::SocketAddr};

fn get(addr: SocketAddr, path: &str) -> Raw {
    ask(addr, "GET", path, "", b"")
}

#[test]
fn s21_3_a_full_disk_is_reported_and_ends_without_a_restart() {
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
    assert!(ready.status == 503 && ready.text().contains("the disk is full: writes are refused"), "{ready:?}");
    assert_eq!(get(addr, "/healthz").status, 200);
    let value = |name: &str| -> f64 { metric(addr, name) };
    assert_eq!(value("store_writes_stopped"), 1.0);
    assert!(value("store_database_bytes") > 10_000.0 && value("store_disk_free_bytes") > 0.0);

    fs::write(&file, settings("0")).unwrap();
    node.signal("HUP");
    wait_for_line(&log, "the disk has space again: writes are accepted");
    wait_for("/readyz", || (get(addr, "/readyz").status == 200).then_some(()));
    assert_eq!(http.request("POST", &path, Some(&json!({"content": "again"}))).unwrap().status, 200);
    assert_eq!(node.terminate(), Some(0));
}
