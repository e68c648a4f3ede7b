//! Identify: a connection gets a session, by IDENTIFY or by RESUME.
//!
//! Doors       `handle_authenticated` and `handle_transferred` from the driver.
//! Invariants  N1 a connection receives nothing of a session before its token is checked. N2 a RESUME applies
//!             current permissions to the replay. N3 READY of a user account contains each guild that answered in
//!             time once, and no guild that the account has left. (tests `it/directs.rs`) N4 a session is served
//!             until its token expires; after that only to a connection that resumes it with another token of the
//!             account. (tests `s15_*`)
//! Limits      those of `Gatekeeper::admit`; `gather_deadline_ms`; `guilds_per_shard_max`.
//! Spec        docs/protocol/reference.md §1.7–§1.10.

use crate::{
    conn::{MovingConn, PendingAuth, Phase},
    core::Core,
    partition::Partition,
    pause::Pause,
    refused::{IdentifyFault, IdentifyRefused, ResumeFault, ResumeRefused},
    timers::TimerKey,
    transport::{Account, AuthFailure, Output, Reservation, Transport},
    turn::Turn,
};
use guildhall_codec::Encoding;
use guildhall_guild_protocol::{PartitionId, Redaction, SessionChange};
use guildhall_model::{
    AccountKind, CloseCode, GuildId, SessionFate, User, UserId, shard_of,
    to_gateway::{Identify, Resume, ShardId},
};
use guildhall_relay::{Relay, ReplayDecision, Replayed};
use guildhall_session::{
    Dispatch, NewSession, OwnData, PendingReady, Session, bot_ready, resumed, session_home, session_partition,
    user_ready,
};
use guildhall_stdx::{Instant, Now, SlotKey, Timestamp};
use std::{collections::BTreeSet, sync::Arc};

/// Joins count for sessions that start within the deadline of IDENTIFY, the time of a token check, and this slack
/// for late timers.
const JOIN_NEWS_SLACK_MS: u64 = 30_000;

/// Longest interval between two checks of a token's expiry.
const EXPIRY_CHECK_MS_MAX: u64 = 3_600_000;
/// Close reason with 4004; at most 123 bytes.
const TOKEN_EXPIRED: &str = "The token has expired: RESUME with a new one";

/// A client that resumes, with its checked token.
#[derive(Clone, Debug)]
pub struct Claimant {
    pub user: Arc<User>,
    /// Internal id of the token.
    pub token: u64,
    /// When the token expires. None: never.
    pub expires_at: Option<Timestamp>,
}

impl Partition {
    /// Handles the answer to `Output::Authenticate`.
    pub fn handle_authenticated(
        &mut self,
        now: Now,
        key: SlotKey,
        result: Result<Account, AuthFailure>,
        transport: &mut impl Transport,
    ) {
        self.turn(now, transport, |partition, turn| partition.apply_authentication(turn, key, result))
    }

    fn apply_authentication(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        result: Result<Account, AuthFailure>,
    ) {
        let Some(conn) = self.core.conns.get_mut(key) else { return };
        let is_checked = |pending: &PendingAuth| matches!(pending, PendingAuth::Identify(_) | PendingAuth::Resume(_));
        if !matches!(&conn.phase, Phase::Authenticating(pending) if is_checked(pending)) {
            return;
        }
        let Phase::Authenticating(claim) = std::mem::replace(&mut conn.phase, Phase::AwaitingIdentify) else { return };
        let identified_before = self.core.counters.identified_total;
        let is_identify = matches!(*claim, PendingAuth::Identify(_));
        match (result, *claim) {
            (Err(failure), PendingAuth::Identify(_)) => {
                let fault = match failure {
                    AuthFailure::Invalid => IdentifyFault::Token,
                    AuthFailure::Unavailable => IdentifyFault::Unavailable,
                };
                self.core.refuse_identify(turn, key, fault.into());
            }
            (Err(failure), PendingAuth::Resume(_) | PendingAuth::Move(..)) => {
                let fault = match failure {
                    AuthFailure::Invalid => ResumeFault::Token,
                    AuthFailure::Unavailable => ResumeFault::Unavailable,
                };
                self.core.refuse_resume(turn, key, ResumeRefused { fault, user_id: None });
            }
            (Ok(account), PendingAuth::Identify(identify)) => self.identify(turn, key, account, &identify),
            (Ok(account), PendingAuth::Resume(resume) | PendingAuth::Move(_, resume)) => {
                let Account { user, token, expires_at, .. } = account;
                let claimant = Claimant { user, token, expires_at };
                match self.core.other_partition(&resume.session_id) {
                    Some(to) => return self.core.transfer(turn, key, to, claimant, resume),
                    None => self.resume(turn, key, claimant, resume),
                }
            }
        }
        if is_identify && self.core.counters.identified_total == identified_before {
            self.core.gatekeeper.refund(turn.now);
        }
        self.resume_reading(turn, key);
    }

    /// A connection arrived from another partition, because its session is here. The driver has registered its socket
    /// at `next_conn_key`.
    pub fn handle_transferred(&mut self, now: Now, moving: MovingConn, transport: &mut impl Transport) -> SlotKey {
        self.turn(now, transport, |partition, turn| partition.adopt(turn, moving))
    }

    fn adopt(&mut self, turn: &mut Turn<'_, impl Transport>, moving: MovingConn) -> SlotKey {
        let MovingConn { mut conn, claimant, resume } = moving;
        if let Some(compressor) = conn.codec.compressor_mut() {
            compressor.arrive();
        }
        conn.timing.disarm();
        conn.is_queued = false;
        let key = self.core.conns.insert(conn);
        self.core.arm_timer(turn.now.instant.after_ms(self.core.config.identify_deadline_ms), key);
        self.resume_unless_closed(turn, key, claimant, resume);
        key
    }

    /// Resumes a session some time after the token was checked, which may have been revoked since.
    pub(crate) fn resume_unless_closed(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        claimant: Claimant,
        resume: Resume,
    ) {
        let user_id = claimant.user.id;
        if self.closed_tokens.contains(user_id, claimant.token) {
            let refused = ResumeRefused { fault: ResumeFault::Token, user_id: Some(user_id) };
            self.core.refuse_resume(turn, key, refused);
        } else {
            self.resume(turn, key, claimant, resume);
            self.resume_reading(turn, key);
        }
    }

    pub(crate) fn resume_reading(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey) {
        let Some(conn) = self.core.conns.get_mut(key) else { return };
        let mut pending_input = conn.inbox.take_pending();
        if !pending_input.is_empty() {
            self.core.handle_bytes(turn, key, &mut pending_input);
        }
        let still_reading =
            self.core.conns.get(key).is_some_and(|conn| !matches!(conn.phase, Phase::Authenticating(_)));
        if still_reading {
            turn.transport.resume_reading(key);
        }
    }

    /// Starts a session. The order of the checks is that of docs/protocol/reference.md §1.7.
    fn identify(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, account: Account, identify: &Identify) {
        let checked = identify.intents(&account.user).and_then(|intents| Ok((intents, identify.shard()?)));
        let (intents, shard) = match checked {
            Ok(checked) => checked,
            Err(error) => {
                let detail = Some(error.to_string().into());
                let refused = IdentifyRefused { fault: error.into(), user_id: Some(account.user.id), detail };
                return self.core.refuse_identify(turn, key, refused);
            }
        };
        let refused = |fault| IdentifyRefused { fault, user_id: Some(account.user.id), detail: None };
        let guilds = guilds_of_shard(&self.with_recent_joins(turn.now, &account), shard);
        if guilds.len() > self.core.config.guilds_per_shard_max {
            return self.core.refuse_identify(turn, key, refused(IdentifyFault::ShardingRequired));
        }
        let Some(conn) = self.core.conns.get_mut(key) else { return };
        let admitted = match account.admission {
            Some(decided) => decided.map(Reservation::begin),
            None => self.core.gatekeeper.admit(turn.now, &account.user, shard.map_or(0, |shard| shard.id)),
        };
        if let Err(fault) = admitted {
            return self.core.refuse_identify(turn, key, refused(fault));
        }
        let id = self.core.ids.next_id();
        let slot = self.core.sessions.next_key();
        let session = Session::new(NewSession {
            key: slot,
            id,
            user: account.user.clone(),
            identify,
            intents,
            shard,
            encoding: conn.codec.encoding(),
            conn: key,
            guilds: &guilds,
            token: account.token,
        });
        conn.phase = Phase::Established(slot);
        turn.transport.note_account(key, account.user.id);
        conn.cursor.start_at(1);
        if account.user.bot {
            conn.inbox.set_message_bytes_max(self.core.config.bot_message_bytes_max);
        }
        self.core.sessions.insert(session);
        self.core.begin_mirroring(turn.now.instant, slot);
        self.core.begin_trial(key, slot, None);
        self.core.counters.identified_total += 1;
        self.core.output_session_change(SessionChange::Connected, slot);
        self.core.output_presence_change(slot);
        self.core.expire_at(turn.now, slot, account.expires_at);
        self.arm_heartbeat_timer(turn.now, key);
        self.say_ready(turn, slot, guilds.len());
        for guild_id in guilds {
            self.attach(slot, guild_id, Pause::Noticed, None);
        }
    }

    /// The account's guilds, including those that it joined while its token was being checked.
    fn with_recent_joins(&mut self, now: Now, account: &Account) -> Vec<GuildId> {
        self.joins.sweep(now.instant);
        let mut guilds = account.guilds.clone();
        let news_ms = self.core.config.identify_deadline_ms + JOIN_NEWS_SLACK_MS;
        guilds.extend(self.joins.of_user(now.instant, account.user.id, news_ms));
        guilds.sort_unstable();
        guilds.dedup();
        guilds
    }

    /// Sends READY: to bots at once, to user accounts when their guilds have answered.
    fn say_ready(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, guilds_count: usize) {
        let deadline = turn.now.instant.after_ms(self.core.config.gather_deadline_ms);
        let Some(session) = self.core.sessions.get_mut(key) else { return };
        match session.kind() {
            AccountKind::Bot => {
                let ready = bot_ready(session, &self.core.config.resume_gateway_url);
                self.core.push(turn, key.slot, &ready, Redaction::None);
            }
            AccountKind::User => {
                let has_directs = session.is_first_shard();
                session.pending_ready = Some(Box::new(PendingReady {
                    waiting_count: guilds_count,
                    own: (!has_directs).then(OwnData::default),
                    is_own_requested: !has_directs,
                    unavailable: Vec::new(),
                    views: Vec::new(),
                    deadline,
                }));
                // Places for READY: events until then follow it.
                let parts = 1 + usize::from(session.profile.capabilities.is_prioritized());
                for _ in 0..parts {
                    session.dispatch(self.core.tombstone.clone(), Redaction::None, 0);
                }
                self.core.timers.push(deadline, TimerKey::Session(key));
                self.core.finish_pending_ready(turn, key);
            }
        }
    }

    /// Resumes a session (docs/protocol/reference.md §1.10). A refusal is always op 9: several libraries resume for
    /// ever after a close code.
    fn resume(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, claimant: Claimant, resume: Resume) {
        let Some(conn) = self.core.conns.get(key) else { return };
        let encoding = conn.codec.encoding();
        let user_id = claimant.user.id;
        let known = self.core.sessions.find(&resume.session_id);
        let is_own = |key: &SlotKey| self.core.sessions.get(*key).is_some_and(|session| session.user.id == user_id);
        if let Some(session_key) = known.filter(is_own) {
            if self.core.moves.is_coming(session_key) {
                return self.resume_later(turn, key, session_key, (claimant, resume));
            }
            // Its client is back before another node has fetched it.
            self.cancel_transfer(turn, session_key);
        }
        let session_key = match self.resumable(turn.now, user_id, encoding, &resume) {
            Ok(session_key) if self.is_arriving(session_key) => {
                return self.resume_later(turn, key, session_key, (claimant, resume));
            }
            Ok(session_key) => session_key,
            Err(ResumeFault::Unknown) if self.may_be_elsewhere(&resume.session_id) => {
                return self.fetch(turn, key, claimant, resume);
            }
            Err(fault) => {
                let refused = ResumeRefused { fault, user_id: Some(user_id) };
                return self.core.refuse_resume(turn, key, refused);
            }
        };
        let Claimant { token, expires_at, .. } = claimant;
        let older = self.core.sessions.get(session_key).and_then(|session| session.conn);
        if let Some(older) = older {
            self.core.close(turn, older, CloseCode::UnknownError);
        }
        self.withhold_unseen(turn.now, session_key, resume.seq);
        let Some(session) = self.core.sessions.attach(session_key, key) else { return };
        session.replay.trim(resume.seq);
        session.profile.token = token;
        let is_bot = session.kind() == AccountKind::Bot;
        turn.transport.note_account(key, user_id);
        if let Some(conn) = self.core.conns.get_mut(key) {
            conn.phase = Phase::Established(session_key);
            conn.cursor.start_at(resume.seq + 1);
            if is_bot {
                conn.inbox.set_message_bytes_max(self.core.config.bot_message_bytes_max);
            }
        }
        self.core.begin_trial(key, session_key, Some(resume.seq));
        self.core.counters.resumed_total += 1;
        self.core.output_session_change(SessionChange::Resumed, session_key);
        self.core.expire_at(turn.now, session_key, expires_at);
        self.arm_heartbeat_timer(turn.now, key);
        self.pay(turn, session_key, resume.seq);
        // Without `push`: the replay was within the limits, and RESUMED must not exceed them before any of it is
        // written. The next dispatch is checked again.
        self.core.append(session_key, resumed(encoding));
        if let (Some(conn), Some(session)) = (self.core.conns.get_mut(key), self.core.sessions.get(session_key)) {
            conn.cursor.set_replay_end(session.replay.last_seq());
        }
        // Writes the replay and RESUMED, oldest first.
        self.core.pump(turn, key);
    }

    fn resumable(
        &self,
        now: Now,
        user_id: UserId,
        encoding: Encoding,
        resume: &Resume,
    ) -> Result<SlotKey, ResumeFault> {
        let session_key = self.claimed(user_id, encoding, (&resume.session_id, resume.seq))?;
        let session = self.core.sessions.get(session_key).ok_or(ResumeFault::Unknown)?;
        if self.would_reveal(now, session, resume.seq) {
            return Err(ResumeFault::Permissions);
        }
        Ok(session_key)
    }

    /// The session of a claim, if its account may resume it after this seq.
    pub(crate) fn claimed(
        &self,
        user_id: UserId,
        encoding: Encoding,
        (session_id, seq): (&str, u64),
    ) -> Result<SlotKey, ResumeFault> {
        let session_key = self.core.sessions.find(session_id).ok_or(ResumeFault::Unknown)?;
        let session = self.core.sessions.get(session_key).ok_or(ResumeFault::Unknown)?;
        if session.user.id != user_id {
            return Err(ResumeFault::Account);
        }
        if session.encoding != encoding {
            return Err(ResumeFault::Encoding);
        }
        if session.pending_ready.is_some() {
            return Err(ResumeFault::NotReady);
        }
        if !session.replay.reaches(seq) {
            return Err(ResumeFault::Sequence);
        }
        Ok(session_key)
    }

    /// Whether the replay contains a GUILD_CREATE with threads or voice states that the user may not view any more. The
    /// dispatches after it make no sense without it, so the client must identify again.
    fn would_reveal(&self, now: Now, session: &Session, after: u64) -> bool {
        (after + 1..=session.replay.last_seq()).filter_map(|seq| session.replay.entry(seq)).any(|entry| {
            entry.dispatch.replayed().is_some_and(|of| {
                let relay = of.guild_id().and_then(|guild_id| self.relay_in(session, guild_id));
                relay.is_some_and(|relay| relay.would_reveal(session.user.id, of, now.unix))
            })
        })
    }

    fn relay_in(&self, session: &Session, guild_id: GuildId) -> Option<&Relay> {
        let index = session.guilds.get(guild_id)?.relay;
        self.relays.get(guild_id, index).map(|entry| &entry.relay)
    }

    /// Handles the answer to `Output::FetchDirects`. None: they could not be read.
    pub fn handle_directs(&mut self, now: Now, key: SlotKey, own: Option<OwnData>, transport: &mut impl Transport) {
        self.turn(now, transport, |partition, turn| partition.apply_directs(turn, key, own))
    }

    fn apply_directs(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, own: Option<OwnData>) {
        let pending_ready = self.core.sessions.get_mut(key).and_then(|session| session.pending_ready.as_mut());
        // The session may have ended, or sent READY at its deadline.
        if let Some(pending_ready) = pending_ready.filter(|pending_ready| pending_ready.own.is_none()) {
            match own {
                Some(own) => {
                    pending_ready.own = Some(own);
                    self.core.finish_pending_ready(turn, key);
                }
                None => self.core.give_up(turn, key),
            }
        }
    }

    /// Applies the permissions of this moment to the dispatches after a seq, before they are sent again.
    fn withhold_unseen(&mut self, now: Now, key: SlotKey, after: u64) {
        let Some(session) = self.core.sessions.get_mut(key) else { return };
        let mut left = BTreeSet::new();
        for seq in (after + 1..=session.replay.last_seq()).rev() {
            // Everything in a group before its user left it.
            let direct = session.replay.entry(seq).and_then(|entry| entry.dispatch.replayed()?.direct());
            let Some((channel_id, has_left)) = direct else { continue };
            let is_past = left.contains(&channel_id);
            if has_left {
                left.insert(channel_id);
            }
            if is_past {
                session.replay.replace(seq, self.core.tombstone.clone(), 0);
                self.core.counters.replay_suppressed_total += 1;
            }
        }
        let user_id = session.user.id;
        let (mut invalidated, mut friends) = (BTreeSet::new(), BTreeSet::new());
        for seq in after + 1..=session.replay.last_seq() {
            let Some(entry) = session.replay.entry(seq).filter(|entry| !entry.dispatch.is_suppressed()) else {
                continue;
            };
            let Some(of) = entry.dispatch.replayed() else { continue };
            if let Some(friend) = of.friend() {
                // The node sends the present value, if the account is still a friend.
                friends.insert(friend);
                session.replay.replace(seq, self.core.tombstone.clone(), 0);
                continue;
            }
            let Some(guild_id) = of.guild_id() else { continue };
            let index = session.guilds.get(guild_id).map(|guild| guild.relay);
            let relay = index.and_then(|index| self.relays.get(guild_id, index)).map(|entry| &entry.relay);
            let decide = |relay: &Relay| relay.decide_replay((user_id, key.slot), of, now.unix);
            let rest = match relay.map_or(ReplayDecision::Withheld(None), decide) {
                ReplayDecision::Same => continue,
                ReplayDecision::Redacted(form) => {
                    if form != entry.redaction {
                        let bytes = entry.dispatch.frame(session.encoding, form).body().len();
                        session.replay.replace_by(seq, entry.dispatch.clone(), form, bytes);
                    }
                    continue;
                }
                ReplayDecision::Hidden => None,
                ReplayDecision::Withheld(rest) => {
                    invalidated.extend(index.map(|index| (guild_id, index)));
                    rest.map(|event| Dispatch::direct(&Arc::from(event)))
                }
            };
            let bytes = rest.as_ref().map_or(0, |rest| rest.frame(session.encoding, Redaction::None).body().len());
            session.replay.replace(seq, rest.unwrap_or_else(|| self.core.tombstone.clone()), bytes);
            self.core.counters.replay_suppressed_total += 1;
        }
        self.core.show_friends(user_id, friends);
        for (guild_id, index) in invalidated {
            if let Some(entry) = self.relays.get_mut(guild_id, index) {
                entry.relay.invalidate_baseline(user_id, key.slot);
            }
        }
    }

    pub(crate) fn arm_heartbeat_timer(&mut self, now: Now, key: SlotKey) {
        let at = now.instant.after_ms(self.core.heartbeat_grace_ms());
        self.core.arm_timer(at, key);
    }
}

fn guilds_of_shard(guilds: &[GuildId], shard: Option<ShardId>) -> Vec<GuildId> {
    let mine = |id: &GuildId| shard.is_none_or(|shard| shard_of(*id, shard.count) == shard.id);
    guilds.iter().copied().filter(mine).collect()
}

impl Core {
    /// The partition that has or would have the session, if it is another one of this node.
    fn other_partition(&self, session_id: &str) -> Option<PartitionId> {
        let (own, count) = (self.config.partition, self.config.partitions_count);
        session_home(session_id, own.node(), count).filter(|home| *home != own)
    }

    /// Requests the present presences of friends for an account.
    pub(crate) fn show_friends(&mut self, user_id: UserId, friends: BTreeSet<UserId>) {
        if !friends.is_empty() {
            self.outputs.push_back(Output::ShowFriends { user_id, friends: friends.into_iter().collect() });
        }
    }

    /// Whether this partition has or would have the session.
    pub(crate) fn is_home_of(&self, session_id: &str) -> bool {
        session_partition(session_id).is_some() && self.other_partition(session_id).is_none()
    }

    /// Moves a connection and its socket to the partition of the session that it resumes.
    fn transfer(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        to: PartitionId,
        claimant: Claimant,
        resume: Resume,
    ) {
        let Some(conn) = self.conns.remove(key) else { return };
        let moving = MovingConn { conn, claimant, resume };
        turn.transport.transfer(key, to, Box::new(moving));
    }

    /// Serves the session until then; none: without an end.
    pub(crate) fn expire_at(&mut self, now: Now, key: SlotKey, expires_at: Option<Timestamp>) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.profile.expires_at = expires_at;
        self.arm_expiry_timer(now, key);
    }

    /// Arms the timer for the token's expiry. An earlier timer leads to the next one; a timer for a later time becomes
    /// stale. One timer per session counts.
    fn arm_expiry_timer(&mut self, now: Now, key: SlotKey) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let Some(expires_at) = session.profile.expires_at else { return };
        let left_ms = u64::try_from(expires_at.0.saturating_sub(now.unix.0)).unwrap_or(0);
        // Not further ahead: the system's clock may be set, and stale timers would pile up behind clients that resume
        // with ever shorter tokens.
        let at = now.instant.after_ms(left_ms.min(EXPIRY_CHECK_MS_MAX));
        if session.profile.expiry_timer_at.get().is_none_or(|before| at < before) {
            session.profile.expiry_timer_at.set(at);
            self.timers.push(at, TimerKey::Session(key));
        }
    }

    /// Closes the connection of a session whose token has expired. The session can be resumed with another token.
    pub(crate) fn expire(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, at: Instant) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.profile.expiry_timer_at.clear_if(at);
        let has_expired = session.profile.expires_at.is_some_and(|expires_at| expires_at <= turn.now.unix);
        match session.conn {
            Some(conn) if has_expired && self.config.expire_sessions => {
                self.counters.sessions_expired_total += 1;
                let code = Some(CloseCode::AuthenticationFailed.code());
                self.close_websocket(turn, conn, code, TOKEN_EXPIRED, SessionFate::Keep);
            }
            // Without a connection nothing is sent, and a RESUME brings a token that is checked.
            Some(_) if !has_expired => self.arm_expiry_timer(turn.now, key),
            Some(_) | None => {}
        }
    }

    /// Ends a session whose READY would be incomplete. Its client reconnects and identifies again.
    pub(crate) fn give_up(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey) {
        if let Some(conn) = self.sessions.get(key).and_then(|session| session.conn) {
            self.close(turn, conn, CloseCode::UnknownError);
        }
        self.end_session(key);
    }

    /// Discards a session's view of a guild before READY is sent, when the session left the guild or its stream
    /// restarts. READY then contains nothing of the guild, and later events of it are discarded. False if READY
    /// has been sent.
    pub(crate) fn forget_view(&mut self, key: SlotKey, guild_id: GuildId) -> bool {
        let Some(session) = self.sessions.get_mut(key) else { return false };
        let Some(pending_ready) = &mut session.pending_ready else { return false };
        pending_ready.views.retain(|(replica, _)| replica.id() != guild_id);
        for seq in session.replay.first_seq()..=session.replay.last_seq() {
            let Some(entry) = session.replay.entry(seq) else { continue };
            if entry.dispatch.replayed().and_then(Replayed::guild_id) == Some(guild_id) {
                session.replay.replace(seq, self.tombstone.clone(), 0);
            }
        }
        true
    }

    /// Sends READY of a user account once all parts are there. The account's own data is read last: after the session
    /// exists, which receives every later event of direct messages, and after its guilds have answered, so that every
    /// message of their views is in the store when its mentions are read.
    pub(crate) fn finish_pending_ready(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey) {
        let deadline = turn.now.instant.after_ms(self.config.gather_deadline_ms);
        let Some(session) = self.sessions.get_mut(key) else { return };
        let Some(pending_ready) = &mut session.pending_ready else { return };
        if pending_ready.waiting_count > 0 {
            return;
        }
        if !pending_ready.is_own_requested {
            // The timer of the first deadline arms that of this one.
            (pending_ready.is_own_requested, pending_ready.deadline) = (true, deadline);
            let user_id = session.user.id;
            self.outputs.push_back(Output::FetchDirects { session: key, user_id });
            return;
        }
        let Some(pending_ready) = session.pending_ready.take_if(|pending_ready| pending_ready.own.is_some()) else {
            return;
        };
        let parts = (pending_ready.views, pending_ready.own.unwrap_or_default());
        let (url, hidden) = (&self.config.resume_gateway_url, self.config.hidden_channels);
        let (ready, supplemental) = user_ready(session, parts, url, hidden, turn.now, &mut self.guild_texts);
        session.replay.replace(1, ready, 0);
        if let Some(supplemental) = supplemental {
            session.replay.replace(2, supplemental, 0);
        }
        if let Some(conn) = session.conn {
            self.pump(turn, conn);
        }
    }
}
