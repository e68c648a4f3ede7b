//! Links: where a file is read from, by whoever was told.
//!
//! Invariants  L1 nobody makes a link that was not given out: `hm` is a keyed hash (HMAC-SHA-256, half of it) of the path. How
//!             long it takes to compare says nothing.

use aws_lc_rs::{constant_time::verify_slices_are_equal, hmac};
use guildhall_model::{ChannelId, Id};

/// 128 bits: nobody guesses that, and messages carry the link twice.
const MARK_BYTES: usize = 16;

pub(super) struct Links {
    base_url: String,
    key: hmac::Key,
}

impl Links {
    pub fn new(base_url: &str, secret: &[u8]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        Self { base_url: base_url.trim_end_matches('/').to_owned(), key }
    }

    /// `filename` is a clean one.
    pub fn url(&self, channel_id: ChannelId, id: Id<()>, filename: &str) -> String {
        let path = path(channel_id, id, filename);
        format!("{}{path}?hm={}", self.base_url, self.mark(&path))
    }

    /// Whether this is a link that was given out.
    pub fn is_ours(&self, channel_id: ChannelId, id: Id<()>, filename: &str, mark: &str) -> bool {
        let expected = self.mark(&path(channel_id, id, filename));
        verify_slices_are_equal(expected.as_bytes(), mark.as_bytes()).is_ok()
    }

    fn mark(&self, path: &str) -> String {
        let tag = hmac::sign(&self.key, path.as_bytes());
        tag.as_ref().iter().take(MARK_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }
}

fn path(channel_id: ChannelId, id: Id<()>, filename: &str) -> String {
    format!("/attachments/{channel_id}/{id}/{filename}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l1_links_are_bound_to_all_of_it() {
        let links = Links::new("http://a.example/", &[7; 32]);
        let (channel, id) = (ChannelId::new(5), Id::new(6));
        let url = links.url(channel, id, "a.txt");
        let (head, mark) = url.split_once("?hm=").unwrap();
        assert_eq!((head, mark.len()), ("http://a.example/attachments/5/6/a.txt", 32));
        assert!(links.is_ours(channel, id, "a.txt", mark));
        assert!(!links.is_ours(channel, id, "b.txt", mark));
        assert!(!links.is_ours(channel, Id::new(7), "a.txt", mark));
        assert!(!links.is_ours(ChannelId::new(6), id, "a.txt", mark));
        assert!(!links.is_ours(channel, id, "a.txt", &mark[1..]));
        assert!(!links.is_ours(channel, id, "a.txt", ""));
        assert!(!Links::new("http://a.example", &[8; 32]).is_ours(channel, id, "a.txt", mark));
    }
}
