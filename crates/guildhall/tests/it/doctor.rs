//! `guildhall doctor`: its findings, and the advice with each.

use crate::support::{Demo, guildhall, run_to_end};
use std::{
    fs::{self, File, Permissions},
    io::{Seek as _, SeekFrom, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

fn doctor(data: &Path, more: &[&str]) -> (Option<i32>, String) {
    let output = run_to_end(guildhall(["doctor", "--data"]).arg(data).args(more));
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_node_in_order_and_one_that_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (data, new) = (dir.path().join("data"), dir.path().join("new"));
    let (code, text) = doctor(&new, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("does not exist yet") && !new.exists(), "{text}");

    let demo = Demo::start(&data, &["--members", "300", "--rate", "0"]);
    let picture = serde_json::json!({"avatar": "data:image/png;base64,iVBORw0KGgo="});
    assert_eq!(demo.client("bot_token").request("PATCH", "/api/v10/users/@me", Some(&picture)).unwrap().status, 200);
    let certificate = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls/one.crt");
    let key = certificate.with_extension("key");
    let certificate = format!("tls.cert_file={}", certificate.display());
    let (code, text) = doctor(&data, &["--set", &certificate, "--set", &format!("tls.key_file={}", key.display())]);
    assert_eq!(code, Some(0), "{text}");
    for part in [
        "is private (mode 700)",
        "in order, checked in",
        "one.crt ends in ",
        "not behind the newest id",
        "are free",
        "1 files and pictures have",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The node did not notice.
    assert_eq!(demo.client("bot_token").get("/api/v10/users/@me").unwrap().status, 200);
    assert_eq!(demo.terminate(), Some(0));

    let (code, text) = doctor(&data, &["--set", "store.free_bytes_min=1000000000000000"]);
    assert!(code == Some(1) && text.contains("WRONG    disk") && text.contains("writes are refused"), "{text}");
    let (code, text) = doctor(&data, &["--set", "uploads.bytes_max=5"]);
    assert!(code == Some(0) && text.contains("more than uploads.bytes_max"), "{text}");
    let (code, text) = doctor(&data, &["--set", "tls.cert_file=none", "--set", "tls.key_file=none"]);
    assert!(code == Some(1) && text.contains("WRONG    configuration") && text.contains("none"), "{text}");

    for path in [data.clone(), data.join("guildhall.db")] {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    let (code, text) = doctor(&data, &[]);
    assert!(code == Some(1) && text.contains("other users can read") && text.contains("chmod go="), "{text}");

    let path = data.join("guildhall.db");
    let pages = fs::metadata(&path).unwrap().len() / 4096;
    let mut file = File::options().write(true).open(&path).unwrap();
    for page in pages / 2..pages {
        file.seek(SeekFrom::Start(page * 4096)).unwrap();
        file.write_all(&[0xA5; 4096]).unwrap();
    }
    drop(file);
    let (code, text) = doctor(&data, &[]);
    assert!(code == Some(1) && text.contains("is damaged") && text.contains("guildhall restore"), "{text}");
    let started = run_to_end(guildhall(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data));
    assert_eq!(started.status.code(), Some(1));
    assert!(crate::support::stderr(&started).contains("is damaged"), "{}", crate::support::stderr(&started));
}
