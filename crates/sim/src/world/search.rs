//! Searches: the messages that an account finds are those that it may read.
//!
//! Invariants  as in `guildhall-rest`: the guild has the channels that an account may read, the store finds in them.

use super::World;
use crate::checker::{Fault, fault};
use guildhall_guild::{Actor, Command, Reply};
use guildhall_model::{ChannelId, Message, UserId};
use guildhall_store::{MessageSearch, SEARCH_HITS_MAX};
use std::collections::BTreeSet;

/// Messages that people or bots wrote, and not the server.
fn is_found(message: &Message) -> bool {
    let written = [
        Message::KIND_DEFAULT,
        Message::KIND_REPLY,
        Message::KIND_CHAT_INPUT_COMMAND,
        Message::KIND_CONTEXT_MENU_COMMAND,
    ];
    written.contains(&message.kind)
}

impl World {
    /// An account searches the guild without a condition: it finds every message that it may read, and no other one.
    pub fn search(&mut self, user: u64) -> Result<(), Fault> {
        let command = Command::ReadableChannels { include_nsfw: true };
        let reply = self.command(Actor::User(UserId::new(user)), &command)?;
        let (state, now) = (self.checker.state.clone(), self.now().unix.0);
        let is_member = state.members.contains_key(&user) && !state.is_deleted;
        let Some(Reply::Channels(readable)) = reply else {
            return if is_member { fault(format!("{user} may not search their guild")) } else { Ok(()) };
        };
        if !is_member {
            return fault(format!("{user} may search a guild without them"));
        }
        let places: Vec<u64> = state.channels.keys().chain(state.threads.keys()).copied().collect();
        let search = MessageSearch {
            guild_id: Some(self.guild_id()),
            channels: self.fault_injector.searched(readable, &places),
            limit: SEARCH_HITS_MAX,
            ..MessageSearch::default()
        };
        let page = self.store.search(&search)?;
        let found: BTreeSet<_> = page.messages.iter().map(|(place, id)| (place.get(), id.get())).collect();
        let mut expected = BTreeSet::new();
        for place in places.into_iter().filter(|place| state.reads_history(user, *place, now)) {
            let messages = self.store.messages(ChannelId::new(place))?;
            let written = messages.iter().filter(|record| is_found(&record.message));
            expected.extend(written.map(|record| (place, record.message.id.get())));
        }
        if found != expected || page.total as usize != expected.len() {
            let (too_much, missing) = (found.difference(&expected), expected.difference(&found));
            return fault(format!(
                "{user} finds {:?}, which they may not read, and not {:?}, of {} messages",
                too_much.collect::<Vec<_>>(),
                missing.collect::<Vec<_>>(),
                page.total
            ));
        }
        Ok(())
    }
}
