//! Media of one API: its files, the node behind them, and the requests with files at once.

use crate::{
    Files, MediaError,
    files::Share,
    upload::{UploadPermit, UploadPermits},
};
use guildhall_model::ChannelId;
use guildhall_node::Node;

/// What handlers need for files and pictures.
pub struct Media {
    pub(crate) node: Node,
    pub(crate) files: Option<Files>,
    pub(crate) uploads: UploadPermits,
}

impl Media {
    /// Without `files`, files and pictures are refused. At most `uploads_max` requests with files are handled at once.
    #[must_use]
    pub fn new(node: Node, files: Option<Files>, uploads_max: usize) -> Self {
        Self { node, files, uploads: UploadPermits::new(uploads_max) }
    }

    /// None: this server stores no files.
    #[must_use]
    pub fn files(&self) -> Option<&Files> {
        self.files.as_ref()
    }

    /// Admits a request with files of this account or webhook for a channel; with none the file becomes a picture.
    ///
    /// # Errors
    /// Too many requests with files are handled at the moment; the store cannot be read.
    pub async fn admit_upload(&self, sender: u64, channel: Option<ChannelId>) -> Result<UploadPermit, MediaError> {
        let guild = match channel {
            // A channel without a guild has a share of its own.
            Some(channel_id) => Some(self.node.guild_of_channel(channel_id).await?.unwrap_or(channel_id.cast())),
            None => None,
        };
        self.uploads.take(Share { sender, guild }).await
    }
}
