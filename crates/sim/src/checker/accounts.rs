//! Events to accounts independent of guilds, and sessions that backends end.

use super::{Checker, Fault, fault};
use crate::{
    model::{AudienceModel, FriendEvent, Publication, Reader},
    session::{Content, Session},
};
use guildhall_guild_protocol::Whose;
use guildhall_model::User;
use guildhall_partition::Partition;

impl Checker {
    pub(super) fn living(&mut self, side: usize) -> impl Iterator<Item = &mut Session> {
        self.sessions.iter_mut().filter(move |session| session.side == side && session.gone.is_none())
    }

    /// A partition is about to end these sessions.
    pub fn close(&mut self, side: usize, whose: &Whose) {
        for session in self.living(side) {
            session.is_closed |= match whose {
                Whose::Session(id) => session.id == *id,
                Whose::User(user) => session.user == user.get(),
                Whose::Token(user, token) => session.user == user.get() && session.token == *token,
            };
        }
    }

    /// They have ended, and left nothing to resume.
    pub fn check_closed(&self, side: usize, partition: &Partition) -> Result<(), Fault> {
        let is_meant = |session: &&Session| session.side == side && session.is_closed && session.gone.is_none();
        let mut closed = self.sessions.iter().filter(is_meant);
        match closed.find(|session| partition.session(session.key).is_some()) {
            Some(session) => fault(format!("session {} was ended, and is there", session.id)),
            None => Ok(()),
        }
    }

    /// A partition is about to receive a changed account; of a bot's shards only the first publishes it.
    pub fn user_changed(&mut self, side: usize, user: &User, in_first_shard: impl Fn(usize) -> bool) {
        let text = format!("USER_UPDATE id={} name={:?}", user.id, user.global_name.as_deref().unwrap_or(""));
        for session in self.living(side).filter(|session| session.user == user.id.get()) {
            if in_first_shard(session.identified_on as usize) {
                session.expect(Content::Own(text.as_str().into()));
            }
        }
    }

    /// A partition is about to deliver an event to accounts: to bots by their intents, to user accounts always.
    pub fn publish_to_accounts(&mut self, side: usize, publication: &Publication) {
        let AudienceModel::Users(users) = &publication.who else { return };
        for session in self.living(side).filter(|session| users.contains(&session.user)) {
            let reader: Reader<'_> = session.reader();
            if !reader.is_bot || publication.intents() == 0 || reader.intents & publication.intents() != 0 {
                let redaction = publication.redaction(reader);
                let text = format!("{} {}", publication.name(), publication.text(redaction));
                session.expect(Content::Own(text.into()));
            }
        }
    }

    /// A partition is about to deliver a presence to friends of its account: to the first shard of theirs.
    pub fn publish_friend(&mut self, side: usize, event: &FriendEvent) {
        for session in self.living(side).filter(|session| !session.is_bot && session.is_first_shard) {
            if event.to.contains(&session.user) {
                session.expect(Content::Friend(event.text.clone()));
            }
        }
    }

    /// A partition is about to deliver an event about an interaction: to the sessions of its reader whose shard has the
    /// guild, whatever their intents. A replay withholds it from a reader who is no member any more.
    pub fn publish_interaction(&mut self, side: usize, publication: &Publication) {
        let AudienceModel::Users(readers) = &publication.who else { return };
        let text = format!("{} {}", publication.name(), publication.text(0));
        for session in self.living(side).filter(|session| session.in_shard && readers.contains(&session.user)) {
            session.expect(Content::GuildNotice(text.as_str().into()));
        }
    }
}
