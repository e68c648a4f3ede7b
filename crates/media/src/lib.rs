//! Media: files that come with messages, and pictures of accounts, guilds and their objects.
//!
//! Owns        stored files and their quota (`Files`); the files of a request until its message has them (`Uploads`,
//!             `StoredFiles`); pictures of a request until their object refers to them (`HeldPictures`); links, their
//!             signatures and their routes.
//! Doors       `Files::open` and `files_router` for the node; `Media` for handlers of REST.
//! Invariants  no byte of a file is written before its sender is authorized; what no message or object refers to is
//!             removed again. (`files`, `upload`)
//! Limits      `FilesOptions`, `FILES_MAX`, `UPLOADS_PER_SENDER_MAX`, `STICKER_BYTES_MAX`.
//! Not here    permissions of uploads, and forms: `guildhall-rest`. The folder or bucket: `guildhall-files`.
//!             Spec  docs/adr/0030, docs/adr/0032, docs/adr/0038.
#![forbid(unsafe_code)]

mod error;
mod files;
mod media;
mod pictures;
mod upload;

pub use error::{CommandError, MediaError};
pub use files::{FileOwners, Files, FilesOptions, GuildFiles, SETTLED_AFTER, SenderFiles, Sweeper, files_router};
pub use media::Media;
pub use pictures::{HeldPictures, NOT_KEPT, Picture, PictureRule, STICKER_BYTES_MAX, hash_of};
pub use upload::{FILES_MAX, FileForm, MayShowMessage, NO_FILES, StoredFiles, UploadPermit, Uploads, no_files};
