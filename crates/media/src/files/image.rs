//! Images: the format of a picture, from its bytes.
//!
//! Invariants  I1 no input makes these functions panic, or take more than one step per byte. (test `i1_any_bytes`)
//! Not here    pixels: nothing is decoded.
//! Spec        PNG 3rd edition §5.3, GIF89a, WebP container (RFC 9649), ISO 14496-12 `ftyp`.

use super::kind;
use serde::{Deserialize, de::IgnoredAny};

/// A format in which pictures are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Png {
        is_animated: bool,
    },
    Jpeg,
    Gif {
        is_animated: bool,
    },
    WebP {
        is_animated: bool,
    },
    Avif {
        is_animated: bool,
    },
    /// An animation in JSON, for stickers.
    Lottie,
}

impl Format {
    /// The format of these bytes; none if pictures of the format are not stored.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let head = &bytes[..bytes.len().min(kind::HEAD_BYTES)];
        Some(match kind::sniff(head) {
            Some("image/png") => Self::Png { is_animated: has_animation_chunk(bytes) },
            Some("image/jpeg") => Self::Jpeg,
            Some("image/gif") => Self::Gif { is_animated: gif_frames(bytes, 2) == 2 },
            // The flags of an extended file follow the name and size of its first chunk.
            Some("image/webp") => {
                let is_extended = bytes.get(12..16) == Some(b"VP8X");
                Self::WebP { is_animated: is_extended && bytes.get(20).is_some_and(|flags| flags & 2 != 0) }
            }
            Some("image/avif") => Self::Avif { is_animated: bytes.get(8..12) == Some(b"avis") },
            Some(_) => return None,
            None if is_lottie(bytes) => Self::Lottie,
            None => return None,
        })
    }

    /// Whether clients request it as an animated picture. They never do for PNG: an avatar of APNG is shown
    /// as a still one.
    pub fn is_animated(self) -> bool {
        match self {
            Self::Gif { is_animated } | Self::WebP { is_animated } | Self::Avif { is_animated } => is_animated,
            Self::Png { .. } | Self::Jpeg | Self::Lottie => false,
        }
    }

    /// `format_type` of a sticker; none: stickers have no such format.
    pub fn sticker_type(self) -> Option<u8> {
        match self {
            Self::Png { is_animated } => Some(if is_animated { 2 } else { 1 }),
            Self::Lottie => Some(3),
            Self::Gif { .. } => Some(4),
            Self::Jpeg | Self::WebP { .. } | Self::Avif { .. } => None,
        }
    }
}

/// Whether a PNG has an `acTL` chunk before its first image data.
fn has_animation_chunk(bytes: &[u8]) -> bool {
    let mut at = 8;
    while let Some((length, name)) = bytes.get(at..at + 8).and_then(|head| head.split_at_checked(4)) {
        match name {
            b"acTL" => return true,
            b"IDAT" | b"IEND" => return false,
            _ => {}
        }
        let length = length.iter().fold(0, |sum: usize, byte| sum << 8 | usize::from(*byte));
        // Length, name and checksum.
        at = match at.checked_add(length).and_then(|at| at.checked_add(12)) {
            Some(next) => next,
            None => return false,
        };
    }
    false
}

/// Counts the frames of a GIF, up to `max`.
fn gif_frames(bytes: &[u8], max: u32) -> u32 {
    let table = |flags: u8| if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) };
    let mut frames = 0;
    let mut at = 13 + bytes.get(10).map_or(0, |flags| table(*flags));
    while frames < max {
        match bytes.get(at) {
            // An extension: a label, then sub-blocks.
            Some(0x21) => at += 2,
            Some(0x2c) => {
                frames += 1;
                let Some(flags) = bytes.get(at + 9) else { break };
                at += 11 + table(*flags);
            }
            _ => break,
        }
        while let Some(length) = bytes.get(at).copied() {
            at += 1 + usize::from(length);
            if length == 0 {
                break;
            }
        }
    }
    frames
}

/// The fields that every player needs.
#[derive(Deserialize)]
struct Lottie {
    v: IgnoredAny,
    w: f64,
    h: f64,
    layers: Vec<IgnoredAny>,
}

fn is_lottie(bytes: &[u8]) -> bool {
    serde_json::from_slice(bytes)
        .is_ok_and(|Lottie { v: IgnoredAny, w, h, layers }| w > 0.0 && h > 0.0 && !layers.is_empty())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub fn png(is_animated: bool) -> Vec<u8> {
        let chunk = |name: &[u8], data: &[u8]| [&(data.len() as u32).to_be_bytes()[..], name, data, b"crc "].concat();
        let animation = if is_animated { chunk(b"acTL", &[0; 8]) } else { Vec::new() };
        [
            b"\x89PNG\r\n\x1a\n".to_vec(),
            chunk(b"IHDR", &[0; 13]),
            animation,
            chunk(b"IDAT", b"acTL"),
            chunk(b"IEND", b""),
        ]
        .concat()
    }

    pub fn gif(frames: usize) -> Vec<u8> {
        let frame = b"\x21\xf9\x04\0\0\0\0\0\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0";
        // With a table of two colours.
        let head = b"GIF89a\x01\0\x01\0\x80\0\0\xff\xff\xff\0\0\0";
        [&head[..], &frame.repeat(frames), b"\x3b"].concat()
    }

    #[test]
    fn formats() {
        let check = |bytes: &[u8], expected: Option<Format>| assert_eq!(Format::of(bytes), expected, "{bytes:?}");
        check(&png(false), Some(Format::Png { is_animated: false }));
        check(&png(true), Some(Format::Png { is_animated: true }));
        check(&gif(0), Some(Format::Gif { is_animated: false }));
        check(&gif(1), Some(Format::Gif { is_animated: false }));
        check(&gif(2), Some(Format::Gif { is_animated: true }));
        check(b"\xff\xd8\xff\xe0", Some(Format::Jpeg));
        check(b"RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0", Some(Format::WebP { is_animated: true }));
        check(b"RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0\x10\0\0\0", Some(Format::WebP { is_animated: false }));
        check(b"RIFF\x1e\0\0\0WEBPVP8 \x0a\0\0\0\x02\0\0\0", Some(Format::WebP { is_animated: false }));
        check(b"\0\0\0\x1cftypavis", Some(Format::Avif { is_animated: true }));
        check(b"\0\0\0\x1cftypavif", Some(Format::Avif { is_animated: false }));
        check(br#"{"v": "5.5", "fr": 60, "w": 320, "h": 320, "layers": [{}]}"#, Some(Format::Lottie));
        for wrong in [
            &b""[..],
            b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>",
            b"<html>",
            b"OggS",
            b"\0\0\0\x1cftypisom",
            b"[]",
            br#"{"v": 1, "w": 1, "h": 1, "layers": []}"#,
        ] {
            check(wrong, None);
        }
    }

    proptest! {
        #[test]
        fn i1_any_bytes(tail in proptest::collection::vec(any::<u8>(), 0..300), which in 0..4usize) {
            let head = [&b"\x89PNG\r\n\x1a\n"[..], b"GIF89a", b"RIFF\0\0\0\0WEBPVP8X", b"{\"v\":1,\"layers\":"][which];
            let _ = Format::of(&[head, &tail].concat());
        }
    }
}
