//! Dictionaries from the command that makes them to a client that reads a stream with one, over real sockets.

use crate::support::{Demo, Raw, Wait, ask, connect, run, stderr};
use guildhall_codec::{Dictionary, DictionaryId, Encoding, StreamDecompressor, decode_etf_from_gateway};
use guildhall_ws_proto::{Decoder, Event, Limits, Role, append_masked_frame, handshake::ClientHandshake};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
};

/// Makes small dictionaries from traffic of `seed`, quickly.
pub fn train(dir: &Path, seed: u64) {
    let seed = seed.to_string();
    let args = ["lab", "train", "--generated", "channel", "--bytes", "8192", "--seed", &seed, "--out"];
    let output = run(args.iter().map(AsRef::as_ref).chain([dir.as_os_str()]));
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 2, "one per encoding");
}

fn demo(data: &Path, dictionaries: &Path, streams: &str) -> Demo {
    let set = format!("codec.dictionaries_dir={}", dictionaries.display());
    let streams = format!("codec.streams={streams}");
    let unlimited = "limits.rest_rate_percent=0";
    Demo::start(data, &["--members", "5", "--rate", "0", "--set", &set, "--set", &streams, "--set", unlimited])
}

/// An answer's headers, in lower case, and its body.
fn get(addr: SocketAddr, path: &str) -> (String, Vec<u8>) {
    let Raw { head, body, .. } = ask(addr, "GET", path, "", b"");
    (head.to_lowercase(), body)
}

/// A client of the gateway; the stream's decoder is libzstd with a dictionary, if it has one.
pub struct Client {
    stream: TcpStream,
    decoder: Decoder,
    inflater: Option<StreamDecompressor>,
    encoding: Encoding,
    payloads: VecDeque<Value>,
    closed: Option<(u16, String)>,
    wire_bytes: usize,
    /// First message of the stream.
    first_message: Vec<u8>,
}

impl Client {
    pub fn connect(addr: SocketAddr, query: &str, dictionary: Option<&Dictionary>) -> Self {
        let mut stream = connect(addr).unwrap();
        let handshake = ClientHandshake::new("test", &format!("/?v=10&{query}"), [7; 16]);
        stream.write_all(handshake.request()).unwrap();
        let (mut answer, mut byte) = (Vec::new(), [0]);
        while handshake.check_answer(&answer).unwrap().is_none() {
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        let zlib = query.contains("zlib-stream").then(|| StreamDecompressor::zlib().unwrap());
        let zstd = || match dictionary {
            // Shared-match streams may look back farther than library contexts: what any client can read.
            Some(dictionary) => StreamDecompressor::zstd_with(23, dictionary).unwrap(),
            None => StreamDecompressor::zstd(23).unwrap(),
        };
        let inflater = zlib.or_else(|| query.contains("zstd-stream").then(zstd));
        let encoding = if query.contains("etf") { Encoding::Etf } else { Encoding::Json };
        let decoder = Decoder::new(Role::Client, Limits { message_bytes_max: 8 << 20 });
        let (payloads, closed, wire_bytes, first_message) = (VecDeque::new(), None, 0, Vec::new());
        Self { stream, decoder, inflater, encoding, payloads, closed, wire_bytes, first_message }
    }

    #[track_caller]
    fn read(&mut self, wait: &Wait) {
        let mut buffer = vec![0; 64 << 10];
        let count = wait.read(&self.stream, &mut buffer);
        assert!(count > 0, "the server went without a close frame, and without {wait}");
        self.wire_bytes += count;
        let mut events = self.decoder.handle(&mut buffer[..count]);
        loop {
            let message = match events.poll() {
                Ok(Some(Event::Binary(bytes))) => bytes.to_vec(),
                Ok(Some(Event::Text(text))) => text.as_bytes().to_vec(),
                Ok(Some(Event::Close { code, reason })) => {
                    self.closed = Some((code.unwrap_or(0), reason.to_owned()));
                    continue;
                }
                Ok(Some(_)) => continue,
                Ok(None) => break,
                Err(error) => panic!("{error}"),
            };
            if self.first_message.is_empty() {
                self.first_message.clone_from(&message);
            }
            let mut payload = Vec::new();
            match &mut self.inflater {
                Some(inflater) => inflater.decompress(&message, &mut payload, 8 << 20).unwrap(),
                None => payload = message,
            }
            self.payloads.push_back(match self.encoding {
                Encoding::Json => serde_json::from_slice(&payload).unwrap(),
                Encoding::Etf => decode_etf_from_gateway(&payload, Default::default()).unwrap(),
            });
        }
    }

    /// The next payload that `is_it`; skips earlier ones.
    #[track_caller]
    pub fn until(&mut self, what: &str, mut is_it: impl FnMut(&Value) -> bool) -> Value {
        let mut wait = Wait::new(what);
        loop {
            while let Some(payload) = self.payloads.pop_front() {
                if is_it(&payload) {
                    return payload;
                }
                wait.saw(format!("op {} {}", payload["op"], payload["t"]));
            }
            assert_eq!(self.closed, None, "instead of {wait}");
            wait.left();
            self.read(&wait);
        }
    }

    /// The next payload of that opcode and name.
    #[track_caller]
    pub fn await_payload(&mut self, op: u64, name: Option<&str>) -> Value {
        self.until(&format!("op {op} {name:?}"), |payload| {
            payload["op"] == op && name.is_none_or(|name| payload["t"] == name)
        })
    }

    /// The dispatches before the next of that name.
    #[track_caller]
    pub fn dispatches_until(&mut self, name: &str) -> Vec<Value> {
        let mut before = Vec::new();
        self.until(name, |payload| {
            let is_it = payload["t"] == name;
            if !is_it && payload["op"] == 0 {
                before.push(payload.clone());
            }
            is_it
        });
        before
    }

    #[track_caller]
    pub fn await_close(&mut self) -> (u16, String) {
        let wait = Wait::new("the end of the connection");
        loop {
            if let Some(closed) = self.closed.take() {
                return closed;
            }
            wait.left();
            self.read(&wait);
        }
    }

    /// Sends a close frame, and leaves.
    pub fn close(mut self, code: u16) {
        let mut frame = Vec::new();
        let opcode = guildhall_ws_proto::Opcode::Close;
        append_masked_frame(opcode, [1, 2, 3, 4], &code.to_be_bytes(), &mut frame);
        self.stream.write_all(&frame).unwrap();
        let wait = Wait::new("the answer to a close frame");
        while self.closed.is_none() {
            self.read(&wait);
        }
    }

    pub fn identify(&mut self, token: &str) {
        let token = token.trim_start_matches("Bot ");
        self.send(2, &json!({"token": token, "intents": 33_281, "properties": {}}));
    }

    pub fn send(&mut self, op: u8, d: &Value) {
        let mut message = Vec::new();
        guildhall_codec::encode_payload_to_gateway(self.encoding, op.into(), d, &mut message).unwrap();
        let opcode = guildhall_ws_proto::Opcode::Binary;
        let mut frame = Vec::new();
        append_masked_frame(opcode, [1, 2, 3, 4], &message, &mut frame);
        self.stream.write_all(&frame).unwrap();
    }
}

/// The node's dictionary for an encoding, fetched and verified.
fn fetch(addr: SocketAddr, encoding: &str) -> Dictionary {
    let (_, body) = get(addr, "/dictionaries");
    let listed: Value = serde_json::from_slice(&body).unwrap();
    let of_encoding = |listed: &&Value| listed["encoding"] == encoding;
    let listed = listed.as_array().unwrap().iter().find(of_encoding).expect("a dictionary for it");
    let (head, bytes) = get(addr, listed["path"].as_str().unwrap());
    assert!(head.contains("cache-control: public, max-age=31536000, immutable"), "{head}");
    let id = listed["id"].as_str().unwrap();
    assert_eq!(DictionaryId::of(&bytes).to_string(), id);
    assert!(head.contains(&format!("etag: \"{id}\"")) && head.contains("repr-digest: sha-256=:"), "{head}");
    Dictionary::new(bytes).unwrap()
}

/// RFC 8878 §3.1.1.1: by the frame's descriptor, a dictionary's number follows the window's size.
fn frame_header(window_log: u8, dictionary: &Dictionary) -> Vec<u8> {
    [&[0x28, 0xb5, 0x2f, 0xfd, 3, (window_log - 10) << 3][..], &dictionary.number().to_le_bytes()].concat()
}

#[test]
fn a_client_that_has_the_dictionary_reads_with_it() {
    reads_with_dictionary("per-connection", 18);
    reads_with_dictionary("shared-match", 21);
}

fn reads_with_dictionary(streams: &str, window_log: u8) {
    let (data, dictionaries) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    train(dictionaries.path(), 1);
    let demo = demo(data.path(), dictionaries.path(), streams);
    let channel = demo.channels()[0].clone();
    let token = demo.manifest["bot_token"].as_str().unwrap().to_owned();
    for encoding in ["json", "etf"] {
        let dictionary = fetch(demo.addr, encoding);
        let query = format!("encoding={encoding}&compress=zstd-stream&dict={}", dictionary.id());
        let mut with = Client::connect(demo.addr, &query, Some(&dictionary));
        let mut without = Client::connect(demo.addr, &format!("encoding={encoding}&compress=zstd-stream"), None);
        for client in [&mut with, &mut without] {
            client.await_payload(10, None);
            client.identify(&token);
            client.await_payload(0, Some("GUILD_CREATE"));
        }
        assert!(with.first_message.starts_with(&frame_header(window_log, &dictionary)), "{streams} {encoding}");
        assert!(with.wire_bytes < without.wire_bytes, "{streams} {encoding}: {} bytes", with.wire_bytes);
        let path = format!("/api/v10/channels/{channel}/messages");
        for n in 0..5 {
            let content = format!("message {n} with äöü and 🔥");
            let sent = demo.client("bot_token").request("POST", &path, Some(&json!({"content": content}))).unwrap();
            assert_eq!(sent.status, 200, "{sent:?}");
            for client in [&mut with, &mut without] {
                let event = client.await_payload(0, Some("MESSAGE_CREATE"));
                assert_eq!(event["d"]["content"], content);
            }
        }
    }
    assert_eq!(demo.terminate(), Some(0));
}

/// The trap: a restarted server with another dictionary under an id that clients have cached. Here the id is a hash of
/// the dictionary, and the refusal of an unknown id names the remedy.
#[test]
fn trap_8_a_dictionary_that_is_gone_is_refused_by_its_id() {
    let (data, dictionaries) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    train(dictionaries.path(), 1);
    let first = demo(data.path(), dictionaries.path(), "shared-match");
    let kept = fetch(first.addr, "json");
    let query = format!("encoding=json&compress=zstd-stream&dict={}", kept.id());
    Client::connect(first.addr, &query, Some(&kept)).await_payload(10, None);
    for (query, word) in [
        (format!("encoding=etf&compress=zstd-stream&dict={}", kept.id()), "another encoding"),
        (format!("encoding=json&compress=zlib-stream&dict={}", kept.id()), "needs compress=zstd-stream"),
        (format!("encoding=json&dict={}", kept.id()), "needs compress=zstd-stream"),
        ("encoding=json&compress=zstd-stream&dict=newest".to_owned(), "no dictionary id"),
    ] {
        let (code, reason) = Client::connect(first.addr, &query, None).await_close();
        assert!(code == 4002 && reason.contains(word) && reason.contains("dict="), "{query}: {code} {reason}");
    }
    assert_eq!(first.terminate(), Some(0));

    let others = tempfile::tempdir().unwrap();
    train(others.path(), 2);
    let second = demo(data.path(), others.path(), "shared-match");
    assert_ne!(fetch(second.addr, "json").id(), kept.id());
    let (code, reason) = Client::connect(second.addr, &query, None).await_close();
    assert!(code == 4002 && reason.contains("this node has not") && reason.contains("GET /dictionaries"), "{reason}");
    assert!(get(second.addr, &format!("/dictionaries/{}", kept.id())).0.starts_with("http/1.1 404"));
    assert_eq!(second.terminate(), Some(0));

    // And a file that holds other bytes than it is named by keeps the node from starting.
    let files: Vec<_> = fs::read_dir(others.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut bytes = fs::read(&files[0]).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&files[0], bytes).unwrap();
    let set = format!("codec.dictionaries_dir={}", others.path().display());
    let output = run(["serve", "--listen", "127.0.0.1:0", "--set", &set]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("was changed"), "{}", stderr(&output));
    let shown = run(["lab".as_ref(), "show".as_ref(), others.path().as_os_str()]);
    assert!(!shown.status.success() && stderr(&shown).contains("was changed"), "{}", stderr(&shown));
}
