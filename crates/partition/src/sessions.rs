//! Sessions as backends use them: list, address, end.
//!
//! Doors       `session_view`, `session_page`, `user_session_views`, `presences` to look; `close_sessions` to end;
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
    transport::{Output, Transport},
    turn::Turn,
};
use guildhall_codec::Encoding;
use guildhall_guild_protocol::{
    Event, Payload, Published, Redaction, ResourcePayload, SessionChange, SessionNews, SessionView, UserFilter, Whose,
    visibility_of_direct,
};
use guildhall_model::{
    AccountKind, ChannelId, CloseCode, EventName, Intents, Presence, Status, User, UserId, from_gateway::SelfUserBody,
    shard_of, to_gateway::ShardId,
};
use guildhall_relay::SubscriptionMask;
use guildhall_session::{Dispatch, Session, SessionSnapshot};
use guildhall_stdx::{Instant, Now, SlotKey};
use std::{rc::Rc, sync::Arc};

/// Slots that one page visits, occupied or not.
const PLACES_PER_PAGE_MAX: u32 = 16_384;
/// Sessions of an account that count for its presence.
const PRESENCE_SESSIONS_MAX: usize = 64;

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

    /// Presences of accounts over their sessions here, without those that are offline or invisible.
    #[must_use]
    pub fn presences(&self, user_ids: &[UserId]) -> Vec<(UserId, Presence)> {
        let presence = |user_id: &UserId| {
            let mut all = Presence::default();
            for key in self.core.sessions.of_user(*user_id).into_iter().take(PRESENCE_SESSIONS_MAX) {
                if let Some(session) = self.core.sessions.get(key) {
                    all.merge((&session.profile.presence).into());
                }
            }
            (all.status != Status::Offline).then_some((*user_id, all))
        };
        user_ids.iter().filter_map(presence).collect()
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
        let session = self.core.sessions.get(key).filter(|session| !session.is_incomplete)?;
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
            platform: session.platform().name(),
            is_connected: conn.is_some(),
            resumable_ms: if conn.is_none() { Some(left_ms()) } else { None },
        })
    }

    /// Closes connections with `code` and forgets their sessions, including those without a connection. Returns the
    /// number of sessions.
    pub fn close_sessions(
        &mut self,
        now: Now,
        whose: &Whose,
        code: CloseCode,
        transport: &mut impl Transport,
    ) -> usize {
        self.turn(now, transport, |partition, turn| partition.end_sessions(turn, whose, code))
    }

    fn end_sessions(&mut self, turn: &mut Turn<'_, impl Transport>, whose: &Whose, code: CloseCode) -> usize {
        self.core.mirrors.end(whose);
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
    pub fn handle_user_changed(&mut self, now: Now, user: &Arc<User>, transport: &mut impl Transport) {
        self.turn(now, transport, |partition, turn| partition.change_user(turn, user))
    }

    fn change_user(&mut self, turn: &mut Turn<'_, impl Transport>, user: &Arc<User>) {
        self.core.note_news(turn.now.instant, || News::User(user.clone()));
        for key in self.core.sessions.of_user(user.id) {
            let Some(session) = self.core.sessions.get_mut(key) else { continue };
            session.user = user.clone();
            if session.is_first_shard() && !session.is_incomplete {
                let (dispatch, encoding) = (user_update(session.encoding, user), session.encoding);
                let mark = || mark_of(&dispatch.frame(encoding, Redaction::None));
                if self.core.moves.is_known(turn.now.instant, key, mark) {
                    continue;
                }
                self.core.push_news(turn, key, (&dispatch, Redaction::None), mark);
            }
        }
    }

    /// Sends an event to the sessions of these accounts. A bot needs an intent of the event.
    pub fn publish_to_users(
        &mut self,
        now: Now,
        published: &Arc<Published>,
        user_ids: &[UserId],
        transport: &mut impl Transport,
    ) {
        self.turn(now, transport, |partition, turn| partition.push_to_users(turn, published, user_ids))
    }

    fn push_to_users(&mut self, turn: &mut Turn<'_, impl Transport>, published: &Arc<Published>, user_ids: &[UserId]) {
        if let Some(channel_id) = recipients_changed(&published.event) {
            self.core.matchers.forget_direct(channel_id);
        }
        self.core.note_news(turn.now.instant, || News::Event(published.clone(), user_ids.into()));
        let dispatch = self.core.dispatch(published, visibility_of_direct(&published.event));
        let mut reached = 0;
        let mut marks = Marks::default();
        for user_id in user_ids {
            for key in self.core.sessions.of_user(*user_id) {
                let Some(session) = self.core.sessions.get(key) else { continue };
                // It gets the news once it is complete, unless the node before had them.
                if session.is_incomplete {
                    continue;
                }
                let reader = Reader::of(session);
                let Some(redaction) = reader.form_of(published) else { continue };
                if reached == 0 && !dispatch.is_lazy() {
                    turn.transport.encode_begins();
                    dispatch.frame(session.encoding, redaction);
                    turn.transport.encode_ends();
                }
                reached += 1;
                let mut mark = || marks.of(&reader, (&dispatch, redaction));
                if !self.core.moves.is_known(turn.now.instant, key, &mut mark) {
                    self.core.push_news(turn, key, (&dispatch, redaction), mark);
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

fn user_update(encoding: Encoding, user: &User) -> Rc<Dispatch> {
    Dispatch::local(encoding, EventName::UserUpdate, &SelfUserBody::from(user), None)
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

/// What decides in which form a session gets an event that is addressed to its account.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub user_id: UserId,
    pub encoding: Encoding,
    is_bot: bool,
    intents: Intents,
    shard: Option<ShardId>,
}

impl Reader {
    pub fn of(session: &Session) -> Self {
        Self {
            user_id: session.user.id,
            encoding: session.encoding,
            is_bot: session.user.bot,
            intents: session.intents,
            shard: session.profile.shard,
        }
    }

    pub fn of_snapshot(kept: &SessionSnapshot, is_bot: bool) -> Self {
        Self {
            user_id: kept.user_id,
            encoding: if kept.is_etf { Encoding::Etf } else { Encoding::Json },
            is_bot,
            intents: Intents(kept.intents),
            shard: kept.shard.map(|(id, count)| ShardId { id, count }),
        }
    }

    fn is_first_shard(&self) -> bool {
        self.shard.is_none_or(|shard| shard.id == 0)
    }

    /// Redaction in which the session gets the event. None: its intents or its shard exclude the event.
    fn form_of(&self, published: &Published) -> Option<Redaction> {
        let event = &published.event;
        debug_assert_eq!(event.audience.users, UserFilter::All);
        let is_of_shard = match event.guild_id {
            Some(guild_id) => self.shard.is_none_or(|shard| shard_of(guild_id, shard.count) == shard.id),
            None => self.is_first_shard() || !(event.is_direct() || event.name == EventName::InteractionCreate),
        };
        if !is_of_shard {
            return None;
        }
        if self.is_bot && event.audience.intents.0 != 0 && self.intents.0 & event.audience.intents.0 == 0 {
            return None;
        }
        let lacks_content = self.is_bot && SubscriptionMask::bot(self.intents).lacks_content();
        let readers = event.content_readers.as_ref().filter(|_| lacks_content);
        Some(readers.map_or(Redaction::None, |readers| Redaction::for_user(readers, self.user_id)))
    }
}

/// Marks of one event, one for each form.
#[derive(Debug, Default)]
pub(crate) struct Marks(Vec<((Encoding, usize), u64)>);

impl Marks {
    pub fn of(&mut self, reader: &Reader, (dispatch, redaction): (&Rc<Dispatch>, Redaction)) -> u64 {
        let form = (reader.encoding, redaction.index());
        if let Some((_, mark)) = self.0.iter().find(|(known, _)| *known == form) {
            return *mark;
        }
        let mark = mark_of(&dispatch.frame(reader.encoding, redaction));
        self.0.push((form, mark));
        mark
    }
}

impl Core {
    /// News reached this partition.
    fn note_news(&mut self, now: Instant, news: impl FnOnce() -> News) {
        if self.config.fetches_sessions {
            let news = news();
            self.log_news(now, &news);
            self.news.push(now, news);
        }
    }

    /// Sends news to a session.
    pub(crate) fn push_news(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        (dispatch, redaction): (&Rc<Dispatch>, Redaction),
        mark: impl FnOnce() -> u64,
    ) {
        let before = self.sessions.get(key).map_or(0, |session| session.replay.last_seq());
        self.push(turn, key.slot, dispatch, redaction);
        if self.config.mirrors_sessions && self.sessions.get(key).is_some() {
            self.mirroring.list(turn.now.instant, key, before + 1, mark());
        }
    }

    /// News in the form that a session gets. None: it does not.
    pub(crate) fn news_for(&mut self, key: SlotKey, news: &News) -> Option<(Rc<Dispatch>, Redaction)> {
        let reader = Reader::of(self.sessions.get(key)?);
        self.news_form(&reader, news)
    }

    pub(crate) fn news_form(&mut self, reader: &Reader, news: &News) -> Option<(Rc<Dispatch>, Redaction)> {
        match news {
            News::Event(published, _) => {
                let redaction = reader.form_of(published)?;
                Some((self.dispatch(published, visibility_of_direct(&published.event)), redaction))
            }
            News::User(user) => reader.is_first_shard().then(|| (user_update(reader.encoding, user), Redaction::None)),
        }
    }

    /// The session began, ended, or shows another presence. Bots have no friends to notify.
    pub(crate) fn output_presence_change(&mut self, key: SlotKey) {
        if let Some(session) = self.sessions.get(key).filter(|session| session.kind() == AccountKind::User) {
            self.outputs.push_back(Output::PresenceChanged(session.user.id));
        }
    }

    pub(crate) fn output_session_change(&mut self, change: SessionChange, key: SlotKey) {
        let Some(session) = self.sessions.get(key) else { return };
        let news = SessionNews { change, session_id: session.id.clone(), user_id: session.user.id };
        self.outputs.push_back(Output::SessionNews(news));
    }
}
