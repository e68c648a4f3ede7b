//! Dictionaries: bytes that a stream may refer to from its start.
//!
//! Owns        a dictionary's bytes, its id, and its digested forms, which all contexts share.
//! Doors       `Dictionary::train` offline; `Dictionary::new` for bytes from a file; `StreamCompressor::zstd_with`.
//! Invariants  D1 the id is derived from the bytes: an id that a client has stored never names other bytes. D2 the
//!             number inside the dictionary, which zstd writes into each frame, is derived from the bytes too: a client
//!             with the wrong dictionary gets an error instead of wrong text. D3 there is one digested form per set of
//!             parameters, for any number of contexts. (tests `d*_*`)
//! Limits      `BYTES_MAX`; one digested form per set of parameters.
//! Spec        RFC 8878 §5; docs/adr/0018.

use super::{ZstdParams, dictionary_sys as sys};
use crate::CodecError;
use sha2::{Digest, Sha256};
use std::{
    fmt,
    str::FromStr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// A dictionary longer than the window of library contexts is not worth its download.
pub const DICTIONARY_BYTES_MAX: usize = 1 << 20;
/// Default size of training; more gained nothing in our measurements.
pub const DICTIONARY_BYTES: usize = 64 << 10;

/// RFC 8878 §5: start of a dictionary; its number follows, little-endian.
const MAGIC: [u8; 4] = 0xec30_a437_u32.to_le_bytes();
const NUMBER_AT: usize = MAGIC.len();
const CONTENT_AT_LEAST: usize = NUMBER_AT + 4;
/// RFC 8878 §3.1.1.1.3: numbers for private use, which zstd writes in four bytes.
const NUMBER_MIN: u32 = 1 << 16;
const NUMBER_MAX: u32 = (1 << 31) - 1;

/// Names a dictionary: the first half of the SHA-256 of its bytes, in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DictionaryId([u8; 16]);

impl DictionaryId {
    /// The id of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut id = [0; 16];
        id.copy_from_slice(&Sha256::digest(bytes)[..16]);
        Self(id)
    }
}

impl fmt::Display for DictionaryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for DictionaryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is no dictionary id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a dictionary id: expected 32 digits, 0-9 and a-f")]
pub struct ParseDictionaryIdError;

impl FromStr for DictionaryId {
    type Err = ParseDictionaryIdError;

    fn from_str(text: &str) -> Result<Self, ParseDictionaryIdError> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(ParseDictionaryIdError),
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != 16 || !rest.is_empty() {
            return Err(ParseDictionaryIdError);
        }
        let mut id = [0; 16];
        for (byte, [high, low]) in id.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Ok(Self(id))
    }
}

/// How zstd chooses the content of a dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Training {
    /// fastCOVER, zstd's default.
    FastCover,
    /// COVER, which takes some ten times as long.
    Cover,
}

/// A zstd dictionary, shared by all streams that refer to it.
pub struct Dictionary {
    id: DictionaryId,
    sha256: [u8; 32],
    bytes: Arc<[u8]>,
    /// Where the text begins, behind the tables.
    content_at: usize,
    digested: Mutex<Vec<(ZstdParams, Arc<sys::Digested>)>>,
    open: AtomicU64,
    started: AtomicU64,
}

/// Connections with a dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DictionaryUses {
    /// Streams that use it now.
    pub open: u64,
    /// Streams that started with it since it was loaded.
    pub started: u64,
}

/// Counts a connection with a dictionary while it exists.
#[derive(Debug)]
pub struct DictionaryUse(Arc<Dictionary>);

impl DictionaryUse {
    /// One more connection.
    #[must_use]
    pub fn begin(dictionary: Arc<Dictionary>) -> Self {
        dictionary.open.fetch_add(1, Relaxed);
        dictionary.started.fetch_add(1, Relaxed);
        Self(dictionary)
    }
}

impl Drop for DictionaryUse {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

impl Dictionary {
    /// Makes the best dictionary of at most `bytes_max` bytes for messages like these.
    ///
    /// # Errors
    /// [`CodecError::Dictionary`] when there are too few samples to learn from; [`CodecError::Param`].
    pub fn train<S: AsRef<[u8]>>(samples: &[S], bytes_max: usize) -> Result<Self, CodecError> {
        Self::train_by(Training::FastCover, samples, bytes_max)
    }

    /// As [`train`](Self::train), by one of zstd's ways.
    ///
    /// # Errors
    /// Those of [`train`](Self::train).
    pub fn train_by<S: AsRef<[u8]>>(by: Training, samples: &[S], bytes_max: usize) -> Result<Self, CodecError> {
        super::check_param("dictionary size", bytes_max as i64, 1 << 10, DICTIONARY_BYTES_MAX as i64)?;
        let lengths: Vec<usize> = samples.iter().map(|sample| sample.as_ref().len()).collect();
        let text: Vec<u8> = samples.iter().flat_map(|sample| sample.as_ref().iter().copied()).collect();
        let mut bytes = vec![0; bytes_max];
        let trained = match by {
            Training::FastCover => zstd_safe::train_from_buffer(&mut bytes[..], &text, &lengths)
                .map_err(|code| CodecError::Dictionary { reason: zstd_safe::get_error_name(code) })?,
            Training::Cover => sys::train_cover(&mut bytes, &text, &lengths)?,
        };
        bytes.truncate(trained);
        number(&mut bytes);
        Self::new(bytes)
    }

    /// A dictionary that was trained before.
    ///
    /// # Errors
    /// [`CodecError::Dictionary`] for bytes that are not a dictionary, or that do not match its number.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Result<Self, CodecError> {
        let bytes: Arc<[u8]> = bytes.into();
        let refuse = |reason| Err(CodecError::Dictionary { reason });
        if bytes.len() > DICTIONARY_BYTES_MAX {
            return refuse("it is larger than 1 MiB");
        }
        if bytes.len() <= CONTENT_AT_LEAST || bytes[..NUMBER_AT] != MAGIC {
            return refuse("it does not begin as a zstd dictionary does");
        }
        let mut numbered = bytes.to_vec();
        number(&mut numbered);
        if numbered[..] != bytes[..] {
            return refuse("the number in it was not made from its bytes: make it with `guildhall lab train`");
        }
        let Some(content_at) = sys::header_bytes(&bytes).filter(|at| *at < bytes.len()) else {
            return refuse("its tables are damaged");
        };
        let dictionary = Self {
            id: DictionaryId::of(&bytes),
            sha256: Sha256::digest(&bytes).into(),
            bytes,
            content_at,
            digested: Mutex::default(),
            open: AtomicU64::new(0),
            started: AtomicU64::new(0),
        };
        dictionary.digested(ZstdParams::default())?;
        Ok(dictionary)
    }

    /// Content hash of the dictionary.
    #[must_use]
    pub fn id(&self) -> DictionaryId {
        self.id
    }

    /// The bytes in the form in which clients download them.
    #[must_use]
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// Hash of the bytes; its first half is the id.
    #[must_use]
    pub fn sha256(&self) -> &[u8; 32] {
        &self.sha256
    }

    /// The content that a stream may refer to, as if it preceded the stream's first byte.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        &self.bytes[self.content_at..]
    }

    /// Connections with it, by [`DictionaryUse`].
    #[must_use]
    pub fn uses(&self) -> DictionaryUses {
        DictionaryUses { open: self.open.load(Relaxed), started: self.started.load(Relaxed) }
    }

    /// The number that zstd writes into each frame.
    #[must_use]
    pub fn number(&self) -> u32 {
        u32::from_le_bytes([0, 1, 2, 3].map(|at| self.bytes[NUMBER_AT + at]))
    }

    /// Memory of the digested forms, which all contexts share.
    #[must_use]
    pub fn digested_bytes(&self) -> usize {
        let digested = self.digested.lock().unwrap_or_else(PoisonError::into_inner);
        digested.iter().map(|(_, digested)| digested.memory_bytes()).sum()
    }

    /// The digested form for contexts with these parameters, created when it is first needed.
    pub(super) fn digested(&self, params: ZstdParams) -> Result<Arc<sys::Digested>, CodecError> {
        params.validate()?;
        // Concurrent callers wait here; otherwise each would create it.
        let mut digested = self.digested.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = digested.iter().find(|(of, _)| *of == params) {
            return Ok(found.clone());
        }
        let Some(made) = sys::Digested::new(self.bytes.clone(), params) else {
            return Err(CodecError::Dictionary { reason: "zstd cannot use it" });
        };
        let made = Arc::new(made);
        digested.push((params, made.clone()));
        Ok(made)
    }
}

/// Puts the number in: made from everything but itself.
fn number(bytes: &mut [u8]) {
    bytes[NUMBER_AT..CONTENT_AT_LEAST].fill(0);
    let hash = Sha256::digest(&bytes[..]);
    let hash = u32::from_le_bytes([hash[0], hash[1], hash[2], hash[3]]);
    let number = NUMBER_MIN + hash % (NUMBER_MAX - NUMBER_MIN);
    bytes[NUMBER_AT..CONTENT_AT_LEAST].copy_from_slice(&number.to_le_bytes());
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary").field("id", &self.id).field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}
