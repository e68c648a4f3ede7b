//! Links: the URL of a file, signed, with its expiry.
//!
//! Invariants  L1 only this node can make a link: `hm` is a keyed hash (HMAC-SHA-256, half of it) of the path and, if
//!             the link expires, of `ex` and `is`. Comparing takes constant time. L2 a link that expires is never
//!             accepted as one that does not. L3 a link is renewed only if this node signed it, and in a message only
//!             if it points to a file of that message. L4 the link of a lent file, which no message has, ends with
//!             the loan whatever the lifetime of links, and is not renewed. (tests `l*_*`, `s21_7_*`)
//! Limits      links of one file are equal within a `STEPS`-th of their lifetime, so that browsers find them
//!             in their cache.
//! Spec        upstream's signed attachment URLs: `ex`, `is` (Unix seconds, hexadecimal) and `hm`. `until`, of lent
//!             files, is ours.

use aws_lc_rs::{constant_time::verify_slices_are_equal, hmac};
use guildhall_model::{Attachment, ChannelId, Id, Message};
use guildhall_stdx::Timestamp;
use serde_json::Value;

/// 128 bits cannot be guessed; messages contain the link twice, so it should be short.
const MARK_BYTES: usize = 16;
/// A new link of a file differs from the one before after this part of `lifetime_s`.
const STEPS: u64 = 24;

pub(super) struct Links {
    base_url: String,
    key: hmac::Key,
    /// None: links do not expire.
    lifetime_s: Option<u64>,
}

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signed {
    /// Valid; with the seconds left, if it expires.
    Good(Option<u64>),
    /// Valid, of a lent file; with the seconds left.
    Lent(u64),
    /// Signed by this node, and expired.
    Expired,
    /// Not signed by this node.
    No,
}

/// The file that a link points to, and its signature.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link<'a> {
    pub channel_id: ChannelId,
    pub id: Id<()>,
    pub filename: &'a str,
    pub ex: Option<&'a str>,
    pub is: Option<&'a str>,
    pub until: Option<&'a str>,
    pub hm: &'a str,
}

impl Links {
    /// `lifetime_s`: 0 for links that do not expire.
    pub fn new(base_url: &str, secret: &[u8], lifetime_s: u32) -> Self {
        Self {
            base_url: base_url.trim_end_matches('/').to_owned(),
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
            lifetime_s: (lifetime_s > 0).then_some(lifetime_s.into()),
        }
    }

    /// A new link. `filename` is a clean one.
    pub fn url(&self, now: Timestamp, channel_id: ChannelId, id: Id<()>, filename: &str) -> String {
        let path = path(channel_id, id, filename);
        match self.lifetime_s {
            None => format!("{}{path}?hm={}", self.base_url, self.mark(&path)),
            Some(lifetime_s) => {
                let now_s = unix_s(now);
                let issued_s = now_s - now_s % step_s(lifetime_s);
                let (ex, is) = (format!("{:x}", issued_s + lifetime_s), format!("{issued_s:x}"));
                let mark = self.mark(&expiring(&path, &ex, &is));
                format!("{}{path}?ex={ex}&is={is}&hm={mark}", self.base_url)
            }
        }
    }

    /// A link to a file that is lent for some seconds.
    pub fn lent_url(
        &self,
        now: Timestamp,
        (channel_id, id): (ChannelId, Id<()>),
        filename: &str,
        lent_s: u64,
    ) -> String {
        let (path, until) = (path(channel_id, id, filename), format!("{:x}", unix_s(now) + lent_s));
        format!("{}{path}?until={until}&hm={}", self.base_url, self.mark(&lent(&path, &until)))
    }

    /// Whether this node signed a link, and it has not expired.
    pub fn check(&self, now: Timestamp, link: Link<'_>) -> Signed {
        let path = path(link.channel_id, link.id, link.filename);
        if let Some(until) = link.until {
            let is_signed =
                verify_slices_are_equal(self.mark(&lent(&path, until)).as_bytes(), link.hm.as_bytes()).is_ok();
            return match u64::from_str_radix(until, 16) {
                Ok(until_s) if is_signed && until_s > unix_s(now) => Signed::Lent(until_s - unix_s(now)),
                Ok(_) if is_signed => Signed::Expired,
                _ => Signed::No,
            };
        }
        let (expected, times) = match (link.ex, link.is) {
            (None, None) => (self.mark(&path), None),
            (Some(ex), Some(is)) => {
                let (Ok(ex_s), Ok(is_s)) = (u64::from_str_radix(ex, 16), u64::from_str_radix(is, 16)) else {
                    return Signed::No;
                };
                (self.mark(&expiring(&path, ex, is)), Some((ex_s, is_s)))
            }
            _ => return Signed::No,
        };
        if verify_slices_are_equal(expected.as_bytes(), link.hm.as_bytes()).is_err() {
            return Signed::No;
        }
        match (self.lifetime_s, times) {
            (None, _) => Signed::Good(None),
            // From before links expired.
            (Some(_), None) => Signed::Expired,
            // A shorter lifetime also applies to earlier links.
            (Some(lifetime_s), Some((ex_s, is_s))) => match ex_s.min(is_s.saturating_add(lifetime_s)) {
                ends_s if ends_s > unix_s(now) => Signed::Good(Some(ends_s - unix_s(now))),
                _ => Signed::Expired,
            },
        }
    }

    /// The file of a URL, whether or not its signature is valid. Links with an earlier `base_url` are accepted.
    pub fn parse(url: &str) -> Option<Link<'_>> {
        let (_, rest) = url.split_once("://")?;
        let (_, rest) = rest.split_once("/attachments/")?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let query = query.split('#').next().unwrap_or_default();
        let mut pieces = path.split('/');
        let (channel_id, id, filename) = (pieces.next()?, pieces.next()?, pieces.next()?);
        if pieces.next().is_some() {
            return None;
        }
        let (channel_id, id) = (channel_id.parse().ok()?, id.parse().ok()?);
        let value = |name: &str| {
            query
                .split('&')
                .filter_map(|pair| pair.split_once('='))
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value)
        };
        let (ex, is, until, hm) = (value("ex"), value("is"), value("until"), value("hm").unwrap_or_default());
        Some(Link { channel_id: ChannelId::new(channel_id), id: Id::new(id), filename, ex, is, until, hm })
    }

    /// A new link in place of one that this node signed, expired or not.
    pub fn renewed(&self, now: Timestamp, url: &str) -> Option<String> {
        let link = Self::parse(url)?;
        let is_signed = link.until.is_none() && self.check(now, link) != Signed::No;
        is_signed.then(|| self.url(now, link.channel_id, link.id, link.filename))
    }

    /// The message with new links to its own files, in attachments and embeds. None if nothing changes.
    pub fn renew(&self, now: Timestamp, message: &Message) -> Option<Message> {
        message.all_attachments().next()?;
        let mut renewed = message.clone();
        let mut is_changed = self.renew_all(now, &mut renewed.attachments, &mut renewed.embeds);
        for snapshot in &mut renewed.snapshots {
            is_changed |= self.renew_all(now, &mut snapshot.attachments, &mut snapshot.embeds);
        }
        is_changed.then_some(renewed)
    }

    fn renew_all(&self, now: Timestamp, attachments: &mut [Attachment], embeds: &mut [Value]) -> bool {
        let own = attachments.to_vec();
        let mut is_changed = false;
        for attachment in attachments {
            is_changed |= self.renew_text(now, &own, &mut attachment.url);
        }
        for embed in embeds {
            is_changed |= self.renew_value(now, &own, embed);
        }
        is_changed
    }

    /// `own` are the files of the message. Whether the text differs now.
    fn renew_text(&self, now: Timestamp, own: &[Attachment], text: &mut String) -> bool {
        let is_own = |id| own.iter().any(|attachment| attachment.id == id);
        let Some(link) = Self::parse(text).filter(|link| is_own(link.id)) else { return false };
        if link.until.is_some() || self.check(now, link) == Signed::No {
            return false;
        }
        let url = self.url(now, link.channel_id, link.id, link.filename);
        let is_changed = url != *text;
        if is_changed {
            *text = url;
        }
        is_changed
    }

    /// Embeds are few, and not deep: their form was checked.
    fn renew_value(&self, now: Timestamp, own: &[Attachment], value: &mut Value) -> bool {
        let mut is_changed = false;
        match value {
            Value::String(text) => is_changed = self.renew_text(now, own, text),
            Value::Array(list) => list.iter_mut().for_each(|value| is_changed |= self.renew_value(now, own, value)),
            Value::Object(map) => map.values_mut().for_each(|value| is_changed |= self.renew_value(now, own, value)),
            _ => {}
        }
        is_changed
    }

    fn mark(&self, signed: &str) -> String {
        let tag = hmac::sign(&self.key, signed.as_bytes());
        tag.as_ref().iter().take(MARK_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }
}

fn unix_s(now: Timestamp) -> u64 {
    u64::try_from(now.unix_s()).unwrap_or(0)
}

fn step_s(lifetime_s: u64) -> u64 {
    (lifetime_s / STEPS).max(1)
}

fn path(channel_id: ChannelId, id: Id<()>, filename: &str) -> String {
    format!("/attachments/{channel_id}/{id}/{filename}")
}

/// The signed text of a link that expires. It cannot be a path, which begins with a slash (L2).
fn expiring(path: &str, ex: &str, is: &str) -> String {
    format!("{ex} {is} {path}")
}

/// The signed text of a link to a lent file. It begins with no hexadecimal digit, and with no slash (L4).
fn lent(path: &str, until: &str) -> String {
    format!("lent {until} {path}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_model::{GuildId, MessageId, User, UserId};
    use serde_json::json;
    use std::sync::Arc;

    const CHANNEL: ChannelId = ChannelId::new(5);
    const FILE: Id<()> = Id::new(6);
    const DAY_MS: i64 = 86_400_000;

    fn links(lifetime_s: u32) -> Links {
        Links::new("http://a.example/", &[7; 32], lifetime_s)
    }

    fn checked(links: &Links, ms: i64, url: &str) -> Signed {
        links.check(Timestamp(ms), Links::parse(url).unwrap())
    }

    #[test]
    fn l1_links_are_bound_to_all_of_it() {
        for lifetime_s in [0, 86_400] {
            let links = links(lifetime_s);
            let url = links.url(Timestamp(0), CHANNEL, FILE, "a.txt");
            assert!(url.starts_with("http://a.example/attachments/5/6/a.txt?"), "{url}");
            let is_ours = |url: &str| !matches!(checked(&links, 0, url), Signed::No);
            assert!(is_ours(&url));
            let (head, mark) = url.split_once("hm=").unwrap();
            assert_eq!(mark.len(), 32);
            for other in [
                url.replace("a.txt", "b.txt"),
                url.replace("/6/", "/7/"),
                url.replace("/5/", "/6/"),
                format!("{head}hm={}", &mark[1..]),
                head.to_owned(),
            ] {
                assert!(!is_ours(&other), "{other}");
            }
            let others = Links::new("http://a.example", &[8; 32], lifetime_s);
            assert_eq!(checked(&others, 0, &url), Signed::No);
        }
    }

    #[test]
    fn s21_7_links_expire_and_stay_equal_for_a_while() {
        let links = links(86_400);
        let url = links.url(Timestamp(3 * DAY_MS), CHANNEL, FILE, "a.txt");
        assert!(url.contains("?ex=54600&is=3f480&hm="), "{url}");
        assert_eq!(links.url(Timestamp(3 * DAY_MS + 3_599_999), CHANNEL, FILE, "a.txt"), url, "within the hour");
        assert_ne!(links.url(Timestamp(3 * DAY_MS + 3_600_000), CHANNEL, FILE, "a.txt"), url);
        assert_eq!(checked(&links, 3 * DAY_MS, &url), Signed::Good(Some(86_400)));
        assert_eq!(checked(&links, 4 * DAY_MS - 1, &url), Signed::Good(Some(1)));
        assert_eq!(checked(&links, 4 * DAY_MS, &url), Signed::Expired);
        assert_eq!(checked(&links, 3 * DAY_MS, &url.replace("ex=54600", "ex=94600")), Signed::No);
        let shorter = Links::new("http://a.example", &[7; 32], 60);
        assert_eq!(checked(&shorter, 3 * DAY_MS + 60_000, &url), Signed::Expired);
    }

    #[test]
    fn l2_no_link_that_expires_passes_for_another() {
        let (ends, lasts) = (links(60), links(0));
        let url = ends.url(Timestamp(0), CHANNEL, FILE, "a.txt");
        let (_, query) = url.split_once('?').unwrap();
        let mark = query.rsplit_once('=').unwrap().1;
        for cut in [
            format!("http://a.example/attachments/5/6/a.txt?hm={mark}"),
            format!("http://a.example/attachments/5/6/a.txt%3F{query}?hm={mark}"),
            format!("http://a.example/attachments/5/6/a.txt?ex=3c&hm={mark}"),
            format!("http://a.example/attachments/5/6/a.txt?is=0&hm={mark}"),
        ] {
            assert_eq!(checked(&lasts, 0, &cut), Signed::No, "{cut}");
        }
        assert_eq!(checked(&lasts, DAY_MS, &url), Signed::Good(None), "links do not expire any more");
        let old = lasts.url(Timestamp(0), CHANNEL, FILE, "a.txt");
        assert_eq!(checked(&ends, 0, &old), Signed::Expired, "from before links expired");
    }

    #[test]
    fn l4_the_link_of_a_lent_file_ends_with_the_loan() {
        for lifetime_s in [0, 60, 86_400] {
            let links = links(lifetime_s);
            let url = links.lent_url(Timestamp(0), (CHANNEL, FILE), "a.txt", 900);
            assert_eq!(checked(&links, 0, &url), Signed::Lent(900));
            assert_eq!(checked(&links, 899_999, &url), Signed::Lent(1));
            assert_eq!(checked(&links, 900_000, &url), Signed::Expired);
            assert_eq!(links.renewed(Timestamp(0), &url), None);
            for other in [
                url.replace("until=384", "until=385"),
                url.replace("a.txt", "b.txt"),
                url.replace("until=384&", ""),
                url.replace("until=384", "ex=384&is=0"),
            ] {
                assert_eq!(checked(&links, 0, &other), Signed::No, "{other}");
            }
        }
    }

    #[test]
    fn l3_a_message_gets_new_links_to_its_own_files() {
        let links = links(86_400);
        let (old, later) = (links.url(Timestamp(0), CHANNEL, FILE, "a.txt"), Timestamp(30 * DAY_MS));
        let stolen = links.url(Timestamp(0), CHANNEL, Id::new(60), "b.txt");
        let forged = "http://a.example/attachments/5/6/a.txt?ex=1&is=0&hm=00";
        let attachment = Attachment {
            id: FILE,
            filename: "a.txt".to_owned(),
            size: 1,
            url: old.clone(),
            content_type: None,
            description: None,
            height: None,
            width: None,
        };
        let author = Arc::new(User::new(UserId::new(7), "ana"));
        let message = Message {
            attachments: vec![attachment],
            embeds: vec![json!({"image": {"url": old}, "thumbnail": {"url": stolen}, "footer": {"icon_url": forged}})],
            ..Message::new(MessageId::new(50), CHANNEL, GuildId::new(1), author)
        };
        let renewed = links.renew(later, &message).unwrap();
        let new = links.url(later, CHANNEL, FILE, "a.txt");
        assert_eq!(renewed.attachments[0].url, new);
        let expected = json!({"image": {"url": new}, "thumbnail": {"url": stolen}, "footer": {"icon_url": forged}});
        assert_eq!(renewed.embeds, [expected]);
        assert_eq!(links.renew(later, &renewed), None, "nothing differs");
        let moved = Links::new("https://b.example", &[7; 32], 86_400);
        let url = moved.renew(later, &message).unwrap().attachments.remove(0).url;
        assert!(url.starts_with("https://b.example/attachments/5/6/a.txt?ex="), "{url}");
    }
}
