//! Recording: the dispatches of some sessions, in files that common tools read.
//!
//! Owns        the format of the files, its version, and its bounds.
//! Doors       `RecordingWriter` on the node, `RecordingReader` offline.
//! Invariants  R1 `zstd -dc FILE | jq` reads a file: frames of JSON lines, the first line a `Header`. R2
//!             bytes of a file never cause a panic, or memory beyond `LINE_BYTES_MAX`.
//!             (tests/it/recording.rs)
//! Limits      `LINE_BYTES_MAX`, `CHUNK_BYTES`.
//! Spec        docs/lab.md "The format of a recording".

use anyhow::{Context as _, Result, bail, ensure};
use guildhall_codec::Encoding;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{borrow::Cow, io::Read, ops::Range};
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer};

/// Value of `format` in each header.
pub const FORMAT: &str = "guildhall-recording";
/// The version that is written; a reader refuses later ones.
pub const VERSION: u32 = 1;
/// Longest line: a READY of an account in many guilds is some megabytes.
pub const LINE_BYTES_MAX: usize = 32 << 20;
/// Text of one zstd frame; the last one is shorter.
const CHUNK_BYTES: usize = 256 << 10;
/// Window of a file.
const WINDOW_LOG: u32 = 20;

/// First line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Name of the format: [`FORMAT`].
    pub format: String,
    /// [`VERSION`] of the writer.
    pub version: u32,
    /// Texts, ids and times are replaced by surrogates.
    pub scrubbed: bool,
    /// Direct messages and channels that not every member may view are in it.
    pub private: bool,
    /// Unix time of the start, seconds.
    pub started_at: u64,
}

/// A line behind the header.
#[derive(Clone, Debug, PartialEq)]
pub enum Line<'a> {
    /// A session was sent a dispatch.
    Dispatch(Dispatch<'a>),
    /// A session has no further lines.
    End(End<'a>),
}

/// The end of a session's lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct End<'a> {
    /// Milliseconds since the start.
    pub at_ms: u64,
    /// Ordinal of the session.
    pub session: u64,
    /// `closed`, `queue_full` or `stopped`.
    pub ended: Cow<'a, str>,
}

/// Either line, as it is read.
#[derive(Deserialize)]
struct RawLine<'a> {
    at_ms: u64,
    session: u64,
    ended: Option<Cow<'a, str>>,
    encoding: Option<Cow<'a, str>>,
    event: Option<Cow<'a, str>>,
    seq: Option<u64>,
    bytes: Option<u64>,
    rule: Option<Cow<'a, str>>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

impl<'a> RawLine<'a> {
    fn line(self) -> Option<Line<'a>> {
        let Self { at_ms, session, .. } = self;
        if let Some(ended) = self.ended {
            return Some(Line::End(End { at_ms, session, ended }));
        }
        Some(Line::Dispatch(Dispatch {
            at_ms,
            session,
            encoding: self.encoding?,
            event: self.event?,
            seq: self.seq?,
            bytes: self.bytes?,
            rule: self.rule?,
            body: self.body?,
        }))
    }
}

/// A dispatch that a session was sent.
#[derive(Clone, Debug, Serialize)]
pub struct Dispatch<'a> {
    /// Milliseconds since the start.
    pub at_ms: u64,
    /// Ordinal of the session, from 0.
    pub session: u64,
    /// `json` or `etf`.
    pub encoding: Cow<'a, str>,
    /// Name of the event.
    pub event: Cow<'a, str>,
    /// Its number in the session, from 1.
    pub seq: u64,
    /// Bytes of the payload before compression, as it was sent.
    pub bytes: u64,
    /// Why the session sees it: `public`, `restricted`, `direct`, or `own`; behind `+` what else the session needs:
    /// `content`, `members`, `presences` or `lists`.
    pub rule: Cow<'a, str>,
    /// Body of the event as JSON, whatever the encoding.
    pub body: &'a RawValue,
}

impl PartialEq for Dispatch<'_> {
    fn eq(&self, other: &Self) -> bool {
        let key = |of: &Self| (of.at_ms, of.session, of.seq, of.bytes, of.body.get().to_owned());
        key(self) == key(other)
            && self.encoding == other.encoding
            && self.event == other.event
            && self.rule == other.rule
    }
}

impl Dispatch<'_> {
    /// The encoding by its name; none if it is no encoding.
    #[must_use]
    pub fn encoding(&self) -> Option<Encoding> {
        [Encoding::Json, Encoding::Etf].into_iter().find(|encoding| encoding.name() == self.encoding)
    }
}

/// Writes lines into zstd frames.
pub struct RecordingWriter {
    context: CCtx<'static>,
    text: Vec<u8>,
    made: Vec<u8>,
}

impl std::fmt::Debug for RecordingWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingWriter").field("waiting_bytes", &self.text.len()).finish_non_exhaustive()
    }
}

impl RecordingWriter {
    /// Compresses at zstd's level 3.
    ///
    /// # Errors
    /// No memory for a context.
    pub fn new() -> Result<Self> {
        let mut context = CCtx::try_create().context("no memory for a compression context")?;
        let set = context.set_parameter(CParameter::WindowLog(WINDOW_LOG));
        set.map_err(zstd_safe::get_error_name).map_err(anyhow::Error::msg)?;
        Ok(Self { context, text: Vec::new(), made: Vec::new() })
    }

    /// A frame with the header alone, which begins each file.
    ///
    /// # Errors
    /// The library's.
    pub fn header(header: &Header) -> Result<Vec<u8>> {
        let mut writer = Self::new()?;
        writer.push(header)?;
        writer.flush()?;
        Ok(writer.take())
    }

    /// Appends a line. A line that is too long is refused, and leaves nothing behind.
    ///
    /// # Errors
    /// The line is too long, or the library's.
    pub fn push(&mut self, line: &impl Serialize) -> Result<()> {
        let start = self.text.len();
        serde_json::to_writer(&mut self.text, line).context("writing a line")?;
        self.text.push(b'\n');
        if self.text.len() - start > LINE_BYTES_MAX {
            self.text.truncate(start);
            bail!("a line has more than {} MiB", LINE_BYTES_MAX >> 20);
        }
        if self.text.len() >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    /// Ends the frame.
    ///
    /// # Errors
    /// The library's.
    pub fn flush(&mut self) -> Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        let mut frame = Vec::with_capacity(zstd_safe::compress_bound(self.text.len()));
        let done = self.context.compress2(&mut frame, &self.text);
        done.map_err(zstd_safe::get_error_name).map_err(anyhow::Error::msg)?;
        self.made.extend_from_slice(&frame);
        self.text.clear();
        Ok(())
    }

    /// Whole frames so far. They may be appended to those that were taken before.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.made)
    }

    /// Bytes of frames that were not taken.
    #[must_use]
    pub fn made_bytes(&self) -> usize {
        self.made.len()
    }
}

/// Reads a file line by line.
pub struct RecordingReader<R> {
    source: R,
    context: DCtx<'static>,
    input: Vec<u8>,
    input_at: usize,
    /// Decompressed text; lines begin at `line_at`.
    text: Vec<u8>,
    line_at: usize,
    searched_at: usize,
    /// The line that was read last.
    line: Range<usize>,
    number: u64,
    is_mid_frame: bool,
    /// The library may have more text of what it was given.
    is_output_full: bool,
    is_ended: bool,
    header: Header,
}

impl<R> std::fmt::Debug for RecordingReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingReader").field("header", &self.header).finish_non_exhaustive()
    }
}

/// Bytes per read of the source.
const READ_BYTES: usize = 64 << 10;

impl<R: Read> RecordingReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// The source is no recording, or one of a later version.
    pub fn new(source: R) -> Result<Self> {
        let mut context = DCtx::try_create().context("no memory for a context")?;
        context.set_parameter(DParameter::WindowLogMax(27)).map_err(failed)?;
        let header = Header { format: String::new(), version: 0, scrubbed: true, private: false, started_at: 0 };
        let mut reader = Self {
            source,
            context,
            input: Vec::new(),
            input_at: 0,
            text: Vec::new(),
            line_at: 0,
            searched_at: 0,
            line: 0..0,
            number: 0,
            is_mid_frame: false,
            is_output_full: false,
            is_ended: false,
            header,
        };
        let no_recording = "this is no recording: make one with `guildhall lab record`";
        let line = reader.next_text().context(no_recording)?.context(no_recording)?;
        let header: Header = serde_json::from_slice(line).context(no_recording)?;
        ensure!(header.format == FORMAT, "{no_recording}");
        ensure!(
            header.version <= VERSION,
            "the recording has version {}, this program reads versions up to {VERSION}: use a newer one",
            header.version
        );
        reader.header = header;
        Ok(reader)
    }

    /// The first line.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next line; none at the end. Headers of files that were appended are skipped.
    ///
    /// # Errors
    /// The line is too long or is no line, or the file is damaged: with its number.
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>> {
        loop {
            let number = self.number + 1;
            let Some(line) = self.next_text().with_context(|| format!("line {number}"))? else { return Ok(None) };
            if line.is_empty() || line.starts_with(b"{\"format\":") {
                continue;
            }
            // The borrow is taken again: a conditional return of it would last for the loop.
            let wrong = || format!("line {number} is no line of a recording");
            let line: RawLine<'_> = serde_json::from_slice(&self.text[self.line.clone()]).with_context(wrong)?;
            return line.line().map(Some).with_context(wrong);
        }
    }

    /// The next line's text, without its end.
    fn next_text(&mut self) -> Result<Option<&[u8]>> {
        loop {
            let searched = self.searched_at.max(self.line_at);
            if let Some(length) = self.text[searched..].iter().position(|byte| *byte == b'\n') {
                let (start, end) = (self.line_at, searched + length);
                (self.line_at, self.searched_at) = (end + 1, end + 1);
                self.number += 1;
                self.line = start..end;
                return Ok(Some(&self.text[start..end]));
            }
            self.searched_at = self.text.len();
            if self.is_ended {
                ensure!(self.line_at == self.text.len(), "the last line has no end: the file was cut");
                return Ok(None);
            }
            ensure!(self.text.len() - self.line_at <= LINE_BYTES_MAX, "more than {} MiB", LINE_BYTES_MAX >> 20);
            self.fill()?;
        }
    }

    /// Decompresses some more text.
    fn fill(&mut self) -> Result<()> {
        // Lines before the last are done with.
        self.text.drain(..self.line_at);
        self.searched_at -= self.line_at;
        self.line_at = 0;
        if self.input_at == self.input.len() && !self.is_output_full {
            self.input.resize(READ_BYTES, 0);
            let read = self.source.read(&mut self.input).context("reading")?;
            self.input.truncate(read);
            self.input_at = 0;
            if read == 0 {
                ensure!(!self.is_mid_frame, "the file was cut");
                self.is_ended = true;
                return Ok(());
            }
        }
        self.text.reserve(CHUNK_BYTES);
        let end = self.text.len();
        let mut output = OutBuffer::around_pos(&mut self.text, end);
        let mut input = InBuffer::around(&self.input[self.input_at..]);
        let left = self.context.decompress_stream(&mut output, &mut input).map_err(failed)?;
        self.input_at += input.pos;
        self.is_mid_frame = left != 0;
        self.is_output_full = output.pos() == output.capacity() && self.is_mid_frame;
        Ok(())
    }
}

fn failed(code: usize) -> anyhow::Error {
    anyhow::anyhow!("not zstd, or damaged: {}", zstd_safe::get_error_name(code))
}
