//! Recording: the dispatches of some sessions, in files that common tools read.
//!
//! Owns        the format of the files, its version, and its bounds.
//! Doors       `RecordingWriter` on the node, `RecordingReader` offline.
//! Invariants  R1 `zstd -dc FILE | jq` reads a file: frames of JSON lines, the first line a `Header`. R2 bytes of a
//!             file never cause a panic, or memory beyond `LINE_BYTES_MAX` and `WINDOW_BYTES_MAX`. R3 sessions of
//!             recordings that were appended to one another have different numbers, and the header of all counts as
//!             scrubbed only if each of them is. (tests `r*_*` in tests/it/recording.rs)
//! Limits      `LINE_BYTES_MAX`, `WINDOW_BYTES_MAX`, `CHUNK_BYTES`, `RECORDINGS_MAX`.
//! Spec        docs/lab.md "The format of a recording".

use anyhow::{Context as _, Result, bail, ensure};
use guildhall_codec::Encoding;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::VecDeque, io::Read, ops::Range};
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer};

/// Value of `format` in each header.
pub const FORMAT: &str = "guildhall-recording";
/// The version that is written; a reader refuses later ones.
pub const VERSION: u32 = 1;
/// Longest line: a READY of an account in many guilds is some megabytes.
pub const LINE_BYTES_MAX: usize = 32 << 20;
/// Text of one zstd frame; the last one is shorter.
const CHUNK_BYTES: usize = 256 << 10;
/// Window that is written.
const WINDOW_LOG: u32 = 20;
/// Largest window that is read, 8 MiB: RFC 8878 recommends it for all decoders, and up to level 19 the command `zstd`
/// stays within it.
const WINDOW_LOG_MAX: u32 = 23;
/// [`WINDOW_LOG_MAX`] in bytes.
pub const WINDOW_BYTES_MAX: u64 = 1 << WINDOW_LOG_MAX;
/// Recordings that a reader takes one after the other.
pub const RECORDINGS_MAX: usize = 1_024;
/// Sessions of the next recording are numbered from this many on.
const SESSIONS_APART: u64 = 1 << 40;

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
    /// Number of the node in its cluster; none of a node that is alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
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

/// Reads files line by line, one after the other.
pub struct RecordingReader<R> {
    source: R,
    /// Name of the source in errors; empty without one.
    name: String,
    /// Sources that follow, with their names.
    later: VecDeque<(String, R)>,
    context: DCtx<'static>,
    input: Vec<u8>,
    input_at: usize,
    /// Decompressed text; lines begin at `line_at`.
    text: Vec<u8>,
    /// Bytes of the last decompression; its capacity is `CHUNK_BYTES`.
    piece: Vec<u8>,
    line_at: usize,
    searched_at: usize,
    /// The line that was read last.
    line: Range<usize>,
    number: u64,
    is_mid_frame: bool,
    /// The library may have further output from earlier input.
    is_output_full: bool,
    is_ended: bool,
    /// Of all recordings so far.
    header: Header,
    /// Headers of different recordings, and which of them the next line is of.
    recordings: Vec<Header>,
    recording: usize,
}

impl<R> std::fmt::Debug for RecordingReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingReader").field("header", &self.header).finish_non_exhaustive()
    }
}

/// Bytes per read of the source.
const READ_BYTES: usize = 64 << 10;

impl<R: Read> RecordingReader<R> {
    /// Reads the header of one file.
    ///
    /// # Errors
    /// The source is no recording, or one of a later version.
    pub fn new(source: R) -> Result<Self> {
        Self::of_files([(String::new(), source)])
    }

    /// Reads the header of the first file. Errors begin with the name of the file.
    ///
    /// # Errors
    /// There is no file, or the first is no recording, or one of a later version.
    pub fn of_files(files: impl IntoIterator<Item = (String, R)>) -> Result<Self> {
        let mut later: VecDeque<(String, R)> = files.into_iter().collect();
        let (name, source) = later.pop_front().context("name a recording")?;
        let mut context = DCtx::try_create().context("no memory for a context")?;
        context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).map_err(failed)?;
        let header =
            Header { format: String::new(), version: 0, scrubbed: true, private: false, started_at: 0, node: None };
        let mut reader = Self {
            source,
            name,
            later,
            context,
            input: Vec::new(),
            input_at: 0,
            text: Vec::new(),
            piece: Vec::with_capacity(CHUNK_BYTES),
            line_at: 0,
            searched_at: 0,
            line: 0..0,
            number: 0,
            is_mid_frame: false,
            is_output_full: false,
            is_ended: false,
            header,
            recordings: Vec::new(),
            recording: 0,
        };
        let header = match reader.first_header() {
            Ok(header) => header,
            Err(error) => return Err(reader.named(error)),
        };
        reader.recordings.push(header.clone());
        reader.header = header;
        Ok(reader)
    }

    fn first_header(&mut self) -> Result<Header> {
        let line = self.next_text()?.context(NO_RECORDING)?;
        read_header(line)
    }

    fn named(&self, error: anyhow::Error) -> anyhow::Error {
        if self.name.is_empty() { error } else { error.context(self.name.clone()) }
    }

    /// The first line. After a line of an appended recording, `scrubbed` and `private` are those of all recordings.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next line; none at the end. After the header of another recording that was appended, the numbers of sessions
    /// are others than before it (R3).
    ///
    /// # Errors
    /// The line is too long or is no line, or the file is damaged: with its number.
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>> {
        match self.find_line() {
            Ok(false) => Ok(None),
            Ok(true) => self.read_line().map(Some).map_err(|error| self.named(error)),
            Err(error) if self.number == 0 => Err(self.named(error)),
            Err(error) => Err(self.named(error.context(format!("after line {}", self.number)))),
        }
    }

    /// Whether there is another line that is no header.
    fn find_line(&mut self) -> Result<bool> {
        loop {
            if self.next_text()?.is_none() {
                return Ok(false);
            }
            let line = &self.text[self.line.clone()];
            if line.is_empty() {
                continue;
            }
            if self.number == 1 || line.starts_with(HEADER_START) {
                let header = read_header(line)?;
                self.begin(header)?;
                continue;
            }
            return Ok(true);
        }
    }

    fn read_line(&self) -> Result<Line<'_>> {
        let wrong = || format!("line {} is no line of a recording", self.number);
        let mut line: RawLine<'_> = serde_json::from_slice(&self.text[self.line.clone()]).with_context(wrong)?;
        line.session = line.session.wrapping_add(self.recording as u64 * SESSIONS_APART);
        line.line().with_context(wrong)
    }

    /// A header of a further file: of a recording that is known, or of another one.
    fn begin(&mut self, header: Header) -> Result<()> {
        let known = self.recordings.iter().position(|of| *of == header);
        self.recording = match known {
            Some(known) => known,
            None => {
                let count = self.recordings.len();
                ensure!(count < RECORDINGS_MAX, "more than {RECORDINGS_MAX} recordings: read fewer at a time");
                self.header.scrubbed &= header.scrubbed;
                self.header.private |= header.private;
                self.recordings.push(header);
                count
            }
        };
        Ok(())
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
        // A frame begins with its window.
        let wanted = if self.is_mid_frame { 1 } else { FRAME_START_BYTES };
        if !self.is_output_full && self.input.len() - self.input_at < wanted {
            self.read(wanted)?;
            if self.input.is_empty() {
                return self.end_source();
            }
        }
        let input = &self.input[self.input_at..];
        if !self.is_mid_frame {
            check_frame_start(input, self.number)?;
        }
        // Of its own and of this size: the library decodes a frame that fits without a look at its window.
        self.piece.clear();
        let mut output = OutBuffer::around(&mut self.piece);
        let mut input = InBuffer::around(input);
        let left = self.context.decompress_stream(&mut output, &mut input).map_err(failed)?;
        self.input_at += input.pos;
        self.is_mid_frame = left != 0;
        self.is_output_full = output.pos() == output.capacity() && self.is_mid_frame;
        self.text.extend_from_slice(&self.piece);
        Ok(())
    }

    /// The source has no further bytes: the next one follows.
    fn end_source(&mut self) -> Result<()> {
        ensure!(!self.is_mid_frame && self.text.is_empty(), "{CUT}");
        ensure!(self.number > 0, "the file is empty: {NO_RECORDING}");
        match self.later.pop_front() {
            Some(next) => {
                (self.name, self.source) = next;
                self.number = 0;
            }
            None => self.is_ended = true,
        }
        Ok(())
    }

    /// Reads until there are `wanted` bytes of input, or until the end of the source.
    fn read(&mut self, wanted: usize) -> Result<()> {
        self.input.drain(..self.input_at);
        self.input_at = 0;
        while self.input.len() < wanted {
            let start = self.input.len();
            self.input.resize(READ_BYTES, 0);
            let read = loop {
                match self.source.read(&mut self.input[start..]) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    read => break read,
                }
            };
            self.input.truncate(start + *read.as_ref().unwrap_or(&0));
            if read.context("it cannot be read")? == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// First bytes of a zstd frame (RFC 8878, "Zstandard Frames").
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const NO_RECORDING: &str = "this is no recording: make one with `guildhall lab record`";
const HEADER_START: &[u8] = b"{\"format\":";
const CUT: &str = "the file was cut: copy it again. If this is all there is, `zstd -dc FILE | sed '$d' | zstd > OTHER` \
                   makes a file of the lines before";
const LARGE_WINDOW: &str = "its window is larger than 8 MiB: `zstd -dc --long=31 FILE | zstd > OTHER` makes a file \
                            with a smaller one";
/// Magic number, descriptor and window of a frame.
const FRAME_START_BYTES: usize = 6;

/// Checks what the library does not: the kind of a file, and the window of a frame that it decodes in one piece (RFC
/// 8878, "Window Descriptor"). A frame of a single segment has its content as the window, which the library
/// bounds.
fn check_frame_start(frame: &[u8], line: u64) -> Result<()> {
    let Some(start) = frame.strip_prefix(&MAGIC) else {
        ensure!(
            !frame.starts_with(HEADER_START),
            "this is the text of a recording: `zstd FILE` makes a recording of it"
        );
        let is_skippable = frame.len() > 3 && frame[0] & 0xf0 == 0x50 && frame[1..4] == [0x2a, 0x4d, 0x18];
        ensure!(line > 0 || is_skippable, "{NO_RECORDING}");
        return Ok(());
    };
    let &[descriptor, window, ..] = start else { return Ok(()) };
    let is_single_segment = descriptor & 0x20 != 0;
    let base = 1_u64 << (10 + (window >> 3));
    let bytes = base + base / 8 * u64::from(window & 7);
    ensure!(is_single_segment || bytes <= WINDOW_BYTES_MAX, "{LARGE_WINDOW}");
    Ok(())
}

/// A line as a header that this program can read.
fn read_header(line: &[u8]) -> Result<Header> {
    /// What all versions have.
    #[derive(Deserialize)]
    struct Start {
        format: String,
        version: u32,
    }
    let start: Start = serde_json::from_slice(line).context(NO_RECORDING)?;
    ensure!(start.format == FORMAT, "{NO_RECORDING}");
    ensure!(
        (1..=VERSION).contains(&start.version),
        "the recording has version {}, this program reads versions up to {VERSION}: use a newer one",
        start.version
    );
    serde_json::from_slice(line).context(NO_RECORDING)
}

fn failed(code: usize) -> anyhow::Error {
    match zstd_safe::get_error_name(code) {
        "Frame requires too much memory for decoding" => anyhow::anyhow!("{LARGE_WINDOW}"),
        name => anyhow::anyhow!("the file is damaged: copy or record it again ({name})"),
    }
}
