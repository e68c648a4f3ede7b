//! Sessions as backends use them: list, address, end.
//!
//! Doors       `session_view`, `session_page`, `user_session_views` to look; `close_sessions` to end;
//!             `publish_to_users` for events that are addressed to accounts rather than to a guild, such as those of
//!             direct messages.
//! Invariants  V1 a closed session receives nothing more and cannot be resumed; nor can a connection resume that
//!             arrives from another partition with a closed token. (tests `guildhall/tests/it/backend.rs`,
//!             `it/moves.rs`)
//! Limits      `PLACES_PER_PAGE_MAX` places are looked at for one page, so that a page never holds up the partition.
//! Spec        docs/backend-api.md "Sessions".

use crate::{
    core::Core,
    partition::Partition,
    recent_news::{News, mark_of},
    session_reports::platform_name,
    transport::{Output, Transport},
    turn::Turn,
};
use guildhall_guild_protocol::{
    Event, Payload, Published, Redaction, ResourcePayload, SessionChange, SessionNews, SessionView, UserFilter, Whose,
    visibility_of_direct,
};
use guildhall_model::{ChannelId, CloseCode, EventName, User, UserId, from_gateway::SelfUserBody};
use guildhall_relay::SubscriptionMask;
use guildhall_session::{Dispatch, Session};
use guildhall_stdx::{Now, SlotKey};
use std::{rc::Rc, sync::Arc};

/// Slots that one page visits, occupied or not.
const PLACES_PER_PAGE_MAX: u32 = 16_384;

/// A page of sessions.
#[derive(Clone, Debug, Default)]
pub struct SessionPage {
    /// In the order of their places.
    pub sessions: Vec<SessionView>,
    /// First slot of the next page; none after the last.
    pub next_slot: Option<u32>,
}

impl Partition {
    /// Finds a session by its id.
    #[must_use]
    pub fn session_view(&self, now: Now, id: &str) -> Option<SessionView> {
        self.view(now, self.core.sessions.find(id)?)
    }

    /// All sessions of an account.
    #[must_use]
    pub fn user_session_views(&self, now: Now, user_id: UserId) -> Vec<SessionView> {
        self.core.sessions.of_user(user_id).into_iter().filter_map(|key| self.view(now, key)).collect()
    }

    /// Up to `limit` sessions, from a slot on.
    #[must_use]
    pub fn session_page(&self, now: Now, from_slot: u32, limit: usize) -> SessionPage {
        self.filtered_page(now, from_slot, limit, |_| true)
    }

    /// Up to `limit` sessions that are selected, from a slot on. It visits `PLACES_PER_PAGE_MAX` slots at most.
    pub(crate) fn filtered_page(
        &self,
        now: Now,
        from_slot: u32,
        limit: usize,
        is_selected: impl Fn(&Session) -> bool,
    ) -> SessionPage {
        let mut page = SessionPage::default();
        let places = self.core.sessions.places();
        let until = places.min(from_slot.saturating_add(PLACES_PER_PAGE_MAX));
        for slot in from_slot..until {
            if page.sessions.len() >= limit {
                page.next_slot = Some(slot);
                return page;
            }
            let Some(key) = self.core.sessions.key_at(slot) else { continue };
            if self.core.sessions.get(key).is_some_and(&is_selected) {
                page.sessions.extend(self.view(now, key));
            }
        }
        page.next_slot = (until < places).then_some(until);
        page
    }

    pub(crate) fn view(&self, now: Now, key: SlotKey) -> Option<SessionView> {
        let session = self.core.sessions.get(key)?;
        let conn = session.conn.and_then(|conn| self.core.conns.get(conn));
        let left_ms = || self.core.config.resume_window_ms.saturating_sub(now.instant.ms_since(session.detached_at));
        Some(SessionView {
            id: session.id.clone(),
            slot: key.slot,
            user_id: session.user.id,
            username: session.user.username.to_string(),
            is_bot: session.user.bot,
            shard: session.profile.shard,
            encoding: session.encoding,
            compression: conn.map(|conn| conn.codec.name()),
            writer: conn.and_then(|conn| conn.codec.writer()),
            stream: conn.and_then(|conn| conn.codec.compressor()).map(|stream| stream.view(now.instant)),
            guilds_count: session.guilds.len(),
            seq: session.replay.last_seq(),
            buffered_events: session.replay.events(),
            buffered_bytes: session.replay.bytes(),
            backlog_events: conn
                .map_or(0, |conn| (session.replay.last_seq() + 1).saturating_sub(conn.cursor.next_seq())),
            platform: platform_name(session.platform()),
            is_connected: conn.is_some(),
            resumable_ms: if conn.is_none() { Some(left_ms()) } else { None },
        })
    }

    /// Closes connections with `code` and forgets their sessions, including those without a connection. Returns the
    /// number of sessions.
    pub fn close_sessions(&mut self, now: Now, whose: &Whose, code: CloseCode, link: &mut impl Transport) -> usize {
        self.turn(now, link, |partition, turn| partition.end_sessions(turn, whose, code))
    }

    fn end_sessions(&mut self, turn: &mut Turn<'_, impl Transport>, whose: &Whose, code: CloseCode) -> usize {
        if let Whose::Token(user_id, token) = whose {
            self.closed_tokens.push(*user_id, *token);
        }
        let keys: Vec<SlotKey> = match whose {
            Whose::Session(id) => self.core.sessions.find(id).into_iter().collect(),
            Whose::User(user_id) => self.core.sessions.of_user(*user_id),
            Whose::Token(user_id, token) => {
                let came_with = |key: &SlotKey| self.core.sessions.get(*key).is_some_and(|s| s.profile.token == *token);
                self.core.sessions.of_user(*user_id).into_iter().filter(came_with).collect()
            }
        };
        for key in &keys {
            let conn = self.core.sessions.get(*key).and_then(|session| session.conn);
            match conn {
                Some(conn) => self.core.close(turn, conn, code),
                None => self.core.end_session(*key),
            }
            // Even if the code permits a RESUME, the session is forgotten.
            self.core.end_session(*key);
        }
        keys.len()
    }

    /// An account changed. Its sessions here receive USER_UPDATE; of a bot with shards only the first.
    pub fn handle_user_changed(&mut self, now: Now, user: &Arc<User>, link: &mut impl Transport) {
        self.turn(now, link, |partition, turn| partition.change_user(turn, user))
    }

    fn change_user(&mut self, turn: &mut Turn<'_, impl Transport>, user: &Arc<User>) {
        if self.core.config.fetches_sessions {
            self.core.news.push(turn.now.instant, News::User(user.clone()));
        }
        for key in self.core.sessions.of_user(user.id) {
            let Some(session) = self.core.sessions.get_mut(key) else { continue };
            session.user = user.clone();
            if session.is_first_shard() {
                let (dispatch, encoding) = (user_update(session, user), session.encoding);
                let mark = || mark_of(&dispatch.frame(encoding, Redaction::NONE));
                if self.core.moves.is_known(turn.now.instant, key, mark) {
                    continue;
                }
                self.core.push(turn, key.slot, &dispatch, Redaction::NONE);
            }
        }
    }

    /// Sends an event to the sessions of these accounts. A bot needs an intent of the event.
    pub fn publish_to_users(
        &mut self,
        now: Now,
        published: &Arc<Published>,
        user_ids: &[UserId],
        link: &mut impl Transport,
    ) {
        self.turn(now, link, |partition, turn| partition.push_to_users(turn, published, user_ids))
    }

    fn push_to_users(&mut self, turn: &mut Turn<'_, impl Transport>, published: &Arc<Published>, user_ids: &[UserId]) {
        if let Some(channel_id) = recipients_changed(&published.event) {
            self.core.matchers.forget_direct(channel_id);
        }
        if self.core.config.fetches_sessions {
            self.core.news.push(turn.now.instant, News::Event(published.clone(), user_ids.into()));
        }
        let dispatch = self.core.dispatch(published, visibility_of_direct(&published.event));
        let mut reached = 0;
        for user_id in user_ids {
            for key in self.core.sessions.of_user(*user_id) {
                let Some(session) = self.core.sessions.get(key) else { continue };
                let Some(redaction) = form_for(session, published) else { continue };
                if reached == 0 && !dispatch.is_lazy() {
                    turn.link.encode_begins();
                    dispatch.frame(session.encoding, redaction);
                    turn.link.encode_ends();
                }
                reached += 1;
                let encoding = session.encoding;
                let mark = || mark_of(&dispatch.frame(encoding, redaction));
                if !self.core.moves.is_known(turn.now.instant, key, mark) {
                    self.core.push(turn, key.slot, &dispatch, redaction);
                }
            }
        }
        if let Payload::Backend(event) = &published.event.payload
            && let Some(receipt) = event.receipt()
        {
            receipt.reached(reached);
        }
    }
}

fn user_update(session: &Session, user: &User) -> Rc<Dispatch> {
    Dispatch::local(session.encoding, EventName::UserUpdate, &SelfUserBody::from(user), None)
}

/// The direct message whose recipients an event changes.
fn recipients_changed(event: &Event) -> Option<ChannelId> {
    match &event.payload {
        Payload::Resource(resource) if matches!(**resource, ResourcePayload::Recipient { .. }) => {
            event.direct_channel()
        }
        _ => event.group_left(),
    }
}

/// Redaction in which a session gets an event that is addressed to its account. None: its intents exclude the event.
fn form_for(session: &Session, published: &Published) -> Option<Redaction> {
    let event = &published.event;
    debug_assert_eq!(event.audience.users, UserFilter::All);
    if event.is_direct() && !session.is_first_shard() {
        return None;
    }
    if session.user.bot && event.audience.intents.0 != 0 && session.intents.0 & event.audience.intents.0 == 0 {
        return None;
    }
    let lacks_content = session.user.bot && SubscriptionMask::bot(session.intents).lacks_content();
    let readers = event.content_readers.as_ref().filter(|_| lacks_content);
    Some(readers.map_or(Redaction::NONE, |readers| Redaction::for_user(readers, session.user.id)))
}

impl Core {
    /// News in the form that a session gets. None: it does not.
    pub(crate) fn news_for(&mut self, key: SlotKey, news: &News) -> Option<(Rc<Dispatch>, Redaction)> {
        let session = self.sessions.get(key)?;
        match news {
            News::Event(published, _) => {
                let redaction = form_for(session, published)?;
                Some((self.dispatch(published, visibility_of_direct(&published.event)), redaction))
            }
            News::User(user) => session.is_first_shard().then(|| (user_update(session, user), Redaction::NONE)),
        }
    }

    pub(crate) fn output_session_change(&mut self, change: SessionChange, key: SlotKey) {
        let Some(session) = self.sessions.get(key) else { return };
        let news = SessionNews { change, session_id: session.id.clone(), user_id: session.user.id };
        self.outputs.push_back(Output::SessionNews(news));
    }
}
