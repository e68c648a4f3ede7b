//! Dictionaries that a running node is given: staged, served to a share of the accounts, withdrawn; over real sockets.

use crate::{
    backend::Backend,
    dictionary::{Client, train},
    nodes::{Site, two},
    support::{Demo, Raw, ask, guildhall, run_to_end, stderr, wait_until},
};
use guildhall_codec::{Dictionary, DictionaryId, Encoding, KnownDictionary};
use serde_json::{Value, json};
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The trained files of both encodings: their paths, and the dictionaries.
pub fn files(dir: &Path, seed: u64) -> [(PathBuf, Arc<Dictionary>); 2] {
    train(dir, seed);
    ["json", "etf"].map(|encoding| {
        let mut entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let path = entries.find(|path| path.to_string_lossy().ends_with(&format!(".{encoding}.zdict"))).unwrap();
        let dictionary = Dictionary::new(fs::read(&path).unwrap()).unwrap();
        (path, Arc::new(dictionary))
    })
}

fn lab(addr: SocketAddr, key: &str, args: &[&str]) -> std::process::Output {
    let server = format!("http://{addr}");
    let mut command = guildhall(["lab", "dictionary"].iter().chain(args).chain(&["--server", &server]));
    run_to_end(command.env("GUILDHALL_KEY", key))
}

#[track_caller]
pub fn lab_ok(addr: SocketAddr, key: &str, args: &[&str]) -> String {
    let output = lab(addr, key, args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Ids that `GET /dictionaries` lists; the status if it lists none.
pub fn listed(addr: SocketAddr, token: Option<&str>) -> Result<Vec<String>, u16> {
    let header = token.map_or_else(String::new, |token| format!("Authorization: {token}\r\n"));
    let Raw { head, body, .. } = ask(addr, "GET", "/dictionaries", &header, b"");
    let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
    let Ok(Value::Array(entries)) = serde_json::from_slice(&body) else { return Err(status) };
    assert!(head.to_lowercase().contains("vary: authorization"), "{head}");
    Ok(entries.iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect())
}

pub fn query(id: DictionaryId, encoding: &str) -> String {
    format!("encoding={encoding}&compress=zstd-stream&dict={id}")
}

#[track_caller]
pub fn assert_refused(addr: SocketAddr, id: DictionaryId) {
    let (code, reason) = Client::connect(addr, &query(id, "json"), None).await_close();
    assert!(code == 4002 && reason.contains("this node has not") && reason.contains("GET /dictionaries"), "{reason}");
}

/// A bot in the share of the dictionary, and one outside of it.
fn bots(backend: &mut Backend, dictionary: &Arc<Dictionary>, permille: u16) -> [(String, String); 2] {
    let mut known = KnownDictionary::new(Encoding::Json, dictionary.clone());
    known.permille = permille;
    [true, false].map(|is_in| {
        let id = (1_300_000_000_000_000_000..).find(|id| known.is_offered_to(Some(*id)) == is_in).unwrap().to_string();
        backend.put(&format!("/users/{id}"), json!({"username": format!("bot{is_in}"), "bot": true}), 201);
        let token = backend.token(&id);
        (id, token)
    })
}

#[test]
fn a_dictionary_is_staged_served_to_a_share_and_withdrawn_without_a_restart() {
    for streams in ["per-connection", "shared-match", "auto"] {
        serve_and_withdraw(streams);
    }
}

fn serve_and_withdraw(streams: &str) {
    let (data, trained) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [(file, dictionary), (etf_file, of_etf)] = files(trained.path(), 1);
    let id = dictionary.id();
    let set = format!("codec.streams={streams}");
    let args = ["--members", "5", "--rate", "0", "--set", &set, "--set", "limits.rest_rate_percent=0"];
    let demo = Demo::start(data.path(), &args);
    let key = demo.manifest["admin_key"].as_str().unwrap().to_owned();
    let mut backend = Backend::root(&demo);
    let [(_, inside), (_, outside)] = bots(&mut backend, &dictionary, 100);

    // Staged: no client gets it.
    let text = lab_ok(demo.addr, &key, &["stage", file.to_str().unwrap()]);
    assert!(text.contains(&id.to_string()) && text.contains("staged"), "{text}");
    assert_eq!(listed(demo.addr, None), Ok(vec![]));
    assert_refused(demo.addr, id);
    let staged = &backend.get("/lab/dictionaries")[0];
    assert_eq!(
        (&staged["state"], &staged["encoding"], &staged["source"]),
        (&json!("staged"), &json!("json"), &json!("store"))
    );

    // A tenth of the accounts.
    let text = lab_ok(demo.addr, &key, &["serve", &id.to_string(), "--permille", "100"]);
    assert!(text.contains("served") && text.contains("10.0%"), "{text}");
    assert_eq!(listed(demo.addr, None), Ok(vec![]));
    assert_eq!(listed(demo.addr, Some(&format!("Bot {outside}"))), Ok(vec![]));
    assert_eq!(listed(demo.addr, Some(&format!("Bot {inside}"))), Ok(vec![id.to_string()]));
    assert_eq!(listed(demo.addr, Some("Bot wrong")), Err(401));
    let preflight =
        ask(demo.addr, "OPTIONS", "/dictionaries", "Access-Control-Request-Headers: authorization\r\n", b"");
    assert!(
        preflight.head.to_lowercase().contains("access-control-allow-headers: authorization"),
        "{}",
        preflight.head
    );

    let token = demo.token("bot_token");
    let mut client = Client::connect(demo.addr, &query(id, "json"), Some(&dictionary));
    client.await_payload(10, None);
    client.identify(&token);
    client.await_payload(0, Some("GUILD_CREATE"));
    let uses = wait_until("a connection with it", || {
        let body = backend.get("/lab/dictionaries");
        if body[0]["connections"] == 1 { Ok(body) } else { Err(body) }
    });
    assert_eq!(uses[0]["permille"], 100);

    // All, and one of the other encoding in front of it.
    lab_ok(demo.addr, &key, &["serve", &id.to_string()]);
    lab_ok(demo.addr, &key, &["stage", etf_file.to_str().unwrap()]);
    lab_ok(demo.addr, &key, &["serve", &of_etf.id().to_string()]);
    assert_eq!(listed(demo.addr, None), Ok(vec![of_etf.id().to_string(), id.to_string()]));

    // Withdrawn: the running connection goes on, and no other begins.
    lab_ok(demo.addr, &key, &["withdraw", &id.to_string()]);
    assert_eq!(listed(demo.addr, None), Ok(vec![of_etf.id().to_string()]));
    assert_refused(demo.addr, id);
    assert!(ask(demo.addr, "GET", &format!("/dictionaries/{id}"), "", b"").head.contains(" 404 "));
    let channel = demo.channels()[0].clone();
    let path = format!("/api/v10/channels/{channel}/messages");
    for number in 0..5 {
        let content = format!("number {number} after it was withdrawn");
        let sent = demo.client("bot_token").request("POST", &path, Some(&json!({"content": content}))).unwrap();
        assert_eq!(sent.status, 200, "{sent:?}");
        assert_eq!(client.await_payload(0, Some("MESSAGE_CREATE"))["d"]["content"], content);
    }
    drop(client);
    wait_until("no connection with it", || {
        let body = backend.get("/lab/dictionaries");
        let of_json = body.as_array().unwrap().iter().find(|entry| entry["id"] == id.to_string()).unwrap().clone();
        if of_json["connections"] == 0 && of_json["connections_total"] == 1 { Ok(()) } else { Err(of_json) }
    });
    assert_eq!(demo.terminate(), Some(0));

    // Both states outlive a restart.
    let demo = Demo::start(data.path(), &args);
    let mut backend = Backend::root(&demo);
    assert_eq!(listed(demo.addr, None), Ok(vec![of_etf.id().to_string()]));
    assert_refused(demo.addr, id);
    let mut client = Client::connect(demo.addr, &query(of_etf.id(), "etf"), Some(&of_etf));
    client.await_payload(10, None);
    let states: Vec<Value> =
        backend.get("/lab/dictionaries").as_array().unwrap().iter().map(|entry| entry["state"].clone()).collect();
    assert_eq!(states, ["served", "withdrawn"]);
    lab_ok(demo.addr, &key, &["remove", &id.to_string()]);
    let refused = lab(demo.addr, &key, &["remove", &of_etf.id().to_string()]);
    assert!(!refused.status.success() && stderr(&refused).contains("withdraw it first"), "{}", stderr(&refused));
    assert_eq!(backend.get("/lab/dictionaries").as_array().unwrap().len(), 1);
    let audit = backend.get("/audit").to_string();
    assert!(audit.contains("/v1/lab/dictionaries/{dictionary_id}"), "{audit}");
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn a_dictionary_of_the_folder_can_be_withdrawn_and_served_again() {
    let (data, trained) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [(file, dictionary), (_, of_etf)] = files(trained.path(), 3);
    let set = format!("codec.dictionaries_dir={}", trained.path().display());
    let demo = Demo::start(data.path(), &["--members", "2", "--rate", "0", "--set", &set]);
    let key = demo.manifest["admin_key"].as_str().unwrap().to_owned();
    let (id, other) = (dictionary.id().to_string(), of_etf.id().to_string());
    assert_eq!(listed(demo.addr, None).unwrap().len(), 2);
    // Staging it changes nothing: it is there.
    assert!(lab_ok(demo.addr, &key, &["stage", file.to_str().unwrap()]).contains("folder"));
    lab_ok(demo.addr, &key, &["withdraw", &id]);
    assert_eq!(listed(demo.addr, None), Ok(vec![other]));
    assert_refused(demo.addr, dictionary.id());
    lab_ok(demo.addr, &key, &["remove", &id]);
    assert_eq!(listed(demo.addr, None).unwrap().len(), 2);
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn a_file_that_is_no_dictionary_is_refused_with_the_remedy() {
    let (data, trained) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [(file, dictionary), _] = files(trained.path(), 1);
    let demo = Demo::start(data.path(), &["--members", "2", "--rate", "0"]);
    let key = demo.manifest["admin_key"].as_str().unwrap().to_owned();
    let mut backend = Backend::root(&demo);
    let stage = |encoding: &str, bytes: &[u8]| {
        let headers = format!("Authorization: Bearer {key}\r\n");
        let path = format!("/v1/lab/dictionaries?encoding={encoding}");
        let Raw { head, body, .. } = ask(demo.addr, "POST", &path, &headers, bytes);
        let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, String::from_utf8_lossy(&body).into_owned())
    };
    let good = fs::read(&file).unwrap();
    let mut changed = good.clone();
    *changed.last_mut().unwrap() ^= 1;
    let cut = &good[..good.len() / 2];
    for (encoding, bytes, status, because) in [
        ("json", &b"no dictionary"[..], 400, "guildhall lab train"),
        ("json", &[], 400, "guildhall lab train"),
        ("json", &changed, 400, "guildhall lab train"),
        ("json", cut, 400, "guildhall lab train"),
        ("json", &vec![0; (1 << 20) + 1], 413, "1048576"),
        ("xml", &good, 400, "Must be json or etf."),
    ] {
        let (got, body) = stage(encoding, bytes);
        assert!(got == status && body.contains(because), "{encoding}, {} bytes: {got} {body}", bytes.len());
    }
    assert_eq!(stage("json", &good).0, 201);
    assert_eq!(stage("json", &good).0, 200, "again");
    let (status, body) = stage("etf", &good);
    assert!(status == 409 && body.contains("It is there for json"), "{body}");
    let id = dictionary.id();
    for (share, because) in [
        (json!({"permille": 0}), "Must be 1 to 1000."),
        (json!({"permille": 1_001}), "Must be 1 to 1000."),
        (json!({"share": 1}), "no field `share`"),
    ] {
        let answer = backend.request("POST", &format!("/lab/dictionaries/{id}/serve"), Some(share), 400);
        assert!(answer.to_string().contains(because), "{answer}");
    }
    for (method, path) in [("POST", "x/serve"), ("POST", "00112233445566778899aabbccddeeff/withdraw"), ("DELETE", "x")]
    {
        let body = (method == "POST").then(|| json!({}));
        backend.request(method, &format!("/lab/dictionaries/{path}"), body, 404);
    }
    let named = data.path().join("latest");
    fs::copy(&file, &named).unwrap();
    let unnamed = lab(demo.addr, &key, &["stage", named.to_str().unwrap()]);
    assert!(unnamed.status.code() == Some(2) && stderr(&unnamed).contains("give --encoding"), "{}", stderr(&unnamed));
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn two_nodes_follow_one_table() {
    let Some(site) = Site::new() else { return };
    let (first, second) = two(&site);
    let trained = tempfile::tempdir().unwrap();
    let [(file, dictionary), _] = files(trained.path(), 2);
    let (id, key) = (dictionary.id(), first.backend().key);
    lab_ok(first.addr, &key, &["stage", file.to_str().unwrap()]);
    let state_at_second = |expected: &str| {
        wait_until(&format!("{expected} at the other node"), || {
            let body = second.backend().get("/lab/dictionaries");
            if body[0]["state"] == expected { Ok(()) } else { Err(body) }
        });
    };
    state_at_second("staged");
    // A change at the node that did not stage it.
    lab_ok(second.addr, &key, &["serve", &id.to_string()]);
    assert_eq!(listed(second.addr, None), Ok(vec![id.to_string()]));
    wait_until("the dictionary at the first node", || {
        let ids = listed(first.addr, None).unwrap();
        if ids == [id.to_string()] { Ok(()) } else { Err(ids) }
    });
    for node in [&first, &second] {
        Client::connect(node.addr, &query(id, "json"), Some(&dictionary)).await_payload(10, None);
    }
    lab_ok(first.addr, &key, &["withdraw", &id.to_string()]);
    assert_refused(first.addr, id);
    state_at_second("withdrawn");
    assert_refused(second.addr, id);
}
