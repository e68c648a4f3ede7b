//! Files: upload, announcement, download, refusal.

use crate::{
    support::{Demo, Raw, ask, connect, exchange, wait_for, wait_until},
    test_node::{EVERYTHING, Person, TestNode},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use std::{fs, io::Write as _, net::SocketAddr, path::Path, thread, time::Duration};

const NOTHING: Value = Value::Null;

impl Raw {
    fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }

    #[track_caller]
    fn is(&self, status: u16, code: u64) {
        assert_eq!((self.status, self.json()["code"].as_u64()), (status, Some(code)), "{self:?}");
    }
}

pub fn get(addr: SocketAddr, path: &str, headers: &str) -> Raw {
    ask(addr, "GET", path, headers, b"")
}

/// Form data of a request.
#[derive(Default)]
pub struct Form(Vec<u8>);

impl Form {
    pub fn json(payload: &Value) -> Self {
        let head =
            b"--XX\r\nContent-Disposition: form-data; name=\"payload_json\"\r\nContent-Type: application/json\r\n\r\n";
        Self([head, payload.to_string().as_bytes(), b"\r\n"].concat())
    }

    /// A plain field.
    pub fn text(mut self, name: &str, value: &str) -> Self {
        let head = format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        self.0.extend(head.as_bytes());
        self
    }

    pub fn file(mut self, name: &str, filename: &str, content: &[u8]) -> Self {
        let disposition = format!("Content-Disposition: form-data; name=\"{name}\"; filename=\"{filename}\"");
        let head = format!("--XX\r\n{disposition}\r\nContent-Type: application/octet-stream\r\n\r\n");
        self.0.extend([head.as_bytes(), content, b"\r\n"].concat());
        self
    }

    pub fn request(mut self, person: &Person, method: &str, path: &str) -> Vec<u8> {
        self.0.extend(b"--XX--\r\n");
        let token =
            if person.token.is_empty() { String::new() } else { format!("Authorization: {}\r\n", person.token) };
        let head = format!(
            "{method} /api/v10{path} HTTP/1.1\r\nHost: test\r\n{token}Connection: close\r\n\
             Content-Type: multipart/form-data; boundary=XX\r\nContent-Length: {}\r\n\r\n",
            self.0.len()
        );
        [head.as_bytes(), &self.0].concat()
    }

    pub fn send(self, person: &Person, method: &str, path: &str) -> Raw {
        exchange(person.addr, &self.request(person, method, path)).unwrap()
    }
}

/// Path of a file on the node, without its host.
pub fn path_of(attachment: &Value) -> String {
    let url = attachment["url"].as_str().unwrap();
    assert_eq!(attachment["proxy_url"], url);
    url[url.find("/attachments/").unwrap()..].to_owned()
}

/// Bytes that no text holds.
fn noise(len: usize) -> Vec<u8> {
    (0..len as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn png(width: u32, height: u32) -> Vec<u8> {
    [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &width.to_be_bytes(), &height.to_be_bytes(), &[8, 2, 0, 0, 0], &noise(500)]
        .concat()
}

/// Every file of a node, whole or not.
fn stored(node: &TestNode) -> Vec<u64> {
    fn walk(dir: &Path, sizes: &mut Vec<u64>) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => walk(&entry.path(), sizes),
                false => sizes.push(entry.metadata().unwrap().len()),
            }
        }
    }
    let mut sizes = Vec::new();
    walk(&node.dir().join("files"), &mut sizes);
    sizes.sort_unstable();
    sizes
}

#[test]
fn bytes_come_back_as_they_went() {
    let mut node = TestNode::new();
    let (ana, bob) = (node.user(100, "ana"), node.bot(200, "bob"));
    let (_, general) = node.guild(&ana, &[&bob]);
    let messages = format!("/channels/{general}/messages");
    let mut client = node.connect(&bob, EVERYTHING);
    client.event("GUILD_CREATE");

    let (picture, large) = (png(640, 480), noise(3_000_000));
    let payload = json!({
        "content": "look",
        "embeds": [{"title": "attachment://my_picture.png", "image": {"url": "attachment://my_picture.png"}}],
        "attachments": [{"id": 1, "description": "noise"}, {"id": "0", "filename": "my picture.png"}],
    });
    let form = Form::json(&payload).file("files[1]", "a.html", &large).file("files[0]", "x", &picture);
    let sent = form.send(&ana, "POST", &messages);
    assert_eq!(sent.status, 200, "{sent:?}");
    let sent = sent.json();
    let event = client.event("MESSAGE_CREATE");
    assert_eq!((&event["attachments"], &event["embeds"]), (&sent["attachments"], &sent["embeds"]));
    let [first, second] = [&sent["attachments"][0], &sent["attachments"][1]];
    assert_eq!((&first["filename"], &first["content_type"]), (&json!("my_picture.png"), &json!("image/png")));
    assert_eq!((&first["width"], &first["height"], &first["size"]), (&json!(640), &json!(480), &json!(picture.len())));
    assert_eq!((&second["filename"], &second["description"]), (&json!("a.html"), &json!("noise")));
    assert_eq!((second.get("width"), &second["size"]), (None, &json!(3_000_000)));
    assert!(first["url"].as_str().unwrap().starts_with(&format!("http://{}/", node.addr)));
    assert_eq!(
        (&sent["embeds"][0]["image"]["url"], &sent["embeds"][0]["title"]),
        (&first["url"], &payload["embeds"][0]["title"])
    );

    let shown = get(node.addr, &path_of(first), "");
    assert_eq!((shown.status, &shown.body), (200, &picture));
    assert_eq!((shown.header("content-type"), shown.header("content-disposition")), ("image/png", "inline"));
    let download = get(node.addr, &path_of(second), "");
    assert!(download.status == 200 && download.body == large);
    assert_eq!(download.header("content-type"), "application/octet-stream");
    assert_eq!(download.header("content-disposition"), "attachment; filename=\"a.html\"");
    assert_eq!(download.header("x-content-type-options"), "nosniff");
    assert_eq!(download.header("content-security-policy"), "default-src 'none'; sandbox");
    assert!(download.header("cache-control").contains("immutable"));
    let part = get(node.addr, &path_of(second), "Range: bytes=1000-1999\r\n");
    assert_eq!((part.status, &part.body[..]), (206, &large[1000..2000]));
    assert_eq!(get(node.addr, &path_of(second), "Range: bytes=9000000-\r\n").status, 416);

    // Committed is committed; the link is good for the next node, which gives links of its own.
    node.restart();
    let (ana, again) = (node.again(&ana), get(node.addr, &path_of(second), ""));
    assert!(again.status == 200 && again.body == large);
    let read = ana.get(&messages)[0]["attachments"][1].clone();
    assert_eq!((&read["id"], &read["filename"]), (&second["id"], &second["filename"]));
    assert!(read["url"].as_str().unwrap().starts_with(&format!("http://{}/", node.addr)), "{read}");
    assert_eq!(get(node.addr, &path_of(&read), "").status, 200);
    ana.done("DELETE", &format!("{messages}/{}", sent["id"].as_str().unwrap()), NOTHING);
    for gone in [first, second] {
        assert_eq!(get(node.addr, &path_of(gone), "").status, 404, "a deleted message's file");
    }
    assert_eq!(stored(&node).len(), 2);
    node.restart();
    wait_for("the sweep", || stored(&node).is_empty().then_some(()));
}

/// `kill -9` right after the answer, in the middle of another file, and with a file between the folder and the store.
#[test]
fn announced_files_survive_a_kill_and_others_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let demo = Demo::start(dir.path(), &["--members", "5", "--rate", "0"]);
    let general = demo.channels()[0].clone();
    let messages = format!("/channels/{general}/messages");
    let token = demo.manifest["bot_token"].as_str().unwrap();
    let bot = Person { id: String::new(), token: format!("Bot {}", token.trim_start_matches("Bot ")), addr: demo.addr };
    let content = noise(700_000);
    let sent = Form::default().file("files[0]", "a", &content).send(&bot, "POST", &messages).json();
    let half = Form::default().file("files[0]", "b", &content).request(&bot, "POST", &messages);
    let mut stream = connect(demo.addr).unwrap();
    stream.write_all(&half[..600_000]).unwrap();
    let (files, lost) = (dir.path().join("files"), dir.path().join(format!("files/{general}/77")));
    wait_for("half a file", || fs::read_dir(files.join("incoming")).unwrap().next().map(drop));
    fs::write(&lost, b"of no message").unwrap();
    demo.kill();
    let demo = Demo::start(dir.path(), &["--members", "5", "--rate", "0"]);
    let found = get(demo.addr, &path_of(&sent["attachments"][0]), "");
    assert!(found.status == 200 && found.body == content);
    assert_eq!(fs::read_dir(files.join("incoming")).unwrap().count(), 0);
    wait_for("the sweep", || (!lost.exists()).then_some(()));
    assert_eq!(get(demo.addr, &path_of(&sent["attachments"][0]), "").status, 200);
}

/// As many at once as one account may send.
#[test]
fn many_large_files_take_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let demo = Demo::start(dir.path(), &["--members", "5", "--rate", "0"]);
    let messages = format!("/channels/{}/messages", demo.channels()[0]);
    let token = demo.manifest["bot_token"].as_str().unwrap();
    let bot = Person { id: String::new(), token: format!("Bot {}", token.trim_start_matches("Bot ")), addr: demo.addr };
    let content = noise(20_000_000);
    let request = Form::default().file("files[0]", "a", &content).request(&bot, "POST", &messages);
    let before = demo.process.resident_bytes();
    let (peak, statuses) = thread::scope(|scope| {
        let uploads: Vec<_> = (0..4).map(|_| scope.spawn(|| exchange(demo.addr, &request).unwrap().status)).collect();
        let mut peak = before;
        while uploads.iter().any(|upload| !upload.is_finished()) {
            peak = peak.max(demo.process.resident_bytes());
            thread::sleep(Duration::from_millis(5));
        }
        (peak, uploads.into_iter().map(|upload| upload.join().unwrap()).collect::<Vec<_>>())
    });
    assert_eq!(statuses, [200; 4]);
    let grown = (peak - before) >> 20;
    assert!(grown < 40, "{grown} MiB for 80 MB of files");
}

#[test]
fn files_are_readable_only_by_their_links() {
    let node = TestNode::new();
    let ana = node.user(100, "ana");
    let (_, general) = node.guild(&ana, &[]);
    let sent = Form::default().file("files[0]", "a.txt", b"secret").send(
        &ana,
        "POST",
        &format!("/channels/{general}/messages"),
    );
    let attachment = &sent.json()["attachments"][0];
    assert_eq!(attachment["content_type"], "text/plain; charset=utf-8");
    let path = path_of(attachment);
    let (plain, query) = path.split_once('?').unwrap();
    let (times, mark) = query.split_once("&hm=").unwrap();
    let found = get(node.addr, &path, "");
    assert_eq!((found.status, &found.body[..]), (200, &b"secret"[..]));
    let folder = plain.strip_suffix("/a.txt").unwrap();
    let id = attachment["id"].as_str().unwrap();
    for wrong in [
        plain.to_owned(),
        format!("{plain}?hm={mark}"),
        format!("{plain}?{times}&hm="),
        format!("{plain}?{times}&hm={}", &mark[..31]),
        format!("{plain}x?{query}"),
        format!("{folder}/b.txt?{query}"),
        format!("{folder}/../../../guildhall.db?{query}"),
        format!("{folder}/..%2f..%2f..%2fguildhall.db?{query}"),
        format!("/attachments/..%2f/{id}/a.txt?{query}"),
        format!("/attachments/incoming/0/a.txt?{query}"),
        format!("/attachments/{general}/{}/a.txt?{query}", id.parse::<u64>().unwrap() + 1),
    ] {
        assert_eq!(get(node.addr, &wrong, "").status, 404, "{wrong}");
    }
}

#[test]
fn edits_keep_named_files_and_add_new_ones() {
    let mut node = TestNode::new();
    let (ana, bob) = (node.user(100, "ana"), node.user(101, "bob"));
    let (_, general) = node.guild(&ana, &[&bob]);
    let messages = format!("/channels/{general}/messages");
    let sent =
        Form::default().file("file", "a.txt", b"a").file("file2", "b.txt", b"bb").send(&ana, "POST", &messages).json();
    let names = |message: &Value| -> Vec<String> {
        message["attachments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|of| of["filename"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&sent), ["a.txt", "b.txt"]);
    let path = format!("{messages}/{}", sent["id"].as_str().unwrap());
    Form::default().file("files[0]", "c.txt", b"ccc").send(&bob, "PATCH", &path).is(403, 50005);
    let dropped = path_of(&sent["attachments"][0]);
    let payload = json!({"attachments": [sent["attachments"][1], {"id": 0, "description": "new"}]});
    let edited = Form::json(&payload).file("files[0]", "c.txt", b"ccc").send(&ana, "PATCH", &path).json();
    assert_eq!(names(&edited), ["b.txt", "c.txt"]);
    assert_eq!(
        (&edited["attachments"][0], &edited["attachments"][1]["description"]),
        (&sent["attachments"][1], &json!("new"))
    );
    assert_eq!(get(node.addr, &dropped, "").status, 404);
    // Without a list all stay; ten are the most.
    let more = Form::default().file("files[0]", "d.txt", b"dddd").send(&ana, "PATCH", &path).json();
    assert_eq!(names(&more), ["b.txt", "c.txt", "d.txt"]);
    let many = (0..8).fold(Form::default(), |form, n| form.file(&format!("files[{n}]"), "e", b"e"));
    many.send(&ana, "PATCH", &path).is(400, 50035);
    assert_eq!(get(node.addr, &path_of(&more["attachments"][2]), "").body, b"dddd");
    node.restart();
    wait_until("the sweep", || if stored(&node) == [2, 3, 4] { Ok(()) } else { Err(stored(&node)) });
}

#[test]
fn webhooks_posts_and_direct_messages_have_files() {
    let node = TestNode::new();
    let (ana, bob) = (node.user(100, "ana"), node.user(101, "bob"));
    let (guild, general) = node.guild(&ana, &[&bob]);
    let hook = ana.done("POST", &format!("/channels/{general}/webhooks"), json!({"name": "hook"}));
    let by_token = format!("/webhooks/{}/{}", hook["id"].as_str().unwrap(), hook["token"].as_str().unwrap());
    let anybody = Person { id: String::new(), token: String::new(), addr: node.addr };
    let posted =
        Form::default().file("files[0]", "hook.txt", b"hook").send(&anybody, "POST", &format!("{by_token}?wait=true"));
    assert_eq!(get(node.addr, &path_of(&posted.json()["attachments"][0]), "").body, b"hook");
    let wrong = Form::default().file("files[0]", "hook.txt", b"hook").send(&anybody, "POST", &format!("{by_token}x"));
    wrong.is(401, 50027);

    let forum = ana.done("POST", &format!("/guilds/{guild}/channels"), json!({"name": "forum", "type": 15}));
    let forum = forum["id"].as_str().unwrap();
    let payload = json!({"name": "post", "message": {"content": "first"}});
    let opened = Form::json(&payload).file("files[0]", "post.txt", b"post").send(
        &ana,
        "POST",
        &format!("/channels/{forum}/threads"),
    );
    let thread = opened.json()["id"].as_str().unwrap().to_owned();
    let first = &ana.get(&format!("/channels/{thread}/messages"))[0];
    assert_eq!(get(node.addr, &path_of(&first["attachments"][0]), "").body, b"post");

    let direct = ana.done("POST", "/users/@me/channels", json!({"recipient_id": bob.id}));
    let direct = format!("/channels/{}/messages", direct["id"].as_str().unwrap());
    let sent = Form::default().file("files[0]", "dm.txt", b"dm").send(&bob, "POST", &direct);
    assert_eq!(get(node.addr, &path_of(&sent.json()["attachments"][0]), "").body, b"dm");
    ana.done("DELETE", &format!("/channels/{general}"), NOTHING);
    assert_eq!(get(node.addr, &path_of(&posted.json()["attachments"][0]), "").status, 404, "its channel is gone");
}

#[test]
fn a_repeated_request_leaves_no_file() {
    let node = TestNode::new();
    let ana = node.user(100, "ana");
    let (_, general) = node.guild(&ana, &[]);
    let messages = format!("/channels/{general}/messages");
    let send = || {
        let payload = json!({"nonce": "once", "enforce_nonce": true});
        Form::json(&payload).file("files[0]", "a.txt", b"bytes").send(&ana, "POST", &messages).json()
    };
    let (first, second) = (send(), send());
    assert_eq!((&first["id"], &first["attachments"]), (&second["id"], &second["attachments"]));
    assert_eq!(stored(&node), [5]);
}

#[test]
fn an_upload_without_permission_writes_no_file() {
    let node = TestNode::new();
    let (ana, bob, eve) = (node.user(100, "ana"), node.user(101, "bob"), node.user(102, "eve"));
    let (guild, general) = node.guild(&ana, &[&bob]);
    let messages = format!("/channels/{general}/messages");
    // ATTACH_FILES.
    ana.done("PUT", &format!("/channels/{general}/permissions/{guild}"), json!({"type": 0, "deny": "32768"}));
    // Larger than what sockets buffer: the refusal has to be read all the same.
    let large = noise(8_000_000);
    let upload = |person: &Person| {
        Form::json(&json!({"content": "x"})).file("files[0]", "a", &large).send(person, "POST", &messages)
    };
    upload(&bob).is(403, 50013);
    upload(&eve).is(403, 50001);
    let stranger = Person { token: "Bot nobody".to_owned(), ..bob.clone() };
    if let Some(answer) =
        exchange(node.addr, &Form::default().file("files[0]", "a", b"a").request(&stranger, "POST", &messages))
    {
        answer.is(401, 0);
    }
    assert!(stored(&node).is_empty());
    assert_eq!(Form::json(&json!({"content": "no file"})).send(&bob, "POST", &messages).status, 200);
    // SEND_MESSAGES.
    ana.done("PUT", &format!("/channels/{general}/permissions/{guild}"), json!({"type": 0, "deny": "2048"}));
    upload(&bob).is(403, 50013);
    assert!(stored(&node).is_empty());
}

/// Libraries retry after the delay in an answer, so that every refusal needs an answer.
#[test]
fn a_rate_limited_upload_has_retry_after() {
    let node = TestNode::with(&[("limits.rest_rate_percent", "100")]);
    let ana = node.user(100, "ana");
    let (_, general) = node.guild(&ana, &[]);
    let (messages, large) = (format!("/channels/{general}/messages"), noise(8_000_000));
    let mut answers = (0..6).map(|_| Form::default().file("files[0]", "a", &large).send(&ana, "POST", &messages));
    let refused = answers.find(|answer| answer.status != 200).expect("five per five seconds");
    assert_eq!(refused.status, 429);
    assert_ne!(refused.header("retry-after"), "");
}

/// A client that sends a large form to its end before it reads: a proxy, and most libraries.
#[test]
fn a_form_that_is_too_large_is_answered_and_not_reset() {
    let node = TestNode::with(&[("limits.rest_rate_percent", "0")]);
    let ana = node.user(100, "ana");
    let body = format!("{{\"avatar\": \"{}\"}}", "x".repeat(12 << 20));
    let request = |path: &str, token: &str| {
        let headers = format!("Authorization: {token}\r\nContent-Type: application/json\r\n");
        ask(node.addr, "PATCH", &format!("/api/v10{path}"), &headers, body.as_bytes())
    };
    for _ in 0..8 {
        request("/users/@me", &ana.token).is(413, 40005);
        request("/channels/77", &ana.token).is(404, 10003);
    }
}

#[test]
fn a_picture_may_have_four_mebibytes() {
    let node = TestNode::new();
    let ana = node.user(100, "ana");
    let picture = |bytes: usize| [b"\x89PNG\r\n\x1a\n".to_vec(), noise(bytes - 8)].concat();
    let form = |bytes: &[u8]| json!({"avatar": format!("data:image/png;base64,{}", STANDARD.encode(bytes))});
    ana.refused("PATCH", "/users/@me", form(&picture((4 << 20) + 1)), 400, 50035);
    let large = picture(4 << 20);
    let avatar = ana.done("PATCH", "/users/@me", form(&large))["avatar"].as_str().unwrap().to_owned();
    assert_eq!(get(node.addr, &format!("/avatars/100/{avatar}.png"), "").body, large);
}

#[test]
fn hostile_forms_leave_nothing() {
    let node = TestNode::with(&[
        ("uploads.file_bytes_max", "1000000"),
        ("uploads.bytes_max", "3000000"),
        ("uploads.account_day_percent", "100"),
        ("uploads.guild_percent", "100"),
    ]);
    let ana = node.user(100, "ana");
    let (_, general) = node.guild(&ana, &[]);
    let messages = format!("/channels/{general}/messages");
    let many = |count: usize| (0..count).fold(Form::default(), |form, n| form.file(&format!("files[{n}]"), "a", b"x"));
    many(11).send(&ana, "POST", &messages).is(400, 50035);
    many(1000).send(&ana, "POST", &messages).is(413, 40005);
    Form::default().file("files[0]", "a", &noise(1_000_001)).send(&ana, "POST", &messages).is(413, 40005);
    Form::default()
        .file("files[3]", "a", b"x")
        .file("files[3]", "b", b"y")
        .send(&ana, "POST", &messages)
        .is(400, 50035);
    let unknown = json!({"attachments": [{"id": 5, "filename": "a"}]});
    Form::json(&unknown).file("files[0]", "a", b"x").send(&ana, "POST", &messages).is(400, 50035);
    Form::json(&json!({"content": "x".repeat(2001)}))
        .file("files[0]", "a", b"x")
        .send(&ana, "POST", &messages)
        .is(400, 50035);
    // Together they have no room.
    let three = (0..4).fold(Form::default(), |form, n| form.file(&format!("files[{n}]"), "a", &noise(900_000)));
    three.send(&ana, "POST", &messages).is(507, 0);
    // Past the size of a request, announced.
    let head = format!(
        "POST /api/v10{messages} HTTP/1.1\r\nHost: test\r\nAuthorization: {}\r\nConnection: close\r\n\
         Content-Type: multipart/form-data; boundary=XX\r\nContent-Length: 26214401\r\n\r\n",
        ana.token
    );
    exchange(node.addr, head.as_bytes()).unwrap().is(413, 40005);
    // Cut anywhere.
    let whole =
        Form::json(&json!({"content": "x"})).file("files[0]", "a", &noise(600_000)).request(&ana, "POST", &messages);
    for cut in [whole.len() - 1000, whole.len() - 300_000, whole.len() - 600_000] {
        let mut stream = connect(node.addr).unwrap();
        stream.write_all(&whole[..cut]).unwrap();
        if cut > 100_000 {
            wait_for("the beginning", || stored(&node).iter().any(|bytes| *bytes > 0).then_some(()));
        }
        drop(stream);
    }
    wait_until("all of it to go", || if stored(&node).is_empty() { Ok(()) } else { Err(stored(&node)) });
    assert_eq!(ana.get(&messages), json!([]));
    // And none of it counts.
    let three =
        (0..3).fold(Form::default(), |form, n| form.file(&format!("files[{n}]"), "../../a\"; x=\"", &noise(900_000)));
    let sent = three.send(&ana, "POST", &messages).json();
    assert_eq!(sent["attachments"][0]["filename"], "a");
    Form::default().file("files[0]", "a", &noise(400_000)).send(&ana, "POST", &messages).is(507, 0);
    ana.done("POST", &messages, json!({"content": "words need no room"}));
}

#[test]
fn files_can_be_switched_off() {
    let node = TestNode::with(&[("uploads.mode", "off")]);
    let ana = node.user(100, "ana");
    let (_, general) = node.guild(&ana, &[]);
    let messages = format!("/channels/{general}/messages");
    let refused = Form::default().file("files[0]", "a", b"x").send(&ana, "POST", &messages);
    refused.is(400, 50035);
    assert_eq!(
        refused.json()["errors"]["attachments"]["_errors"][0]["message"],
        "This server does not store attachments."
    );
    assert_eq!(get(node.addr, "/attachments/1/2/a?hm=0", "").status, 404);
    assert!(!node.dir().join("files").exists());
}

/// The links that `POST /attachments/refresh-urls` gives for these.
fn refreshed(person: &Person, urls: &[&str]) -> Vec<Value> {
    let answer = person.done("POST", "/attachments/refresh-urls", json!({"attachment_urls": urls}));
    let list = answer["refreshed_urls"].as_array().unwrap();
    assert_eq!(list.iter().map(|entry| &entry["original"]).collect::<Vec<_>>(), urls);
    list.iter().map(|entry| entry["refreshed"].clone()).collect()
}

fn status_of(node: &TestNode, url: &Value) -> u16 {
    get(node.addr, &path_of(&json!({"url": url, "proxy_url": url})), "").status
}

#[test]
fn s21_7_links_expire_and_members_get_new_ones() {
    let node = TestNode::with(&[("uploads.links_expire_s", "3")]);
    let (ana, bob) = (node.bot(100, "ana"), node.user(101, "bob"));
    let (guild, general) = node.guild(&ana, &[&bob]);
    let messages = format!("/channels/{general}/messages");
    let payload = json!({"content": "look", "embeds": [{"title": "t", "image": {"url": "attachment://a.png"}}]});
    let sent = Form::json(&payload).file("files[0]", "a.png", &png(4, 4)).send(&ana, "POST", &messages).json();
    let old = sent["attachments"][0]["url"].clone();
    assert_eq!(status_of(&node, &old), 200);
    wait_for("the end of the link", || (status_of(&node, &old) == 404).then_some(()));
    let path = path_of(&sent["attachments"][0]);
    let expired = get(node.addr, &path, "").json();
    assert!(expired["message"].as_str().unwrap().contains("/attachments/refresh-urls"), "{expired}");

    // A reader of the message gets a link that is in force, in its embeds too.
    let read = bob.get(&messages)[0].clone();
    assert_ne!(read["attachments"][0]["url"], old);
    assert_eq!(status_of(&node, &read["attachments"][0]["url"]), 200);
    assert_eq!(read["embeds"][0]["image"]["url"], read["attachments"][0]["url"]);
    // Events of old messages, and replies to them, have such links as well.
    let mut client = node.connect(&ana, EVERYTHING);
    client.event("GUILD_CREATE");
    let message = format!("{messages}/{}", sent["id"].as_str().unwrap());
    let edited = ana.done("PATCH", &message, json!({"content": "look again"}));
    assert_eq!(status_of(&node, &edited["attachments"][0]["url"]), 200);
    assert_eq!(status_of(&node, &client.event("MESSAGE_UPDATE")["attachments"][0]["url"]), 200);
    ana.done("POST", &messages, json!({"content": "this", "message_reference": {"message_id": sent["id"]}}));
    let event = client.event("MESSAGE_CREATE");
    assert_eq!(status_of(&node, &event["referenced_message"]["attachments"][0]["url"]), 200);

    // The route renews signed links, for members who may read the channel.
    let old = old.as_str().unwrap();
    let forged = old.replace("hm=", "hm=0");
    let list = refreshed(&bob, &[old, &forged, "https://example.net/a.png", old.split('?').next().unwrap()]);
    assert_eq!(status_of(&node, &list[0]), 200);
    assert_eq!(list[1..], [NOTHING, NOTHING, NOTHING]);
    let stranger = node.user(102, "cleo");
    assert_eq!(refreshed(&stranger, &[old]), [NOTHING]);
    ana.done("DELETE", &format!("/guilds/{guild}/members/{}", bob.id), NOTHING);
    assert_eq!(refreshed(&bob, &[old]), [NOTHING], "a kicked member keeps nothing");
    bob.refused("POST", "/attachments/refresh-urls", json!({"attachment_urls": []}), 400, 50035);
    // A link in an embed of another message stays expired.
    let theirs = node.guild(&stranger, &[]).1;
    let embed = json!({"embeds": [{"title": "t", "image": {"url": old}}]});
    stranger.done("POST", &format!("/channels/{theirs}/messages"), embed);
    let kept = stranger.get(&format!("/channels/{theirs}/messages"))[0]["embeds"][0]["image"]["url"].clone();
    assert_eq!((kept.as_str(), status_of(&node, &kept)), (Some(old), 404));
}

#[test]
fn s21_7_links_may_last_as_long_as_their_message() {
    let node = TestNode::with(&[("uploads.links_expire_s", "0")]);
    let ana = node.user(100, "ana");
    let (_, general) = node.guild(&ana, &[]);
    let messages = format!("/channels/{general}/messages");
    let sent = Form::default().file("files[0]", "a.txt", b"a").send(&ana, "POST", &messages).json();
    let url = sent["attachments"][0]["url"].as_str().unwrap();
    assert!(url.contains("/a.txt?hm=") && !url.contains("ex="), "{url}");
    assert_eq!(refreshed(&ana, &[url]), [json!(url)]);
    assert!(get(node.addr, &path_of(&sent["attachments"][0]), "").header("cache-control").contains("max-age=31536000"));
}
