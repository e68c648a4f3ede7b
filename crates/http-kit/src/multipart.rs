//! Multipart: form data, parsed while it arrives.
//!
//! Owns        the adapter to `multer`: bytes in (`push`), pieces of files out (`take_files`), text fields at the
//!             end (`finish`).
//! Invariants  M1 the division of the bytes into pieces has no effect. M2 no input panics. (tests `m1_*`, `m2_*`)
//! Limits      `kept_bytes_max` for all text fields together, `PARTS_MAX` parts, `HEAD_BYTES_MAX` per part. In addition
//!             to text fields, at most `HEAD_BYTES_MAX`, two blocks, and untaken file bytes are buffered.
//! Not here    the size of the whole body and its deadline: `crate::body`.     Spec  RFC 7578, RFC 2046 §5.1.
//!
//! By itself `multer` reads all that its stream has ready, and has no limit for the bytes before a part's content
//! (preamble, delimiter, headers) except the one for the whole stream. So it does not get the body: it reads a stream
//! of one block at a time, and gets the next block when it has parsed the last one.

use crate::line_ends::LineEnds;
use axum::http::{
    HeaderMap,
    header::{CONTENT_DISPOSITION, CONTENT_TYPE},
};
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::mpsc::{self, TryRecvError},
    task::{Context, Poll, Waker},
};

/// Ten files, `payload_json`, and a few plain fields.
const PARTS_MAX: usize = 32;
/// Bytes before a part's content are always accepted up to this size, and never at twice this size: they are
/// counted in blocks.
const HEAD_BYTES_MAX: usize = 2 * BLOCK_BYTES;
/// Bytes that `multer` gets at once. Constant, so that neither limits nor time depend on the pieces.
const BLOCK_BYTES: usize = 4 * 1024;

/// Why form data cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MultipartError {
    /// Not valid by RFC 7578, or text that is not UTF-8.
    #[error("the form data is malformed")]
    Malformed,
    /// Past one of the limits.
    #[error("the form data is too large")]
    TooLarge,
}

/// The text fields of form data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Parts without a file name, by name; of several with one name the last.
    pub fields: BTreeMap<String, String>,
}

/// A piece of a file, in order: its head, its bytes, its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilePiece {
    Begin(FileHead),
    Bytes(Bytes),
    End,
}

/// Headers of a file's part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileHead {
    /// Name of the form field.
    pub name: String,
    /// As the sender calls it.
    pub filename: Option<String>,
    /// Content type that the sender declares.
    pub content_type: Option<String>,
}

/// A part whose content is being parsed.
struct Part {
    field: multer::Field<'static>,
    /// Name and value so far; none for files.
    text: Option<(String, Vec<u8>)>,
}

/// Incremental parser of form data.
pub struct Multipart {
    multer: multer::Multipart<'static>,
    boundary: String,
    line_ends: LineEnds,
    /// The end of the stream that `multer` reads from. It never holds more than one block.
    feed: mpsc::Sender<Bytes>,
    /// Bytes received since the last full block.
    block: BytesMut,
    part: Option<Part>,
    /// Fed since the last part's content.
    head_bytes: usize,
    kept_bytes: usize,
    kept_bytes_max: usize,
    parts_count: usize,
    parts: Parts,
    files: Vec<FilePiece>,
    /// The last delimiter was there: whatever follows is to be ignored.
    is_complete: bool,
}

/// The boundary of a `multipart/form-data` content type; none for other types, `Err` when there is no usable one.
fn boundary_of(content_type: &str) -> Option<Result<String, MultipartError>> {
    let kind = content_type.split(';').next().unwrap_or_default();
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let is_usable =
        |boundary: &String| (1..=70).contains(&boundary.len()) && boundary.bytes().all(|b| (b' '..=b'~').contains(&b));
    Some(multer::parse_boundary(content_type).ok().filter(is_usable).ok_or(MultipartError::Malformed))
}

/// The same of the `Content-Type` in these headers.
pub fn boundary_in(headers: &HeaderMap) -> Option<Result<String, MultipartError>> {
    boundary_of(headers.get(CONTENT_TYPE)?.to_str().ok()?)
}

impl Multipart {
    /// A parser for form data with this boundary.
    pub fn new(boundary: &str, kept_bytes_max: usize) -> Self {
        let (feed, blocks) = mpsc::channel();
        let blocks = stream::poll_fn(move |_| match blocks.try_recv() {
            Ok(block) => Poll::Ready(Some(Ok::<Bytes, Infallible>(block))),
            // No waker is stored: `feed` polls again.
            Err(TryRecvError::Empty) => Poll::Pending,
            Err(TryRecvError::Disconnected) => Poll::Ready(None),
        });
        Self {
            multer: multer::Multipart::new(blocks, boundary),
            boundary: boundary.to_owned(),
            line_ends: LineEnds::new(),
            feed,
            block: BytesMut::new(),
            part: None,
            head_bytes: 0,
            kept_bytes: 0,
            kept_bytes_max,
            parts_count: 0,
            parts: Parts::default(),
            files: Vec::new(),
            is_complete: false,
        }
    }

    /// Bytes of text fields so far, names included.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Limit on the bytes of text fields.
    pub fn kept_bytes_max(&self) -> usize {
        self.kept_bytes_max
    }

    /// Parses the next bytes. Lines may end in a bare LF.
    ///
    /// # Errors
    /// `Malformed` or `TooLarge`; the parser is of no use then.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), MultipartError> {
        if self.line_ends.is_settled() {
            return self.push_blocks(bytes);
        }
        // In steps, so that no copy is longer than a block.
        for piece in bytes.chunks(BLOCK_BYTES) {
            let converted = self.line_ends.convert(&self.boundary, piece);
            self.push_blocks(&converted)?;
        }
        Ok(())
    }

    fn push_blocks(&mut self, mut bytes: &[u8]) -> Result<(), MultipartError> {
        while !bytes.is_empty() && !self.is_complete {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.block.len()));
            self.block.extend_from_slice(now);
            bytes = later;
            if self.block.len() == BLOCK_BYTES {
                self.feed()?;
            }
        }
        Ok(())
    }

    /// Takes the file pieces parsed since the last call.
    pub fn take_files(&mut self) -> Vec<FilePiece> {
        std::mem::take(&mut self.files)
    }

    /// The body has ended.
    ///
    /// # Errors
    /// `Malformed` if it is not complete, otherwise as `push`.
    pub fn end(&mut self) -> Result<(), MultipartError> {
        let held = self.line_ends.end();
        self.push_blocks(&held)?;
        if !self.is_complete {
            self.feed()?;
        }
        if self.is_complete { Ok(()) } else { Err(MultipartError::Malformed) }
    }

    /// The text fields, after `end`.
    pub fn finish(self) -> Parts {
        self.parts
    }

    /// Passes the block to `multer`, and collects its output.
    fn feed(&mut self) -> Result<(), MultipartError> {
        self.head_bytes += self.block.len();
        self.feed.send(self.block.split().freeze()).map_err(|_| MultipartError::Malformed)?;
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match &mut self.part {
                None => match self.multer.poll_next_field(&mut context) {
                    Poll::Ready(Ok(Some(field))) => self.part = Some(self.begin(field)?),
                    Poll::Ready(Ok(None)) => {
                        self.is_complete = true;
                        return Ok(());
                    }
                    Poll::Ready(Err(_)) => return Err(MultipartError::Malformed),
                    Poll::Pending if self.head_bytes > HEAD_BYTES_MAX => return Err(MultipartError::TooLarge),
                    Poll::Pending => return Ok(()),
                },
                Some(part) => match part.field.poll_next_unpin(&mut context) {
                    Poll::Ready(Some(Ok(content))) => match &mut part.text {
                        Some((_, value)) => {
                            value.extend_from_slice(&content);
                            self.keep(content.len())?;
                        }
                        None => self.files.push(FilePiece::Bytes(content)),
                    },
                    Poll::Ready(Some(Err(_))) => return Err(MultipartError::Malformed),
                    Poll::Ready(None) => self.end_part()?,
                    Poll::Pending => return Ok(()),
                },
            }
        }
    }

    fn begin(&mut self, field: multer::Field<'static>) -> Result<Part, MultipartError> {
        self.parts_count += 1;
        if self.parts_count > PARTS_MAX {
            return Err(MultipartError::TooLarge);
        }
        let disposition = field.headers().get(CONTENT_DISPOSITION).ok_or(MultipartError::Malformed)?;
        let (kind, parameters) = disposition_of(disposition.as_bytes());
        if !kind.eq_ignore_ascii_case(b"form-data") {
            return Err(MultipartError::Malformed);
        }
        // Not `Field::name`: it knows no upper case, no `filename*`, and no names that are not UTF-8.
        let find = |key: &str| parameters.iter().find(|(found, _)| found == key).map(|(_, value)| value.clone());
        let name = find("name").and_then(|name| String::from_utf8(name).ok()).ok_or(MultipartError::Malformed)?;
        let (filename, extended_filename) = (find("filename"), find("filename*"));
        let is_file = filename.is_some() || extended_filename.is_some();
        // Browsers give a name of a file to every part that is a `Blob`.
        if is_file && name != "payload_json" || name == "file" || name.starts_with("files[") {
            let filename = filename.and_then(|name| String::from_utf8(name).ok());
            let filename = filename.or_else(|| extended(&extended_filename?));
            let content_type = field.content_type().map(ToString::to_string);
            self.files.push(FilePiece::Begin(FileHead { name, filename, content_type }));
            return Ok(Part { field, text: None });
        }
        self.keep(name.len())?;
        Ok(Part { field, text: Some((name, Vec::new())) })
    }

    fn end_part(&mut self) -> Result<(), MultipartError> {
        self.head_bytes = 0;
        match self.part.take().map(|part| part.text) {
            Some(Some((name, value))) => {
                let value = String::from_utf8(value).map_err(|_| MultipartError::Malformed)?;
                self.parts.fields.insert(name, value);
            }
            Some(None) => self.files.push(FilePiece::End),
            None => {}
        }
        Ok(())
    }

    fn keep(&mut self, bytes: usize) -> Result<(), MultipartError> {
        self.kept_bytes = self.kept_bytes.saturating_add(bytes);
        if self.kept_bytes > self.kept_bytes_max { Err(MultipartError::TooLarge) } else { Ok(()) }
    }
}

/// The kind of a `Content-Disposition`, and its parameters with their names in lower case.
fn disposition_of(header: &[u8]) -> (&[u8], Vec<(String, Vec<u8>)>) {
    let end = header.iter().position(|byte| *byte == b';').unwrap_or(header.len());
    let (kind, mut rest) = header.split_at(end);
    let mut parameters = Vec::new();
    while let Some(at) = rest.iter().position(|byte| *byte == b'=') {
        // Text before the last separator has no value.
        let name = rest[..at].rsplit(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let value;
        (value, rest) = parameter_value(rest[at + 1..].trim_ascii_start());
        parameters.push((String::from_utf8_lossy(name).to_ascii_lowercase(), value));
    }
    (kind.trim_ascii(), parameters)
}

/// A value in quotes or without, and the bytes behind it. Only a quote can be escaped: file names may have backslashes.
fn parameter_value(bytes: &[u8]) -> (Vec<u8>, &[u8]) {
    let [b'"', quoted @ ..] = bytes else {
        let end = bytes.iter().position(|byte| *byte == b';').unwrap_or(bytes.len());
        return (bytes[..end].trim_ascii_end().to_vec(), &bytes[end..]);
    };
    let (mut value, mut rest) = (Vec::new(), quoted);
    loop {
        match rest {
            [b'\\', b'"', after @ ..] => {
                value.push(b'"');
                rest = after;
            }
            [b'"', after @ ..] => return (value, after),
            [byte, after @ ..] => {
                value.push(*byte);
                rest = after;
            }
            [] => return (value, rest),
        }
    }
}

/// The name in `UTF-8''NAME` (RFC 8187); `None` for other forms.
fn extended(value: &[u8]) -> Option<String> {
    let at = value.windows(2).position(|piece| piece == b"''")?;
    Some(percent_encoding::percent_decode(&value[at + 2..]).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All results, with the bytes of each file in one piece.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    struct Parts {
        fields: BTreeMap<String, String>,
        files: Vec<(FileHead, Vec<u8>)>,
    }

    impl Parts {
        fn take(&mut self, pieces: Vec<FilePiece>) {
            for piece in pieces {
                match piece {
                    FilePiece::Begin(head) => self.files.push((head, Vec::new())),
                    FilePiece::Bytes(bytes) => self.files.last_mut().unwrap().1.extend_from_slice(&bytes),
                    FilePiece::End => {}
                }
            }
        }
    }

    fn read(body: &[u8], cut: impl Fn(usize) -> usize) -> Result<Parts, MultipartError> {
        let mut parser = Multipart::new("AaB03x", 1000);
        let mut parts = Parts::default();
        let (mut from, mut n) = (0, 0);
        while from < body.len() {
            let to = (from + cut(n).max(1)).min(body.len());
            parser.push(&body[from..to])?;
            parts.take(parser.take_files());
            (from, n) = (to, n + 1);
        }
        parser.end()?;
        parts.take(parser.take_files());
        parts.fields = parser.finish().fields;
        Ok(parts)
    }

    fn whole(body: &[u8]) -> Result<Parts, MultipartError> {
        read(body, |_| usize::MAX >> 1)
    }

    /// The body behind a preamble, which moves the seam between the first two blocks to any place in it.
    fn seam_at(body: &[u8], at: usize) -> Vec<u8> {
        [&vec![b'x'; BLOCK_BYTES - 2 - at.min(BLOCK_BYTES - 2)][..], b"\r\n", body].concat()
    }

    const BODY: &[u8] = b"preamble\r\n--AaB03x\r\nContent-Disposition: form-data; name=\"payload_json\"\r\n\
        Content-Type: application/json\r\n\r\n{\"content\":\"a\r\n--AaB03\"}\r\n--AaB03x  \r\n\
        content-disposition: form-data; filename=\"a;\\\"b.txt\"; name=\"files[0]\"\r\n\r\nbytes\r\n\r\n--AaB\r\n\
        --AaB03x\r\nContent-Disposition: form-data; name=empty\r\n\r\n\r\n--AaB03x--\r\nepilogue";

    fn expected() -> Parts {
        Parts {
            fields: [
                ("payload_json".to_owned(), "{\"content\":\"a\r\n--AaB03\"}".to_owned()),
                ("empty".to_owned(), String::new()),
            ]
            .into(),
            files: vec![(
                FileHead { name: "files[0]".to_owned(), filename: Some("a;\"b.txt".to_owned()), content_type: None },
                b"bytes\r\n\r\n--AaB".to_vec(),
            )],
        }
    }

    #[test]
    fn reads_fields_and_files() {
        assert_eq!(whole(BODY), Ok(expected()));
        assert_eq!(whole(b"--AaB03x--"), Ok(Parts::default()));
    }

    #[test]
    fn files_are_known_by_either_name() {
        let files_count = |disposition: &[u8]| {
            let body = [
                b"--AaB03x\r\nContent-Disposition: form-data; ",
                disposition,
                b"\r\nContent-Type: text/plain; charset=utf-16\r\n\r\n\xff\r\n--AaB03x--",
            ];
            whole(&body.concat()).map(|parts| parts.files.len())
        };
        for disposition in [
            &b"name=\"a\"; filename=\"b\""[..],
            b"name=a;filename=",
            b"name=\"a\"; FileName=\"b\"",
            b"name=\"a\"; filename*=UTF-8''%c3%a4",
            b"name=\"a\"; filename=\"\xe4\"",
            b"filename=\"\xc3\xa4\\\"\"; name=\"a\"",
            b"name=file",
            b"name=\"files[9]\"",
        ] {
            assert_eq!(files_count(disposition), Ok(1), "{}", String::from_utf8_lossy(disposition));
        }
        // Text then, and this one is none.
        assert_eq!(files_count(b"name=\"a\""), Err(MultipartError::Malformed));
        assert_eq!(files_count(b"name=\"profile\""), Err(MultipartError::Malformed));
    }

    #[test]
    fn names_in_every_form() {
        let field = |disposition: &str| {
            let body = format!("--AaB03x\r\nContent-Disposition: {disposition}\r\n\r\nv\r\n--AaB03x--");
            whole(body.as_bytes()).map(|parts| parts.fields.into_keys().next())
        };
        for disposition in [
            "form-data; name=\"a\"",
            "FORM-DATA; NAME=\"a\"",
            "Form-Data;name=a",
            "form-data ; x ; name = a ",
            "form-data; x=\"; name=b\"; name=\"a\"; name=c",
            "form-data; name= \"a\" ;",
        ] {
            assert_eq!(field(disposition), Ok(Some("a".to_owned())), "{disposition}");
        }
        assert_eq!(field("form-data; name=\"a\\\"; b\\\""), Ok(Some("a\"; b\"".to_owned())));
        for disposition in ["form-data", "form-data; name", "form-data; filename2=a", "form-data x; name=a"] {
            assert_eq!(field(disposition), Err(MultipartError::Malformed), "{disposition}");
        }
    }

    #[test]
    fn lines_may_end_in_lf() {
        let lf = String::from_utf8(BODY.to_vec()).unwrap().replace("\r\n", "\n");
        let expected = Parts {
            fields: [
                ("payload_json".to_owned(), "{\"content\":\"a\n--AaB03\"}".to_owned()),
                ("empty".to_owned(), String::new()),
            ]
            .into(),
            files: vec![(expected().files.remove(0).0, b"bytes\n\n--AaB".to_vec())],
        };
        for cut in [1, 7, 1000] {
            assert_eq!(read(lf.as_bytes(), |_| cut), Ok(expected.clone()));
        }
    }

    #[test]
    fn names_of_files() {
        let filename = |disposition: &str| {
            let head = "--AaB03x\r\nContent-Disposition: form-data; name=\"files[0]\"; ";
            let body = [head, disposition, "\r\nContent-Type: text/plain\r\n\r\nx\r\n--AaB03x--"].concat();
            let (head, _) = whole(body.as_bytes()).unwrap().files.remove(0);
            assert_eq!(head.content_type.as_deref(), Some("text/plain"));
            head.filename
        };
        assert_eq!(filename("filename=\"a b.txt\"").as_deref(), Some("a b.txt"));
        assert_eq!(filename("filename=a.txt").as_deref(), Some("a.txt"));
        assert_eq!(filename("filename=\"ä.txt\"").as_deref(), Some("ä.txt"));
        assert_eq!(filename("filename*=UTF-8''%c3%a4.txt").as_deref(), Some("ä.txt"));
        assert_eq!(filename("filename*=utf-8'en'%ff"), None);
    }

    #[test]
    fn refuses_bodies_that_are_not_form_data() {
        for body in [
            &b""[..],
            b"{\"content\":\"x\"}",
            b"--AaB03x\r\n",
            b"--AaB03xy\r\n\r\n\r\n--AaB03x--",
            b"--AaB03x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nno end",
            b"--AaB03x\r\nContent-Type: text/plain\r\n\r\nx\r\n--AaB03x--",
            b"--AaB03x\r\nContent-Disposition: attachment; name=\"a\"\r\n\r\nx\r\n--AaB03x--",
            b"--AaB03x\r\nContent-Disposition: form-data; filename=\"a\"\r\n\r\nx\r\n--AaB03x--",
            b"--AaB03x\r\nContent-Disposition: form-data; name=\"\xff\"\r\n\r\nx\r\n--AaB03x--",
            b"--AaB03x\r\n\r\nx\r\n--AaB03x--",
            b"--AaB03x\r\n\r\nx\r\n--AaB03x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n--AaB03x--",
            b"--AaB03x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\xff\r\n--AaB03x--",
        ] {
            assert_eq!(whole(body), Err(MultipartError::Malformed), "{}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn text_has_a_limit() {
        let part = |len: usize| {
            let head = b"--AaB03x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n";
            [&head[..], &vec![b'x'; len], b"\r\n--AaB03x--"].concat()
        };
        assert!(whole(&part(999)).is_ok());
        assert_eq!(whole(&part(1000)), Err(MultipartError::TooLarge));
        assert_eq!(whole(&part(1_000_000)), Err(MultipartError::TooLarge));
    }

    #[test]
    fn parts_have_a_limit() {
        let file = "\r\n--AaB03x\r\nContent-Disposition: form-data; name=file\r\n\r\n";
        let body = file.repeat(PARTS_MAX + 1) + "\r\n--AaB03x--";
        assert_eq!(whole(body.as_bytes()), Err(MultipartError::TooLarge));
        let body = file.repeat(PARTS_MAX) + &"x".repeat(100_000) + "\r\n--AaB03x--";
        assert_eq!(whole(body.as_bytes()).map(|parts| parts.files.len()), Ok(PARTS_MAX));
    }

    #[test]
    fn heads_have_a_limit() {
        // A head after a content of any length, so that it begins anywhere in a block.
        let head = |content: usize, len: usize| {
            let file = "--AaB03x\r\nContent-Disposition: form-data; name=file\r\n\r\n";
            let body = [file, &"x".repeat(content), "\r\n", file.trim_end(), "\r\nX: ", &"x".repeat(len)];
            whole((body.concat() + "\r\n\r\n\r\n--AaB03x--").as_bytes())
        };
        for content in (0..2 * BLOCK_BYTES).step_by(500) {
            assert_eq!(head(content, HEAD_BYTES_MAX - 100).map(|parts| parts.files.len()), Ok(2));
            assert_eq!(head(content, 2 * HEAD_BYTES_MAX), Err(MultipartError::TooLarge));
        }
        // The same limit applies to a preamble, to bytes after a delimiter, and to headers.
        for (start, filler) in [("", "y"), ("--AaB03x", " "), ("--AaB03x\r\n", "y"), ("--AaB03x\r\nX: ", "y")] {
            let body = start.to_owned() + &filler.repeat(2 * HEAD_BYTES_MAX);
            assert_eq!(whole(body.as_bytes()), Err(MultipartError::TooLarge), "{start:?}");
        }
    }

    #[test]
    fn files_are_not_buffered() {
        // Each could be the beginning of a delimiter.
        let content = b"x\r\n--AaB0".repeat(500_000);
        let used = allocation_counter::measure(|| {
            let mut parser = Multipart::new("AaB03x", 1000);
            parser.push(b"--AaB03x\r\nContent-Disposition: form-data; name=file\r\n\r\n").unwrap();
            let mut bytes = 0;
            let mut count = |pieces: Vec<FilePiece>| {
                bytes += pieces
                    .iter()
                    .map(|piece| if let FilePiece::Bytes(bytes) = piece { bytes.len() } else { 0 })
                    .sum::<usize>();
            };
            for piece in content.chunks(8 * 1024) {
                parser.push(piece).unwrap();
                count(parser.take_files());
            }
            parser.push(b"\r\n--AaB03x--").unwrap();
            parser.end().unwrap();
            count(parser.take_files());
            assert_eq!(bytes, content.len());
        });
        assert!(used.bytes_max < 64 * 1024, "{used:?}");
    }

    #[test]
    fn boundaries() {
        let boundary = |content_type: &str| boundary_of(content_type).map(|boundary| boundary.ok());
        assert_eq!(boundary("application/json"), None);
        assert_eq!(boundary("nonsense"), None);
        assert_eq!(boundary("multipart/form-data; boundary=abc"), Some(Some("abc".to_owned())));
        assert_eq!(boundary("Multipart/Form-Data; charset=utf-8; Boundary=\"a b\""), Some(Some("a b".to_owned())));
        assert_eq!(boundary("multipart/form-data;boundary=\"--f:(1)\""), Some(Some("--f:(1)".to_owned())));
        assert_eq!(boundary("MULTIPART/FORM-DATA; BOUNDARY=abc"), Some(Some("abc".to_owned())));
        assert_eq!(boundary("multipart/form-data"), Some(None));
        assert_eq!(boundary("multipart/form-data; boundary="), Some(None));
        assert_eq!(boundary("multipart/form-data; boundary=\"\""), Some(None));
        assert_eq!(boundary(&format!("multipart/form-data; boundary={}", "x".repeat(71))), Some(None));
    }

    proptest! {
        #[test]
        fn m1_cuts_make_no_difference(
            cuts in prop::collection::vec(1usize..40, 1..20),
            seam in 0..BODY.len(),
        ) {
            prop_assert_eq!(read(&seam_at(BODY, seam), |n| cuts[n % cuts.len()]), Ok(expected()));
        }

        #[test]
        fn m2_nothing_panics(
            pieces in prop::collection::vec(prop_oneof![
                Just(b"--AaB03x".to_vec()), Just(b"\r\n".to_vec()), Just(b"--".to_vec()), Just(b" ".to_vec()),
                Just(b"Content-Disposition: form-data; name=\"a".to_vec()), Just(b"\"".to_vec()), Just(b"\\".to_vec()),
                Just(b"\r\n--AaB03x\r\n".to_vec()), Just(b"\r\n--AaB03x--".to_vec()),
                Just(b"Content-Disposition: form-data; name=b\r\n\r\n".to_vec()),
                prop::collection::vec(any::<u8>(), 0..8),
            ], 0..40),
            cut in 1usize..50,
            seam in 0usize..500,
        ) {
            let body = pieces.concat();
            let result = whole(&body);
            prop_assert_eq!(read(&body, |_| cut), result.clone());
            prop_assert_eq!(whole(&seam_at(&body, seam)), result);
        }

        #[test]
        fn m2_no_content_type_panics(
            kind in "(multipart/form-data|[ -~]{0,20})",
            rest in "[ -~]{0,20}(; ?boundary=)?[ -~]{0,80}",
        ) {
            if let Some(Ok(boundary)) = boundary_of(&(kind + &rest)) {
                prop_assert!((1..=70).contains(&boundary.len()), "{boundary:?}");
            }
        }
    }
}
