//! Warnings for operators: secrets that others can read, and a gateway without a URL for others.

use crate::support::{Process, exchange, guildhall, run, serve, serve_by, stderr};
use std::{fs, net::SocketAddr, os::unix::fs::PermissionsExt as _, path::Path};

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn x1_each_file_with_a_readable_secret_is_one_warning_of_serve_config_check_and_doctor() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let tls = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls");
    let (file, admin, key) = (at("g.toml"), at("admin"), at("key.pem"));
    let secret = "s".repeat(40);
    let settings = format!(
        "[auth]\njwt_secret = \"{secret}\"\nadmin_key_file = {admin:?}\n[store]\ndir = {:?}\n\
         [tls]\ncert_file = {:?}\nkey_file = {key:?}\n",
        at("data"),
        tls.join("one.crt"),
    );
    let private_key = fs::read_to_string(tls.join("one.key")).unwrap();
    let write_all = |mode| {
        write(&file, &settings, mode);
        write(&admin, &secret, mode);
        write(&key, &private_key, mode);
    };
    let path = file.to_str().unwrap();
    for (mode, expected) in [(0o644, 3), (0o604, 3), (0o640, 3), (0o600, 0), (0o400, 0)] {
        write_all(mode);
        let checked = run(["config", "check", "--config", path]);
        assert!(checked.status.success(), "{}", stderr(&checked));
        let printed = stderr(&checked);
        assert_eq!(
            printed.matches("warning: other users can read the secret of").count(),
            expected,
            "{mode:o}: {printed}"
        );
        assert!(!printed.contains(&secret));
        let doctor = run(["doctor", "--config", path]);
        let printed = String::from_utf8_lossy(&doctor.stdout);
        assert_eq!(printed.matches("warning  secrets").count(), expected, "{mode:o}: {printed}");
    }
    write_all(0o644);
    let mut warned = Vec::new();
    let mut command = guildhall(["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--config"]);
    command.arg(&file);
    let (node, _, _log) = serve_by(command, |line| {
        if line["level"] == "WARN" && line["message"].as_str().unwrap().starts_with("other users can read this file") {
            warned.push(line["path"].as_str().unwrap().to_owned());
        }
    });
    warned.sort();
    let mut paths = [&file, &admin, &key].map(|path| path.display().to_string());
    paths.sort();
    assert_eq!(warned, paths);
    assert_eq!(node.terminate(), Some(0));
}

fn gateway(addr: SocketAddr, host: &str) -> (u16, String) {
    let request = format!("GET /api/v10/gateway HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let answer = exchange(addr, request.as_bytes()).expect("an answer");
    (answer.status, answer.text())
}

/// Nothing is guessed, and nothing of the request is in the answer.
#[test]
fn a_node_that_listens_everywhere_gives_its_url_to_its_own_machine_alone() {
    let dir = tempfile::tempdir().unwrap();
    let start = |more: &[&str]| -> (Process, SocketAddr) {
        let mut command = guildhall(["serve", "--listen", "0.0.0.0:0", "--log-format", "json", "--data"]);
        let (node, ready, log) = serve_by(
            {
                command.arg(dir.path().join("data")).args(more);
                command
            },
            |_| {},
        );
        drop(log);
        let port = ready["listen"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
        (node, SocketAddr::from(([127, 0, 0, 1], port)))
    };
    let (node, addr) = start(&[]);
    let port = addr.port();
    for host in [format!("127.0.0.1:{port}"), format!("localhost:{port}"), format!("[::1]:{port}")] {
        let (status, text) = gateway(addr, &host);
        assert!(status == 200 && text.contains(&format!("ws://127.0.0.1:{port}")), "{host}: {status} {text}");
    }
    let nameless = exchange(addr, b"GET /api/v10/gateway HTTP/1.0\r\n\r\n").expect("an answer");
    assert_eq!(nameless.status, 421, "{nameless:?}");
    for host in
        ["gw.example.net", "evil.example:8080", "192.0.2.7:8080", &format!("gw.example.net:{port}"), "127.0.0.1"]
    {
        let (status, text) = gateway(addr, host);
        assert!(status == 421 && text.contains("server.public_url"), "{host}: {status} {text}");
        assert!(!text.contains("example:8080") && !text.contains("192.0.2.7"), "{text}");
    }
    assert_eq!(node.terminate(), Some(0));
    let (node, addr) = start(&["--public-url", "wss://gw.example.net"]);
    assert!(gateway(addr, "other.example.net").1.contains("wss://gw.example.net"));
    assert_eq!(node.terminate(), Some(0));
    // One address is no guess.
    let (node, addr, log) = serve(&dir.path().join("data"), &[]);
    assert_eq!(gateway(addr, "gw.example.net").0, 200);
    drop(log);
    assert_eq!(node.terminate(), Some(0));
}
