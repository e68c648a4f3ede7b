//! Pictures in requests: `data:` URLs of avatars, icons and emoji in forms, and the files of stickers.
//!
//! Owns        `Picture`, the accepted formats and sizes (`PictureRule`), and its path from the form to the object
//!             that refers to it.
//! Doors       `PictureRule::parse` in a form; `Media::hold_pictures` before the command; `HeldPictures::settled`
//!             with its outcome.
//! Invariants  no picture is written before the caller has checked that its sender has the right.
//! Limits      `EMOJI_BYTES_MAX`, `STICKER_BYTES_MAX`, `uploads.picture_bytes_max`, and the limit of the request's
//!             body. The decoded bytes are fewer than their text: handlers hold its reservation until the picture is
//!             written. `crate::upload::UploadPermits` bounds the requests that write at once.
//! Not here    the folder: `crate::files`.     Spec  docs/protocol/choices.md "Pictures".

use crate::{
    CommandError, Media, MediaError,
    files::{Format, HASH_DIGITS, PictureHold, Share},
    upload::{UploadPermit, refused},
};
use aws_lc_rs::digest;
use base64::{Engine, engine::general_purpose::STANDARD};
use guildhall_http_kit::{FieldError, FieldErrors};
use guildhall_store::PictureOwner;
use serde_json::Value;

/// Emoji and role icons, as upstream.
const EMOJI_BYTES_MAX: usize = 256 << 10;
/// Stickers, as upstream.
pub const STICKER_BYTES_MAX: usize = 512 << 10;
const EXPECTED: &str = "Invalid image data: expected data:image/…;base64,…";
const FORMATS: &str = "Invalid image data: this server keeps PNG, JPEG, GIF, WebP and AVIF.";
pub const NOT_KEPT: &str = "This server does not store pictures (uploads.mode is \"off\").";

/// A picture of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub bytes: Vec<u8>,
    pub(crate) format: Format,
    /// Name in objects and links: digits of SHA-256, after `a_` if it moves.
    pub hash: String,
}

impl Picture {
    fn new(bytes: Vec<u8>) -> Option<Self> {
        let format = Format::of(&bytes)?;
        let sum = digest::digest(&digest::SHA256, &bytes);
        let hex = sum.as_ref().iter().take(HASH_DIGITS / 2).map(|byte| format!("{byte:02x}"));
        let mark = if format.is_animated() { "a_" } else { "" };
        Some(Self { hash: std::iter::once(mark.to_owned()).chain(hex).collect(), bytes, format })
    }

    /// Whether it moves.
    #[must_use]
    pub fn is_animated(&self) -> bool {
        self.format.is_animated()
    }

    /// The file of a sticker.
    pub fn of_sticker(bytes: Vec<u8>) -> Result<(Self, u8), FieldErrors> {
        if bytes.len() > STICKER_BYTES_MAX {
            return Err(too_large(STICKER_BYTES_MAX).into());
        }
        let picture = Self::new(bytes).and_then(|picture| picture.format.sticker_type().map(|kind| (picture, kind)));
        let message = "Invalid Asset: a sticker is PNG, APNG, GIF or Lottie.";
        picture.ok_or_else(|| FieldError::new("IMAGE_INVALID", message).into())
    }
}

fn too_large(bytes_max: usize) -> FieldError {
    FieldError::new("BINARY_TYPE_MAX_SIZE", format!("File cannot be larger than {} kb.", bytes_max as f64 / 1024.0))
}

/// Formats and sizes that a field accepts.
#[derive(Clone, Copy, Debug)]
pub struct PictureRule {
    /// None: this server stores no pictures.
    bytes_max: Option<usize>,
}

impl PictureRule {
    /// Avatars, icons, splashes, banners.
    pub fn large(media: &Media) -> Self {
        let bytes_max = media.files.as_ref().map(|files| files.picture_bytes_max());
        Self { bytes_max: bytes_max.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)) }
    }

    /// Emoji and role icons.
    pub fn small(media: &Media) -> Self {
        Self { bytes_max: media.files.as_ref().map(|_| EMOJI_BYTES_MAX) }
    }

    /// Reads `data:image/…;base64,…`. The bytes determine the format, not the media type in the text.
    pub fn parse(self, value: &Value) -> Result<Picture, FieldErrors> {
        let invalid = |message: &'static str| FieldError::new("IMAGE_INVALID", message);
        let bytes_max = self.bytes_max.ok_or_else(|| FieldError::new("UNSUPPORTED", NOT_KEPT))?;
        let text = value.as_str().and_then(|text| text.strip_prefix("data:image/"));
        let (_, encoded) = text.and_then(|text| text.split_once(";base64,")).ok_or_else(|| invalid(EXPECTED))?;
        // Four digits are three bytes, the last two of which may be missing.
        if encoded.len() / 4 * 3 > bytes_max.saturating_add(2) {
            return Err(too_large(bytes_max).into());
        }
        let bytes = STANDARD.decode(encoded).map_err(|_| invalid("Invalid image data: not base64."))?;
        if bytes.len() > bytes_max {
            return Err(too_large(bytes_max).into());
        }
        let picture = Picture::new(bytes).filter(|picture| picture.format != Format::Lottie);
        picture.ok_or_else(|| invalid(FORMATS).into())
    }
}

/// The hash that a field changes to.
pub fn hash_of(field: &Option<Option<Picture>>) -> Option<Option<Box<str>>> {
    field.as_ref().map(|picture| picture.as_ref().map(|picture| picture.hash.as_str().into()))
}

/// Pictures of one object, for the command that refers to them.
#[must_use]
pub struct HeldPictures<'a> {
    media: &'a Media,
    held: Option<PictureHold>,
    _slot: Option<UploadPermit>,
}

impl Media {
    /// Writes the pictures of some fields, under their hashes. `sender` is the account or webhook that sent them.
    pub async fn hold_fields<const N: usize>(
        &self,
        sender: u64,
        owner: PictureOwner,
        fields: [Option<Option<Picture>>; N],
    ) -> Result<HeldPictures<'_>, MediaError> {
        let is_changed = fields.iter().any(Option::is_some);
        let pictures = fields.into_iter().flatten().flatten().map(|picture| (picture.hash.clone(), picture));
        if is_changed {
            self.hold_pictures(sender, owner, pictures.collect()).await
        } else {
            Ok(HeldPictures { media: self, held: None, _slot: None })
        }
    }

    /// Writes pictures under names. After the command, pictures that the object no longer refers to are removed, even
    /// if none was written.
    pub async fn hold_pictures(
        &self,
        sender: u64,
        owner: PictureOwner,
        pictures: Vec<(String, Picture)>,
    ) -> Result<HeldPictures<'_>, MediaError> {
        let Some(files) = &self.files else { return Ok(HeldPictures { media: self, held: None, _slot: None }) };
        let share = Share { sender, guild: None };
        let slot = if pictures.is_empty() { None } else { Some(self.uploads.take(share).await?) };
        let pictures = pictures.into_iter().map(|(name, picture)| (name, picture.bytes)).collect();
        let held = files.hold(sender, owner, pictures).await.map_err(refused)?;
        Ok(HeldPictures { media: self, held: Some(held), _slot: slot })
    }

    /// Removes the pictures that an object does not refer to any more.
    pub async fn collect_pictures(&self, owner: PictureOwner) {
        if let Some(files) = &self.files {
            files.collect(&**self.node.store(), owner).await;
        }
    }
}

impl HeldPictures<'_> {
    /// The outcome of the command decides which pictures stay.
    pub async fn settled<T, E: CommandError>(self, outcome: Result<T, E>) -> Result<T, E> {
        let Some(held) = self.held else { return outcome };
        if !outcome.as_ref().is_err_and(CommandError::is_unsettled) {
            held.settled(&**self.media.node.store()).await;
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn data_url(bytes: &[u8]) -> Value {
        json!(format!("data:image/png;base64,{}", STANDARD.encode(bytes)))
    }

    #[test]
    fn data_urls() {
        let rule = PictureRule { bytes_max: Some(64) };
        let png = |bytes: usize| [b"\x89PNG\r\n\x1a\n".to_vec(), vec![0; bytes - 8]].concat();
        let check = |value: Value, expected: &str| {
            let fault = serde_json::to_value(rule.parse(&value).unwrap_err()).unwrap();
            let message = fault["_errors"][0]["message"].as_str().unwrap();
            assert!(message.contains(expected), "{value}: {message}");
        };
        let picture = rule.parse(&data_url(&png(64))).unwrap();
        assert_eq!((picture.bytes.len(), picture.hash.len()), (64, HASH_DIGITS));
        assert_eq!(rule.parse(&data_url(&png(64))), Ok(picture), "same bytes, same hash");
        check(data_url(&png(65)), "larger than 0.0625 kb");
        check(data_url(&png(70)), "larger than 0.0625 kb");
        check(data_url(b"<svg/>"), "PNG, JPEG");
        check(data_url(br#"{"v": 1, "w": 1, "h": 1, "layers": [{}]}"#), "PNG, JPEG");
        check(json!("data:image/png;base64,?"), "not base64");
        for wrong in [json!(5), json!("x"), json!("data:text/html;base64,AAAA"), json!("data:image/png,AAAA")] {
            check(wrong, "expected data:image");
        }
        let off = PictureRule { bytes_max: None };
        assert!(off.parse(&data_url(&png(64))).is_err());
    }

    #[test]
    fn stickers() {
        assert!(Picture::of_sticker(b"\xff\xd8\xff\xe0".to_vec()).is_err());
        assert!(Picture::of_sticker(vec![0; STICKER_BYTES_MAX + 1]).is_err());
        let (picture, format_type) = Picture::of_sticker(b"\x89PNG\r\n\x1a\n".to_vec()).unwrap();
        assert_eq!((format_type, picture.hash.starts_with("a_")), (1, false));
    }
}
