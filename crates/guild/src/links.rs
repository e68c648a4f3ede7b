//! Links: URLs of stored files expire, so a guild renews them in the messages of its events and answers.
//!
//! Not here    signatures and times: the driver's `RenewLinks`, which depends on its arguments alone.

use guildhall_model::Message;
use guildhall_stdx::Timestamp;
use std::{fmt, sync::Arc};

/// Renews links to stored files.
pub trait RenewLinks: Send + Sync {
    /// The message with links in force. None: nothing differs. The result depends on the arguments alone.
    fn renew(&self, now: Timestamp, message: &Message) -> Option<Message>;
}

/// The `RenewLinks` of a guild. The default renews nothing.
#[derive(Clone, Default)]
pub struct LinkRenewer(pub Option<Arc<dyn RenewLinks>>);

impl fmt::Debug for LinkRenewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LinkRenewer").field(&self.0.is_some()).finish()
    }
}

impl LinkRenewer {
    /// The message with links in force.
    #[must_use]
    pub fn renewed(&self, now: Timestamp, message: Arc<Message>) -> Arc<Message> {
        let renew = self.0.as_ref().filter(|_| message.all_attachments().next().is_some());
        renew.and_then(|renew| renew.renew(now, &message)).map_or(message, Arc::new)
    }
}
