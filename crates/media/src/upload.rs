//! Uploads: the files of one request, from its form data to the message that has them.
//!
//! Owns        `Uploads` (received files), `FileForm` (the message's description of a file), `StoredFiles` (stored
//!             files).
//! Invariants  U1 the node writes no byte of a file before the sender is authorized. U2 the files of a refused message
//!             are deleted; if the result of the message is unknown, the sweep checks (`files::FileReservation`).
//! Limits      `FILES_MAX` files; `uploads_max` requests with files at once: further ones are
//!             refused (503); `UPLOADS_PER_SENDER_MAX` of one sender: further ones wait for these, until their
//!             deadline.
//! Not here    form data: `guildhall_http_kit::Multipart`. The folder: `crate::files`.

use crate::{
    CommandError, Media, MediaError,
    files::{Exhausted, FileError, FileReservation, Files, Incoming, Received, Share, clean_name, content_type},
};
use axum::http::StatusCode;
use guildhall_guild::{MessagePatch, MessageReply, NewMessage, ThreadReply};
use guildhall_http_kit::{FieldError, FieldErrors, FileHead, FilePiece, OverQuota};
use guildhall_model::{Attachment, ChannelId, Id, Message, NewAttachment};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError, Weak},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Files of one message.
pub const FILES_MAX: usize = 10;
/// Requests with files of one sender at once.
const UPLOADS_PER_SENDER_MAX: usize = 4;
/// Answer of a server without uploads.
pub const NO_FILES: &str = "This server does not store attachments.";

/// Answer while the bucket of files does not answer.
pub(crate) const FILES_UNAVAILABLE: MediaError = MediaError::coded(
    StatusCode::SERVICE_UNAVAILABLE,
    "Files cannot be stored or read at the moment, because the server's file store does not answer. Try again later",
);

/// Limits of concurrent uploads.
#[derive(Debug)]
pub(crate) struct UploadPermits {
    all: Arc<Semaphore>,
    /// By account or webhook. Unused ones are removed when others come.
    senders: Mutex<BTreeMap<u64, Weak<Semaphore>>>,
}

/// While it lives, its request counts.
pub struct UploadPermit {
    share: Share,
    _of_sender: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl UploadPermits {
    pub fn new(uploads_max: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(uploads_max)), senders: Mutex::default() }
    }

    pub async fn take(&self, share: Share) -> Result<UploadPermit, MediaError> {
        let sender = share.sender;
        let of_sender = {
            let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
            senders.retain(|_, semaphore| semaphore.strong_count() > 0);
            let permit = senders.get(&sender).and_then(Weak::upgrade);
            let semaphore = permit.unwrap_or_else(|| Arc::new(Semaphore::new(UPLOADS_PER_SENDER_MAX)));
            senders.insert(sender, Arc::downgrade(&semaphore));
            semaphore
        };
        // The sender's own permit first: a request that waits for it holds no shared permit.
        let of_sender = of_sender.acquire_owned().await.map_err(|_| MediaError::Overloaded)?;
        // A request never waits for files of other senders, which may stall.
        let of_all = Arc::clone(&self.all).try_acquire_owned().map_err(|_| OverQuota::Total)?;
        Ok(UploadPermit { share, _of_sender: of_sender, _of_all: of_all })
    }
}

/// A file that came in.
struct Upload {
    number: usize,
    filename: String,
    content_type: Option<String>,
    received: Received,
}

/// The files of one request.
#[derive(Default)]
pub struct Uploads {
    done: Vec<Upload>,
    current: Option<(usize, FileHead, Incoming)>,
    slot: Option<UploadPermit>,
}

/// Description of an uploaded file in a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileForm {
    /// As in `files[n]`.
    pub number: usize,
    pub filename: Option<String>,
    pub description: Option<String>,
}

impl Uploads {
    /// Which files there are, as in `files[n]`.
    pub fn numbers(&self) -> Vec<usize> {
        self.done.iter().map(|upload| upload.number).collect()
    }

    /// Those with these numbers; the others are removed.
    #[must_use]
    pub fn only(mut self, numbers: &BTreeSet<usize>) -> Self {
        self.done.retain(|upload| numbers.contains(&upload.number));
        self
    }

    /// It may go on (U1).
    pub fn admit(&mut self, slot: UploadPermit) {
        self.slot = Some(slot);
    }

    pub fn is_admitted(&self) -> bool {
        self.slot.is_some()
    }

    /// BodyLimits the next piece.
    pub async fn take(&mut self, files: &Files, piece: FilePiece) -> Result<(), MediaError> {
        match piece {
            FilePiece::Begin(head) => {
                if self.done.len() == FILES_MAX {
                    let message = format!("Must be {FILES_MAX} or fewer in length.");
                    return Err(FieldErrors::at("files", FieldError::new("BASE_TYPE_MAX_LENGTH", message)).into());
                }
                let number = self.number_of(&head.name)?;
                // Nothing comes before it is admitted (U1).
                let share = self.slot.as_ref().map(|slot| slot.share).unwrap_or_default();
                self.current = Some((number, head, files.begin(share).await.map_err(refused)?));
            }
            FilePiece::Bytes(bytes) => {
                if let Some((_, _, incoming)) = &mut self.current {
                    incoming.write(&bytes).await.map_err(refused)?;
                }
            }
            FilePiece::End => {
                if let Some((number, head, incoming)) = self.current.take() {
                    let received = incoming.finish().await.map_err(refused)?;
                    let filename = head.filename.unwrap_or_default();
                    self.done.push(Upload { number, filename, content_type: head.content_type, received });
                }
            }
        }
        Ok(())
    }

    /// `files[n]`, or a name of older libraries: `file`, `file0`, any.
    fn number_of(&self, name: &str) -> Result<usize, MediaError> {
        let digits = name.trim_end_matches(']');
        let digits = &digits[digits.trim_end_matches(|c: char| c.is_ascii_digit()).len()..];
        let is_free = |number: &usize| self.done.iter().all(|upload| upload.number != *number);
        match digits.parse() {
            Ok(number) if is_free(&number) => Ok(number),
            Ok(_) => {
                let fault = FieldError::new("FILE_DUPLICATE", format!("There is more than one file {digits}."));
                Err(FieldErrors::at("files", fault).into())
            }
            Err(_) => Ok((0..).find(is_free).unwrap_or_default()),
        }
    }

    /// The bytes of the first file, if one came. The others are removed.
    pub async fn into_bytes(self, bytes_max: u64) -> Result<Option<Vec<u8>>, MediaError> {
        let Some(upload) = self.done.into_iter().next() else { return Ok(None) };
        if upload.received.bytes() > bytes_max {
            return Err(refused(FileError::TooLarge(bytes_max)));
        }
        upload.received.read().await.map(Some).map_err(|error| refused(error.into()))
    }

    /// Stores every file, and describes it for the message. `forms` are the descriptions of the request.
    pub async fn keep(
        self,
        media: &Media,
        channel_id: ChannelId,
        forms: &[FileForm],
    ) -> Result<StoredFiles, MediaError> {
        let mut kept = StoredFiles { channel_id, attachments: Vec::new(), files: None };
        let Some(files) = media.files.as_ref().filter(|_| !self.done.is_empty()) else { return Ok(kept) };
        kept.files = Some((files.clone(), FileReservation::new(files.clone())));
        let mut uploads = self.done;
        uploads.sort_by_key(|upload| upload.number);
        for Upload { number, filename, content_type: claimed, received } in uploads {
            let form = forms.iter().find(|form| form.number == number).cloned().unwrap_or_default();
            let filename = clean_name(&form.filename.unwrap_or(filename));
            let id: Id<()> = media.node.next_id().await?;
            let (width, height) = received.width_height.unzip();
            let attachment = Attachment {
                id,
                size: received.bytes(),
                url: files.url(channel_id, id, &filename),
                content_type: content_type(&received.head, &filename, claimed.as_deref()),
                description: form.description.filter(|description| !description.is_empty()),
                height,
                width,
                filename,
            };
            if let Some((_, reservation)) = &mut kept.files {
                reservation.add(id);
            }
            if let Err(error) = received.keep(channel_id, id).await {
                kept.remove(|_| true).await;
                return Err(refused(error));
            }
            kept.attachments.push(attachment);
        }
        Ok(kept)
    }
}

/// Files that have their place, and wait for their message.
pub struct StoredFiles {
    channel_id: ChannelId,
    /// Descriptions for the message.
    attachments: Vec<Attachment>,
    files: Option<(Files, FileReservation)>,
}

impl StoredFiles {
    /// A message gets them.
    pub fn put_into(&self, message: &mut NewMessage) {
        message.attachments.extend(self.new_attachments());
        self.link(&mut message.embeds);
        self.link(&mut message.components);
    }

    fn new_attachments(&self) -> impl Iterator<Item = NewAttachment> {
        self.attachments.iter().cloned().map(NewAttachment::from)
    }

    /// They belong to no message: an interaction names them, and may be read by links that last this long.
    pub fn lent(&self, lent_s: u64) -> Vec<Attachment> {
        let Some((files, _)) = &self.files else { return Vec::new() };
        let lend = |of: &Attachment| Attachment {
            url: files.lent_url(self.channel_id, of.id, &of.filename, lent_s),
            ..of.clone()
        };
        self.attachments.iter().map(lend).collect()
    }

    /// From now on the sweep may remove them.
    pub async fn release(self) {
        self.remove(|_| false).await;
    }

    /// An edited message gets them.
    pub fn put_into_patch(&self, patch: &mut MessagePatch) {
        patch.added.extend(self.new_attachments());
        self.link(patch.embeds.as_deref_mut().unwrap_or_default());
        self.link(patch.components.as_deref_mut().unwrap_or_default());
    }

    /// What embeds and components call `attachment://NAME` is one of these.
    fn link(&self, parts: &mut [Value]) {
        if !self.attachments.is_empty() {
            parts.iter_mut().for_each(|part| link(part, &self.attachments));
        }
    }

    /// What became of the message decides what becomes of its files.
    pub async fn settled<T: MayShowMessage, E: CommandError>(self, outcome: Result<T, E>) -> Result<T, E> {
        match &outcome {
            // A repeated request with a nonce gets the earlier message.
            Ok(reply) => match reply.message() {
                Some(message) => {
                    self.remove(|id| message.attachments.iter().all(|attachment| attachment.id != id)).await;
                }
                None => self.remove(|_| false).await,
            },
            Err(error) if error.is_unsettled() => {}
            Err(_) => self.remove(|_| true).await,
        }
        outcome
    }

    /// Removes some, and is done with the others.
    async fn remove(self, is_in_vain: impl Fn(Id<()>) -> bool) {
        let Some((files, reservation)) = self.files else { return };
        for attachment in self.attachments.iter().filter(|attachment| is_in_vain(attachment.id)) {
            // The sweep finds what is left.
            if let Err(error) = files.remove(self.channel_id, attachment.id).await {
                tracing::warn!(%error, "a file whose message was refused cannot be removed yet");
            }
        }
        reservation.settle();
    }
}

/// Reply to a command that stores files.
pub trait MayShowMessage {
    /// The message that the files belong to, if the reply contains it.
    fn message(&self) -> Option<&Message>;
}

impl MayShowMessage for Box<MessageReply> {
    fn message(&self) -> Option<&Message> {
        Some(&self.message)
    }
}

impl MayShowMessage for ThreadReply {
    fn message(&self) -> Option<&Message> {
        None
    }
}

/// Replaces `attachment://NAME` in each URL of an embed or component. Their form was checked, so the tree is small.
fn link(value: &mut Value, attachments: &[Attachment]) {
    match value {
        Value::String(text) => {
            let name = text.strip_prefix("attachment://").map(clean_name);
            if let Some(found) = name.and_then(|name| attachments.iter().find(|of| of.filename == name)) {
                text.clone_from(&found.url);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| link(value, attachments)),
        Value::Object(map) => {
            let linked =
                map.iter_mut().filter(|(key, value)| !value.is_string() || matches!(key.as_str(), "url" | "icon_url"));
            linked.for_each(|(_, value)| link(value, attachments));
        }
        _ => {}
    }
}

/// The answer when a file is not taken in.
pub(crate) fn refused(error: FileError) -> MediaError {
    match error {
        FileError::TooLarge(bytes_max) => MediaError::TooLarge(usize::try_from(bytes_max).unwrap_or(usize::MAX)),
        // No mistake of the sender's, and trying again does not help.
        FileError::Full => MediaError::coded(
            StatusCode::INSUFFICIENT_STORAGE,
            "This server has no space for more files. Its operator can increase uploads.bytes_max",
        ),
        FileError::Exhausted(Exhausted::Sender) => MediaError::coded(
            StatusCode::INSUFFICIENT_STORAGE,
            "You have uploaded as much as one account may in a day. Try again in some hours; the operator of this server \
             can increase uploads.account_day_percent",
        ),
        FileError::Exhausted(Exhausted::Guild) => MediaError::coded(
            StatusCode::INSUFFICIENT_STORAGE,
            "The files here have as much space as those of one guild may have. Delete some; the operator of this server \
             can increase uploads.guild_percent",
        ),
        FileError::Unavailable => FILES_UNAVAILABLE,
        FileError::Io(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "a file cannot be written");
            MediaError::Bug("a file that can be written")
        }
    }
}

/// Why nothing is taken in where files are not kept.
pub fn no_files() -> MediaError {
    FieldErrors::at("attachments", FieldError::new("UNSUPPORTED", NO_FILES)).into()
}
