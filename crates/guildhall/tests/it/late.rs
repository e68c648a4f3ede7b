//! Requests whose body comes late: what happened since their headers counts.

use crate::{
    backend::{ANA, BOB, BOT, Backend, CHANNEL, built},
    support::{Demo, Http, Raw, Wait, connect, wait_until},
};
use serde_json::{Value, json};
use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::Barrier,
    thread,
};

const GO_ON: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A request that the node has admitted, and that has not sent its body.
struct Late {
    stream: TcpStream,
    body: Vec<u8>,
    what: String,
}

impl Late {
    /// Sends the headers. The node sends `100 Continue` when it begins to read: it has checked the token then.
    #[track_caller]
    fn begin(addr: SocketAddr, token: &str, method: &str, path: &str, body: &Value) -> Self {
        Self::with_body(addr, token, method, path, "application/json", body.to_string().into_bytes())
    }

    #[track_caller]
    fn with_body(addr: SocketAddr, token: &str, method: &str, path: &str, kind: &str, body: Vec<u8>) -> Self {
        let mut stream = connect(addr).unwrap();
        let what = format!("{method} {path}");
        write!(
            stream,
            "{what} HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\nConnection: close\r\nExpect: 100-continue\r\n\
             Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .unwrap();
        let mut go_on = [0; GO_ON.len()];
        stream.read_exact(&mut go_on).unwrap();
        assert_eq!(go_on, GO_ON, "{what}: {}", String::from_utf8_lossy(&go_on));
        stream.write_all(&body[..1]).unwrap();
        Self { stream, body, what }
    }

    /// Sends the body, and returns the answer.
    #[track_caller]
    fn end(mut self, status: u16) -> Value {
        self.stream.write_all(&self.body[1..]).unwrap();
        let wait = Wait::new(format!("the answer to {}", self.what));
        let (mut answer, mut buffer) = (Vec::new(), [0; 16 << 10]);
        loop {
            match wait.read(&self.stream, &mut buffer) {
                0 => break,
                count => answer.extend_from_slice(&buffer[..count]),
            }
        }
        let end = answer.windows(4).position(|piece| piece == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        let raw = Raw { status: head[9..12].parse().unwrap(), head, body: answer[end + 4..].to_vec() };
        assert_eq!(raw.status, status, "{}: {}", self.what, raw.text());
        serde_json::from_slice(&raw.body).unwrap_or(Value::Null)
    }
}

/// A change of oneself that has not come whole yet.
#[track_caller]
fn patch(addr: SocketAddr, token: &str, form: &Value) -> Late {
    Late::begin(addr, token, "PATCH", "/api/v10/users/@me", form)
}

const PICTURE: &str = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAAC";

#[test]
fn a_late_change_of_oneself_undoes_no_deletion() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut root) = built(&dir);
    let forms =
        [json!({"global_name": "ghost"}), json!({"username": "ghost", "avatar": PICTURE}), json!({"banner": null})];
    for (n, form) in (2_000_u64..).zip(forms.iter().cycle().take(6)) {
        let is_erased = n % 2 == 1;
        root.put(&format!("/users/{n}"), json!({"username": "mortal", "global_name": "Mortal"}), 201);
        let token = root.token(&n.to_string());
        let late = patch(demo.addr, &token, form);
        if is_erased {
            let job = root.request("DELETE", &format!("/users/{n}?erase=true"), None, 202);
            let path = format!("/jobs/{}", job["id"].as_str().unwrap());
            wait_until("the end of the job", || {
                let job = root.get(&path);
                if job["state"] == "done" { Ok(()) } else { Err(job) }
            });
        } else {
            root.request("DELETE", &format!("/users/{n}"), None, 204);
        }
        late.end(401);
        let user = root.get(&format!("/users/{n}"));
        assert_eq!(user["username"], format!("deleted_{n}"), "{form}: {user}");
        assert_eq!((&user["global_name"], &user["avatar"]), (&Value::Null, &Value::Null), "{user}");
        // Only a PUT makes it an account again.
        root.request("PATCH", &format!("/users/{n}"), Some(json!({"username": "alive"})), 404);
    }
}

#[test]
fn a_late_change_of_oneself_undoes_no_change_by_others() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut root) = built(&dir);
    root.request("PATCH", &format!("/users/{BOT}"), Some(json!({"application_flags": 282_624})), 200);
    let token = format!("Bot {}", root.token(BOT));
    let late = patch(demo.addr, &token, &json!({"global_name": "own"}));
    let lost = json!({"application_flags": 0, "username": "renamed"});
    root.request("PATCH", &format!("/users/{BOT}"), Some(lost), 200);
    let answer = late.end(200);
    assert_eq!((&answer["username"], &answer["global_name"]), (&json!("renamed"), &json!("own")), "{answer}");
    let bot = root.get(&format!("/users/{BOT}"));
    assert_eq!((&bot["application_flags"], &bot["username"]), (&json!(0), &json!("renamed")), "{bot}");
    assert_eq!(bot["global_name"], "own");

    // Two of the account itself, and a whole one by the backend between them.
    let token = root.token(ANA);
    let first = patch(demo.addr, &token, &json!({"username": "ana2"}));
    let second = patch(demo.addr, &token, &json!({"global_name": "Ana", "avatar": PICTURE}));
    root.put(&format!("/users/{ANA}"), json!({"username": "put", "public_flags": 64}), 200);
    second.end(200);
    first.end(200);
    let ana = root.get(&format!("/users/{ANA}"));
    assert_eq!((&ana["username"], &ana["global_name"]), (&json!("ana2"), &json!("Ana")), "{ana}");
    assert_eq!(ana["public_flags"], 64, "{ana}");
    assert!(ana["avatar"].is_string(), "{ana}");
    // Its guild has it as it is now.
    let member = root.get(&format!("/guilds/{}/members/{ANA}", crate::backend::GUILD));
    assert_eq!((&member["user"]["username"], &member["user"]["global_name"]), (&json!("ana2"), &json!("Ana")));
    patch(demo.addr, &token, &json!({"username": format!("deleted_{ANA}")})).end(400);
}

#[test]
fn a_late_body_needs_a_token_that_is_still_good() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut root) = built(&dir);
    let messages = format!("/api/v10/channels/{CHANNEL}/messages");
    let hello = json!({"content": "hello"});
    let file = "--x\r\nContent-Disposition: form-data; name=\"files[0]\"; filename=\"a.txt\"\r\n\r\nabc\r\n--x--\r\n";
    let form_data = |token: &str| {
        let kind = "multipart/form-data; boundary=x";
        Late::with_body(demo.addr, token, "POST", &messages, kind, file.as_bytes().to_vec())
    };
    let guild = json!({"name": "a guild"});
    let token = root.token(BOB);
    let bot = format!("Bot {}", root.token(BOT));
    let late = |token: &str| {
        vec![
            Late::begin(demo.addr, token, "POST", &messages, &hello),
            Late::begin(demo.addr, token, "POST", "/api/v10/guilds", &guild),
            form_data(token),
        ]
    };
    // One token, all of an account, a bot's.
    for revoke in 0..3 {
        let of = if revoke == 2 { bot.clone() } else { token.clone() };
        let (pending, other) = (late(&of), Late::begin(demo.addr, &root.token(ANA), "POST", &messages, &hello));
        let another = root.token(BOB);
        match revoke {
            0 => drop(root.request("POST", "/tokens/revoke", Some(json!({"token": another})), 200)),
            1 => drop(root.request("POST", "/tokens/revoke", Some(json!({"token": token})), 200)),
            _ => drop(root.request("DELETE", &format!("/users/{BOT}/tokens"), None, 200)),
        }
        let expected = if revoke == 0 { [200, 201, 200] } else { [401; 3] };
        for (late, status) in pending.into_iter().zip(expected) {
            late.end(status);
        }
        other.end(200);
    }
    // A deleted account makes no guild.
    root.put("/users/2000", json!({"username": "mortal"}), 201);
    let late = Late::begin(demo.addr, &root.token("2000"), "POST", "/api/v10/guilds", &guild);
    root.request("DELETE", "/users/2000", None, 204);
    late.end(401);
    assert_eq!(root.get("/users/2000/guilds")["guild_ids"], json!([]));
    let mut ana = Http::new(demo.addr, &root.token(ANA));
    let listed = ana.get(&messages).unwrap().body;
    assert_eq!(listed.as_array().unwrap().len(), 5, "three of ana, two of bob: {listed}");
}

#[test]
fn of_changes_at_once_all_count() {
    let dir = tempfile::tempdir().unwrap();
    let demo = Demo::start(dir.path(), &["--members", "3", "--rate", "0", "--set", "limits.rest_rate_percent=0"]);
    let mut root = Backend::root(&demo);
    root.build();
    let path = format!("/v1/users/{BOB}");
    let mut own = Http::new(demo.addr, &root.token(BOB));
    let mut backends = [0, 1].map(|_| Backend::root(&demo).http);
    for round in 0..100 {
        let fields = ["username", "global_name", "discriminator"];
        let values = [format!("bob{round}"), format!("Bob {round}"), format!("{round:04}")];
        let [first, second] = &mut backends;
        let writers = [(first, &*path), (&mut own, "/api/v10/users/@me"), (second, &*path)];
        let barrier = Barrier::new(writers.len());
        thread::scope(|scope| {
            for ((http, path), (field, value)) in writers.into_iter().zip(fields.iter().zip(&values)) {
                let (barrier, form) = (&barrier, json!({*field: value}));
                scope.spawn(move || {
                    barrier.wait();
                    let answer = http.request("PATCH", path, Some(&form)).unwrap();
                    assert_eq!(answer.status, 200, "{answer:?}");
                });
            }
        });
        let user = root.get(&format!("/users/{BOB}"));
        assert_eq!(fields.map(|field| user[field].clone()), values.map(Value::from), "{user}");
    }
}

#[test]
fn jobs_hold_an_account_over_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, mut root) = built(&dir);
    let job = root.request("DELETE", &format!("/users/{BOB}?reassign={ANA}"), None, 202);
    demo.kill();
    let demo = crate::backend::demo(&dir);
    let mut root = Backend::root(&demo);
    let path = format!("/jobs/{}", job["id"].as_str().unwrap());
    wait_until("the end of the job", || {
        let job = root.get(&path);
        if job["state"] == "done" { Ok(()) } else { Err(job) }
    });
    assert_eq!(root.get(&format!("/users/{BOB}"))["username"], format!("deleted_{BOB}"));
    root.put(&format!("/users/{BOB}"), json!({"username": "bob again"}), 200);
    root.token(BOB);
}
