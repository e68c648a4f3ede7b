//! `guildhall backup` during writes of a node, `guildhall restore`, and their refusals.

use crate::support::{Demo, Http, Raw, ask, guildhall, run_to_end, serve, stderr, wait_until};
use serde_json::json;
use std::{
    collections::HashMap,
    fs,
    net::SocketAddr,
    path::Path,
    process::Output,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

fn command(name: &str, dir: &Path, data: &Path) -> Output {
    run_to_end(&mut guildhall([name.as_ref(), dir.as_os_str(), "--data".as_ref(), data.as_os_str()]))
}

/// Posts a message with a file; returns the path of the file.
pub fn upload(addr: SocketAddr, token: &str, channel: &str, content: &[u8]) -> String {
    let disposition = "Content-Disposition: form-data; name=\"files[0]\"; filename=\"f.bin\"";
    let body = [format!("--XX\r\n{disposition}\r\n\r\n").as_bytes(), content, b"\r\n--XX--\r\n"].concat();
    let headers = format!("Authorization: {token}\r\nContent-Type: multipart/form-data; boundary=XX\r\n");
    let answer = ask(addr, "POST", &format!("/api/v10/channels/{channel}/messages"), &headers, &body);
    assert!(answer.status == 200, "{} {}", answer.head, answer.text());
    let message = answer.json();
    let url = message["attachments"][0]["url"].as_str().unwrap();
    url[url.find("/attachments/").unwrap()..].to_owned()
}

pub fn fetch(addr: SocketAddr, path: &str) -> (String, Vec<u8>) {
    let Raw { head, body, .. } = ask(addr, "GET", path, "", b"");
    (head, body)
}

/// Sets a flag when it goes.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Clone, Default)]
struct Acknowledged {
    /// Content by id.
    messages: HashMap<String, String>,
    /// Content by path.
    files: HashMap<String, Vec<u8>>,
}

#[test]
fn a_backup_of_a_node_under_writes_has_everything_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let (data, backup, restored) = (dir.path().join("data"), dir.path().join("b"), dir.path().join("r"));
    let demo = Demo::start(&data, &["--members", "3", "--rate", "0", "--set", "limits.rest_rate_percent=0"]);
    let channels: Vec<String> = demo.channels().into_iter().take(2).collect();
    let token = demo.manifest["bot_token"].as_str().unwrap().to_owned();
    let (acknowledged, stop) = (Mutex::new(Acknowledged::default()), AtomicBool::new(false));
    let picture = b"\x89PNG\r\n\x1a\n".to_vec();
    let body = json!({"avatar": "data:image/png;base64,iVBORw0KGgo="});
    let answer = demo.client("bot_token").request("PATCH", "/api/v10/users/@me", Some(&body)).unwrap();
    let text = |key: &str| answer.body[key].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned();
    let avatar = format!("/avatars/{}/{}.png", text("id"), text("avatar"));
    acknowledged.lock().unwrap().files.insert(avatar, picture);
    let before = thread::scope(|scope| {
        // The scope waits for its writers, also when this thread fails.
        let _ended = SetAtEnd(&stop);
        for (writer, channel) in channels.iter().enumerate() {
            let (demo, acknowledged, stop, token) = (&demo, &acknowledged, &stop, &token);
            scope.spawn(move || {
                let mut http = demo.client("bot_token");
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let content = format!("writer {writer}: number {n}");
                    let path = format!("/api/v10/channels/{channel}/messages");
                    let answer = http.request("POST", &path, Some(&json!({"content": content}))).unwrap();
                    assert_eq!(answer.status, 200, "{answer:?}");
                    let id = answer.body["id"].as_str().unwrap().to_owned();
                    acknowledged.lock().unwrap().messages.insert(id, content);
                    if n % 10 == 0 {
                        let content = format!("file {writer} {n} ").repeat(500).into_bytes();
                        let path = upload(demo.addr, token, channel, &content);
                        acknowledged.lock().unwrap().files.insert(path, content);
                    }
                }
            });
        }
        wait_until("100 messages and 10 files", || {
            let known = acknowledged.lock().unwrap();
            let counts = (known.messages.len(), known.files.len());
            if counts.0 >= 100 && counts.1 >= 10 { Ok(()) } else { Err(counts) }
        });
        let before = acknowledged.lock().unwrap().clone();
        let made = command("backup", &backup, &data);
        stop.store(true, Ordering::Relaxed);
        assert!(made.status.success(), "{}", stderr(&made));
        assert!(String::from_utf8_lossy(&made.stdout).starts_with("backed up: a database of "), "{made:?}");
        before
    });
    let all = acknowledged.into_inner().unwrap();
    // There is one already.
    let again = command("backup", &backup, &data);
    assert!(!again.status.success() && stderr(&again).contains("is not empty"), "{}", stderr(&again));
    let over = command("restore", &backup, &data);
    assert!(!over.status.success() && stderr(&over).contains("never overwrites"), "{}", stderr(&over));
    assert_eq!(demo.terminate(), Some(0));

    let made = command("restore", &backup, &restored);
    assert!(made.status.success(), "{}", stderr(&made));
    let (node, addr, _log) = serve(&restored, &[]);
    let mut http = Http::new(addr, &token);
    let history: HashMap<String, String> = channels.iter().flat_map(|channel| http.history(channel)).collect();
    for (id, content) in &before.messages {
        assert_eq!(history.get(id), Some(content), "{id}");
    }
    for (path, content) in &before.files {
        let (head, body) = fetch(addr, path);
        assert!(head.starts_with("HTTP/1.1 200") && body == *content, "{path}: {head}");
    }
    // A message written during the backup may be missing from it, but is never cut.
    for (id, content) in history.iter().filter(|(_, content)| content.starts_with("writer ")) {
        assert_eq!(all.messages.get(id), Some(content));
    }
    let path = format!("/api/v10/channels/{}/messages", channels[0]);
    assert_eq!(http.request("POST", &path, Some(&json!({"content": "and on"}))).unwrap().status, 200);
    assert_eq!(node.terminate(), Some(0));
}

#[test]
fn what_is_no_whole_backup_is_not_restored() {
    let dir = tempfile::tempdir().unwrap();
    let (data, backup, target) = (dir.path().join("data"), dir.path().join("b"), dir.path().join("t"));
    let nothing = command("backup", &backup, &data);
    assert!(!nothing.status.success() && stderr(&nothing).contains("has no guildhall.db"), "{}", stderr(&nothing));
    assert!(!backup.exists());
    let token = run_to_end(guildhall(["token", "bot", "--new", "helper", "--data"]).arg(&data));
    assert!(token.status.success(), "{}", stderr(&token));
    // While no node runs.
    let made = command("backup", &backup, &data);
    assert!(made.status.success(), "{}", stderr(&made));

    let refused = |why: &str| {
        let output = command("restore", &backup, &target);
        assert_eq!(output.status.code(), Some(1), "{why}");
        assert!(stderr(&output).contains(why), "{why}: {}", stderr(&output));
        let left: Vec<_> = fs::read_dir(&target).map_or(Vec::new(), |entries| entries.map(Result::unwrap).collect());
        assert!(left.is_empty(), "{why}: {left:?}");
    };
    let (database, manifest) = (backup.join("guildhall.db"), backup.join("manifest.ndjson"));
    let (whole, listed) = (fs::read(&database).unwrap(), fs::read(&manifest).unwrap());
    let mut changed = whole.clone();
    changed[5000] ^= 1;
    fs::write(&database, &changed).unwrap();
    refused("guildhall.db differs from the manifest");
    fs::write(&database, &whole[..whole.len() - 1]).unwrap();
    refused("guildhall.db differs from the manifest");
    fs::write(&database, &whole).unwrap();
    fs::write(&manifest, &listed[..listed.len() / 2]).unwrap();
    refused("manifest.ndjson is torn or was changed");
    let text = String::from_utf8(listed.clone()).unwrap();
    fs::write(&manifest, text.replacen("\"guildhall.db\"", "\"../../elsewhere\"", 1)).unwrap();
    refused("manifest.ndjson is torn or was changed");
    fs::remove_file(&manifest).unwrap();
    refused("is not a complete backup");

    fs::write(&manifest, &listed).unwrap();
    // A restore that was killed: no node starts on what it left.
    fs::create_dir_all(&target).unwrap();
    fs::write(target.join("guildhall.restoring"), "").unwrap();
    let started = run_to_end(guildhall(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&target));
    assert_eq!(started.status.code(), Some(1));
    assert!(stderr(&started).contains("a restore into") && stderr(&started).contains("did not finish"));
    fs::remove_dir_all(&target).unwrap();
    let made = command("restore", &backup, &target);
    assert!(made.status.success(), "{}", stderr(&made));
    let me = String::from_utf8(token.stdout).unwrap();
    let (node, addr, _log) = serve(&target, &[]);
    assert_eq!(Http::new(addr, &format!("Bot {}", me.trim())).get("/api/v10/users/@me").unwrap().status, 200);
    assert_eq!(node.terminate(), Some(0));
}
