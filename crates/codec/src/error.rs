//! Errors of the codec, by origin.
//!
//! Owns        `EncodeError` (our value cannot be written), `EtfError` and `DecodeError` (the peer's bytes are wrong:
//!             the gateway closes with 4002), `CodecError` (a compression context refused or broke: a local failure).
//! Invariants  No error text repeats its source.

/// A value that cannot be written in the wanted encoding.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The type's own `Serialize` gave up.
    #[error("{0}")]
    Custom(String),
    /// Written as JSON, or read as JSON text to be transcoded.
    #[error("not valid JSON")]
    Json(#[source] serde_json::Error),
    /// Lists and maps are nested deeper than a reader would accept.
    #[error("nested deeper than {depth_max} levels")]
    TooDeep { depth_max: usize },
    /// A string or list has more bytes or items than a 32-bit length can express.
    #[error("a string or list is too long for a 32-bit length")]
    TooLong,
    /// The gateway's numbers are 64 bits wide.
    #[error("an integer needs more than 64 bits")]
    IntegerRange,
    /// A map key is neither a string nor something that reads as one.
    #[error("a map key is not a string, an integer or a name")]
    KeyType,
    /// Event names are 1 to [`EVENT_NAME_BYTES_MAX`](crate::EVENT_NAME_BYTES_MAX) of `A-Z`, `0-9` and `_`.
    #[error("{name_bytes} bytes do not make an event name")]
    EventName { name_bytes: usize },
}

impl serde::ser::Error for EncodeError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::Custom(message.to_string())
    }
}

/// Bytes that are not the external term we accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EtfError {
    /// The first byte is not 131.
    #[error("the term does not start with version 131")]
    Version,
    /// A length or count promises more than there is.
    #[error("the term is cut short")]
    Truncated,
    /// One term per message.
    #[error("{trailing_bytes} bytes follow the term")]
    TrailingBytes { trailing_bytes: usize },
    /// Nested deeper than the reader's limit.
    #[error("nested deeper than {depth_max} levels")]
    TooDeep { depth_max: usize },
    /// A map key is an atom; clients must send binaries.
    #[error("a map key is an atom")]
    AtomKey,
    /// A map key is neither a binary nor an atom.
    #[error("a map key has tag {tag}")]
    KeyType { tag: u8 },
    /// Compressed terms are refused: their size is only known afterwards.
    #[error("the term is compressed")]
    Compressed,
    /// Pids, funs and the like, or nonsense.
    #[error("tag {tag} is not accepted")]
    UnknownTag { tag: u8 },
    /// A list whose tail is not the empty list.
    #[error("a list does not end in the empty list")]
    ImproperList,
    /// Text that is not UTF-8.
    #[error("a string is not UTF-8")]
    NotUtf8,
    /// An integer outside `i64::MIN..=u64::MAX`, or with a sign byte other than 0 and 1.
    #[error("an integer is out of range")]
    IntegerRange,
    /// A float that is infinite, not a number, or not written as one.
    #[error("a float is not a finite number")]
    Float,
}

/// A client message that is not a payload.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not JSON, or JSON that is no object.
    #[error("not a JSON object")]
    Json(#[from] serde_json::Error),
    #[error("not a valid term")]
    Etf(#[from] EtfError),
    /// A term, but no map.
    #[error("the term is not a map")]
    NotAMap,
    #[error("the payload has no `op`")]
    OpMissing,
    #[error("`op` is not an integer from 0 to 2^64 - 1")]
    OpType,
}

/// A compression context that could not be made or used.
#[cfg(feature = "stream")]
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// A parameter is outside what the library or the clients can do.
    #[error("{name} is {value}, allowed is {min} to {max}")]
    Param { name: &'static str, value: i64, min: i64, max: i64 },
    /// The library could not get memory for a context.
    #[error("no memory for a compression context")]
    Memory,
    /// zlib reports a state it documents as impossible for correct use.
    #[error("zlib failed with code {code}")]
    Zlib { code: i32 },
    /// Bytes that cannot be used as a dictionary, or samples that none can be made from.
    #[error("this is no dictionary: {reason}")]
    Dictionary { reason: &'static str },
    /// zstd reports an error.
    #[error("zstd failed: {name}")]
    Zstd { name: &'static str },
    /// Compressed bytes that do not decode, or a stream that ended although it never should.
    #[error("the compressed stream is corrupt")]
    Corrupt,
    /// More output than the caller allows for one message.
    #[error("the message decompresses to more than {bytes_max} bytes")]
    TooLarge { bytes_max: usize },
    /// An earlier call failed: the two ends differ, and only a new connection helps.
    #[error("the stream broke in an earlier call")]
    Broken,
}
