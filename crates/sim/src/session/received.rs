//! Dispatches that a session's client decoded, in order and word for word.

use super::{Content, Expected, Session, Withheld};
use crate::checker::{Fault, fault};
use guildhall_model::to_gateway::MemberQuery;

impl Session {
    /// The client's heartbeat acknowledges all dispatches up to this seq.
    pub fn claims(&mut self, seq: u64) {
        self.claimed = self.claimed.max(seq);
    }

    /// The client received the answer to its heartbeat with this seq.
    pub fn acknowledged(&mut self, seq: u64) {
        self.received_floor = self.received_floor.max(seq);
    }

    /// A dispatch came; the one before it had `last`.
    pub fn received(&mut self, last: u64, seq: u64, name: &str, text: &str) -> Result<(), Fault> {
        let mut next = last + 1;
        while next < seq
            && self.at(next).is_some_and(|expected| expected.withheld != Withheld::No || self.is_superseded(next))
        {
            next += 1;
        }
        if next != seq {
            let expected = self.at(next).map_or("nothing more".into(), Expected::text);
            return fault(format!("seq {next} must come next ({expected}), seq {seq} came: {text}"));
        }
        let Some(expected) = self.at(seq) else {
            let is_update = matches!(name, "PASSIVE_UPDATE_V1" | "PASSIVE_UPDATE_V2" | "CHANNEL_UNREAD_UPDATE");
            if is_update && std::mem::take(&mut self.may_end_with_update) {
                return Ok(());
            }
            return fault(format!("nothing more was to come, but seq {seq} came: {text}"));
        };
        if expected.withheld == Withheld::Yes {
            return fault(format!("seq {seq} may no longer be seen, but came: {text}"));
        }
        if let Content::Refusal = expected.content {
            return self.received_refusal(seq, name, text);
        }
        if *expected.text() != *text {
            return fault(format!("seq {seq} must be: {}\n  but is: {text}", expected.text()));
        }
        Ok(())
    }

    /// A presence that a replay may leave out: a newer one or the whole guild follows, the guild is gone, or a user
    /// account stopped watching the member. A bot without GUILDS learns of no outage, and misses events during one.
    fn is_superseded(&self, seq: u64) -> bool {
        let is_replayed = self.expected.iter().skip(seq as usize).any(|later| later.text().starts_with("RESUMED "));
        if !is_replayed {
            return false;
        }
        let shown = |expected: &Expected| match &expected.content {
            Content::Event(event, _) => event.presence_user(),
            _ => None,
        };
        let Some(user) = self.at(seq).and_then(shown) else { return false };
        let is_newer = |later: &Expected| {
            let is_of_guild = matches!(later.content, Content::Guild(..)) || later.text().starts_with("GUILD_DELETE ");
            shown(later) == Some(user) || is_of_guild
        };
        let has_newer = self.expected.iter().skip(seq as usize).any(is_newer);
        has_newer || if self.is_bot { !self.gets_guild_events() } else { !self.watched.contains(&user) }
    }

    fn at(&self, seq: u64) -> Option<&Expected> {
        self.expected.get(usize::try_from(seq.checked_sub(1)?).ok()?)
    }

    fn received_refusal(&mut self, seq: u64, name: &str, text: &str) -> Result<(), Fault> {
        let nonce = text.split('"').nth(1).unwrap_or("");
        let mut whole_lists = self.requests.iter().filter(|(_, request)| request.query == MemberQuery::All);
        match whole_lists.position(|(requested, _)| requested == nonce) {
            _ if name != "RATE_LIMITED" => return fault(format!("seq {seq} must refuse a list, but is {text}")),
            None => return fault(format!("no request has this nonce: {text}")),
            Some(0) => return fault(format!("the first is refused: {text}")),
            Some(_) => {}
        }
        self.expected[seq as usize - 1].content = Content::Own(text.into());
        Ok(())
    }

    /// The first dispatch after `seq` that must have come.
    pub fn first_missing(&self, seq: u64) -> Option<&Expected> {
        self.expected.iter().skip(seq as usize).find(|expected| expected.withheld == Withheld::No)
    }
}
