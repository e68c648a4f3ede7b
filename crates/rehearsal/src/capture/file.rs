//! File: the format of captures.
//!
//! Owns        the header, the lines, their version and bounds.
//! Invariants  F1 `zstd -dc FILE | jq` reads a file: frames of JSON lines, the first line a header. F2 bytes of a file
//!             never cause a panic, or memory beyond `LINE_BYTES_MAX` and `WINDOW_LOG_MAX`. (tests `f*_*`)
//! Limits      `LINE_BYTES_MAX`.     Spec  docs/rehearsal.md "The format of a capture".

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::io::Read;
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// Value of `format` in the header.
const FORMAT: &str = "guildhall-capture";
/// The version that is written; a reader refuses later ones.
pub const CAPTURE_VERSION: u32 = 1;
/// Longest line.
pub const LINE_BYTES_MAX: usize = 64 << 20;
/// Largest window that is read, 8 MiB.
const WINDOW_LOG_MAX: u32 = 23;
const PIECE_BYTES: usize = 128 << 10;
const NO_CAPTURE: &str = "this is no capture: make one with `guildhall capture`";

/// First line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureHeader {
    /// Always `guildhall-capture`.
    pub format: String,
    pub version: u32,
    /// Texts, ids and times are replaced by surrogates.
    pub scrubbed: bool,
    /// Unix time of the start, seconds.
    pub started_at: u64,
}

impl CaptureHeader {
    pub(crate) fn new(scrubbed: bool, started_at: u64) -> Self {
        Self { format: FORMAT.to_owned(), version: CAPTURE_VERSION, scrubbed, started_at }
    }
}

/// A line behind the header. One of the last five fields is there.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureLine {
    /// Microseconds since the start.
    pub at_us: u64,
    /// Number of the connection, from 0.
    pub connection: u64,
    /// A client connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<Open>,
    /// The gateway's bytes came in a piece of this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<u64>,
    /// A WebSocket frame of the gateway. It is complete with the last chunk before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<Frame>,
    /// A payload of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Box<RawValue>>,
    /// The connection ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
}

/// Query of the client's URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    pub encoding: String,
    /// `none`, `zlib-stream` or `zstd-stream`.
    pub compression: String,
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// `client` or `gateway`.
    pub by: String,
    /// Of its close frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
}

/// A frame, decompressed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// `text`, `binary`, `continuation`, `ping`, `pong` or `close`.
    pub kind: String,
    /// The message ends with it.
    pub fin: bool,
    /// Header and payload, as they were sent.
    pub wire_bytes: u64,
    /// Decompressed payload, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Decompressed payload in base64, if it is not text: ETF, or a part of a character.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
    /// Its content was left out, because it cannot be scrubbed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreadable: bool,
}

/// Reads a file line by line.
pub struct CaptureReader<R> {
    source: R,
    context: DCtx<'static>,
    input: Vec<u8>,
    input_at: usize,
    text: Vec<u8>,
    text_at: usize,
    is_ended: bool,
    is_mid_frame: bool,
    /// The library may have further output from earlier input.
    is_output_full: bool,
    number: u64,
    header: CaptureHeader,
}

impl<R> std::fmt::Debug for CaptureReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureReader").field("header", &self.header).finish_non_exhaustive()
    }
}

impl<R: Read> CaptureReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// The source is no capture, or one of a later version.
    pub fn new(source: R) -> Result<Self> {
        let mut context = DCtx::try_create().context("no memory for a context")?;
        context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).map_err(failed)?;
        let mut reader = Self {
            source,
            context,
            input: Vec::new(),
            input_at: 0,
            text: Vec::new(),
            text_at: 0,
            is_ended: false,
            is_mid_frame: false,
            is_output_full: false,
            number: 0,
            header: CaptureHeader::new(true, 0),
        };
        let line = reader.next_text().context(NO_CAPTURE)?.context(NO_CAPTURE)?;
        let header: CaptureHeader = serde_json::from_slice(&line).context(NO_CAPTURE)?;
        ensure!(header.format == FORMAT, "{NO_CAPTURE}");
        ensure!(
            (1..=CAPTURE_VERSION).contains(&header.version),
            "the capture has version {}, this program reads versions up to {CAPTURE_VERSION}: use a newer one",
            header.version
        );
        reader.header = header;
        Ok(reader)
    }

    /// The first line.
    #[must_use]
    pub fn header(&self) -> &CaptureHeader {
        &self.header
    }

    /// The next line; none at the end.
    ///
    /// # Errors
    /// The line is too long or is no line, or the file is damaged: with its number.
    pub fn next_line(&mut self) -> Result<Option<CaptureLine>> {
        let number = self.number + 1;
        let Some(line) = self.next_text().with_context(|| format!("line {number}"))? else { return Ok(None) };
        let line = serde_json::from_slice(&line).with_context(|| format!("line {number} is no line of a capture"))?;
        Ok(Some(line))
    }

    fn next_text(&mut self) -> Result<Option<Vec<u8>>> {
        let mut searched = self.text_at;
        loop {
            if let Some(length) = self.text[searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.text[self.text_at..searched + length].to_vec();
                self.text_at = searched + length + 1;
                self.number += 1;
                return Ok(Some(line));
            }
            searched = self.text.len();
            if self.is_ended {
                ensure!(self.text_at == self.text.len(), "it was cut: the file is not complete");
                return Ok(None);
            }
            ensure!(self.text.len() - self.text_at <= LINE_BYTES_MAX, "it has more than {} MiB", LINE_BYTES_MAX >> 20);
            self.text.drain(..self.text_at);
            searched -= self.text_at;
            self.text_at = 0;
            self.fill()?;
        }
    }

    /// Decompresses some more text.
    fn fill(&mut self) -> Result<()> {
        if self.input_at == self.input.len() && !self.is_output_full {
            self.input.resize(PIECE_BYTES, 0);
            let read = loop {
                match self.source.read(&mut self.input) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    read => break read.context("the file cannot be read")?,
                }
            };
            self.input.truncate(read);
            self.input_at = 0;
            if read == 0 {
                if self.is_mid_frame {
                    bail!("it was cut: the file is not complete");
                }
                self.is_ended = true;
                return Ok(());
            }
        }
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let mut output = OutBuffer::around(&mut piece);
        let mut input = InBuffer::around(&self.input[self.input_at..]);
        let left = self.context.decompress_stream(&mut output, &mut input).map_err(failed)?;
        self.input_at += input.pos;
        self.is_mid_frame = left != 0;
        self.is_output_full = output.pos() == output.capacity() && self.is_mid_frame;
        self.text.extend_from_slice(&piece);
        Ok(())
    }
}

fn failed(code: usize) -> anyhow::Error {
    anyhow::anyhow!("the file is damaged: {}", zstd_safe::get_error_name(code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_lab::RecordingWriter;
    use proptest::prelude::*;

    fn file(lines: &[CaptureLine]) -> Vec<u8> {
        let mut writer = RecordingWriter::new().unwrap();
        writer.push(&CaptureHeader::new(true, 5)).unwrap();
        lines.iter().for_each(|line| writer.push(line).unwrap());
        writer.flush().unwrap();
        writer.take()
    }

    fn lines() -> Vec<CaptureLine> {
        let open = Open { encoding: "json".to_owned(), compression: "none".to_owned() };
        let frame = Frame {
            kind: "text".to_owned(),
            fin: true,
            wire_bytes: 7,
            text: Some("{}".to_owned()),
            ..Frame::default()
        };
        vec![
            CaptureLine { open: Some(open), ..CaptureLine::default() },
            CaptureLine { at_us: 9, chunk: Some(7), ..CaptureLine::default() },
            CaptureLine { at_us: 9, frame: Some(frame), ..CaptureLine::default() },
        ]
    }

    fn read(bytes: &[u8]) -> Result<usize> {
        let mut reader = CaptureReader::new(bytes)?;
        let mut count = 0;
        while reader.next_line()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    #[test]
    fn f1_a_file_has_a_header_and_lines() {
        assert_eq!(read(&file(&lines())).unwrap(), 3);
        let error = |bytes: &[u8]| format!("{:#}", read(bytes).unwrap_err());
        assert!(error(b"").contains("guildhall capture"));
        assert!(error(b"{\"format\":\"guildhall-capture\"}").contains("guildhall capture"));
        let mut cut = file(&lines());
        cut.truncate(cut.len() - 3);
        assert!(error(&cut).contains("cut"), "{}", error(&cut));
    }

    proptest! {
        #[test]
        fn f2_no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&bytes);
        }

        #[test]
        fn f2_no_changed_file_causes_a_panic(at in 0usize..400, with in any::<u8>()) {
            let mut bytes = file(&lines());
            let at = at % bytes.len();
            bytes[at] = with;
            let _ = read(&bytes);
        }
    }
}
