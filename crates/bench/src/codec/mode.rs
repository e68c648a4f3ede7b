//! Modes: the ways to write a connection's messages that are compared, each behind the same three calls.
//!
//! Owns        `Mode`, the list of all, and the check of their output by independent decoders.
//! To add one  implement `Mode`, and give it a line in `NAMES` and in `make`. A mode that is an arm of the codec needs
//!             none: `zstd:level=9` is a mode too.

use super::auto::Auto;
use super::classic::{Once, Plain, Streams};
use super::prepared::PreparedDeflate;
use super::shared::SharedMatch;
use anyhow::{Context as _, Result, ensure};
use guildhall_codec::{
    Arm, Dictionary, DispatchFrame, Encoding, StreamCompressor, StreamDecompressor, ZlibParams, ZstdParams, read_once,
};
use guildhall_traffic::Event;
use std::sync::Arc;

/// The mode for JSON alone: an ETF message has its number behind the body.
const PREPARED: &str = "prepared_deflate";

/// Every mode, in the order of the table.
pub const NAMES: [&str; 15] = [
    "plain",
    "zlib_classic",
    "zstd_classic",
    "zstd_classic_dict",
    "zstd_3",
    "zstd_3_dict",
    "zstd_19",
    "zstd_19_dict",
    PREPARED,
    "shared_zstd",
    "shared_zstd_dict",
    "shared_zlib",
    "shared_deflate",
    "auto_zstd",
    "auto_zlib",
];

/// Modes that write this encoding.
pub fn names(encoding: Encoding) -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().filter(move |name| encoding == Encoding::Json || *name != PREPARED)
}

/// The name of a mode: one of `NAMES`, or an arm in the form in which it is printed.
///
/// # Errors
/// When it is neither, or an arm with a dictionary.
pub fn named(name: &str) -> Result<String> {
    if NAMES.contains(&name) {
        return Ok(name.to_owned());
    }
    let arm: Arm = name.parse().with_context(|| unknown(name))?;
    ensure!(
        arm.dictionary().is_none(),
        "{name}: the bench trains its dictionary itself, use one of the modes whose names end with _dict"
    );
    Ok(arm.to_string())
}

fn unknown(name: &str) -> String {
    format!("there is no mode {name}; there are {}, and arms such as zlib:level=9", NAMES.join(", "))
}

/// Names in the order of the table, then arms.
pub fn in_order<'a>(names: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.map(String::as_str).collect();
    names.sort_by_key(|name| NAMES.iter().position(|known| known == name).unwrap_or(NAMES.len()));
    names
}

/// A way to write messages to many connections.
pub trait Mode {
    /// Prepares the shared part of an event's deliveries. Called once per event, before the first delivery, with the
    /// number of recipients.
    ///
    /// # Errors
    /// The codec's own.
    fn prepare(&mut self, event: &Event, recipients: usize, frame: &mut DispatchFrame) -> Result<()>;

    /// One more connection; they are numbered from 0.
    ///
    /// # Errors
    /// The codec's own.
    fn connect(&mut self) -> Result<()>;

    /// Announces a delivery to connection `soon` a while ahead, and to `next` a few deliveries ahead, so that a mode
    /// can prefetch memory.
    fn warm(&self, _soon: Option<usize>, _next: Option<usize>) {}

    /// Appends the event in the form for connection `conn`, under its own sequence number: the payload of
    /// one WebSocket message.
    ///
    /// # Errors
    /// The codec's own.
    fn deliver(
        &mut self,
        conn: usize,
        event: &Event,
        frame: &mut DispatchFrame,
        seq: u64,
        out: &mut Vec<u8>,
    ) -> Result<()>;

    /// Memory of one connection's codec state, by its own account.
    fn state_bytes(&self, conn: usize) -> usize;

    /// Heap that all connections share.
    fn shared_bytes(&self) -> usize {
        0
    }

    /// A decoder that knows nothing but what it is given, as the client's.
    ///
    /// # Errors
    /// The decoder's own.
    fn reader(&self) -> Result<Reader>;
}

/// The other end.
pub enum Reader {
    /// Uncompressed.
    Plain,
    /// A stream, by libzstd or zlib.
    Stream(StreamDecompressor),
    /// A zstd frame per message.
    Once,
    /// Each message by itself, as permessage-deflate without context (RFC 7692 §7.2.2), by zlib.
    Deflate,
    /// As permessage-deflate with context, by zlib; whether the header that zlib wants was put in front.
    DeflateStream(StreamDecompressor, bool),
}

/// No message of the traffic is larger.
const MESSAGE_BYTES_MAX: usize = 8 << 20;

impl Reader {
    /// Decodes a message.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&mut self, wire: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        match self {
            Self::Plain => out.extend_from_slice(wire),
            Self::Stream(reader) => reader.decompress(wire, &mut out, MESSAGE_BYTES_MAX)?,
            Self::Once => {
                out = read_once(wire, None, MESSAGE_BYTES_MAX)?;
            }
            Self::Deflate => {
                // A zlib header in front, and behind it the flush that RFC 7692 leaves out.
                let whole = [&[0x78, 0x9c], wire, &[0x00, 0x00, 0xff, 0xff]].concat();
                StreamDecompressor::zlib()?.decompress(&whole, &mut out, MESSAGE_BYTES_MAX)?;
            }
            Self::DeflateStream(reader, is_begun) => {
                let header: &[u8] = if std::mem::replace(is_begun, true) { &[] } else { &[0x78, 0x9c] };
                let whole = [header, wire, &[0x00, 0x00, 0xff, 0xff]].concat();
                reader.decompress(&whole, &mut out, MESSAGE_BYTES_MAX)?;
            }
        }
        Ok(out)
    }
}

/// As published; what classic streams are tuned to.
fn tuned() -> ZstdParams {
    ZstdParams::default()
}

/// The library's own choice for the level, when it does not know how much there will be.
fn level_3() -> ZstdParams {
    ZstdParams { level: 3, window_log: 21, chain_log: 16, hash_log: 17, block_bytes_max: 128 << 10 }
}

/// Highest effort within a window that clients must support: 2 MiB.
fn level_19() -> ZstdParams {
    ZstdParams { level: 19, window_log: 21, chain_log: 22, hash_log: 20, block_bytes_max: 128 << 10 }
}

/// The mode of this name for this encoding; with `_dict` at its end it needs the dictionary.
///
/// # Errors
/// When there is no such mode.
pub fn make(name: &str, encoding: Encoding, dictionary: Option<&Arc<Dictionary>>) -> Result<Box<dyn Mode>> {
    let zstd_dict = |params: ZstdParams| -> Result<Box<dyn Mode>> {
        let [for_writers, for_readers] =
            [dictionary, dictionary].map(|dictionary| dictionary.cloned().context("this mode needs a dictionary"));
        let (for_writers, for_readers) = (for_writers?, for_readers?);
        Ok(Box::new(Streams::new(
            move || StreamCompressor::zstd_with(params, for_writers.clone()),
            move || StreamDecompressor::zstd_with(params.window_log, &for_readers),
        )))
    };
    Ok(match name {
        "plain" => Box::new(Plain),
        "zlib_classic" => zlib(ZlibParams::default()),
        "zstd_classic" => zstd(tuned()),
        "zstd_classic_dict" => zstd_dict(tuned())?,
        "zstd_3" => zstd(level_3()),
        "zstd_3_dict" => zstd_dict(level_3())?,
        "zstd_19" => zstd(level_19()),
        "zstd_19_dict" => zstd_dict(level_19())?,
        PREPARED => prepared(encoding)?,
        "auto_zstd" => Box::new(Auto::new(false, encoding)),
        "auto_zlib" => Box::new(Auto::new(true, encoding)),
        name if name.starts_with("shared_") => Box::new(SharedMatch::new(name, encoding, dictionary)?),
        name => match name.parse().with_context(|| unknown(name))? {
            Arm::Zlib(params) => zlib(params),
            Arm::Zstd(params, _) => zstd(params),
            arm @ Arm::ZstdOnce { .. } => Box::new(Once::new(&arm, encoding)?),
            Arm::SharedMatch(_) => Box::new(SharedMatch::new("shared_zstd", encoding, None)?),
            Arm::Prepared => prepared(encoding)?,
        },
    })
}

fn zlib(params: ZlibParams) -> Box<dyn Mode> {
    Box::new(Streams::new(move || StreamCompressor::zlib(params), StreamDecompressor::zlib))
}

fn zstd(params: ZstdParams) -> Box<dyn Mode> {
    Box::new(Streams::new(move || StreamCompressor::zstd(params), move || StreamDecompressor::zstd(params.window_log)))
}

fn prepared(encoding: Encoding) -> Result<Box<dyn Mode>> {
    ensure!(encoding == Encoding::Json, "the bench has prepared messages of json only: leave --encoding out");
    Ok(Box::new(PreparedDeflate::default()))
}
