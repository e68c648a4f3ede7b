//! Fan-out: the partition's sessions as a relay speaks to them.
//!
//! Comes from `Relay::handle`; goes on to `Core::push`.

use crate::{
    core::{Core, Departure},
    link::{Link, Output},
};
use guildhall_model::{AccountKind, GuildId, Intents, to_gateway::RequestGuildMembers};
use guildhall_relay::{
    Event, GuildMeta, GuildView, MemberTable, Published, Recipients, Redaction, Seat, SessionKey, ToGuild,
};
use guildhall_session::{Dispatch, MEMBER_REQUESTS_MAX, MemberRequest, Membership, guild_create, guild_delete};
use guildhall_stdx::{Now, SlotKey};
use std::{rc::Rc, sync::Arc};

/// The sessions of a partition while one of its relays has the word.
pub struct Fanout<'a, L> {
    pub core: &'a mut Core,
    pub now: Now,
    pub link: &'a mut L,
    /// The event that is being delivered.
    pub current: Option<Rc<Dispatch>>,
}

fn slot_key(session: SessionKey) -> SlotKey {
    SlotKey { slot: session.slot, generation: session.generation }
}

impl<L: Link> Recipients for Fanout<'_, L> {
    fn begin(&mut self, published: &Arc<Published>) {
        self.current = Some(Dispatch::published(published));
    }

    fn deliver(&mut self, slot: u32, redaction: Redaction) {
        if let Some(dispatch) = &self.current {
            self.core.push(self.now, slot, dispatch, redaction, self.link);
        }
    }

    fn attached(&mut self, session: SessionKey, meta: &Arc<GuildMeta>, view: Option<&GuildView>) -> Option<Seat> {
        let key = slot_key(session);
        let session = self.core.sessions.get_mut(key)?;
        let guild_id = meta.id();
        // Who asked twice, because the first answer might have been lost, may get two: the first counts.
        if session.guilds.get(&guild_id) != Some(&Membership::Entering) {
            return None;
        }
        let Some(view) = view else {
            // Not a member (any more).
            let is_gathering = session.gathering.is_some();
            self.leave(key, guild_id);
            if is_gathering {
                self.gathered(key, None)
            } else {
                self.tell_gone(key, guild_id, false)
            }
            return None;
        };
        session.guilds.insert(guild_id, Membership::Inside);
        let seat = session.seat();
        if session.gathering.is_some() {
            self.gathered(key, Some((meta.clone(), view.clone())));
        } else if session.kind() == AccountKind::User || session.intents.contains(Intents::GUILDS) {
            let dispatch = guild_create(session, meta, view);
            self.core.push(self.now, key.slot, &dispatch, Redaction::NONE, self.link);
        }
        Some(seat)
    }

    fn unavailable(&mut self, session: SessionKey, guild_id: GuildId) {
        let key = slot_key(session);
        let Some(session) = self.core.sessions.get_mut(key) else { return };
        let Some(membership) = session.guilds.get_mut(&guild_id) else { return };
        // It stays about to enter: once the guild can be served its stream begins again, and the session asks again.
        *membership = Membership::Entering;
        let is_gathering = session.gathering.is_some();
        if is_gathering { self.gathered(key, None) } else { self.tell_gone(key, guild_id, true) }
    }

    fn lost(&mut self, slot: u32, guild_id: GuildId) {
        let Some(session) = self.core.sessions.at_mut(slot) else { return };
        let key = SlotKey { slot, generation: session.key.generation };
        self.leave(key, guild_id);
        self.tell_gone(key, guild_id, false);
    }

    fn reset(&mut self, slot: u32) {
        let Some(session) = self.core.sessions.at_mut(slot) else { return };
        let key = SlotKey { slot, generation: session.key.generation };
        self.core.invalidate(self.now, key, self.link);
    }

    fn direct(&mut self, session: SessionKey, event: &Arc<Event>) {
        if self.core.sessions.get(slot_key(session)).is_some() {
            self.core.push(self.now, session.slot, &Dispatch::direct(event), Redaction::NONE, self.link);
        }
    }

    fn members(
        &mut self,
        session: SessionKey,
        guild_id: GuildId,
        request: &RequestGuildMembers,
        members: &MemberTable,
    ) {
        let Some(session) = self.core.sessions.get_mut(slot_key(session)) else { return };
        if session.member_requests.len() >= MEMBER_REQUESTS_MAX {
            return;
        }
        session.member_requests.push_back(Box::new(MemberRequest {
            guild_id,
            request: request.clone(),
            members: members.clone(),
            chunk_index: 0,
            after: guildhall_model::UserId::new(0),
        }));
        if let Some(conn) = session.conn {
            self.core.pump(self.now, conn, self.link);
        }
    }
}

impl<L: Link> Fanout<'_, L> {
    /// A session is not in a guild any more; the guild knows, unless a request to enter is still on its way to it.
    fn leave(&mut self, key: SlotKey, guild_id: GuildId) {
        let Some(session) = self.core.sessions.get_mut(key) else { return };
        session.guilds.remove(&guild_id);
        if session.asked_again {
            self.core.outputs.push_back(Output::ToGuild(guild_id, ToGuild::Detach { session: session.key }));
        }
        self.core.departed.push(Departure { guild_id, user_id: session.user.id, slot: key.slot });
    }

    /// One guild that a user's READY waited for has answered.
    fn gathered(&mut self, key: SlotKey, view: Option<(Arc<GuildMeta>, GuildView)>) {
        let Some(gathering) = self.core.sessions.get_mut(key).and_then(|session| session.gathering.as_mut()) else {
            return;
        };
        gathering.waiting_count = gathering.waiting_count.saturating_sub(1);
        gathering.views.extend(view);
        self.core.finish_gathering(self.now, key, self.link);
    }

    fn tell_gone(&mut self, key: SlotKey, guild_id: GuildId, unavailable: bool) {
        let Some(session) = self.core.sessions.get(key) else { return };
        if session.kind() == AccountKind::User || session.intents.contains(Intents::GUILDS) {
            let dispatch = guild_delete(session.encoding, guild_id, unavailable);
            self.core.push(self.now, key.slot, &dispatch, Redaction::NONE, self.link);
        }
    }
}
