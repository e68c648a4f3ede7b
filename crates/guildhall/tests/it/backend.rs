//! The backend API over real sockets: a demo as a process, backends by HTTP, clients by WebSocket.

use crate::{
    dictionary::Client,
    support::{Demo, Http, Wait, connect, run, stderr},
};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    io::Write as _,
    net::{SocketAddr, TcpStream},
};

pub const GUILD: &str = "1200000000000000001";
pub const CHANNEL: &str = "1200000000000000002";
pub const SECRET: &str = "1200000000000000003";
pub const ROLE: &str = "1200000000000000004";
pub const ANA: &str = "1200000000000000011";
pub const BOB: &str = "1200000000000000012";
pub const BOT: &str = "1200000000000000013";

pub fn demo(dir: &tempfile::TempDir) -> Demo {
    Demo::start(dir.path(), &["--members", "3", "--rate", "0"])
}

/// A demo node, and a backend with its root key that has built its guild.
pub fn built(dir: &tempfile::TempDir) -> (Demo, Backend) {
    let demo = demo(dir);
    let mut backend = Backend::root(&demo);
    backend.build();
    (demo, backend)
}

/// A backend with the root key.
pub struct Backend {
    pub http: Http,
    pub addr: SocketAddr,
    pub key: String,
}

impl Backend {
    pub fn root(demo: &Demo) -> Self {
        Self::with(demo.addr, demo.manifest["admin_key"].as_str().unwrap())
    }

    pub fn with(addr: SocketAddr, key: &str) -> Self {
        Self { http: Http::new(addr, &format!("Bearer {key}")), addr, key: key.to_owned() }
    }

    #[track_caller]
    pub fn request(&mut self, method: &str, path: &str, body: Option<Value>, status: u16) -> Value {
        let answer = self.http.request(method, &format!("/v1{path}"), body.as_ref()).unwrap();
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
        answer.body
    }

    #[track_caller]
    pub fn get(&mut self, path: &str) -> Value {
        self.request("GET", path, None, 200)
    }

    #[track_caller]
    pub fn put(&mut self, path: &str, body: Value, status: u16) -> Value {
        self.request("PUT", path, Some(body), status)
    }

    #[track_caller]
    pub fn publish(&mut self, event: Value) -> Value {
        let body = self.request("POST", "/publish", Some(event), 200);
        assert_eq!(body["complete"], true, "{body}");
        body
    }

    /// A stream in one direction at least: the lines of the answer.
    pub fn stream(&self, method: &str, path: &str) -> Stream {
        let mut stream = connect(self.addr).unwrap();
        let body =
            if method == "GET" { "" } else { "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n" };
        write!(stream, "{method} /v1{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n{body}\r\n", self.key)
            .unwrap();
        Stream { stream, is_open: false, bytes: VecDeque::new(), rest: Vec::new() }
    }

    /// A guild with two members and a bot; one channel needs a role that no member has.
    pub(super) fn build(&mut self) {
        for (id, name, bot) in [(ANA, "ana", false), (BOB, "bob", false), (BOT, "helper", true)] {
            self.put(&format!("/users/{id}"), json!({"username": name, "bot": bot, "application_flags": 0}), 201);
        }
        self.put(&format!("/guilds/{GUILD}"), json!({"name": "ours", "owner_id": ANA}), 201);
        for id in [BOB, BOT] {
            self.put(&format!("/guilds/{GUILD}/members/{id}"), json!({}), 201);
        }
        self.put(&format!("/guilds/{GUILD}/roles/{ROLE}"), json!({"name": "staff", "position": 5}), 201);
        self.put(&format!("/guilds/{GUILD}/channels/{CHANNEL}"), json!({"name": "general", "type": 0}), 201);
        let hidden = json!({"name": "secret", "type": 0, "permission_overwrites": [
            {"id": GUILD, "type": 0, "deny": "1024"}, {"id": ROLE, "type": 0, "allow": "1024"}]});
        self.put(&format!("/guilds/{GUILD}/channels/{SECRET}"), hidden, 201);
    }

    pub fn token(&mut self, user_id: &str) -> String {
        let minted = self.request("POST", &format!("/users/{user_id}/tokens"), Some(json!({})), 201);
        minted["token"].as_str().unwrap().to_owned()
    }
}

/// A request that is written, and its answer read, piece by piece.
pub struct Stream {
    stream: TcpStream,
    is_open: bool,
    /// Received bytes that are not parsed yet.
    bytes: VecDeque<u8>,
    /// The beginning of the next line.
    rest: Vec<u8>,
}

impl Stream {
    pub fn write(&mut self, text: &str) {
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.stream.write_all(chunk.as_bytes()).unwrap();
    }

    pub fn end(&mut self) {
        self.stream.write_all(b"0\r\n\r\n").unwrap();
    }

    /// Takes the first `count` received bytes, once they are there.
    #[track_caller]
    fn take(&mut self, count: usize, wait: &Wait) -> Vec<u8> {
        while self.bytes.len() < count {
            let mut buffer = [0; 16 << 10];
            let read = wait.read(&self.stream, &mut buffer);
            assert!(read > 0, "the connection ended instead of {wait}");
            self.bytes.extend(&buffer[..read]);
        }
        self.bytes.drain(..count).collect()
    }

    #[track_caller]
    fn line_of_head(&mut self, wait: &Wait) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            line.extend(self.take(1, wait));
        }
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }

    /// The next line of the answer; none at its end. Empty lines, the stream's keep-alive, do not prolong it.
    #[track_caller]
    pub fn next(&mut self) -> Option<Value> {
        self.next_by(&Wait::new("a line of the answer"))
    }

    #[track_caller]
    fn next_by(&mut self, wait: &Wait) -> Option<Value> {
        if !self.is_open {
            let status = self.line_of_head(wait);
            assert!(status.contains(" 200 "), "{status}");
            while !self.line_of_head(wait).is_empty() {}
            self.is_open = true;
        }
        loop {
            if let Some(at) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=at).collect();
                if line.len() > 1 {
                    return Some(serde_json::from_slice(&line).unwrap());
                }
                continue;
            }
            wait.left();
            let size = usize::from_str_radix(&self.line_of_head(wait), 16).unwrap();
            let chunk = self.take(size + 2, wait);
            if size == 0 {
                assert!(self.rest.is_empty());
                return None;
            }
            self.rest.extend_from_slice(&chunk[..size]);
        }
    }

    /// The next line that `is_it`; skips earlier ones.
    #[track_caller]
    pub fn until(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let mut wait = Wait::new(what);
        loop {
            wait.left();
            match self.next_by(&wait) {
                Some(line) if is_it(&line) => return line,
                Some(line) => wait.saw(line.to_string()),
                None => panic!("the answer ended instead of {wait}"),
            }
        }
    }

    /// The other lines of an answer that ends.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<Value> {
        let (mut wait, mut lines) = (Wait::new("the end of the answer"), Vec::new());
        while let Some(line) = self.next_by(&wait) {
            wait.saw(line.to_string());
            lines.push(line);
            wait.left();
        }
        lines
    }
}

/// A client that has its READY, and as a bot the guild.
#[track_caller]
pub fn client(demo: &Demo, token: &str, query: &str, intents: u32) -> (Client, Value) {
    let mut client = Client::connect(demo.addr, query, None);
    client.await_payload(10, None);
    client.send(2, &json!({"token": token, "intents": intents, "properties": {}}));
    let ready = client.await_payload(0, Some("READY"));
    (client, ready)
}

#[test]
fn a_key_reports_its_scopes() {
    let dir = tempfile::tempdir().unwrap();
    let demo = demo(&dir);
    let none = Http::new(demo.addr, "").get("/v1/guilds").unwrap();
    assert_eq!((none.status, &none.body["code"]), (401, &json!("unauthorized")));
    assert!(none.body["message"].as_str().unwrap().contains("Authorization: Bearer KEY"), "{}", none.body);
    let wrong = Http::new(demo.addr, "Bearer ghk_5_wrong").get("/v1/guilds").unwrap();
    assert_eq!(wrong.status, 401);
    assert!(wrong.body["message"].as_str().unwrap().contains("guildhall key list"), "{}", wrong.body);

    let mut root = Backend::root(&demo);
    let made = root.request("POST", "/keys", Some(json!({"name": "reader", "scopes": ["read", "keys"]})), 201);
    let key = made["key"].as_str().unwrap().to_owned();
    assert!(key.starts_with("ghk_"));
    let mut reader = Backend::with(demo.addr, &key);
    reader.get("/guilds");
    let refused = reader.request("PUT", &format!("/users/{ANA}"), Some(json!({"username": "ana"})), 403);
    assert_eq!(refused["code"], "missing_scope");
    assert!(refused["message"].as_str().unwrap().contains("`write`"), "{refused}");
    reader.request("POST", "/keys", Some(json!({"name": "more", "scopes": ["write"]})), 403);
    reader.request("POST", "/keys", Some(json!({"name": "same", "scopes": ["read"]})), 201);
    assert_eq!(root.get("/keys").as_array().unwrap().len(), 2);
    assert!(!root.get("/keys").to_string().contains(&key[10..]), "nobody tells it again");

    // It survives a restart, and its revocation does too.
    assert_eq!(demo.terminate(), Some(0));
    let demo = self::demo(&dir);
    Backend::with(demo.addr, &key).get("/guilds");
    let id = made["id"].as_str().unwrap();
    Backend::root(&demo).request("DELETE", &format!("/keys/{id}"), None, 204);
    Backend::with(demo.addr, &key).request("GET", "/guilds", None, 401);
    demo.kill();
    let output = run(["key", "list", "--data", dir.path().to_str().unwrap()]);
    let listed = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(
        output.status.success() && listed.contains("same") && !listed.contains("reader"),
        "{listed} {}",
        stderr(&output)
    );
    let output =
        run(["key", "create", "--name", "cli", "--scopes", "read,publish", "--data", dir.path().to_str().unwrap()]);
    let key = String::from_utf8(output.stdout).unwrap();
    let demo = self::demo(&dir);
    let mut cli = Backend::with(demo.addr, key.trim());
    cli.get("/guilds");
    cli.request("GET", "/sessions", None, 403);
}

#[test]
fn a_key_is_not_created_beside_the_database_of_a_node() {
    let dir = tempfile::tempdir().unwrap();
    let create = || run(["key", "create", "--name", "cli", "--scopes", "read", "--data", dir.path().to_str().unwrap()]);
    // As a node with `store.url` leaves it.
    std::fs::write(dir.path().join("guildhall.lock"), "").unwrap();
    let refused = create();
    assert!(!refused.status.success() && refused.stdout.is_empty());
    assert!(stderr(&refused).contains("--config FILE"), "{}", stderr(&refused));
    assert!(!dir.path().join("guildhall.db").exists());
    std::fs::remove_file(dir.path().join("guildhall.lock")).unwrap();
    let listed = run(["key", "list", "--data", dir.path().to_str().unwrap()]);
    assert!(!listed.status.success() && stderr(&listed).contains("has no guildhall.db"), "{}", stderr(&listed));
    assert!(!dir.path().join("guildhall.db").exists());
    assert!(create().status.success(), "before the first start");
}

#[test]
fn objects_have_the_ids_that_the_backend_gave_them() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut backend) = built(&dir);
    // Putting the same object changes nothing; an answer is a valid body.
    let channel = backend.get(&format!("/guilds/{GUILD}/channels/{SECRET}"));
    let mut again = channel.clone();
    for own in ["id", "guild_id", "last_message_id"] {
        again.as_object_mut().unwrap().remove(own);
    }
    assert_eq!(backend.put(&format!("/guilds/{GUILD}/channels/{SECRET}"), again, 200), channel);
    let patched =
        backend.request("PATCH", &format!("/guilds/{GUILD}/channels/{SECRET}"), Some(json!({"topic": "t"})), 200);
    assert_eq!((&patched["topic"], &patched["name"]), (&json!("t"), &json!("secret")));
    let cleared =
        backend.request("PATCH", &format!("/guilds/{GUILD}/channels/{SECRET}"), Some(json!({"topic": null})), 200);
    assert_eq!(cleared, channel);
    let role = backend.request("PATCH", &format!("/guilds/{GUILD}/roles/{ROLE}"), Some(json!({"color": 255})), 200);
    assert_eq!((&role["color"], &role["position"]), (&json!(255), &json!(5)));
    let member = json!({"nick": "bobby", "roles": [ROLE], "joined_at": "2020-01-01T00:00:00Z"});
    let put = backend.put(&format!("/guilds/{GUILD}/members/{BOB}"), member, 200);
    assert_eq!((&put["nick"], &put["user"]["username"]), (&json!("bobby"), &json!("bob")));
    let patched = backend.request("PATCH", &format!("/guilds/{GUILD}/members/{BOB}"), Some(json!({"roles": []})), 200);
    assert_eq!((&patched["nick"], &patched["joined_at"]), (&json!("bobby"), &put["joined_at"]));
    backend.request("PATCH", &format!("/users/{BOB}"), Some(json!({"global_name": "Bob B."})), 200);
    let member = backend.get(&format!("/guilds/{GUILD}/members/{BOB}"));
    assert_eq!(member["user"]["global_name"], "Bob B.", "guilds learn of a changed account");
    assert_eq!(backend.get(&format!("/users/{BOB}/guilds"))["guild_ids"], json!([GUILD]));

    // Every fault is named by its field.
    let fault = |body: &Value, field: &str| {
        let errors = body["errors"].as_array().unwrap();
        assert!(errors.iter().any(|error| error["field"] == field), "{field}: {body}");
    };
    let body = backend.put(
        &format!("/guilds/{GUILD}/channels/{CHANNEL}"),
        json!({"name": "", "type": 0, "user_limit": 10001}),
        400,
    );
    fault(&body, "name");
    fault(&body, "user_limit");
    fault(&backend.put(&format!("/guilds/{GUILD}/roles/{ROLE}"), json!({"name": "x", "colour": 1}), 400), "colour");
    fault(&backend.put(&format!("/guilds/{GUILD}"), json!({"name": "x", "owner_id": "5"}), 400), "owner_id");
    fault(&backend.put(&format!("/guilds/{GUILD}/channels/{CHANNEL}"), json!({"name": "x", "type": 2}), 400), "type");
    fault(&backend.put(&format!("/guilds/{GUILD}/members/{BOB}"), json!({"roles": ["77"]}), 400), "roles");
    fault(&backend.put(&format!("/guilds/{GUILD}/members/{BOB}"), json!({"roles": [ROLE, ROLE]}), 400), "roles[1]");
    fault(&backend.put(&format!("/guilds/{GUILD}/members/{BOB}"), json!({"roles": [GUILD]}), 400), "roles[0]");
    let overwrites = json!([{"id": ROLE, "type": 0, "allow": "1024"}, {"id": "77", "type": 0, "deny": "1024"}]);
    let body = json!({"name": "x", "type": 0, "permission_overwrites": overwrites});
    fault(&backend.put(&format!("/guilds/{GUILD}/channels/{CHANNEL}"), body, 400), "permission_overwrites[1].id");
    fault(&backend.put("/users/9223372036854775807", json!({"username": "far"}), 400), "user_id");
    backend.put(&format!("/guilds/{GUILD}/members/77"), json!({}), 404);
    // An id of a channel is one channel's, over all guilds.
    let other = demo.manifest["guild_id"].as_str().unwrap();
    backend.put(&format!("/guilds/{other}/channels/{CHANNEL}"), json!({"name": "x", "type": 0}), 409);
    backend.request("DELETE", &format!("/guilds/{GUILD}/members/{ANA}"), None, 409);
    backend.request("DELETE", &format!("/users/{ANA}"), None, 409);

    // Put objects survive a crash.
    demo.kill();
    let demo = self::demo(&dir);
    let mut backend = Backend::root(&demo);
    assert_eq!(backend.get(&format!("/guilds/{GUILD}/channels/{SECRET}")), channel);
    assert_eq!(backend.get(&format!("/guilds/{GUILD}"))["member_count"], 3);
    backend.request("DELETE", &format!("/users/{BOB}"), None, 204);
    backend.request("GET", &format!("/guilds/{GUILD}/members/{BOB}"), None, 404);
    for path in [
        format!("/guilds/{GUILD}/channels/{SECRET}"),
        format!("/guilds/{GUILD}/roles/{ROLE}"),
        format!("/guilds/{GUILD}"),
    ] {
        backend.request("DELETE", &path, None, 204);
        backend.request("GET", &path, None, 404);
    }
}

#[test]
fn events_reach_their_audience() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut backend) = built(&dir);
    let bob = backend.token(BOB);
    let bot = backend.token(BOT);
    let (mut bob, _) = client(&demo, &bob, "encoding=json", 0);
    // GUILDS and GUILD_MESSAGES, without MESSAGE_CONTENT.
    let (mut helper, ready) = client(&demo, &bot, "encoding=etf", 1 | 1 << 9);
    helper.await_payload(0, Some("GUILD_CREATE"));

    let d = json!({"round": 1, "big": "12345678901234567890", "nested": {"list": [1, 2.5, null, true, "ä"]}});
    let to_guild = json!({"t": "ROUND_STARTED", "d": d, "audience": {"guild": GUILD}});
    assert_eq!(backend.publish(to_guild.clone())["reached"], 2);
    assert_eq!(bob.await_payload(0, Some("ROUND_STARTED"))["d"], d);
    assert_eq!(helper.await_payload(0, Some("ROUND_STARTED"))["d"], d);

    let event = |t: &str, audience: Value| json!({"t": t, "d": {}, "audience": audience});
    assert_eq!(backend.publish(event("A", json!({"channel": CHANNEL})))["reached"], 2);
    assert_eq!(backend.publish(event("B", json!({"channel": SECRET})))["reached"], 0, "nobody can view it");
    assert_eq!(backend.publish(event("C", json!({"guild": GUILD, "roles": [ROLE]})))["reached"], 0);
    backend.put(&format!("/guilds/{GUILD}/members/{BOB}"), json!({"roles": [ROLE]}), 200);
    assert_eq!(backend.publish(event("D", json!({"guild": GUILD, "roles": [ROLE]})))["reached"], 1);
    assert_eq!(backend.publish(event("E", json!({"channel": SECRET})))["reached"], 1);
    assert_eq!(backend.publish(event("F", json!({"guild": GUILD, "users": [BOB, ANA]})))["reached"], 1);
    assert_eq!(backend.publish(event("G", json!({"users": [BOB, BOT, BOT]})))["reached"], 2);
    assert_eq!(backend.publish(event("H", json!({"users": [ANA]})))["reached"], 0);
    let got: Vec<Value> = (0..5).map(|_| next_single_letter(&mut bob)).collect();
    assert_eq!(got, ["A", "D", "E", "F", "G"]);
    assert_eq!([next_single_letter(&mut helper), next_single_letter(&mut helper)], ["A", "G"]);

    // A message in the backend's words: the bot lacks MESSAGE_CONTENT.
    let message =
        json!({"id": "1", "channel_id": CHANNEL, "content": "secret words", "author": {"id": ANA}, "embeds": []});
    backend.publish(json!({"t": "MESSAGE_CREATE", "d": message, "audience": {"channel": CHANNEL}}));
    assert_eq!(bob.await_payload(0, Some("MESSAGE_CREATE"))["d"]["content"], "secret words");
    let seen = helper.await_payload(0, Some("MESSAGE_CREATE"));
    assert_eq!(seen["d"]["content"], "");
    // An event that takes an intent the bot does not have.
    assert_eq!(backend.publish(event("TYPING_START", json!({"channel": CHANNEL})))["reached"], 0);

    // Disconnects and resumes: events published in between are replayed if they are still visible.
    drop(helper);
    backend.publish(event("MISSED", json!({"guild": GUILD})));
    backend.publish(event("MISSED_TOO", json!({"users": [BOT]})));
    backend.put(&format!("/guilds/{GUILD}/members/{BOT}"), json!({"roles": [ROLE]}), 200);
    backend.publish(event("HIDDEN", json!({"channel": SECRET})));
    backend.put(&format!("/guilds/{GUILD}/members/{BOT}"), json!({"roles": []}), 200);
    let mut helper = Client::connect(demo.addr, "encoding=etf", None);
    helper.await_payload(10, None);
    let session_id = &ready["d"]["session_id"];
    helper.send(6, &json!({"token": bot, "session_id": session_id, "seq": seen["s"]}));
    let replayed = helper.dispatches_until("RESUMED").into_iter().map(|mut payload| payload["t"].take());
    let replayed: Vec<Value> = replayed.filter(|name| name != "GUILD_MEMBER_UPDATE").collect();
    assert_eq!(replayed, ["MISSED", "MISSED_TOO"]);

    // A refusal names the field and the reason.
    let refused = |backend: &mut Backend, event: Value, status: u16, field: &str| {
        let body = backend.request("POST", "/publish", Some(event), status);
        assert!(field.is_empty() || body["errors"][0]["field"] == field, "{field}: {body}");
    };
    refused(&mut backend, event("READY", json!({"guild": GUILD})), 400, "t");
    refused(&mut backend, event("lower", json!({"guild": GUILD})), 400, "t");
    refused(&mut backend, event("X", json!({})), 400, "audience");
    refused(&mut backend, event("X", json!({"roles": [ROLE]})), 400, "audience.guild");
    refused(&mut backend, event("X", json!({"channel": CHANNEL, "users": [BOB]})), 400, "audience");
    refused(&mut backend, event("X", json!({"channel": "77"})), 400, "audience.channel");
    refused(&mut backend, event("X", json!({"guild": "77"})), 400, "audience.guild");
    refused(&mut backend, event("X", json!({"guild": GUILD, "roles": [ROLE, "77"]})), 400, "audience.roles[1]");
    // A channel may come with its guild, which is checked.
    backend.publish(event("X", json!({"guild": GUILD, "channel": CHANNEL})));
    let other = demo.manifest["guild_id"].clone();
    refused(&mut backend, event("X", json!({"guild": other, "channel": CHANNEL})), 400, "audience.channel");
    refused(&mut backend, json!({"t": "X", "audience": {"guild": GUILD}}), 400, "");
}

#[test]
fn events_reach_the_recipients_of_a_direct_message() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut backend) = built(&dir);
    let [ana, bob, bot] = [ANA, BOB, BOT].map(|id| backend.token(id));
    let mut rest = Http::new(demo.addr, &bob);
    let path = "/api/v10/users/@me/channels";
    let direct = rest.request("POST", path, Some(&json!({"recipient_id": BOT}))).unwrap();
    let direct = direct.body["id"].clone();
    let (_ana, _) = client(&demo, &ana, "encoding=json", 0);
    let (mut bob, _) = client(&demo, &bob, "encoding=json", 0);
    // DIRECT_MESSAGES, without MESSAGE_CONTENT.
    let (mut helper, _) = client(&demo, &bot, "encoding=etf", 1 << 12);
    let event = |t: &str| json!({"t": t, "d": {"content": "hi"}, "audience": {"channel": direct}});
    assert_eq!(backend.publish(event("CALLING"))["reached"], 2);
    assert_eq!(backend.publish(event("MESSAGE_CREATE"))["reached"], 2);
    assert_eq!(backend.publish(event("TYPING_START"))["reached"], 1, "the bot lacks the intent");
    for client in [&mut bob, &mut helper] {
        client.await_payload(0, Some("CALLING"));
        assert_eq!(client.await_payload(0, Some("MESSAGE_CREATE"))["d"]["content"], "hi");
    }
}

/// The name of the next event whose name is one letter.
#[track_caller]
fn next_single_letter(client: &mut Client) -> Value {
    let is_it = |payload: &Value| payload["t"].as_str().is_some_and(|name| name.len() == 1);
    client.until("an event with one letter", is_it)["t"].take()
}

#[test]
fn batches_streams_and_keys_of_events() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut backend) = built(&dir);
    let bob = backend.token(BOB);
    let (mut bob, _) = client(&demo, &bob, "encoding=json", 0);
    let event = |n: u32| json!({"t": "TICK", "d": n, "audience": {"guild": GUILD}});
    let mut batch: Vec<Value> = (0..300).map(event).collect();
    batch[7]["audience"] = json!({"guild": "77"});
    let results = backend.request("POST", "/publish", Some(batch.into()), 200);
    let results = results.as_array().unwrap();
    assert_eq!(results.len(), 300);
    assert_eq!((&results[7]["code"], &results[8]["reached"]), (&json!("invalid"), &json!(1)));
    assert_eq!(results[7]["errors"][0]["field"], "audience.guild");
    for n in (0..300).filter(|n| *n != 7) {
        assert_eq!(bob.await_payload(0, Some("TICK"))["d"], n, "in their order");
    }

    let mut stream = backend.stream("POST", "/publish");
    stream.write(&format!("{}\n", event(1000)));
    assert_eq!(stream.next().unwrap()["reached"], 1, "the answer does not wait for the end");
    assert_eq!(bob.await_payload(0, Some("TICK"))["d"], 1000);
    let many: String = (0..2000).map(|n| format!("{}\n", event(n))).collect();
    stream.write(&many);
    stream.write("not json\n");
    stream.end();
    for n in 0..2000 {
        assert_eq!(stream.next().unwrap()["reached"], 1);
        assert_eq!(bob.await_payload(0, Some("TICK"))["d"], n);
    }
    assert_eq!(stream.next().unwrap()["code"], "invalid");
    assert_eq!(stream.next(), None);

    let keyed = |d: u32| json!({"t": "ONCE", "d": d, "audience": {"guild": GUILD}, "key": "order-5"});
    assert_eq!(backend.publish(keyed(1)), json!({"reached": 1, "complete": true, "repeated": false}));
    assert_eq!(backend.publish(keyed(1)), json!({"reached": 1, "complete": true, "repeated": true}));
    backend.request("POST", "/publish", Some(keyed(2)), 409);
    backend.publish(event(9999));
    assert_eq!(bob.await_payload(0, Some("ONCE"))["d"], 1);
    let next = bob.await_payload(0, None);
    assert_eq!(next["d"], 9999, "it came once");
}

/// Progress without its bytes, which no request of these tests announces.
fn without_bytes(mut line: Value) -> Value {
    let fields = line.as_object_mut().unwrap();
    assert!(fields.remove("bytes").is_some_and(|bytes| bytes.as_u64() > Some(0)), "{fields:?}");
    assert_eq!(fields.remove("bytes_total"), Some(Value::Null));
    line
}

/// The last line of an import: line, added, changed, unchanged, failed.
fn progress_line([line, added, changed, unchanged, failed]: [u64; 5]) -> Value {
    json!({"line": line, "added": added, "changed": changed, "unchanged": unchanged, "removed": 0, "failed": failed,
        "dry_run": false, "done": true})
}

#[test]
fn members_and_roles_are_set_in_bulk() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut backend) = built(&dir);
    backend.request("PATCH", &format!("/users/{BOT}"), Some(json!({"application_flags": 1 << 14})), 200);
    let helper = backend.token(BOT);
    let (mut helper, _) = client(&demo, &helper, "encoding=json", 1 | 1 << 1);
    helper.await_payload(0, Some("GUILD_CREATE"));
    let bob = backend.token(BOB);
    let (mut bob, _) = client(&demo, &bob, "encoding=json", 0);

    let role_members = format!("/guilds/{GUILD}/roles/{ROLE}/members");
    let put = backend.put(&role_members, json!({"user_ids": [BOB, ANA]}), 200);
    assert_eq!(put, json!({"changed": 2, "unchanged": 0}));
    for user_id in [BOB, ANA] {
        let event = helper.await_payload(0, Some("GUILD_MEMBER_UPDATE"));
        assert_eq!((&event["d"]["user"]["id"], &event["d"]["roles"]), (&json!(user_id), &json!([ROLE])));
    }
    backend.put(&role_members, json!({"user_ids": ["77"]}), 400);

    // The file has the bot and a new account alone: bob goes, and the owner stays.
    let file = dir.path().join("members.ndjson");
    let bot = json!({"user": {"id": BOT, "username": "helper", "bot": true, "application_flags": 1 << 14}});
    let new = json!({"user": {"external_id": "auth0|mara", "username": "mara"}});
    std::fs::write(&file, format!("{bot}\n{new}\n")).unwrap();
    let key_file = dir.path().join("key");
    std::fs::write(&key_file, &backend.key).unwrap();
    let server = format!("http://{}", demo.addr);
    let remote = ["--server", &server, "--key-file", key_file.to_str().unwrap()];
    backend.request("PATCH", &format!("/guilds/{GUILD}"), Some(json!({"external_id": "a/b"})), 200);
    let import = ["import", file.to_str().unwrap(), "--guild", "ext:a/b", "--replace"];
    let output = run(import.iter().chain(&remote).chain(&["--dry-run"]));
    let printed = stderr(&output);
    let would = "100 %, 2 lines: would be: 1 added, 0 changed, 1 as they were, 1 removed, 0 not taken";
    assert!(output.status.success() && printed.contains(would), "{printed}");
    assert!(printed.contains(&format!("would be: removed: {BOB}")), "{printed}");
    assert_eq!(backend.get(&format!("/guilds/{GUILD}"))["member_count"], 3);

    let output = run(import.iter().chain(&remote));
    let printed = stderr(&output);
    assert!(output.status.success() && printed.contains("1 added, 0 changed, 1 as they were, 1 removed"), "{printed}");
    let event = helper.await_payload(0, Some("GUILD_MEMBER_REMOVE"));
    assert_eq!(event["d"]["user"]["id"], BOB);
    assert_eq!(bob.await_payload(0, Some("GUILD_DELETE"))["d"]["id"], GUILD);
    let members = backend.get(&format!("/guilds/{GUILD}/members"));
    let names = members.as_array().unwrap().iter().map(|member| member["user"]["username"].clone());
    let mut names: Vec<_> = names.collect();
    names.sort_by_key(ToString::to_string);
    assert_eq!(names, ["ana", "helper", "mara"]);

    // All of it is durable, external ids included.
    demo.kill();
    let demo = self::demo(&dir);
    let mut backend = Backend::root(&demo);
    let mara = backend.get("/guilds/ext:a%2Fb/members/ext:auth0%7Cmara");
    assert_eq!(mara["user"]["external_id"], "auth0|mara");
    assert_eq!(backend.get(&format!("/guilds/{GUILD}/members/{ANA}"))["roles"], json!([ROLE]));
}

#[test]
fn accounts_are_erased_over_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut backend) = built(&dir);
    let [helper, bob, ana] = [BOT, BOB, ANA].map(|id| backend.token(id));
    // GUILDS, GUILD_MESSAGES.
    let (mut helper, _) = client(&demo, &helper, "encoding=json", 1 | 1 << 9);
    helper.await_payload(0, Some("GUILD_CREATE"));
    let (mut session, _) = client(&demo, &bob, "encoding=json", 0);
    let messages = format!("/api/v10/channels/{CHANNEL}/messages");
    let say = |token: &str, content: &str| {
        let answer =
            Http::new(demo.addr, token).request("POST", &messages, Some(&json!({"content": content}))).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body["id"].clone()
    };
    let his: Vec<Value> = (0..3).map(|n| say(&bob, &format!("his {n}"))).collect();
    let hers = say(&ana, "hers");
    let job = backend.request("DELETE", &format!("/users/{BOB}?erase=true"), None, 202);
    assert_eq!(session.await_close().0, 4004);
    let event = helper.await_payload(0, Some("MESSAGE_DELETE_BULK"));
    assert_eq!(event["d"]["ids"], json!(his));

    // Another, and the node is killed after its answer.
    crate::support::wait_for("the end of the job", || {
        let job = backend.get(&format!("/jobs/{}", job["id"].as_str().unwrap()));
        (job["state"] == "done").then_some(())
    });
    let second = backend.request("DELETE", &format!("/users/{BOT}?reassign={ANA}"), None, 202);
    demo.kill();
    let demo = self::demo(&dir);
    let mut backend = Backend::root(&demo);
    let done = crate::support::wait_for("the end of the job", || {
        let answer = backend.http.get(&format!("/v1/jobs/{}", second["id"].as_str().unwrap())).unwrap();
        (answer.status == 200 && answer.body["state"] != "running").then_some(answer.body)
    });
    assert_eq!(done["state"], "done", "{done}");
    assert_eq!(backend.get(&format!("/users/{BOT}"))["username"], format!("deleted_{BOT}"));
    let ana = backend.token(ANA);
    let history = Http::new(demo.addr, &ana).get(&messages).unwrap();
    let ids: Vec<_> = history.body.as_array().unwrap().iter().map(|message| message["id"].clone()).collect();
    assert_eq!(ids, [hers]);
}

#[test]
fn members_are_imported_while_the_guild_works() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut backend) = built(&dir);
    let bob = backend.token(BOB);
    let carl = "1200000000000000500";
    backend.put(&format!("/users/{carl}"), json!({"username": "carl"}), 201);
    let carls = backend.token(carl);
    let (_bob, _) = client(&demo, &bob, "encoding=json", 0);
    // Carl is connected, and no member yet.
    let (mut carls, _) = client(&demo, &carls, "encoding=json", 0);

    let path = format!("/guilds/{GUILD}/members/import");
    let mut stream = backend.stream("POST", &path);
    let line = |n: u64| {
        let id = (1_200_000_000_000_000_400 + n).to_string();
        json!({"user": {"id": id, "username": format!("user{n}")}, "roles": [ROLE], "nick": "new"}).to_string() + "\n"
    };
    for from in (0..5_000).step_by(500) {
        stream.write(&(from..from + 500).map(line).collect::<String>());
        // Others are served in between.
        backend.put(&format!("/guilds/{GUILD}/members/{BOB}"), json!({"nick": format!("bob{from}")}), 200);
    }
    stream
        .write("{\"user\": {\"id\": \"5\"}}\n{\"user\": {\"id\": \"6\", \"username\": \"x\"}, \"roles\": [\"77\"]}\n");
    for roles in [[ROLE, ROLE], [ROLE, GUILD]] {
        stream.write(&(json!({"user": {"id": "6", "username": "x"}, "roles": roles}).to_string() + "\n"));
    }
    stream.end();
    let (mut failures, mut progress) = (Vec::new(), Vec::new());
    for line in stream.rest() {
        if line.get("code").is_some() { failures.push(line) } else { progress.push(line) }
    }
    assert_eq!(failures.iter().map(|f| f["line"].as_u64().unwrap()).collect::<Vec<_>>(), [5001, 5002, 5003, 5004]);
    assert_eq!(
        (&failures[0]["errors"][0]["field"], &failures[1]["errors"][0]["field"]),
        (&json!("user.username"), &json!("roles[0]"))
    );
    for twice_or_everyone in &failures[2..] {
        assert_eq!(twice_or_everyone["errors"][0]["field"], "roles[1]");
    }
    let last = progress.last().unwrap().clone();
    assert_eq!(without_bytes(last), progress_line([5004, 5000, 0, 0, 4]));
    assert!(
        progress.len() > 3 && progress.is_sorted_by_key(|p| (p["line"].as_u64(), p["bytes"].as_u64())),
        "{progress:?}"
    );
    assert_eq!(carls.await_payload(0, Some("GUILD_CREATE"))["d"]["id"], GUILD, "connected sessions enter at once");
    assert_eq!(backend.get(&format!("/guilds/{GUILD}"))["member_count"], 5_003);

    // Again, from where it broke off; and what is there already costs nothing.
    let mut stream = backend.stream("POST", &format!("{path}?skip=4000"));
    stream.write(&(0..5_000).map(line).collect::<String>());
    stream.end();
    let last = stream.rest().pop().unwrap();
    assert_eq!(without_bytes(last), progress_line([5000, 0, 0, 1000, 0]));

    demo.kill();
    let demo = self::demo(&dir);
    let mut backend = Backend::root(&demo);
    assert_eq!(backend.get(&format!("/guilds/{GUILD}"))["member_count"], 5_003, "it is durable");
    let page = backend.get(&format!("/guilds/{GUILD}/members?limit=3&after=1200000000000000400"));
    assert_eq!(page[0]["user"]["id"], "1200000000000000401");
    assert_eq!((&page[2]["nick"], &page[2]["roles"]), (&json!("new"), &json!([ROLE])));
}

#[test]
fn tokens_and_sessions_end_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut backend) = built(&dir);
    let mut news = backend.stream("GET", "/sessions/events?after=0");
    let [first, second, bot] = [BOB, BOB, BOT].map(|id| backend.token(id));
    let (mut one, ready) = client(&demo, &first, "encoding=json", 0);
    let (mut two, ready_two) = client(&demo, &second, "encoding=json&compress=zstd-stream", 0);
    let (mut helper, _) = client(&demo, &bot, "encoding=etf", 1);
    helper.await_payload(0, Some("GUILD_CREATE"));

    let listed = backend.get(&format!("/sessions?user_id={BOB}"));
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 2, "{listed}");
    let id = ready["d"]["session_id"].as_str().unwrap();
    let session = backend.get(&format!("/sessions/{id}"));
    let expected =
        json!({"user_id": BOB, "encoding": "json", "compression": "none", "guild_count": 1, "state": "connected"});
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&session[field], value, "{field}: {session}");
    }
    // What writes a stream, and what that costs: for backends, and for its own account.
    let id_two = ready_two["d"]["session_id"].as_str().unwrap();
    let stream = &backend.get(&format!("/sessions/{id_two}"))["stream"];
    assert!(stream["moved"].is_null() && stream["memory_bytes"].as_u64().unwrap() > 600_000, "{stream}");
    let path = format!("/api/v10/users/@me/sessions/{id_two}/stream");
    let own = Http::new(demo.addr, &second).request("GET", &path, None).unwrap();
    assert_eq!((own.status, &own.body["memory_bytes"]), (200, &stream["memory_bytes"]), "{}", own.body);
    assert!(own.body["writer"].as_str().unwrap().starts_with("per-connection"), "{}", own.body);
    for (token, path) in
        [(&format!("Bot {bot}"), path), (&second, format!("/api/v10/users/@me/sessions/{id_two}0/stream"))]
    {
        assert_eq!(Http::new(demo.addr, token).request("GET", &path, None).unwrap().status, 404, "{path}");
    }

    // Pages over all partitions show each once.
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = backend.get(&format!("/sessions?limit=1{after}"));
        seen.extend(page["sessions"].as_array().unwrap().iter().map(|s| s["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 3);

    // One token: its session ends, the other's does not.
    let revoked = backend.request("POST", "/tokens/revoke", Some(json!({"token": first})), 200);
    assert_eq!(revoked, json!({"revoked": 1, "closed": 1}));
    assert_eq!(one.await_close().0, 4004);
    backend.request("POST", "/tokens/revoke", Some(json!({"token": first})), 404);
    let mut again = Client::connect(demo.addr, "encoding=json", None);
    again.await_payload(10, None);
    again.send(2, &json!({"token": first, "intents": 0, "properties": {}}));
    assert_eq!(again.await_close().0, 4004);
    backend.publish(json!({"t": "STILL", "d": 1, "audience": {"users": [BOB]}}));
    two.await_payload(0, Some("STILL"));

    // A bot's, by its id.
    let tokens = backend.get(&format!("/users/{BOT}/tokens"));
    let token_id = tokens[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(backend.request("DELETE", &format!("/users/{BOT}/tokens/{token_id}"), None, 200)["closed"], 1);
    assert_eq!(helper.await_close().0, 4004);
    // All of an account; later ones are good.
    assert_eq!(backend.request("DELETE", &format!("/users/{BOB}/tokens"), None, 200)["closed"], 1);
    assert_eq!(two.await_close().0, 4004);
    let third = backend.token(BOB);
    let (mut three, ready) = client(&demo, &third, "encoding=json", 0);
    let id = ready["d"]["session_id"].as_str().unwrap().to_owned();
    backend.request("DELETE", &format!("/sessions/{id}"), None, 204);
    assert_eq!(three.await_close().0, 4009);
    backend.request("GET", &format!("/sessions/{id}"), None, 404);

    // The events are streamed, numbered from 1.
    let numbered: Vec<(u64, String)> = std::iter::from_fn(|| news.next())
        .map(|line| (line["n"].as_u64().unwrap(), line["event"].as_str().unwrap().to_owned()))
        .take(8)
        .collect();
    let events: Vec<&str> = numbered.iter().map(|(_, event)| event.as_str()).collect();
    assert_eq!(events, ["connected", "connected", "connected", "gone", "gone", "gone", "connected", "gone"]);
    assert!(numbered.iter().map(|(n, _)| *n).eq(1..=8));
    let mut later = backend.stream("GET", "/sessions/events?after=6");
    assert_eq!(later.next().unwrap()["n"], 7);
    let mut restarted = backend.stream("GET", "/sessions/events?after=5000");
    assert_eq!(restarted.next().unwrap()["restarted"], true);

    // Revocations are durable.
    demo.kill();
    let demo = self::demo(&dir);
    for token in [&first, &second, &bot] {
        let mut client = Client::connect(demo.addr, "encoding=json", None);
        client.await_payload(10, None);
        client.send(2, &json!({"token": token, "intents": 0, "properties": {}}));
        assert_eq!(client.await_close().0, 4004);
    }
    let (_, ready) = client(&demo, &third, "encoding=json", 0);
    assert_eq!(ready["d"]["user"]["id"], BOB);
}

#[test]
fn commands_use_the_api_of_a_running_node() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut backend) = built(&dir);
    let bob = backend.token(BOB);
    let (mut bob, _) = client(&demo, &bob, "encoding=json", 0);
    let key_file = dir.path().join("key");
    std::fs::write(&key_file, format!("{}\n", backend.key)).unwrap();
    let server = format!("http://{}", demo.addr);
    let remote = ["--server", &server, "--key-file", key_file.to_str().unwrap()];
    let send_request = |args: &[&str]| run(args.iter().chain(&remote));

    let output = send_request(&["publish", "--event", "ROUND", "--data", "{\"n\":1}", "--guild", GUILD]);
    assert!(output.status.success(), "{}", stderr(&output));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&result["reached"], bob.await_payload(0, Some("ROUND"))["d"]["n"].clone()), (&json!(1), json!(1)));
    let output = send_request(&["publish", "--event", "ROUND", "--guild", "77"]);
    assert!(
        !output.status.success() && stderr(&output).contains("1 of 1 events were not published"),
        "{}",
        stderr(&output)
    );

    let file = dir.path().join("members.ndjson");
    let line =
        |n: u64| format!("{{\"user\":{{\"id\":\"{}\",\"username\":\"user{n}\"}}}}\n", 1_200_000_000_000_000_400 + n);
    std::fs::write(&file, (0..3_000).map(line).collect::<String>()).unwrap();
    let file = file.to_str().unwrap();
    let output = send_request(&["import", file, "--guild", GUILD]);
    assert!(output.status.success() && stderr(&output).contains("3000 lines: 3000 added"), "{}", stderr(&output));
    std::fs::write(file, line(1) + "nonsense\n" + &line(2)).unwrap();
    let output = send_request(&["import", file, "--guild", GUILD]);
    let printed = stderr(&output);
    assert!(
        !output.status.success() && printed.contains("line 2: ") && printed.contains("2 as they were"),
        "{printed}"
    );
    let output = send_request(&["import", file, "--guild", "77"]);
    assert!(!output.status.success() && stderr(&output).contains("There is no such guild"), "{}", stderr(&output));
    std::fs::write(&key_file, "ghk_1_wrong").unwrap();
    let output = send_request(&["import", file, "--guild", GUILD]);
    assert!(!output.status.success() && stderr(&output).contains("This key is not valid"), "{}", stderr(&output));
}
