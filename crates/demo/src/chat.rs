//! Chat files: real conversations, one JSON object a line.
//!
//! Owns        the format `{"conversation","turn","speaker","text"}` (other keys are ignored) and its errors.
//! Doors       `ChatFile::check_and_open` reads a whole file once, before clients connect, then streams it in a
//!             loop.
//! Limits      a line has at most `LINE_BYTES_MAX` bytes; a conversation is handed out in pieces of at most
//!             `TURNS_MAX` turns; of a text, the first 2000 characters are kept. Memory does not grow with the file.

use serde::Deserialize;
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read as _},
    path::{Path, PathBuf},
};

/// Far above any message: a longer line means that the file has another format.
pub(super) const LINE_BYTES_MAX: usize = 64 * 1024;
/// Pieces in which a long conversation comes.
pub(super) const TURNS_MAX: usize = 500;
/// Longest message, characters.
const CHARS_MAX: usize = 2000;

/// A conversation, or a piece of a long one: in order, at least one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conversation {
    /// Lines with their speakers, which are names within the conversation.
    pub turns: Vec<Turn>,
}

/// A line of one speaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub speaker: String,
    pub text: String,
}

/// Totals of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many conversations.
    pub conversations: u64,
    /// How many turns, in all of them.
    pub turns: u64,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// It cannot be opened or read.
    #[error("{} cannot be read", .path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A line is not what it has to be.
    #[error("{}:{line}: {what}", .path.display())]
    Malformed {
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// The fault of the line.
        what: String,
    },
    /// There is nothing in it.
    #[error("{} has no conversations", .path.display())]
    Empty { path: PathBuf },
}

#[derive(Deserialize)]
struct Line {
    conversation: String,
    turn: u64,
    speaker: String,
    text: String,
}

/// All of it, read once.
fn check(path: &Path) -> Result<Summary, ChatError> {
    let mut summary = Summary::default();
    let mut lines = Lines::open(path)?;
    let mut current: Option<String> = None;
    while let Some(line) = lines.next_line()? {
        summary.turns += 1;
        if current.as_ref() != Some(&line.conversation) {
            summary.conversations += 1;
            current = Some(line.conversation);
        }
    }
    if summary.turns == 0 { Err(ChatError::Empty { path: path.to_owned() }) } else { Ok(summary) }
}

/// A file of conversations that begins again when it ends.
pub struct ChatFile {
    path: PathBuf,
    summary: Summary,
    lines: Lines<BufReader<File>>,
    /// The first line of the next conversation.
    pending: Option<Line>,
}

impl ChatFile {
    /// At its beginning. All of it is read first, so that a mistake in line one million shows now.
    ///
    /// # Errors
    /// The first line that is wrong, with its number; `Empty`; `Unreadable`.
    pub fn check_and_open(path: &Path) -> Result<Self, ChatError> {
        let summary = check(path)?;
        Ok(Self { path: path.to_owned(), summary, lines: Lines::open(path)?, pending: None })
    }

    /// Totals at the time of opening.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.summary
    }

    /// The next conversation; after the last comes the first.
    pub(super) fn next_conversation(&mut self) -> Result<Conversation, ChatError> {
        if let Some(conversation) = self.read_conversation()? {
            return Ok(conversation);
        }
        self.lines = Lines::open(&self.path)?;
        self.read_conversation()?.ok_or_else(|| ChatError::Empty { path: self.path.clone() })
    }

    fn read_conversation(&mut self) -> Result<Option<Conversation>, ChatError> {
        let Some(first) = self.pending.take().map_or_else(|| self.lines.next_line(), |line| Ok(Some(line)))? else {
            return Ok(None);
        };
        let id = first.conversation;
        let mut turns = vec![Turn { speaker: first.speaker, text: first.text }];
        while let Some(line) = self.lines.next_line()? {
            if line.conversation != id || turns.len() == TURNS_MAX {
                self.pending = Some(line);
                break;
            }
            turns.push(Turn { speaker: line.speaker, text: line.text });
        }
        Ok(Some(Conversation { turns }))
    }
}

struct Lines<R> {
    path: PathBuf,
    reader: R,
    line: u64,
    buffer: Vec<u8>,
}

impl Lines<BufReader<File>> {
    fn open(path: &Path) -> Result<Self, ChatError> {
        let unreadable = |source| ChatError::Unreadable { path: path.to_owned(), source };
        let file = File::open(path).map_err(unreadable)?;
        if file.metadata().map_err(unreadable)?.is_dir() {
            return Err(unreadable(io::ErrorKind::IsADirectory.into()));
        }
        Ok(Self { path: path.to_owned(), reader: BufReader::new(file), line: 0, buffer: Vec::new() })
    }
}

impl<R: BufRead> Lines<R> {
    /// The next line that is not blank.
    fn next_line(&mut self) -> Result<Option<Line>, ChatError> {
        loop {
            self.buffer.clear();
            self.line += 1;
            let limit = LINE_BYTES_MAX as u64 + 1;
            let read = (&mut self.reader).take(limit).read_until(b'\n', &mut self.buffer);
            let read = read.map_err(|source| ChatError::Unreadable { path: self.path.clone(), source })?;
            if read == 0 {
                return Ok(None);
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                return Err(self.malformed(format!("longer than {LINE_BYTES_MAX} bytes")));
            }
            if !self.buffer.trim_ascii().is_empty() {
                return self.parse().map(Some);
            }
        }
    }

    fn parse(&self) -> Result<Line, ChatError> {
        let mut line: Line = serde_json::from_slice(self.buffer.trim_ascii()).map_err(|error| {
            // The error counts lines within this one, so only its column is useful.
            let text = error.to_string();
            let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
            self.malformed(format!("column {}: {text}", error.column()))
        })?;
        if line.text.trim().is_empty() {
            return Err(self.malformed(format!("turn {} of {:?} has an empty text", line.turn, line.conversation)));
        }
        if let Some((end, _)) = line.text.char_indices().nth(CHARS_MAX) {
            line.text.truncate(end);
        }
        Ok(line)
    }

    fn malformed(&self, what: String) -> ChatError {
        ChatError::Malformed { path: self.path.clone(), line: self.line, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn file(content: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        file
    }

    fn line(conversation: &str, turn: usize, speaker: &str, text: &str) -> String {
        serde_json::json!({"conversation": conversation, "turn": turn, "speaker": speaker, "text": text}).to_string()
            + "\n"
    }

    #[test]
    fn conversations_come_one_by_one_and_begin_again() {
        let file = file(
            &(line("a", 0, "x", "one") + &line("a", 1, "y", "two") + "\n" + line("b", 0, "x", "three").trim_end()),
        );
        assert_eq!(check(file.path()).unwrap(), Summary { conversations: 2, turns: 3 });
        let mut chat = ChatFile::check_and_open(file.path()).unwrap();
        for _ in 0..3 {
            let texts = |c: Conversation| c.turns.into_iter().map(|t| (t.speaker, t.text)).collect::<Vec<_>>();
            let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
            assert_eq!(texts(chat.next_conversation().unwrap()), [pair("x", "one"), pair("y", "two")]);
            assert_eq!(texts(chat.next_conversation().unwrap()), [pair("x", "three")]);
        }
    }

    #[test]
    fn long_ones_come_in_pieces_and_long_texts_are_cut() {
        let mut content: String = (0..TURNS_MAX + 3).map(|turn| line("a", turn, "x", "hi")).collect();
        content += &line("b", 0, "x", &"ä".repeat(CHARS_MAX + 7));
        let file = file(&content);
        let mut chat = ChatFile::check_and_open(file.path()).unwrap();
        assert_eq!(chat.next_conversation().unwrap().turns.len(), TURNS_MAX);
        assert_eq!(chat.next_conversation().unwrap().turns.len(), 3);
        assert_eq!(chat.next_conversation().unwrap().turns[0].text.chars().count(), CHARS_MAX);
    }

    #[test]
    fn errors_name_the_line() {
        let check = |bad: &str, expected: &str| {
            let file = file(&(line("a", 0, "x", "fine") + "\n" + bad));
            let message = check(file.path()).unwrap_err().to_string();
            let message = message.strip_prefix(&file.path().display().to_string()).unwrap();
            assert!(message.starts_with(":3: ") && message.contains(expected), "{bad:?} gave {message:?}");
        };
        check("hello", "column 1: expected value");
        check("[1,2]", "expected");
        check("{\"conversation\":\"a\",\"turn\":0,\"speaker\":\"x\"}", "missing field `text`");
        check(
            "{\"conversation\":\"a\",\"turn\":\"0\",\"speaker\":\"x\",\"text\":\"t\"}",
            "invalid type: string \"0\", expected u64",
        );
        check(&line("a", 4, "x", "  "), "turn 4 of \"a\" has an empty text");
        check(&line("a", 0, "x", &"y".repeat(LINE_BYTES_MAX)), "longer than 65536 bytes");
        check("{\"conversation\":\"a\",\"turn\":0", "EOF");
    }

    #[test]
    fn files_that_are_none() {
        let empty = file("\n\n");
        assert!(matches!(check(empty.path()), Err(ChatError::Empty { .. })));
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(check(dir.path()), Err(ChatError::Unreadable { .. })));
        assert!(matches!(check(&dir.path().join("no")), Err(ChatError::Unreadable { .. })));
    }
}
