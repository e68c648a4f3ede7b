//! Test node: a node in this process with accounts, used over sockets: REST and the gateway.
//!
//! Owns        the server, its folder, its accounts; `Client`, a connection to the gateway.
//! Invariants  every answer and every event is checked against upstream's description (`upstream`). One partition, so
//!             all clients receive dispatches in the same order.

use crate::{
    support::{Answer, Http, Wait, connect},
    upstream,
};
use guildhall::{
    assemble::{RunningNode, assemble},
    config::load,
};
use guildhall_codec::Encoding;
use guildhall_guild::{Actor, Command, NewSticker, Reply};
use guildhall_model::{User, UserId};
use guildhall_settings::{Flag, Sources};
use guildhall_ws_proto::{Decoder, Event, Limits, Opcode, Role, append_masked_frame, handshake::ClientHandshake};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// All intents that bots may have.
pub const EVERYTHING: u64 = 53_608_447;

pub struct TestNode {
    runtime: Runtime,
    /// None while it is stopped.
    running: Option<RunningNode>,
    dir: TempDir,
    settings: Settings,
    pub addr: SocketAddr,
}

/// An account, and its requests over REST.
#[derive(Clone)]
pub struct Person {
    pub id: String,
    pub token: String,
    pub addr: SocketAddr,
}

impl Person {
    /// Sends a request; returns the answer with any status.
    #[track_caller]
    pub fn request(&self, method: &str, path: &str, body: Value) -> Answer {
        let body = if body.is_null() { None } else { Some(body) };
        let full_path = format!("/api/v10{path}");
        let answer = Http::new(self.addr, &self.token).request(method, &full_path, body.as_ref());
        let answer = answer.expect("the server answers");
        upstream::check_answer(method, path, answer.status, &answer.body);
        answer
    }

    /// Reads a resource, which must succeed.
    #[track_caller]
    pub fn get(&self, path: &str) -> Value {
        self.done("GET", path, Value::Null)
    }

    #[track_caller]
    pub fn done(&self, method: &str, path: &str, body: Value) -> Value {
        let answer = self.request(method, path, body);
        assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
        answer.body
    }

    /// Sends a request that must be refused, with this status and code.
    #[track_caller]
    pub fn refused(&self, method: &str, path: &str, body: Value, status: u16, code: u64) {
        let answer = self.request(method, path, body);
        assert_eq!((answer.status, answer.body["code"].as_u64()), (status, Some(code)), "{method} {path}: {answer:?}");
    }
}

type Settings = &'static [(&'static str, &'static str)];

fn start(dir: &TempDir, runtime: &Runtime, settings: Settings) -> RunningNode {
    let flag = |setting: &str, value: &str| Flag::new("--test", setting, value);
    let mut flags = vec![
        flag("server.listen", "127.0.0.1:0"),
        flag("server.partitions", "1"),
        flag("store.dir", dir.path().to_str().expect("a path")),
        flag("limits.rest_rate_percent", "0"),
        // A quarter of it is the wait for clients, and the clients of these tests do not leave by themselves.
        flag("server.drain_timeout_ms", "6000"),
    ];
    flags.extend(settings.iter().map(|(setting, value)| flag(setting, value)));
    let loaded = load(&Sources { flags, ..Sources::default() }).expect("the settings are right");
    let running = runtime.block_on(assemble(&loaded.config)).expect("it starts");
    running.set_ready();
    running
}

impl TestNode {
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// With settings that are not the usual ones.
    pub fn with(settings: Settings) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let runtime = Runtime::new().expect("a runtime");
        let running = start(&dir, &runtime, settings);
        let addr = running.local_addr;
        Self { runtime, running: Some(running), dir, settings, addr }
    }

    /// Stops the node and starts it again on the same folder; its address changes, so callers look accounts up again.
    pub fn restart(&mut self) {
        let running = self.running.take().expect("it runs");
        self.runtime.block_on(running.stop());
        let running = start(&self.dir, &self.runtime, self.settings);
        self.addr = running.local_addr;
        self.running = Some(running);
    }

    /// Its data directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The same person, at the address that the node has now.
    pub fn again(&self, person: &Person) -> Person {
        Person { addr: self.addr, ..person.clone() }
    }

    fn account(&self, id: u64, name: &str, bot: bool) -> Person {
        let node = self.running.as_ref().expect("it runs").node.clone();
        let id = UserId::new(id);
        let flags = if bot { User::APPLICATION_PRIVILEGED } else { 0 };
        let user = Arc::new(User { bot, application_flags: flags, ..User::new(id, name) });
        let token = self.runtime.block_on(async {
            node.put_user(user).await.expect("it is stored");
            match bot {
                true => format!("Bot {}", node.mint_bot_token(id).await.expect("it is stored")),
                false => node.mint_user_token(id, 86_400).await.expect("it is made"),
            }
        });
        Person { id: id.to_string(), token, addr: self.addr }
    }

    pub fn user(&self, id: u64, name: &str) -> Person {
        self.account(id, name, false)
    }

    pub fn bot(&self, id: u64, name: &str) -> Person {
        self.account(id, name, true)
    }

    /// A guild of `owner`, with these others in it; its id, and its first channel's.
    pub fn guild(&self, owner: &Person, others: &[&Person]) -> (String, String) {
        let guild = owner.done("POST", "/guilds", json!({"name": "node"}));
        let guild = guild["id"].as_str().expect("an id").to_owned();
        let channel = owner.get(&format!("/guilds/{guild}/channels"))[0]["id"].as_str().expect("an id").to_owned();
        for other in others {
            let path = format!("/guilds/{guild}/members/{}", other.id);
            owner.done("PUT", &path, json!({"access_token": other.token}));
        }
        (guild, channel)
    }

    /// A sticker of `owner`'s guild; its id. Over REST it would come as form data.
    pub fn sticker(&self, guild: &str, owner: &Person, name: &str) -> String {
        let node = self.running.as_ref().expect("it runs").node.clone();
        let new =
            NewSticker { id: None, name: name.to_owned(), description: None, tags: name.to_owned(), format_type: 1 };
        let actor = Actor::User(owner.id.parse().expect("an id"));
        let command = Command::CreateSticker(Box::new(new));
        let made = self.runtime.block_on(node.command(guild.parse().expect("an id"), actor, command));
        match made {
            Ok(Reply::Sticker(sticker)) => sticker.id.to_string(),
            other => panic!("{other:?}"),
        }
    }

    /// Puts an account into a voice channel without a session.
    pub fn in_voice(&self, guild: &str, person: &Person, channel: &str) {
        let node = self.running.as_ref().expect("it runs").node.clone();
        let id = |text: &str| text.parse().expect("an id");
        let user = UserId::new(person.id.parse().expect("an id"));
        let command = Command::ShowVoice(user, Some(id(channel)));
        let guild = guild.parse().expect("an id");
        self.runtime.block_on(node.command(guild, Actor::System, command)).expect("they are a member");
    }

    /// A session that has its READY.
    pub fn connect(&self, person: &Person, intents: u64) -> Client {
        Client::connect(self.addr, person, json!({"intents": intents}))
    }
}

/// A connection to the gateway: JSON, no compression.
pub struct Client {
    stream: TcpStream,
    decoder: Decoder,
    payloads: VecDeque<Value>,
    /// Body of READY.
    pub ready: Value,
    token: String,
    addr: SocketAddr,
    /// The newest `s`.
    seq: u64,
}

impl Client {
    fn open(addr: SocketAddr, token: &str) -> Self {
        let mut stream = connect(addr).expect("it listens");
        let handshake = ClientHandshake::new("test", "/?v=10&encoding=json", [7; 16]);
        stream.write_all(handshake.request()).expect("it reads");
        let (mut answer, mut byte) = (Vec::new(), [0]);
        while !answer.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).expect("it answers");
            answer.push(byte[0]);
        }
        let decoder = Decoder::new(Role::Client, Limits { message_bytes_max: 8 << 20 });
        let token = token.trim_start_matches("Bot ").to_owned();
        Self { stream, decoder, payloads: VecDeque::new(), ready: Value::Null, token, addr, seq: 0 }
    }

    /// Identifies with these fields besides the usual ones, and waits for READY.
    pub fn connect(addr: SocketAddr, person: &Person, fields: Value) -> Self {
        let mut client = Self::open(addr, &person.token);
        client.payload(10);
        let mut identify = json!({"token": client.token, "properties": {}});
        let more = fields.as_object().cloned().unwrap_or_default();
        identify.as_object_mut().expect("an object").extend(more);
        client.send(2, &identify);
        client.ready = client.event("READY");
        client
    }

    /// The newest `s`.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// As `lose`, with nothing received after this `s`.
    pub fn lose_at(self, seq: u64) -> Lost {
        Lost { seq, ..self.lose() }
    }

    /// Loses the connection without a word; `resume` comes back.
    pub fn lose(self) -> Lost {
        let session_id = self.ready["session_id"].as_str().expect("a session").to_owned();
        Lost { addr: self.addr, token: self.token, session_id, seq: self.seq, ready: self.ready }
    }

    pub fn send(&mut self, op: u64, d: &Value) {
        let (mut message, mut frame) = (Vec::new(), Vec::new());
        guildhall_codec::encode_payload_to_gateway(Encoding::Json, op, d, &mut message).expect("it encodes");
        append_masked_frame(Opcode::Text, [1, 2, 3, 4], &message, &mut frame);
        self.stream.write_all(&frame).expect("it reads");
    }

    #[track_caller]
    fn read(&mut self, wait: &Wait) {
        let mut buffer = vec![0; 64 << 10];
        let count = wait.read(&self.stream, &mut buffer);
        assert!(count > 0, "the server went without a close frame, and without {wait}");
        let mut events = self.decoder.handle(&mut buffer[..count]);
        while let Some(event) = events.poll().expect("sound frames") {
            match event {
                Event::Text(text) => {
                    let payload: Value = serde_json::from_str(text).expect("JSON");
                    self.seq = payload["s"].as_u64().unwrap_or(self.seq);
                    upstream::check_event(payload["t"].as_str().unwrap_or_default(), &payload["d"]);
                    self.payloads.push_back(payload);
                }
                Event::Close { code, reason } => panic!("closed: {code:?} {reason}, instead of {wait}"),
                _ => {}
            }
        }
    }

    /// Passes payloads to `take`, until it takes one.
    #[track_caller]
    fn take<T>(&mut self, what: &str, mut take: impl FnMut(Value) -> Result<T, String>) -> T {
        let mut wait = Wait::new(what);
        loop {
            while let Some(payload) = self.payloads.pop_front() {
                match take(payload) {
                    Ok(taken) => return taken,
                    Err(other) => wait.saw(other),
                }
            }
            wait.left();
            self.read(&wait);
        }
    }

    /// The next payload that `is_it`; skips earlier ones, up to a limit.
    #[track_caller]
    pub fn until(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        self.take(what, |payload| if is_it(&payload) { Ok(payload) } else { Err(title(&payload)) })
    }

    #[track_caller]
    fn payload(&mut self, op: u64) -> Value {
        self.until(&format!("op {op}"), |payload| payload["op"] == op)
    }

    /// Body of the next event with that name; skips earlier ones.
    #[track_caller]
    pub fn event(&mut self, name: &str) -> Value {
        self.until(name, |payload| payload["t"] == name)["d"].take()
    }

    /// Waits until an event is there, which the next look finds.
    #[track_caller]
    pub fn await_event(&mut self, name: &str) {
        let wait = Wait::new(name);
        while !self.payloads.iter().any(|payload| payload["t"] == name) {
            wait.left();
            self.read(&wait);
        }
    }

    /// All dispatches so far. Call it only after another client has received a later event.
    #[track_caller]
    pub fn received(&mut self) -> Vec<(String, Value)> {
        self.send(1, &json!(null));
        self.dispatches_until("the answer to a heartbeat", |payload| payload["op"] == 11)
    }

    /// The dispatches before the payload that `is_it`.
    #[track_caller]
    pub fn dispatches_until(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Vec<(String, Value)> {
        let mut dispatches = Vec::new();
        self.take(what, |mut payload| {
            if is_it(&payload) {
                return Ok(());
            }
            let title = title(&payload);
            if let Some(name) = payload["t"].as_str().map(str::to_owned) {
                dispatches.push((name, payload["d"].take()));
            }
            Err(title)
        });
        dispatches
    }

    /// Names of all dispatches so far.
    #[track_caller]
    pub fn names(&mut self) -> Vec<String> {
        self.received().into_iter().map(|(name, _)| name).collect()
    }
}

/// A session without its connection.
pub struct Lost {
    addr: SocketAddr,
    token: String,
    session_id: String,
    seq: u64,
    ready: Value,
}

impl Lost {
    /// Resumes; returns the client and the replayed dispatches.
    #[track_caller]
    pub fn resume(self) -> (Client, Vec<(String, Value)>) {
        let mut client = Client::open(self.addr, &self.token);
        client.payload(10);
        client.ready = self.ready;
        client.send(6, &json!({"token": self.token, "session_id": self.session_id, "seq": self.seq}));
        let replayed = client.dispatches_until("RESUMED", |payload| {
            assert_ne!(payload["op"], 9, "the session can be resumed");
            payload["t"] == "RESUMED"
        });
        (client, replayed)
    }
}

/// Opcode and event of a payload.
fn title(payload: &Value) -> String {
    format!("op {} {}", payload["op"], payload["t"])
}

/// Of these events, the names.
pub fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}
