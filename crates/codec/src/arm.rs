//! Arm: a codec with its parameters, as one line of text.
//!
//! Owns        the grammar of arms, which the command line, `/v1`, reports and benches share; the encoder of an arm
//!             (`ArmEncoder`).
//! Doors       `Arm::from_str` and `Display`; `ArmEncoder::new`, then `encode` per message.
//! Invariants  A1 an arm prints to text that parses to the same arm. A2 an error names the parameter and what it may
//!             be. A3 a decoder reads what `encode` returned. (tests `a1_*` to `a3_*` in tests/it/arm.rs)
//! Limits      `ARM_BYTES_MAX` of text; the ranges of `ZlibParams` and `ZstdParams`.
//! Not here    the encoder of `shared-match`, which needs the traffic of all sessions: `guildhall-lab`.
//!
//! | arm | parameters and their defaults | writes |
//! |---|---|---|
//! | `zlib` | `level=6,window=15,mem=8` | a zlib stream per connection |
//! | `zstd` | `level=6,window=18,chain=16,hash=16,block=16384`, `dict` | a zstd stream per connection |
//! | `zstd-once` | `level=3`, `dict` | a zstd frame per message |
//! | `shared-match` | `dict` | a zstd stream per connection, one match search per event |
//! | `prepared` | | each event deflated once for all connections |
//!
//! A name and its parameters are separated by a colon: `zlib:level=9`. A parameter that is left out has its default.

use crate::{
    CodecError, Encoding,
    prepared::PREPARE_BYTES_MIN,
    stream::{
        BodyDeflater, Dictionaries, Dictionary, DictionaryId, SharedWindow, StreamCompressor, ZlibParams, ZstdParams,
        zstd_error,
    },
};
use std::{fmt, str::FromStr, sync::Arc};
use zstd_safe::{CCtx, CParameter, DCtx};

/// Longest text of an arm.
pub const ARM_BYTES_MAX: usize = 256;
/// Bytes of a wrong text that an error repeats.
const SHOWN_BYTES_MAX: usize = 40;
/// Levels of zstd.
const LEVELS: (i64, i64) = (-7, 22);
/// A message without matches grows by its blocks' headers and the frame's.
const FRAME_BYTES: usize = 64;

/// A way to write a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// A zlib stream per connection.
    Zlib(ZlibParams),
    /// A zstd stream per connection.
    Zstd(ZstdParams, Option<DictionaryId>),
    /// A zstd frame per message.
    ZstdOnce {
        /// Effort, -7 to 22.
        level: i32,
        /// Dictionary of each frame.
        dictionary: Option<DictionaryId>,
    },
    /// A zstd stream per connection, with one match search per event.
    SharedMatch(Option<DictionaryId>),
    /// Each event deflated once for all connections.
    Prepared,
}

/// Level of `zstd-once`: zstd's own default.
const ONCE_LEVEL: i32 = 3;
const NAMES: [&str; 5] = ["zlib", "zstd", "zstd-once", "shared-match", "prepared"];

/// The text is no arm, or no encoder can be made of it.
#[derive(Debug, thiserror::Error)]
pub enum ArmError {
    /// The text is longer than any arm.
    #[error("an arm has at most {ARM_BYTES_MAX} bytes")]
    TooLong,
    /// No codec has this name.
    #[error("there is no arm {name:?}: use {}, such as zlib:level=9", NAMES.join(", "))]
    Name {
        /// As given, shortened.
        name: String,
    },
    /// The codec has no such parameter.
    #[error("{arm} has no parameter {name:?}: {allowed}")]
    Parameter {
        /// Name of the codec.
        arm: &'static str,
        /// As given, shortened.
        name: String,
        /// The parameters it has.
        allowed: String,
    },
    /// A parameter without a value, or twice.
    #[error("{arm}: {name} {wrong}")]
    Form {
        /// Name of the codec.
        arm: &'static str,
        /// Name of the parameter.
        name: String,
        /// The fault, and the form to write instead.
        wrong: &'static str,
    },
    /// A value outside of its range.
    #[error("{arm}: {name} is {value:?}, allowed is a whole number from {min} to {max}")]
    Range {
        /// Name of the codec.
        arm: &'static str,
        /// Name of the parameter.
        name: &'static str,
        /// As given, shortened.
        value: String,
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A `dict` that is no id.
    #[error("{arm}: dict is {value:?}, allowed is the id of a dictionary: 32 digits, 0-9 and a-f")]
    DictionaryId {
        /// Name of the codec.
        arm: &'static str,
        /// As given, shortened.
        value: String,
    },
    /// A `dict` that is not loaded.
    #[error("there is no dictionary {id} for {encoding}: load it, or leave dict out")]
    NoDictionary {
        /// Id of the missing dictionary.
        id: DictionaryId,
        /// Name of the encoding.
        encoding: &'static str,
    },
    /// The library refuses the parameters.
    #[error("{arm} cannot be made: choose smaller values")]
    Codec {
        /// The arm whose encoder cannot be made.
        arm: Arm,
        /// The library's reason.
        #[source]
        source: CodecError,
    },
    /// `shared-match` has no encoder of one connection.
    #[error("shared-match needs the traffic of all sessions, and has no encoder for one")]
    SharedMatch,
}

/// A parameter with a number.
struct Field<'a> {
    name: &'static str,
    value: &'a mut i64,
    min: i64,
    max: i64,
}

impl Arm {
    /// Name of its codec.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Zlib(_) => NAMES[0],
            Self::Zstd(..) => NAMES[1],
            Self::ZstdOnce { .. } => NAMES[2],
            Self::SharedMatch(_) => NAMES[3],
            Self::Prepared => NAMES[4],
        }
    }

    /// Its dictionary, if it has one.
    #[must_use]
    pub const fn dictionary(&self) -> Option<DictionaryId> {
        match self {
            Self::Zlib(_) | Self::Prepared => None,
            Self::Zstd(_, dictionary) | Self::ZstdOnce { dictionary, .. } | Self::SharedMatch(dictionary) => {
                *dictionary
            }
        }
    }

    /// The same with this dictionary; none if its codec has none.
    #[must_use]
    pub fn with_dictionary(self, id: DictionaryId) -> Option<Self> {
        match self {
            Self::Zlib(_) | Self::Prepared => None,
            Self::Zstd(params, _) => Some(Self::Zstd(params, Some(id))),
            Self::ZstdOnce { level, .. } => Some(Self::ZstdOnce { level, dictionary: Some(id) }),
            Self::SharedMatch(_) => Some(Self::SharedMatch(Some(id))),
        }
    }

    /// The encoding's dictionary of this arm.
    fn find(&self, encoding: Encoding, dictionaries: &Dictionaries) -> Result<Option<Arc<Dictionary>>, ArmError> {
        let Some(id) = self.dictionary() else { return Ok(None) };
        match dictionaries.find(id).filter(|known| known.encoding == encoding) {
            Some(known) => Ok(Some(known.dictionary.clone())),
            None => Err(ArmError::NoDictionary { id, encoding: encoding.name() }),
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let mut separator = ':';
        match self {
            Self::Zlib(ZlibParams { level, window_bits, mem_level }) => {
                write!(f, ":level={level},window={window_bits},mem={mem_level}")?;
            }
            Self::Zstd(params, _) => {
                let ZstdParams { level, window_log, chain_log, hash_log, block_bytes_max } = params;
                write!(
                    f,
                    ":level={level},window={window_log},chain={chain_log},hash={hash_log},block={block_bytes_max}"
                )?;
                separator = ',';
            }
            Self::ZstdOnce { level, .. } => {
                write!(f, ":level={level}")?;
                separator = ',';
            }
            Self::SharedMatch(_) | Self::Prepared => {}
        }
        match self.dictionary() {
            Some(id) => write!(f, "{separator}dict={id}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Arm {
    type Err = ArmError;

    fn from_str(text: &str) -> Result<Self, ArmError> {
        if text.len() > ARM_BYTES_MAX {
            return Err(ArmError::TooLong);
        }
        let (name, parameters) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        match name {
            "zlib" => {
                let ZlibParams { level, window_bits, mem_level } = ZlibParams::default();
                let [mut level, mut window, mut mem] = [level, window_bits, mem_level].map(i64::from);
                let fields = [
                    Field { name: "level", value: &mut level, min: 0, max: 9 },
                    Field { name: "window", value: &mut window, min: 9, max: 15 },
                    Field { name: "mem", value: &mut mem, min: 1, max: 9 },
                ];
                read(NAMES[0], parameters, fields, DictionaryUse::None)?;
                let [level, window_bits, mem_level] = [level, window, mem].map(|value| value as u8);
                Ok(Self::Zlib(ZlibParams { level, window_bits, mem_level }))
            }
            "zstd" => {
                let params = ZstdParams::default();
                let mut level = i64::from(params.level);
                let sizes = [params.window_log, params.chain_log, params.hash_log, params.block_bytes_max];
                let [mut window, mut chain, mut hash, mut block] = sizes.map(i64::from);
                let fields = [
                    Field { name: "level", value: &mut level, min: LEVELS.0, max: LEVELS.1 },
                    Field { name: "window", value: &mut window, min: 10, max: 27 },
                    Field { name: "chain", value: &mut chain, min: 6, max: 28 },
                    Field { name: "hash", value: &mut hash, min: 6, max: 28 },
                    Field { name: "block", value: &mut block, min: 1 << 10, max: 128 << 10 },
                ];
                let dictionary = read(NAMES[1], parameters, fields, DictionaryUse::Optional)?;
                let [window_log, chain_log, hash_log, block_bytes_max] =
                    [window, chain, hash, block].map(|value| value as u32);
                let params = ZstdParams { level: level as i32, window_log, chain_log, hash_log, block_bytes_max };
                Ok(Self::Zstd(params, dictionary))
            }
            "zstd-once" => {
                let mut level = i64::from(ONCE_LEVEL);
                let fields = [Field { name: "level", value: &mut level, min: LEVELS.0, max: LEVELS.1 }];
                let dictionary = read(NAMES[2], parameters, fields, DictionaryUse::Optional)?;
                Ok(Self::ZstdOnce { level: level as i32, dictionary })
            }
            "shared-match" => Ok(Self::SharedMatch(read(NAMES[3], parameters, [], DictionaryUse::Optional)?)),
            "prepared" => {
                read(NAMES[4], parameters, [], DictionaryUse::None)?;
                Ok(Self::Prepared)
            }
            _ => Err(ArmError::Name { name: shown(name) }),
        }
    }
}

/// Whether an arm may have a dictionary.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DictionaryUse {
    None,
    Optional,
}

/// Reads parameters into their fields, and returns the dictionary.
fn read<const N: usize>(
    arm: &'static str,
    parameters: Option<&str>,
    mut fields: [Field<'_>; N],
    dictionary_use: DictionaryUse,
) -> Result<Option<DictionaryId>, ArmError> {
    let has_dictionary = dictionary_use == DictionaryUse::Optional;
    let mut dictionary = None;
    let mut seen: Vec<&str> = Vec::new();
    for parameter in parameters.into_iter().flat_map(|text| text.split(',')) {
        let (name, value) = parameter.split_once('=').map_or((parameter, None), |(name, value)| (name, Some(value)));
        let field = fields.iter_mut().find(|field| field.name == name);
        if field.is_none() && !(has_dictionary && name == "dict") {
            let mut names: Vec<&str> = fields.iter().map(|field| field.name).collect();
            names.extend(has_dictionary.then_some("dict"));
            let allowed =
                if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
            return Err(ArmError::Parameter { arm, name: shown(name), allowed });
        }
        let wrong = |wrong| ArmError::Form { arm, name: name.to_owned(), wrong };
        let Some(value) = value else { return Err(wrong("has no value: put = and the value behind it")) };
        if seen.contains(&name) {
            return Err(wrong("is given twice: leave one of the two out"));
        }
        seen.push(name);
        match field {
            Some(Field { name, value: into, min, max }) => {
                let number = value.parse::<i64>().ok().filter(|number| (*min..=*max).contains(number));
                let out_of_range = || ArmError::Range { arm, name, value: shown(value), min: *min, max: *max };
                **into = number.ok_or_else(out_of_range)?;
            }
            None => {
                let id = value.parse().map_err(|_| ArmError::DictionaryId { arm, value: shown(value) })?;
                dictionary = Some(id);
            }
        }
    }
    Ok(dictionary)
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_BYTES_MAX).collect()
}

/// Writes the messages of one connection by an arm.
pub struct ArmEncoder {
    encoding: Encoding,
    writer: Writer,
    out: Vec<u8>,
}

enum Writer {
    Stream(Box<StreamCompressor>),
    Once(CCtx<'static>),
    Prepared(Box<BodyDeflater>),
}

impl ArmEncoder {
    /// The encoder of a connection with this encoding.
    ///
    /// # Errors
    /// The dictionary is unknown or of another encoding, the library refuses the parameters, or the arm is
    /// `shared-match`.
    pub fn new(arm: &Arm, encoding: Encoding, dictionaries: &Dictionaries) -> Result<Self, ArmError> {
        let dictionary = arm.find(encoding, dictionaries)?;
        let refused = |source| ArmError::Codec { arm: *arm, source };
        let stream = |made: Result<StreamCompressor, CodecError>| {
            let mut stream = made.map_err(refused)?;
            stream.open().map_err(refused)?;
            Ok(Writer::Stream(Box::new(stream)))
        };
        let writer = match *arm {
            Arm::Zlib(params) => stream(StreamCompressor::zlib(params))?,
            Arm::Zstd(params, _) => match dictionary {
                Some(dictionary) => stream(StreamCompressor::zstd_with(params, dictionary))?,
                None => stream(StreamCompressor::zstd(params))?,
            },
            Arm::ZstdOnce { level, .. } => {
                let mut context = CCtx::try_create().ok_or_else(|| refused(CodecError::Memory))?;
                let set = context.set_parameter(CParameter::CompressionLevel(level));
                set.map_err(|code| refused(zstd_error(code)))?;
                if let Some(dictionary) = dictionary {
                    let loaded = context.load_dictionary(dictionary.bytes());
                    loaded.map_err(|code| refused(zstd_error(code)))?;
                }
                Writer::Once(context)
            }
            Arm::SharedMatch(_) => return Err(ArmError::SharedMatch),
            Arm::Prepared => Writer::Prepared(Box::default()),
        };
        Ok(Self { encoding, writer, out: Vec::new() })
    }

    /// The bytes of one message on the wire, without its WebSocket header. `parts` are those of
    /// [`FrameParts::slices`](crate::FrameParts::slices): envelope, body, envelope. A message that is no dispatch is
    /// the first part alone.
    ///
    /// # Errors
    /// The library's; the encoder is of no use then.
    pub fn encode(&mut self, parts: [&[u8]; 3]) -> Result<&[u8], CodecError> {
        self.out.clear();
        match &mut self.writer {
            Writer::Stream(stream) => stream.compress(&parts, &mut self.out)?,
            Writer::Once(context) => {
                let message = parts.concat();
                self.out.reserve(zstd_safe::compress_bound(message.len()).max(FRAME_BYTES));
                context.compress2(&mut self.out, &message).map_err(zstd_error)?;
            }
            Writer::Prepared(deflater) => prepare(self.encoding, deflater, parts, &mut self.out)?,
        }
        Ok(&self.out)
    }

    /// Memory that the connection's context holds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match &self.writer {
            Writer::Stream(stream) => stream.memory_bytes(),
            // All connections of a thread share these.
            Writer::Once(_) | Writer::Prepared(_) => 0,
        }
    }
}

impl fmt::Debug for ArmEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArmEncoder").field("memory_bytes", &self.memory_bytes()).finish_non_exhaustive()
    }
}

/// Reads a message that `zstd-once` wrote, with the dictionary of the arm.
///
/// # Errors
/// [`CodecError::TooLarge`] past `bytes_max`; the library's.
pub fn read_once(wire: &[u8], dictionary: Option<&Dictionary>, bytes_max: usize) -> Result<Vec<u8>, CodecError> {
    let mut context = DCtx::try_create().ok_or(CodecError::Memory)?;
    if let Some(dictionary) = dictionary {
        context.load_dictionary(dictionary.bytes()).map_err(zstd_error)?;
    }
    let bytes = zstd_safe::get_frame_content_size(wire).ok().flatten().ok_or(CodecError::Corrupt)?;
    if bytes > bytes_max as u64 {
        return Err(CodecError::TooLarge { bytes_max });
    }
    let mut out = Vec::with_capacity(bytes as usize);
    context.decompress(&mut out, wire).map_err(zstd_error)?;
    Ok(out)
}

/// The layout of `DispatchFrame::write_prepared`: the recipient's part in a stored block, then the shared part,
/// deflated.
fn prepare(
    encoding: Encoding,
    deflater: &mut BodyDeflater,
    [head, body, tail]: [&[u8]; 3],
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    let plain_bytes = head.len() + body.len() + tail.len();
    if body.len() >= PREPARE_BYTES_MIN {
        match encoding {
            Encoding::Json => {
                push_stored(head, out);
                deflater.compress(SharedWindow::Full, &[body, tail], out)?;
            }
            Encoding::Etf => {
                deflater.compress(SharedWindow::Full, &[head, body], out)?;
                out.extend_from_slice(&[0, 0, 0xff, 0xff]);
                push_stored(tail, out);
                // The header of an empty block.
                out.push(0);
            }
        }
    }
    if out.is_empty() || out.len() >= plain_bytes {
        out.clear();
        [head, body, tail].iter().for_each(|part| out.extend_from_slice(part));
    }
    Ok(())
}

fn push_stored(bytes: &[u8], out: &mut Vec<u8>) {
    let length = (bytes.len() as u16).to_le_bytes();
    out.extend_from_slice(&[0, length[0], length[1], !length[0], !length[1]]);
    out.extend_from_slice(bytes);
}
