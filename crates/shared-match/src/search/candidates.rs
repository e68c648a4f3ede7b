//! Candidates: earlier occurrences of the bytes of a body, by position, from which a parser chooses.
//!
//! Owns        per position the candidates that are longer than every nearer one.
//! Limits      those of the search that finds them (`finder`).

use super::source::Source;

/// Equal bytes in an earlier body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub source: Source,
    /// Position in the source.
    pub from: u32,
    /// Number of equal bytes.
    pub length: u32,
    /// How far back they are on the connection that the search is for.
    pub offset: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Candidates {
    /// Of position `p`: `all[starts[p]..starts[p + 1]]`, nearest and shortest first.
    starts: Vec<u32>,
    all: Vec<Candidate>,
}

impl Candidates {
    #[inline]
    pub fn at(&self, position: usize) -> &[Candidate] {
        match (self.starts.get(position), self.starts.get(position + 1)) {
            (Some(start), Some(end)) => &self.all[*start as usize..*end as usize],
            _ => &[],
        }
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self) {
        self.starts.clear();
        self.all.clear();
    }

    /// Starts the next position; called again after the last.
    #[inline]
    pub(crate) fn start_position(&mut self) {
        self.starts.push(self.all.len() as u32);
    }

    /// Adds to the position that was started last: nearest and shortest first.
    #[inline]
    pub(crate) fn extend(&mut self, found: impl IntoIterator<Item = Candidate>) {
        self.all.extend(found);
    }
}
