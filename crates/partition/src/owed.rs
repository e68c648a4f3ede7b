//! Owed states: sends the current value of states that replay buffers dropped for lack of room.
//!
//! Doors       `pay` for a session that resumes; `pay_all` for connected ones that reached such a tombstone.
//! Invariants  Y1 a session that reads past an owed tombstone receives the current value of each state that it missed
//!             there: voice states and lists at once, presences when its guild answers, or the node for those of
//!             friends. (tests `s6_*`)
//! Limits      those of owed states: `guildhall_session::Owed`.
//! Spec        docs/adr/0009.

use crate::{
    flush_queue::Batching,
    partition::Partition,
    session_recipients::SessionRecipients,
    transport::{Output, Transport},
    turn::Turn,
};
use guildhall_guild_protocol::{AudienceRule, ToGuild};
use guildhall_model::{GuildId, UserId, VoiceState, to_gateway::Subscription};
use guildhall_relay::{ReplayVisibility, Replayed};
use guildhall_session::{Dispatch, Owed};
use guildhall_stdx::{Now, SlotKey};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

impl Partition {
    /// Sends owed states to connected sessions that stopped at an owed tombstone, and continues writing to them.
    pub(crate) fn pay_all(&mut self, turn: &mut Turn<'_, impl Transport>) {
        for (key, seq) in self.core.work.take_unpaid() {
            let conn = self.core.sessions.get(key).and_then(|session| session.conn);
            let Some(conn) =
                conn.filter(|conn| self.core.conns.get(*conn).is_some_and(|conn| conn.cursor.next_seq() == seq))
            else {
                continue;
            };
            self.pay(turn, key, seq - 1);
            self.core.pump(turn, conn);
        }
    }

    /// Appends the current value of all states that are owed after a seq.
    pub(crate) fn pay(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, after: u64) {
        let Some(session) = self.core.sessions.get_mut(key) else { return };
        let owed = session.replay.take_owed(after, &self.core.tombstone);
        let mut presences: BTreeMap<GuildId, Vec<UserId>> = BTreeMap::new();
        let mut friends = BTreeSet::new();
        for state in owed {
            match state {
                Owed::Presence(guild_id, user_id) => presences.entry(guild_id).or_default().push(user_id),
                Owed::Friend(user_id) => {
                    friends.insert(user_id);
                }
                Owed::Voice(guild_id, user_id) => self.append_voice(turn.now, key, guild_id, user_id),
                Owed::Lists(guild_id) => self.resend_lists(turn, key, guild_id),
            }
        }
        let Some(user_id) = self.core.sessions.get(key).map(|session| session.user.id) else { return };
        self.core.show_friends(user_id, friends);
        let Some(session) = self.core.sessions.get(key) else { return };
        for (guild_id, user_ids) in presences {
            let Some(session) = session.key_in(self.core.config.partition, guild_id) else { continue };
            for user_ids in user_ids.chunks(Subscription::MEMBERS_MAX) {
                let ask = ToGuild::RequestPresences { session, user_ids: user_ids.to_vec() };
                self.core.outputs.push_back(Output::ToGuild(guild_id, ask));
            }
        }
    }

    fn append_voice(&mut self, now: Now, key: SlotKey, guild_id: GuildId, of: UserId) {
        let Some((entry, core)) = self.session_relay(key, guild_id) else { return };
        let Some(reader) = core.sessions.get(key).map(|session| session.user.id) else { return };
        let (rule, state) = (AudienceRule::Members, Box::new(VoiceState::new(of)));
        let dropped = ReplayVisibility::Voice { guild_id, rule, always: None, state };
        if let Some(event) = entry.relay.rebuild_for_replay(reader, Replayed::Rule(&dropped), now.unix) {
            core.append(key, Dispatch::direct(&Arc::new(event)));
        }
    }

    /// Sends all rows of member lists that the session watches.
    fn resend_lists(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, guild_id: GuildId) {
        let Some((entry, core)) = self.session_relay(key, guild_id) else { return };
        let batching = core.flush_queue.set_batching(Batching::On);
        let mut recipients = SessionRecipients::new(core, turn, (&mut entry.logs, &mut entry.newest, &mut entry.tally));
        let to_guild = entry.relay.resend_lists(key.slot, &mut recipients);
        core.flush_queue.set_batching(batching);
        core.outputs.extend(to_guild.into_iter().map(|message| Output::ToGuild(guild_id, message)));
    }
}
