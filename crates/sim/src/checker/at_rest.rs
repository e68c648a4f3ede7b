//! At rest: what clients know, when everything has arrived, against what is.

use super::{Checker, Fault, fault};
use crate::{
    model::{PassiveForm, list_id, list_rows, status_text},
    session::{Membership, Session},
};
use guildhall_model::Status;
use guildhall_partition::Partition;
use std::collections::{BTreeMap, BTreeSet, HashMap};

const GUILDS: u32 = 1 << 0;
/// GUILDS, GUILD_MEMBERS, GUILD_PRESENCES: without them a client does not receive departures or presences.
const NEEDED: u32 = 1 << 0 | 1 << 1 | 1 << 8;
/// Rows in a block that clients subscribe to.
const BLOCK_ROWS: u32 = 100;

impl Checker {
    /// With nothing in progress: sessions are in the guild exactly if their account is a member, and have its presence.
    /// `is_observed`: a session receives every presence.
    pub fn check_at_rest(&self, partitions: &[&Partition], is_observed: bool) -> Result<(), Fault> {
        let mut shown: HashMap<u64, Status> = HashMap::new();
        for session in self.sessions.iter().filter(|session| session.gone.is_none()) {
            let belongs = session.in_shard && self.state.members.contains_key(&session.user);
            let is_inside = session.membership == Membership::Inside;
            if belongs != is_inside {
                return fault(format!(
                    "session {} of {}: in the guild {is_inside}, member {belongs} ({:?})",
                    session.id, session.user, session.membership
                ));
            }
            let product = partitions[session.side].sessions().find(|product| product.key == session.key);
            let status = product.map_or(Status::Offline, |product| product.profile.presence.status);
            if is_inside {
                let best = shown.entry(session.user).or_default();
                *best = (*best).max(status);
            }
        }
        for user in self.state.members.keys() {
            let expected = status_text(shown.get(user).copied().unwrap_or_default());
            let (known, activities) = self.state.presences.get(user).copied().unwrap_or(("offline", 0));
            let published = self.published_presences.get(user).copied().unwrap_or(("offline", 0));
            if known != expected || is_observed && published != (known, activities) {
                return fault(format!("{user} was last published as {published:?}, but is {expected}, {activities}"));
            }
        }
        for (user, (_, id)) in &self.state.voice {
            let lives = |at: usize| self.sessions[at].gone.is_none() && self.sessions[at].user == *user;
            if !self.session_by_id(id).is_some_and(lives) {
                return fault(format!("{user} is in voice by session {id}, which is gone"));
            }
        }
        Ok(())
    }

    /// Checks the knowledge of a session's client.
    pub fn check_known(&self, at: usize) -> Result<(), Fault> {
        let session = &self.sessions[at];
        if session.membership != Membership::Inside || session.is_confused {
            return Ok(());
        }
        if !session.was_restored {
            self.check_presences(session)?;
        }
        self.check_threads(session)?;
        if session.is_bot {
            return Ok(());
        }
        if session.is_passive() && session.was_never_active && self.is_up_to_date(session) {
            self.check_passive(session)?;
        }
        self.check_lists(session)
    }

    /// Checks the presences that a session's client has of friends, `(friend, status)`.
    pub fn check_friends(&self, at: usize, friends: impl Iterator<Item = (u64, Status)>) -> Result<(), Fault> {
        let session = &self.sessions[at];
        if session.is_bot || !session.is_first_shard || session.is_confused {
            return Ok(());
        }
        for (friend, status) in friends {
            let known = session.known.friends.get(&friend).map_or("offline", String::as_str);
            if known != status_text(status) {
                return fault(format!("{} has {known} of friend {friend}, which is {status:?}", session.user));
            }
        }
        Ok(())
    }

    fn check_presences(&self, session: &Session) -> Result<(), Fault> {
        let members: BTreeSet<u64> = self.state.members.keys().copied().collect();
        let reported = match session.is_bot {
            true if session.intents & NEEDED != NEEDED => BTreeSet::new(),
            true => members,
            false => session.reader().watched.intersection(&members).copied().collect(),
        };
        for user in reported.into_iter().filter(|user| session.is_bot || *user != session.user) {
            let shown = self.state.presences.get(&user).map_or("offline", |(status, _)| *status);
            let known = session.known.presences.get(&user).map_or("offline", String::as_str);
            if shown != known {
                return fault(format!("{} has {known} as the presence of {user}, which is {shown}", session.user));
            }
        }
        Ok(())
    }

    /// Open threads in channels in view: all, or those that the user joined. Of private ones those they joined.
    fn check_threads(&self, session: &Session) -> Result<(), Fault> {
        if session.is_bot && session.intents & GUILDS == 0 {
            return Ok(());
        }
        let wants_all = session.is_bot || session.subscription.threads;
        for (id, thread) in self.state.threads.iter().filter(|(_, thread)| thread.is_open()) {
            let is_in = thread.members.contains(&session.user);
            let is_listed = is_in || wants_all && !thread.is_private();
            if !is_listed || !self.state.viewers(thread.parent).contains(&session.user) {
                continue;
            }
            let expected = (thread.parent, thread.name.clone());
            let known = session.known.threads.get(id);
            if known != Some(&expected) {
                return fault(format!("{} believes thread {id} to be {known:?}: {expected:?}", session.user));
            }
        }
        Ok(())
    }

    /// A session that had only passive updates of the guild knows everything that it may know.
    fn check_passive(&self, session: &Session) -> Result<(), Fault> {
        let state = &self.state;
        let views = |channel: &u64| state.viewers(*channel).contains(&session.user);
        for channel in state.channels.keys().filter(|channel| views(channel)) {
            let (newest, known) = (state.last_messages.get(channel), session.known.newest.get(channel));
            if newest != known {
                return fault(format!("{} believes {known:?} to be the newest in {channel}: {newest:?}", session.user));
            }
        }
        if session.reader().passive == PassiveForm::Unreads {
            return Ok(());
        }
        let in_view = state.voice.iter().filter(|(who, _)| state.shows_in_voice(session.user, **who));
        let expected: BTreeMap<u64, u64> = in_view.map(|(who, (channel, _))| (*who, *channel)).collect();
        if expected != session.known.voice {
            return fault(format!("{} believes in voice {:?}: {expected:?}", session.user, session.known.voice));
        }
        Ok(())
    }

    fn check_lists(&self, session: &Session) -> Result<(), Fault> {
        let names = |user: u64| {
            let account = self.accounts.get(&user);
            account.map(|user| user.global_name.clone().unwrap_or(user.username.clone())).unwrap_or_default()
        };
        for looked_at in session.subscription.channels.iter() {
            let channel = looked_at.channel_id.get();
            let Some(of) = self.state.channels.get(&channel) else { continue };
            if !self.state.viewers(channel).contains(&session.user) {
                continue;
            }
            let list = list_id(&self.state, of);
            let (expected, nothing) = (list_rows(&self.state, channel, names), Vec::new());
            let rows = session.known.lists.get(&list).unwrap_or(&nothing);
            for range in &looked_at.ranges {
                let first = range.first / BLOCK_ROWS * BLOCK_ROWS;
                let last = range.last / BLOCK_ROWS * BLOCK_ROWS + BLOCK_ROWS - 1;
                for row in first as usize..=last as usize {
                    let (known, expected) = (rows.get(row).and_then(Option::as_ref), expected.get(row));
                    if known != expected {
                        return fault(format!(
                            "{} has row {row} of list {list} of {channel} as {known:?}, which is {expected:?}",
                            session.user
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}
