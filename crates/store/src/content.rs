//! Content: messages and reactions of one account, found by a scan over all messages.

use guildhall_model::{ChannelId, MessageId, ReactionEmoji};

/// A message's place in the order of the scan.
pub type Place = (ChannelId, MessageId);

/// One step of the scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentOf {
    /// Messages that the account wrote.
    pub messages: Vec<Place>,
    /// Its reactions.
    pub reactions: Vec<(Place, ReactionEmoji)>,
    /// The last message of this step; none when the scan is at its end.
    pub next: Option<Place>,
}
