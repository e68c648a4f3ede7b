//! A client with one mistake.

use anyhow::{Context as _, Result, bail, ensure};
use guildhall_codec::{DecodeLimits, Encoding, StreamDecompressor, decode_etf_from_gateway, encode_payload_to_gateway};
use guildhall_rehearsal::Compression;
use guildhall_ws_proto::{
    Decoder, Event, Limits, Opcode, Role, append_masked_frame, close_frame, handshake::ClientHandshake,
};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep, sleep_until, timeout},
};

/// Mistake of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    Nothing,
    NoHeartbeat,
    IgnoresOp1,
    ClosesWith1000,
    NeverResumes,
    AlwaysResumes,
    IdentifiesTwice,
    GivesUp,
    ReconnectsAlways,
    IgnoresLostAcks,
    ResumesAtFirstUrl,
    ForgetsSeq,
    CountsContiguous,
    CountsAll,
    StopsAtUnknown,
    OneFramePerRead,
    NoFragments,
    NoPartialFrames,
    NoPartialMessages,
    Impatient,
    ImpatientWithRest,
    SmallMessages,
    /// Its connection breaks behind the tenth dispatch.
    DropsOnceInTheMiddle,
}

/// A client of one bot.
#[derive(Clone, Debug)]
pub struct Client {
    pub rest: SocketAddr,
    pub encoding: Encoding,
    pub compression: Compression,
    pub wrong: Wrong,
    /// Dispatches: number, name, body.
    pub seen: Arc<Mutex<Vec<(u64, String, Value)>>>,
}

#[derive(Default)]
struct Session {
    id: String,
    resume_url: String,
    seq: u64,
    /// As the client believes.
    is_known: bool,
}

/// Why a connection ended.
enum End {
    Closed(Option<u16>),
    Lost,
    Left,
}

const FATAL: [u16; 6] = [4004, 4010, 4011, 4012, 4013, 4014];
const TOKEN: &str = "MTEwMDAwMDAwMDAwMDAwMDkwMA.secret";

impl Client {
    /// Runs until it gives up.
    pub async fn run(self) -> Result<()> {
        let url = self.gateway().await?;
        let mut session = Session::default();
        loop {
            let to = match session.is_known && self.wrong != Wrong::ResumesAtFirstUrl {
                true => session.resume_url.clone(),
                false => url.clone(),
            };
            let end = match self.connect(&to).await? {
                Some(stream) => Connection::new(&self, stream)?.serve(&mut session).await?,
                None => continue,
            };
            match end {
                _ if self.wrong == Wrong::GivesUp => return Ok(()),
                End::Closed(Some(code)) if FATAL.contains(&code) && self.wrong != Wrong::ReconnectsAlways => {
                    return Ok(());
                }
                End::Closed(Some(4007 | 4009)) if self.wrong != Wrong::AlwaysResumes => session = Session::default(),
                _ => {}
            }
            if self.wrong == Wrong::NeverResumes {
                session = Session::default();
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn gateway(&self) -> Result<String> {
        loop {
            let (status, body) = self.get("/api/v10/gateway/bot").await?;
            let body: Value = serde_json::from_str(&body).context("the body of the gateway's URL")?;
            match status {
                200 => return Ok(body["url"].as_str().context("no url")?.to_owned()),
                429 if self.wrong == Wrong::GivesUp => bail!("rate limited"),
                429 if self.wrong == Wrong::ImpatientWithRest => sleep(Duration::from_millis(100)).await,
                429 => sleep(Duration::from_secs_f64(body["retry_after"].as_f64().context("no retry_after")?)).await,
                status => bail!("status {status}"),
            }
        }
    }

    async fn get(&self, path: &str) -> Result<(u16, String)> {
        let mut stream = TcpStream::connect(self.rest).await?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {}\r\nUser-Agent: own\r\nConnection: close\r\n\r\n", self.rest);
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no head")?;
        Ok((head.split(' ').nth(1).context("no status")?.parse()?, body.to_owned()))
    }

    /// None: the upgrade was refused, and the time that the answer names has passed.
    async fn connect(&self, url: &str) -> Result<Option<(TcpStream, Vec<u8>)>> {
        let host = url.strip_prefix("ws://").context("no ws://")?;
        let mut stream = TcpStream::connect(host).await?;
        let compress = match self.compression {
            Compression::None => String::new(),
            other => format!("&compress={}", other.name()),
        };
        let target = format!("/?v=10&encoding={}{compress}", self.encoding.name());
        let handshake = ClientHandshake::new(host, &target, [7; 16]);
        stream.write_all(handshake.request()).await?;
        let mut answer = Vec::new();
        loop {
            ensure!(stream.read_buf(&mut answer).await? > 0, "the end in the handshake");
            match handshake.check_answer(&answer) {
                Ok(Some(head_bytes)) => return Ok(Some((stream, answer.split_off(head_bytes)))),
                Ok(None) => {}
                Err(_) if self.wrong == Wrong::GivesUp => bail!("the upgrade was refused"),
                Err(_) => {
                    let text = String::from_utf8_lossy(&answer).to_lowercase();
                    let after =
                        text.split("retry-after: ").nth(1).and_then(|rest| rest.split('\r').next()?.parse().ok());
                    let wait = if self.wrong == Wrong::ImpatientWithRest { 0 } else { after.unwrap_or(1) };
                    sleep(Duration::from_secs(wait) + Duration::from_millis(20)).await;
                    return Ok(None);
                }
            }
        }
    }
}

struct Connection<'a> {
    of: &'a Client,
    stream: TcpStream,
    decoder: Decoder,
    decompressor: Option<StreamDecompressor>,
    inflated: Vec<u8>,
    early: Vec<u8>,
    interval: Duration,
    is_acked: bool,
    is_gone: bool,
}

impl<'a> Connection<'a> {
    fn new(of: &'a Client, (stream, early): (TcpStream, Vec<u8>)) -> Result<Self> {
        let message_bytes_max = if of.wrong == Wrong::SmallMessages { 64 << 10 } else { 16 << 20 };
        Ok(Self {
            of,
            stream,
            decoder: Decoder::new(Role::Client, Limits { message_bytes_max }),
            decompressor: match of.compression {
                Compression::None => None,
                Compression::Zlib => Some(StreamDecompressor::zlib()?),
                Compression::Zstd => Some(StreamDecompressor::zstd(23)?),
            },
            inflated: Vec::new(),
            early,
            interval: Duration::from_secs(60),
            is_acked: true,
            is_gone: false,
        })
    }

    async fn send(&mut self, op: u64, d: &Value) -> Result<()> {
        let mut payload = Vec::new();
        encode_payload_to_gateway(self.of.encoding, op, d, &mut payload)?;
        let opcode = if self.of.encoding == Encoding::Json { Opcode::Text } else { Opcode::Binary };
        self.frame(opcode, &payload).await
    }

    async fn frame(&mut self, opcode: Opcode, payload: &[u8]) -> Result<()> {
        let mut frame = Vec::new();
        append_masked_frame(opcode, [1, 2, 3, 4], payload, &mut frame);
        // A gateway that does not read any more must not stop the client.
        let _ = timeout(Duration::from_secs(1), self.stream.write_all(&frame)).await;
        Ok(())
    }

    async fn close(&mut self, code: u16) -> Result<End> {
        let code = if self.of.wrong == Wrong::ClosesWith1000 { 1000 } else { code };
        self.frame(Opcode::Close, close_frame(Some(code), "").payload()).await?;
        Ok(End::Left)
    }

    async fn heartbeat(&mut self, session: &Session) -> Result<()> {
        let d = if session.seq == 0 { Value::Null } else { json!(session.seq) };
        self.send(1, &d).await
    }

    async fn serve(mut self, session: &mut Session) -> Result<End> {
        let wrong = self.of.wrong;
        let began = Instant::now();
        let mut beat_at = Instant::now() + Duration::from_secs(3_600);
        let mut bytes = std::mem::take(&mut self.early);
        loop {
            if bytes.is_empty() {
                let mut room = vec![0; 16 << 10];
                tokio::select! {
                    biased;
                    read = self.stream.read(&mut room) => match read {
                        Ok(count @ 1..) => bytes.extend_from_slice(&room[..count]),
                        _ => return Ok(End::Lost),
                    },
                    () = sleep_until(beat_at) => {
                        if !self.is_acked && wrong != Wrong::IgnoresLostAcks {
                            return self.close(4900).await;
                        }
                        if wrong == Wrong::Impatient && began.elapsed() > Duration::from_millis(1_500) {
                            return self.close(4901).await;
                        }
                        if wrong != Wrong::NoHeartbeat {
                            self.is_acked = false;
                            self.heartbeat(session).await?;
                        }
                        beat_at = Instant::now() + self.interval;
                        continue;
                    }
                }
            }
            let messages = match self.messages(&mut bytes)? {
                Ok(messages) => messages,
                Err(end) => {
                    if let End::Closed(code) = end {
                        let code = close_frame(code, "");
                        self.frame(Opcode::Close, code.payload()).await?;
                    }
                    return Ok(end);
                }
            };
            bytes.clear();
            for message in messages {
                match self.handle(&message, session).await? {
                    Some(end) => return Ok(end),
                    None if message["op"] == 10 => beat_at = Instant::now() + self.interval.mul_f64(0.4),
                    None => {}
                }
                if self.is_gone {
                    // It believes that the connection is broken.
                    return Ok(End::Lost);
                }
            }
        }
    }

    /// Decodes what was read. The inner error is the end of the connection.
    fn messages(&mut self, bytes: &mut [u8]) -> Result<Result<Vec<Value>, End>> {
        let wrong = self.of.wrong;
        if wrong == Wrong::NoPartialFrames && bytes.len() < 2 {
            return Ok(Err(End::Lost));
        }
        let mut found = Vec::new();
        let mut payloads: Vec<Vec<u8>> = Vec::new();
        let mut end = None;
        if wrong == Wrong::NoFragments && bytes[0] & 0x80 == 0 && self.decoder.heap_bytes() == 0 {
            return Ok(Err(End::Lost));
        }
        let mut events = self.decoder.handle(bytes);
        loop {
            match events.poll() {
                Ok(None) => break,
                Ok(Some(Event::Text(text))) => payloads.push(text.as_bytes().to_vec()),
                Ok(Some(Event::Binary(bytes))) => payloads.push(bytes.to_vec()),
                Ok(Some(Event::Close { code, .. })) => end = Some(End::Closed(code)),
                Ok(Some(_)) => {}
                Err(_) => {
                    end = Some(End::Lost);
                    break;
                }
            }
        }
        if wrong == Wrong::OneFramePerRead {
            payloads.truncate(1);
        }
        for payload in payloads {
            if let Some(decompressor) = &mut self.decompressor {
                decompressor.decompress(&payload, &mut self.inflated, 16 << 20)?;
            } else {
                self.inflated.extend_from_slice(&payload);
            }
            let decoded = match self.of.encoding {
                Encoding::Json => serde_json::from_slice(&self.inflated).ok(),
                Encoding::Etf => decode_etf_from_gateway(&self.inflated, DecodeLimits::default()).ok(),
            };
            match decoded {
                Some(message) => {
                    self.inflated.clear();
                    found.push(message);
                }
                None if wrong == Wrong::NoPartialMessages => return Ok(Err(End::Lost)),
                None => {}
            }
        }
        Ok(match end {
            Some(end) => Err(end),
            None => Ok(found),
        })
    }

    async fn handle(&mut self, message: &Value, session: &mut Session) -> Result<Option<End>> {
        let wrong = self.of.wrong;
        let d = &message["d"];
        match message["op"].as_u64().context("no op")? {
            0 => {
                let seq = message["s"].as_u64().context("no s")?;
                let name = message["t"].as_str().context("no t")?;
                self.of.seen.lock().unwrap().push((seq, name.to_owned(), d.clone()));
                match wrong {
                    Wrong::CountsContiguous if session.seq > 0 && seq != session.seq + 1 => {}
                    Wrong::CountsAll => session.seq += 1,
                    Wrong::StopsAtUnknown if name.starts_with("REHEARSAL") => {}
                    _ => session.seq = seq,
                }
                if wrong == Wrong::DropsOnceInTheMiddle && seq == 10 {
                    return Ok(Some(End::Lost));
                }
                if name == "READY" {
                    session.seq = seq;
                    session.id = d["session_id"].as_str().context("no session_id")?.to_owned();
                    session.resume_url = d["resume_gateway_url"].as_str().context("no URL")?.to_owned();
                    session.is_known = true;
                    if wrong == Wrong::IdentifiesTwice {
                        self.identify().await?;
                    }
                }
            }
            1 if wrong != Wrong::IgnoresOp1 => self.heartbeat(session).await?,
            7 => return self.close(4902).await.map(Some),
            9 => match (d == &Value::Bool(true), wrong) {
                (true, Wrong::NeverResumes) | (false, Wrong::Nothing) => {
                    *session = Session::default();
                    self.identify().await?;
                }
                (_, Wrong::GivesUp) => return self.close(4903).await.map(Some),
                (true, _) => self.resume(session).await?,
                (false, Wrong::AlwaysResumes) => self.resume(session).await?,
                (false, _) => {
                    *session = Session::default();
                    return self.close(4903).await.map(Some);
                }
            },
            10 => {
                self.interval = Duration::from_millis(d["heartbeat_interval"].as_u64().context("no interval")?);
                match session.is_known {
                    true => self.resume(session).await?,
                    false => self.identify().await?,
                }
            }
            11 => self.is_acked = true,
            _ if wrong == Wrong::StopsAtUnknown => return self.close(4904).await.map(Some),
            _ => {}
        }
        Ok(None)
    }

    async fn identify(&mut self) -> Result<()> {
        let properties = json!({ "os": "linux", "browser": "own", "device": "own" });
        self.send(2, &json!({ "token": TOKEN, "intents": 513, "properties": properties, "shard": [0, 1] })).await
    }

    async fn resume(&mut self, session: &Session) -> Result<()> {
        let seq = if self.of.wrong == Wrong::ForgetsSeq { 1 } else { session.seq };
        self.send(6, &json!({ "token": TOKEN, "session_id": session.id, "seq": seq })).await
    }
}
