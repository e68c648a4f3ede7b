//! Multipart: form data, read as it comes in.
//!
//! Owns        the parser: bytes in (`push`), text fields out (`finish`). Contents of files are skipped, only that
//!             there were any is remembered.
//! Invariants  M1 how the bytes are cut into pieces makes no difference. M2 no input panics. (tests `m1_*`, `m2_*`)
//! Limits      `kept_bytes_max` for all text fields together, `HEAD_BYTES_MAX` per part, `PARTS_MAX` parts. Besides
//!             what is kept, at most a part's head or one delimiter is buffered.
//! Not here    the size of the whole body and its deadline: `crate::body`.     Spec  RFC 7578, RFC 2046 §5.1.

use std::collections::BTreeMap;

/// Ten files, `payload_json`, and a few plain fields.
const PARTS_MAX: usize = 32;
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// Why form data cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MultipartError {
    /// Not what RFC 7578 describes, or not UTF-8 where text belongs.
    #[error("the form data is malformed")]
    Malformed,
    /// Past one of the limits.
    #[error("the form data is too large")]
    TooLarge,
}

/// What form data holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Parts without a file name, by name; of several with one name the last.
    pub fields: BTreeMap<String, String>,
    /// Parts that are files.
    pub files_count: usize,
}

#[derive(Debug)]
enum State {
    /// Before the first delimiter: to be skipped.
    Preamble,
    /// Behind a delimiter: line end or `--`.
    AfterDelimiter,
    /// In a part's header lines.
    Head,
    /// In a field's value.
    Field { name: String, value: Vec<u8> },
    /// In a file.
    File,
    /// Behind the last delimiter: whatever follows is to be ignored.
    End,
}

/// The parser.
#[derive(Debug)]
pub(crate) struct Multipart {
    /// Line end, two dashes, boundary.
    delimiter: Vec<u8>,
    state: State,
    /// What is not understood yet.
    pending: Vec<u8>,
    kept_bytes: usize,
    kept_bytes_max: usize,
    parts_count: usize,
    parts: Parts,
}

/// The boundary of a `multipart/form-data` content type; none for other types, `Err` when there is no usable one.
pub(crate) fn boundary_of(content_type: &str) -> Option<Result<&str, MultipartError>> {
    let (kind, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"'))
    });
    let is_usable =
        |boundary: &&str| (1..=70).contains(&boundary.len()) && boundary.bytes().all(|b| (b' '..=b'~').contains(&b));
    Some(boundary.filter(is_usable).ok_or(MultipartError::Malformed))
}

impl Multipart {
    /// A parser for form data with this boundary.
    pub fn new(boundary: &str, kept_bytes_max: usize) -> Self {
        Self {
            delimiter: [b"\r\n--", boundary.as_bytes()].concat(),
            state: State::Preamble,
            // The first delimiter may stand at the very beginning, without a line end before it.
            pending: b"\r\n".to_vec(),
            kept_bytes: 0,
            kept_bytes_max,
            parts_count: 0,
            parts: Parts::default(),
        }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// `Malformed` or `TooLarge`; the parser is of no use then.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), MultipartError> {
        self.pending.extend_from_slice(bytes);
        while self.step()? {}
        Ok(())
    }

    /// What the form data held.
    ///
    /// # Errors
    /// `Malformed` when it is not complete.
    pub fn finish(self) -> Result<Parts, MultipartError> {
        match self.state {
            State::End => Ok(self.parts),
            _ => Err(MultipartError::Malformed),
        }
    }

    /// One step on what is pending; false when more bytes are needed.
    fn step(&mut self) -> Result<bool, MultipartError> {
        match &mut self.state {
            State::Preamble | State::Field { .. } | State::File => self.step_content(),
            State::AfterDelimiter => {
                // Spaces and tabs may stand between a delimiter and the line end.
                let padding = self.pending.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
                if padding > HEAD_BYTES_MAX {
                    return Err(MultipartError::TooLarge);
                }
                match self.pending.get(padding..padding + 2) {
                    None => Ok(false),
                    Some(b"\r\n") => {
                        // The line end stays: an empty head is then a line end twice, like any other.
                        self.pending.drain(..padding);
                        self.parts_count += 1;
                        if self.parts_count > PARTS_MAX {
                            return Err(MultipartError::TooLarge);
                        }
                        self.state = State::Head;
                        Ok(true)
                    }
                    Some(b"--") if padding == 0 => {
                        self.state = State::End;
                        Ok(true)
                    }
                    Some(_) => Err(MultipartError::Malformed),
                }
            }
            State::Head => {
                let Some(end) = find(&self.pending, b"\r\n\r\n") else {
                    return if self.pending.len() > HEAD_BYTES_MAX { Err(MultipartError::TooLarge) } else { Ok(false) };
                };
                if end > HEAD_BYTES_MAX {
                    return Err(MultipartError::TooLarge);
                }
                let head = std::str::from_utf8(&self.pending[..end]).map_err(|_| MultipartError::Malformed)?;
                let part = Part::read(head)?;
                // Two of the four bytes stay: an empty content is a delimiter right away.
                self.pending.drain(..end + 2);
                self.state = if part.is_file {
                    self.parts.files_count += 1;
                    State::File
                } else {
                    self.keep(part.name.len())?;
                    State::Field { name: part.name, value: Vec::new() }
                };
                Ok(true)
            }
            State::End => {
                self.pending.clear();
                Ok(false)
            }
        }
    }

    /// Moves content on, up to the next delimiter or to where one might begin.
    fn step_content(&mut self) -> Result<bool, MultipartError> {
        let found = find(&self.pending, &self.delimiter);
        let content_bytes = found.unwrap_or_else(|| self.pending.len().saturating_sub(self.delimiter.len() - 1));
        if let State::Field { .. } = self.state {
            self.keep(content_bytes)?;
        }
        let content = self.pending.drain(..content_bytes);
        match &mut self.state {
            State::Field { value, .. } => value.extend(content),
            _ => drop(content),
        }
        if found.is_none() {
            return Ok(false);
        }
        self.pending.drain(..self.delimiter.len());
        if let State::Field { name, value } = std::mem::replace(&mut self.state, State::AfterDelimiter) {
            // The line end that closes the head stands before every content.
            let text = value.strip_prefix(b"\r\n").unwrap_or_default();
            let text = String::from_utf8(text.to_vec()).map_err(|_| MultipartError::Malformed)?;
            self.parts.fields.insert(name, text);
        }
        Ok(true)
    }

    fn keep(&mut self, bytes: usize) -> Result<(), MultipartError> {
        self.kept_bytes = self.kept_bytes.saturating_add(bytes);
        if self.kept_bytes > self.kept_bytes_max { Err(MultipartError::TooLarge) } else { Ok(()) }
    }
}

/// Where `needle`, which begins with its only carriage return or with a line end, first stands.
fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = haystack[from..].iter().position(|b| *b == needle[0]) {
        if haystack[from + at..].starts_with(needle) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

struct Part {
    name: String,
    is_file: bool,
}

impl Part {
    fn read(head: &str) -> Result<Self, MultipartError> {
        let disposition = head
            .split("\r\n")
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.trim().eq_ignore_ascii_case("content-disposition"))
            .map(|(_, value)| value)
            .ok_or(MultipartError::Malformed)?;
        let (kind, mut rest) = disposition.split_once(';').ok_or(MultipartError::Malformed)?;
        if !kind.trim().eq_ignore_ascii_case("form-data") {
            return Err(MultipartError::Malformed);
        }
        let (mut name, mut has_file_name) = (None, false);
        while let Some((key, value, after)) = parameter(rest) {
            if key.eq_ignore_ascii_case("name") {
                name = Some(value);
            }
            has_file_name |= key.eq_ignore_ascii_case("filename") || key.eq_ignore_ascii_case("filename*");
            rest = after;
        }
        let name = name.ok_or(MultipartError::Malformed)?;
        let is_file = has_file_name || name == "file" || name.starts_with("files[");
        Ok(Self { name, is_file })
    }
}

/// The next `key=value` or `key="value"`, and what follows it.
fn parameter(text: &str) -> Option<(&str, String, &str)> {
    let (key, rest) = text.trim_start_matches([';', ' ', '\t']).split_once('=')?;
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find(';').unwrap_or(rest.len());
        return Some((key.trim(), rest[..end].trim().to_owned(), &rest[end..]));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((key.trim(), value, &quoted[at + 1..])),
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            _ => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(body: &[u8], cut: impl Fn(usize) -> usize) -> Result<Parts, MultipartError> {
        let mut parser = Multipart::new("AaB03x", 1000);
        let (mut from, mut n) = (0, 0);
        while from < body.len() {
            let to = (from + cut(n).max(1)).min(body.len());
            parser.push(&body[from..to])?;
            (from, n) = (to, n + 1);
        }
        parser.finish()
    }

    fn whole(body: &[u8]) -> Result<Parts, MultipartError> {
        read(body, |_| usize::MAX >> 1)
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
            files_count: 1,
        }
    }

    #[test]
    fn reads_fields_and_skips_files() {
        assert_eq!(whole(BODY), Ok(expected()));
        assert_eq!(whole(b"--AaB03x--"), Ok(Parts::default()));
    }

    #[test]
    fn refuses_what_is_not_form_data() {
        for body in [
            &b""[..],
            b"{\"content\":\"x\"}",
            b"--AaB03x\r\n",
            b"--AaB03xy\r\n\r\n\r\n--AaB03x--",
            b"--AaB03x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nno end",
            b"--AaB03x\r\nContent-Type: text/plain\r\n\r\nx\r\n--AaB03x--",
            b"--AaB03x\r\nContent-Disposition: attachment; name=\"a\"\r\n\r\nx\r\n--AaB03x--",
            b"--AaB03x\r\nContent-Disposition: form-data; filename=\"a\"\r\n\r\nx\r\n--AaB03x--",
            b"--AaB03x\r\n\r\nx\r\n--AaB03x--",
            b"--AaB03x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\xff\r\n--AaB03x--",
        ] {
            assert_eq!(whole(body), Err(MultipartError::Malformed), "{}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn limits() {
        let part = |len: usize| {
            let head = b"--AaB03x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n";
            [&head[..], &vec![b'x'; len], b"\r\n--AaB03x--"].concat()
        };
        assert!(whole(&part(900)).is_ok());
        assert_eq!(whole(&part(1000)), Err(MultipartError::TooLarge));
        let head = [&b"--AaB03x\r\n"[..], &vec![b'x'; HEAD_BYTES_MAX + 1]].concat();
        assert_eq!(whole(&head), Err(MultipartError::TooLarge));
        let file = "\r\n--AaB03x\r\nContent-Disposition: form-data; name=file\r\n\r\n";
        let body = file.repeat(PARTS_MAX + 1) + "\r\n--AaB03x--";
        assert_eq!(whole(body.as_bytes()), Err(MultipartError::TooLarge));
        let body = file.repeat(PARTS_MAX) + &"x".repeat(100_000) + "\r\n--AaB03x--";
        assert_eq!(whole(body.as_bytes()).map(|parts| parts.files_count), Ok(PARTS_MAX));
    }

    #[test]
    fn boundaries() {
        assert_eq!(boundary_of("application/json"), None);
        assert_eq!(boundary_of("multipart/form-data; boundary=abc"), Some(Ok("abc")));
        assert_eq!(boundary_of("Multipart/Form-Data; charset=utf-8; Boundary=\"a b\""), Some(Ok("a b")));
        assert_eq!(boundary_of("multipart/form-data"), Some(Err(MultipartError::Malformed)));
        assert_eq!(boundary_of("multipart/form-data; boundary="), Some(Err(MultipartError::Malformed)));
    }

    proptest! {
        #[test]
        fn m1_cuts_make_no_difference(cuts in prop::collection::vec(1usize..40, 1..20)) {
            prop_assert_eq!(read(BODY, |n| cuts[n % cuts.len()]), Ok(expected()));
        }

        #[test]
        fn m2_nothing_panics(
            pieces in prop::collection::vec(prop_oneof![
                Just(b"--AaB03x".to_vec()), Just(b"\r\n".to_vec()), Just(b"--".to_vec()), Just(b" ".to_vec()),
                Just(b"Content-Disposition: form-data; name=\"a".to_vec()), Just(b"\"".to_vec()), Just(b"\\".to_vec()),
                prop::collection::vec(any::<u8>(), 0..8),
            ], 0..40),
            cut in 1usize..50,
        ) {
            let body = pieces.concat();
            let result = whole(&body);
            prop_assert_eq!(read(&body, |_| cut), result);
        }
    }
}
