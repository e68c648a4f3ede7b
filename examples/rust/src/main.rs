//! A gateway client: prints every event as one line of JSON, and resumes after a lost connection. See ../README.md.
//!
//! ```sh
//! TOKEN='…' cargo run -- ws://127.0.0.1:8080
//! ```

use std::io::ErrorKind::{TimedOut, WouldBlock};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, thread};

use serde_json::{Value, json};
use tungstenite::{Error, Message, WebSocket, protocol::WebSocketConfig};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

const WINDOW_LOG_MAX: u32 = 21;
const MESSAGE_BYTES_MAX: usize = 64 << 20;
const DICTIONARY_BYTES_MAX: u64 = 1 << 20;
/// GUILDS, GUILD_MESSAGES and MESSAGE_CONTENT.
const INTENTS: u32 = 1 | 1 << 9 | 1 << 15;
/// The node refuses these clients, and would refuse them again.
const FATAL_CODES: [u16; 8] = [4002, 4004, 4010, 4011, 4012, 4013, 4014, 4015];

type Fault = Box<dyn std::error::Error>;

/// Why a connection ended.
enum End {
    /// To be resumed: a lost connection, op 7, or op 9 before a new session.
    Reconnect,
    Closed(u16),
}

/// One session, over as many connections as it takes.
struct Client {
    url: String,
    token: String,
    /// Its id, and its bytes.
    dictionary: Option<(String, Vec<u8>)>,
    session_id: Option<String>,
    resume_url: String,
    seq: Option<u64>,
}

impl Client {
    /// Prints events until the node refuses the client. Returns the code with which it did.
    fn run(&mut self) -> u16 {
        let mut delay = Duration::from_secs(1);
        loop {
            let seq = self.seq;
            match self.run_connection() {
                Ok(End::Closed(code)) if FATAL_CODES.contains(&code) => return code,
                Ok(End::Closed(code)) => eprintln!("client: the connection ended ({code})"),
                Ok(End::Reconnect) => eprintln!("client: the connection ended"),
                Err(fault) => eprintln!("client: the connection ended ({fault})"),
            }
            delay = if self.seq == seq { Duration::from_secs(60).min(2 * delay) } else { Duration::from_secs(1) };
            thread::sleep(delay.mul_f64(rand::random_range(0.5..1.5)));
        }
    }

    fn run_connection(&mut self) -> Result<End, Fault> {
        let url = if self.session_id.is_some() { &self.resume_url } else { &self.url };
        let mut socket = dial(url, self.dictionary.as_ref().map(|(id, _)| id.as_str()))?;
        let mut stream = Stream::new(self.dictionary.as_ref().map(|(_, bytes)| bytes.as_slice()))?;
        let (mut interval, mut is_answered) = (None, true);
        let mut beat_at = Instant::now() + Duration::from_secs(20);
        loop {
            let left = beat_at.saturating_duration_since(Instant::now());
            socket.get_ref().set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            let piece = match socket.read() {
                Ok(Message::Binary(piece)) => piece,
                Ok(Message::Close(Some(frame))) => return Ok(End::Closed(frame.code.into())),
                Ok(_) => continue,
                Err(Error::Io(error)) if [WouldBlock, TimedOut].contains(&error.kind()) => {
                    let Some(interval) = interval else { return Ok(End::Reconnect) };
                    if Instant::now() >= beat_at {
                        if !is_answered {
                            return Ok(End::Reconnect);
                        }
                        send(&mut socket, 1, json!(self.seq))?;
                        (is_answered, beat_at) = (false, Instant::now() + interval);
                    }
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let text = stream.inflate(&piece)?;
            let payload: Value = serde_json::from_slice(text)?;
            let d = &payload["d"];
            match payload["op"].as_u64() {
                // HELLO: beat at its interval, the first time after a random part of it.
                Some(10) => {
                    let every = Duration::from_millis(d["heartbeat_interval"].as_u64().ok_or("HELLO has no interval")?);
                    (interval, beat_at) = (Some(every), Instant::now() + every.mul_f64(rand::random()));
                    self.log_in(&mut socket)?;
                }
                Some(11) => is_answered = true,
                // The node requests a heartbeat.
                Some(1) => send(&mut socket, 1, json!(self.seq))?,
                // Reconnect, and resume.
                Some(7) => return Ok(End::Reconnect),
                // The session has ended: identify again.
                Some(9) => {
                    (self.session_id, self.seq) = (None, None);
                    return Ok(End::Reconnect);
                }
                Some(0) => {
                    self.seq = payload["s"].as_u64();
                    if payload["t"] == "READY" {
                        self.session_id = d["session_id"].as_str().map(str::to_owned);
                        self.resume_url = d["resume_gateway_url"].as_str().unwrap_or(&self.url).to_owned();
                    }
                    println!("{}", str::from_utf8(text)?);
                }
                _ => {}
            }
        }
    }

    fn log_in(&self, socket: &mut WebSocket<TcpStream>) -> Result<(), Error> {
        let token = &self.token;
        match &self.session_id {
            Some(id) => send(socket, 6, json!({"token": token, "session_id": id, "seq": self.seq})),
            None => {
                let properties = json!({"os": env::consts::OS, "browser": "example", "device": ""});
                send(socket, 2, json!({"token": token, "intents": INTENTS, "properties": properties}))
            }
        }
    }
}

/// The zstd stream of one connection.
struct Stream {
    context: DCtx<'static>,
    payload: Vec<u8>,
}

impl Stream {
    fn new(dictionary: Option<&[u8]>) -> Result<Self, Fault> {
        let mut context = DCtx::create();
        let window = context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX));
        let loaded = window.and_then(|_| dictionary.map_or(Ok(0), |bytes| context.load_dictionary(bytes)));
        loaded.map_err(zstd_safe::get_error_name)?;
        Ok(Self { context, payload: Vec::new() })
    }

    /// One message is one piece of the stream, and inflates to one whole payload.
    fn inflate(&mut self, piece: &[u8]) -> Result<&[u8], Fault> {
        self.payload.clear();
        let mut input = InBuffer::around(piece);
        loop {
            self.payload.reserve(DCtx::out_size());
            let written = self.payload.len();
            let mut output = OutBuffer::around_pos(&mut self.payload, written);
            self.context.decompress_stream(&mut output, &mut input).map_err(zstd_safe::get_error_name)?;
            // A full buffer may mean that more is waiting.
            let is_full = output.pos() == output.capacity();
            if input.pos() == piece.len() && !is_full {
                return Ok(&self.payload);
            }
            if self.payload.len() > MESSAGE_BYTES_MAX {
                return Err("a message is too large".into());
            }
        }
    }
}

fn dial(url: &str, dictionary_id: Option<&str>) -> Result<WebSocket<TcpStream>, Fault> {
    let dict = dictionary_id.map(|id| format!("&dict={id}")).unwrap_or_default();
    let address = url.strip_prefix("ws://").ok_or("the address is not ws://HOST:PORT; see tungstenite for TLS")?;
    let socket = TcpStream::connect(address.trim_end_matches('/'))?;
    let config = WebSocketConfig::default().max_message_size(Some(MESSAGE_BYTES_MAX));
    let url = format!("{}/?v=10&encoding=json&compress=zstd-stream{dict}", url.trim_end_matches('/'));
    Ok(tungstenite::client::client_with_config(url, socket, Some(config))?.0)
}

fn send(socket: &mut WebSocket<TcpStream>, op: u8, d: Value) -> Result<(), Error> {
    socket.send(Message::text(json!({"op": op, "d": d}).to_string()))
}

/// A dictionary is named by its content, so a client may keep it for ever.
fn fetch_dictionary(url: &str, id: &str) -> Result<Vec<u8>, Fault> {
    let mut answer = ureq::get(format!("{}/dictionaries/{id}", url.replacen("ws", "http", 1))).call()?;
    Ok(answer.body_mut().with_config().limit(DICTIONARY_BYTES_MAX).read_to_vec()?)
}

fn main() -> Result<ExitCode, Fault> {
    let (Some(url), Ok(token)) = (env::args().nth(1), env::var("TOKEN")) else {
        return Err("usage: TOKEN='…' [DICT=ID] gateway-client ws://HOST:PORT".into());
    };
    let dictionary =
        env::var("DICT").ok().map(|id| fetch_dictionary(&url, &id).map(|bytes| (id, bytes))).transpose()?;
    let code = Client { resume_url: url.clone(), url, token, dictionary, session_id: None, seq: None }.run();
    eprintln!("client: the node refuses this client ({code})");
    Ok(ExitCode::FAILURE)
}
