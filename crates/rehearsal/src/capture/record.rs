//! Record: makes the lines of a capture from the bytes of connections.
//!
//! Owns        decompression, scrubbing and encoding of the gateway's messages.
//! Limits      `frames::PAYLOAD_BYTES_MAX` per message; what cannot be scrubbed is left out, and counted.

use super::{
    file::{CaptureHeader, CaptureLine, End, Frame, Open},
    frames::{FrameFinder, PAYLOAD_BYTES_MAX, Piece, kind},
    scrub::scrub_json,
    term::scrub_term,
};
use crate::link::{Compression, Query};
use anyhow::{Context as _, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use guildhall_codec::{Encoding, StreamDecompressor, decode_payload};
use guildhall_lab::{RecordingWriter, Surrogates};
use guildhall_ws_proto::{Decoder, Event, Limits, Role};
use serde_json::{json, value::RawValue};
use std::{collections::HashMap, io::Write};

/// Frames of a payload that is not complete.
const OPEN_FRAMES_MAX: usize = 100_000;

/// One observation of the proxy.
#[derive(Debug)]
pub(crate) struct Noted {
    pub at_us: u64,
    pub connection: u64,
    pub event: LinkEvent,
}

/// A chunk of either direction, or the beginning or end of a connection.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    Opened(Query),
    Gateway(Vec<u8>),
    Client(Vec<u8>),
    Ended { by: &'static str },
}

/// Counts of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureSummary {
    pub connections: u64,
    pub chunks: u64,
    pub frames: u64,
    /// Of the gateway, as they were sent.
    pub bytes: u64,
    pub client_payloads: u64,
    /// Frames without content.
    pub unreadable: u64,
}

/// Writes a capture.
pub(crate) struct Recorder<W> {
    writer: RecordingWriter,
    out: W,
    surrogates: Option<Surrogates>,
    connections: HashMap<u64, Recorded>,
    summary: CaptureSummary,
}

/// State of a connection.
struct Recorded {
    encoding: Encoding,
    finder: FrameFinder,
    decompressor: Option<StreamDecompressor>,
    client: Decoder,
    /// Frames with an incomplete payload, each with its decompressed bytes.
    open: Vec<(u64, Frame, Vec<u8>)>,
    close_code: Option<u16>,
    is_broken: bool,
}

impl<W: Write> Recorder<W> {
    /// Begins a file. With a key, what identifies is replaced.
    pub(crate) fn new(out: W, key: Option<[u8; 32]>, started_at: u64) -> Result<Self> {
        let mut recorder = Self {
            writer: RecordingWriter::new()?,
            out,
            surrogates: key.map(Surrogates::new),
            connections: HashMap::new(),
            summary: CaptureSummary::default(),
        };
        recorder.writer.push(&CaptureHeader::new(key.is_some(), started_at))?;
        Ok(recorder)
    }

    pub(crate) fn take(&mut self, noted: Noted) -> Result<()> {
        let Noted { at_us, connection, event } = noted;
        let line = |line| CaptureLine { at_us, connection, ..line };
        match event {
            LinkEvent::Opened(query) => {
                let open = Open {
                    encoding: query.encoding.name().to_owned(),
                    compression: query.compression.name().to_owned(),
                };
                self.summary.connections += 1;
                self.connections.insert(connection, Recorded::new(&query)?);
                self.push(&line(CaptureLine { open: Some(open), ..CaptureLine::default() }))
            }
            LinkEvent::Gateway(bytes) => {
                self.summary.chunks += 1;
                self.summary.bytes += bytes.len() as u64;
                self.push(&line(CaptureLine { chunk: Some(bytes.len() as u64), ..CaptureLine::default() }))?;
                let Some(mut recorded) = self.connections.remove(&connection) else { return Ok(()) };
                let frames = recorded.take(at_us, &bytes, self.surrogates.as_mut());
                self.connections.insert(connection, recorded);
                self.push_frames(connection, frames)
            }
            LinkEvent::Client(mut bytes) => {
                let Some(recorded) = self.connections.get_mut(&connection) else { return Ok(()) };
                let texts = recorded.client_texts(&mut bytes);
                for text in texts {
                    let text = match &mut self.surrogates {
                        Some(surrogates) => scrub_json(surrogates, &text).unwrap_or_else(|| "null".to_owned()),
                        None => text,
                    };
                    let client = Some(RawValue::from_string(text)?);
                    self.summary.client_payloads += 1;
                    self.push(&line(CaptureLine { client, ..CaptureLine::default() }))?;
                }
                Ok(())
            }
            LinkEvent::Ended { by } => {
                let Some(mut recorded) = self.connections.remove(&connection) else { return Ok(()) };
                let frames = recorded.left_over(self.surrogates.is_some());
                self.push_frames(connection, frames)?;
                let end = End { by: by.to_owned(), code: recorded.close_code };
                self.push(&line(CaptureLine { end: Some(end), ..CaptureLine::default() }))
            }
        }
    }

    fn push_frames(&mut self, connection: u64, frames: Vec<(u64, Frame)>) -> Result<()> {
        for (at_us, frame) in frames {
            self.summary.frames += 1;
            self.summary.unreadable += u64::from(frame.unreadable);
            self.push(&CaptureLine { at_us, connection, frame: Some(frame), ..CaptureLine::default() })?;
        }
        Ok(())
    }

    fn push(&mut self, line: &CaptureLine) -> Result<()> {
        self.writer.push(line)?;
        self.out.write_all(&self.writer.take()).context("the file of --out cannot be written")
    }

    /// Ends the file.
    pub(crate) fn finish(mut self) -> Result<CaptureSummary> {
        let open: Vec<u64> = self.connections.keys().copied().collect();
        for connection in open {
            if let Some(mut recorded) = self.connections.remove(&connection) {
                let frames = recorded.left_over(self.surrogates.is_some());
                self.push_frames(connection, frames)?;
            }
        }
        self.writer.flush()?;
        self.out.write_all(&self.writer.take()).context("the file of --out cannot be written")?;
        self.out.flush().context("the file of --out cannot be written")?;
        Ok(self.summary)
    }
}

impl Recorded {
    fn new(query: &Query) -> Result<Self> {
        Ok(Self {
            encoding: query.encoding,
            finder: FrameFinder::default(),
            decompressor: match query.compression {
                Compression::None => None,
                Compression::Zlib => Some(StreamDecompressor::zlib()?),
                Compression::Zstd => Some(StreamDecompressor::zstd(27)?),
            },
            client: Decoder::new(Role::Server, Limits { message_bytes_max: 1 << 20 }),
            open: Vec::new(),
            close_code: None,
            is_broken: false,
        })
    }

    fn take(&mut self, at_us: u64, bytes: &[u8], mut surrogates: Option<&mut Surrogates>) -> Vec<(u64, Frame)> {
        let mut frames = Vec::new();
        if self.is_broken {
            return frames;
        }
        self.finder.push(bytes);
        loop {
            match self.finder.next() {
                Ok(Some(piece)) => self.take_frame(at_us, piece, surrogates.as_deref_mut(), &mut frames),
                Ok(None) => return frames,
                Err(_) => {
                    self.is_broken = true;
                    return frames;
                }
            }
        }
    }

    fn take_frame(
        &mut self,
        at_us: u64,
        piece: Piece,
        surrogates: Option<&mut Surrogates>,
        frames: &mut Vec<(u64, Frame)>,
    ) {
        let Piece { opcode, fin, wire_bytes, payload } = piece;
        let frame = Frame { kind: kind(opcode).to_owned(), fin, wire_bytes, ..Frame::default() };
        if opcode >= 8 {
            if let (8, [a, b, ..]) = (opcode, &*payload) {
                self.close_code = Some(u16::from_be_bytes([*a, *b]));
            }
            return frames.push((at_us, frame));
        }
        let mut inflated = Vec::new();
        let mut is_readable = true;
        match &mut self.decompressor {
            Some(stream) => {
                is_readable = stream.decompress(&payload, &mut inflated, PAYLOAD_BYTES_MAX as usize).is_ok();
            }
            // Payload compression: zlib of one message.
            None if self.encoding == Encoding::Json && opcode == 2 => {
                is_readable =
                    guildhall_codec::inflate_once(&payload, &mut inflated, PAYLOAD_BYTES_MAX as usize).is_ok();
            }
            None => inflated = payload,
        }
        if !is_readable {
            return frames.push((at_us, Frame { unreadable: true, ..frame }));
        }
        self.open.push((at_us, frame, inflated));
        let Some(surrogates) = surrogates else {
            return frames.extend(self.left_over(false));
        };
        if !fin {
            return;
        }
        let whole: Vec<u8> = self.open.iter().flat_map(|(_, _, bytes)| bytes.iter().copied()).collect();
        let made = match self.encoding {
            Encoding::Json => {
                let text = std::str::from_utf8(&whole).ok();
                text.and_then(|text| scrub_json(surrogates, text)).map(String::into_bytes)
            }
            Encoding::Etf => scrub_term(surrogates, &whole),
        };
        match made {
            Some(made) => self.put_back(&made),
            // The rest of the payload is in a later message.
            None if (whole.len() as u64) < PAYLOAD_BYTES_MAX && self.open.len() < OPEN_FRAMES_MAX => return,
            None => return frames.extend(self.left_over(true)),
        }
        frames.extend(self.left_over(false));
    }

    /// Cuts a payload where the frames cut it.
    fn put_back(&mut self, whole: &[u8]) {
        let mut rest = whole;
        for (_, _, bytes) in &mut self.open {
            let (own, behind) = rest.split_at(bytes.len().min(rest.len()));
            bytes.copy_from_slice(own);
            rest = behind;
        }
    }

    /// Lines for the open frames, without their contents if these are not to be written.
    fn left_over(&mut self, is_secret: bool) -> Vec<(u64, Frame)> {
        let line = |(at_us, frame, bytes): (u64, Frame, Vec<u8>)| {
            let frame = match (is_secret, self.encoding) {
                (true, _) => Frame { unreadable: true, ..frame },
                (false, Encoding::Etf) => Frame { bytes: Some(STANDARD.encode(bytes)), ..frame },
                (false, Encoding::Json) => match String::from_utf8(bytes) {
                    Ok(text) => Frame { text: Some(text), ..frame },
                    Err(error) => Frame { bytes: Some(STANDARD.encode(error.as_bytes())), ..frame },
                },
            };
            (at_us, frame)
        };
        self.open.drain(..).map(line).collect()
    }

    /// Payloads of the client as JSON.
    fn client_texts(&mut self, bytes: &mut [u8]) -> Vec<String> {
        let mut texts = Vec::new();
        let mut events = self.client.handle(bytes);
        while let Ok(Some(event)) = events.poll() {
            let payload = match event {
                Event::Text(text) => text.as_bytes(),
                Event::Binary(bytes) => bytes,
                _ => continue,
            };
            if let Ok(inbound) = decode_payload(self.encoding, payload) {
                texts.push(json!({ "op": inbound.op, "d": inbound.d }).to_string());
            }
        }
        texts
    }
}
