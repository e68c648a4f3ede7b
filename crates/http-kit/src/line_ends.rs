//! Line ends of form data: a body whose lines end in a bare LF, with CRLF in their place.
//!
//! Owns        `LineEnds`. The end of the first line decides for the whole body.
//! Invariants  L1 the division of the bytes into pieces has no effect. L2 of the content of a part nothing changes.
//!             (tests `l1_*`, `l2_*`)
//! Limits      at most a delimiter is held back.     Spec  RFC 2046 §4.1.1, from which such senders deviate.

/// Converter of one body.
#[derive(Debug)]
pub(crate) enum LineEnds {
    /// Before the end of the first line: the last byte, 0 at the start.
    Unknown(u8),
    /// As it should be: nothing is converted.
    CrLf,
    Lf(Lines),
}

/// State in a body with bare LFs.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// LF and the beginning of a delimiter: content or not, it is not known yet.
    held: Vec<u8>,
    is_in_content: bool,
    /// Bytes of the current line of a head.
    line_bytes: usize,
}

impl LineEnds {
    pub fn new() -> Self {
        Self::Unknown(0)
    }

    /// Whether bytes pass unchanged from now on.
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::CrLf)
    }

    /// Converts the next bytes of a body with this boundary.
    pub fn convert(&mut self, boundary: &str, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for (at, byte) in bytes.iter().enumerate() {
            match self {
                Self::CrLf => {
                    out.extend_from_slice(&bytes[at..]);
                    break;
                }
                Self::Unknown(b'\r') if *byte == b'\n' => {
                    *self = Self::CrLf;
                    out.push(*byte);
                }
                Self::Unknown(last) if *byte != b'\n' => {
                    *last = *byte;
                    out.push(*byte);
                }
                Self::Unknown(_) => {
                    *self = Self::Lf(Lines::default());
                    out.extend_from_slice(b"\r\n");
                }
                Self::Lf(lines) => lines.take(boundary, *byte, &mut out),
            }
        }
        out
    }

    /// The bytes that were held back until the end of the body.
    pub fn end(&mut self) -> Vec<u8> {
        match self {
            Self::Lf(lines) => std::mem::take(&mut lines.held),
            _ => Vec::new(),
        }
    }
}

impl Lines {
    fn take(&mut self, boundary: &str, byte: u8, out: &mut Vec<u8>) {
        if self.is_in_content {
            return self.take_content(boundary, byte, out);
        }
        if byte != b'\n' {
            self.line_bytes += 1;
            out.push(byte);
            return;
        }
        out.extend_from_slice(b"\r\n");
        // An empty line ends a head.
        self.is_in_content = self.line_bytes == 0;
        self.line_bytes = 0;
    }

    fn take_content(&mut self, boundary: &str, byte: u8, out: &mut Vec<u8>) {
        let expected = match self.held.len() {
            0 => Some(b'\n'),
            1 | 2 => Some(b'-'),
            len => boundary.as_bytes().get(len - 3).copied(),
        };
        if expected == Some(byte) {
            self.held.push(byte);
            if self.held.len() == boundary.len() + 3 {
                out.push(b'\r');
                out.append(&mut self.held);
                // The rest of the delimiter's line.
                (self.is_in_content, self.line_bytes) = (false, 1);
            }
            return;
        }
        out.append(&mut self.held);
        if byte == b'\n' {
            self.held.push(byte);
        } else {
            out.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn convert(body: &[u8], cut: usize) -> Vec<u8> {
        let mut ends = LineEnds::new();
        let mut out = Vec::new();
        for piece in body.chunks(cut) {
            out.extend(ends.convert("x1", piece));
        }
        out.extend(ends.end());
        out
    }

    #[test]
    fn l2_content_stays() {
        let content = "a\nb\r\n\n\n--x\n--x\n\n--\n-";
        let body = format!("--x1\nA: b\nC: d\n\n{content}\n--x1\nA: b\n\n\n--x1--\n");
        let expected = format!("--x1\r\nA: b\r\nC: d\r\n\r\n{content}\r\n--x1\r\nA: b\r\n\r\n\r\n--x1--\r\n");
        assert_eq!(String::from_utf8(convert(body.as_bytes(), 1000)).unwrap(), expected);
        assert_eq!(convert(expected.as_bytes(), 7), expected.as_bytes());
        assert_eq!(convert(b"--x1", 1), b"--x1");
        assert_eq!(convert(b"--x1\nA: b\n\nabc\n--x", 3), b"--x1\r\nA: b\r\n\r\nabc\n--x");
    }

    proptest! {
        #[test]
        fn l1_cuts_make_no_difference(
            pieces in prop::collection::vec(prop::sample::select(vec!["--x1", "\n", "\r", "--", "x", "1", "a"]), 0..40),
            cut in 1usize..9,
        ) {
            let body = pieces.concat();
            prop_assert_eq!(convert(body.as_bytes(), cut), convert(body.as_bytes(), 1000));
        }
    }
}
