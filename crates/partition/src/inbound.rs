//! Inbound: a client's bytes, from frames to handlers by opcode.
//!
//! Doors       `handle_bytes` from the driver; payloads go on by opcode.
//! Invariants  I1 before IDENTIFY or RESUME only heartbeats (ops 1, 40) and op 41 (ignored) are accepted. I2 every
//!             fault of a client has one close code, in one place.
//! Limits      `inbound_per_minute_max`, message sizes, the inbox's.     Spec  docs/protocol/reference.md §1.3–§1.6,
//!             §1.13.

use crate::{
    client_requests::PendingRequest,
    conn::{Control, Overfull, PendingAuth, Phase},
    core::Core,
    refused::{IdentifyFault, IdentifyRefused},
    transport::{AuthPurpose, Output, Transport},
    turn::Turn,
};
use guildhall_codec::{Encoding, Inbound, decode_payload};
use guildhall_guild_protocol::{Redaction, SessionPresence, ToGuild};
use guildhall_model::{
    AccountKind, CloseCode, GuildId, Intents, Opcode, SessionFate, UserId, shard_of,
    to_gateway::{
        GetDeletedEntityIds, GuildChannelsResync, GuildSubscriptions, Identify, MemberQuery, PayloadError,
        PresenceUpdate, RequestChannelInfo, RequestChannelMemberCount, RequestChannelStatuses, RequestGuildMembers,
        RequestLastMessages, RequestSoundboardSounds, Resume, SearchRecentMembers, VoiceStateUpdate,
    },
};
use guildhall_session::{MEMBER_REQUESTS_MAX, Membership, rate_limited};
use guildhall_stdx::SlotKey;
use guildhall_ws_proto::{Event, Opcode as FrameOpcode, WsError, pong};
use serde_json::Value;
use std::mem;

/// Whether a client's close code ends its session (docs/protocol/reference.md §1.4).
fn fate_of_client_close(code: Option<u16>) -> SessionFate {
    if matches!(code, Some(1000 | 1001)) { SessionFate::Drop } else { SessionFate::Keep }
}

impl Core {
    /// Handles bytes of a connection.
    pub fn handle_bytes(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, input: &mut [u8]) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        self.counters.received_bytes += input.len() as u64;
        match conn.phase {
            Phase::Closing => return,
            Phase::Authenticating(_) => return self.keep_pending_input(turn, key, input),
            Phase::AwaitingIdentify | Phase::Established(_) => {}
        }
        // The decoder is taken out, so that a message can access its connection.
        let Some(mut decoder) = conn.inbox.take_decoder() else { return };
        let input_bytes = input.len();
        let mut events = decoder.handle(input);
        let mut unread = 0;
        loop {
            match events.poll() {
                Ok(None) => break,
                Ok(Some(event)) => self.handle_frame(turn, key, &event),
                Err(error) => {
                    self.handle_frame_fault(turn, key, &error);
                    break;
                }
            }
            match self.conns.get(key).map(|conn| &conn.phase) {
                None | Some(Phase::Closing) => return,
                Some(Phase::Authenticating(_)) => {
                    unread = events.unread_bytes();
                    break;
                }
                Some(Phase::AwaitingIdentify | Phase::Established(_)) => {}
            }
        }
        if let Some(conn) = self.conns.get_mut(key) {
            conn.inbox.put_decoder(decoder);
        }
        if unread > 0 {
            self.keep_pending_input(turn, key, &input[input_bytes - unread..]);
        }
    }

    /// Stores input while the token is being checked. Well-behaved clients wait for the answer; others are closed with
    /// 4008 at the limit.
    fn keep_pending_input(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, input: &[u8]) {
        let Some(conn) = self.conns.get_mut(key) else { return };
        if let Err(Overfull) = conn.inbox.keep_pending(input) {
            self.close(turn, key, CloseCode::RateLimited);
        }
    }

    fn handle_frame_fault(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, error: &WsError) {
        // A message that is too large is a fault of the gateway protocol; all others are below it.
        if error.close_code() == 1009 {
            self.close(turn, key, CloseCode::DecodeError);
        } else {
            let code = Some(error.close_code());
            self.close_websocket(turn, key, code, &error.to_string(), SessionFate::Keep);
        }
    }

    fn handle_frame(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, event: &Event<'_>) {
        // Only whole frames count as a sign of life: a client could send one frame for ever, byte by byte.
        if let Some(conn) = self.conns.get_mut(key) {
            conn.inbox.note_frame(turn.now.instant);
        }
        match event {
            Event::Text(text) => self.handle_message(turn, key, text.as_bytes()),
            Event::Binary(bytes) => self.handle_message(turn, key, bytes),
            Event::Compressed { text, payload } => {
                let opcode = if *text { FrameOpcode::Text } else { FrameOpcode::Binary };
                self.handle_compressed(turn, key, opcode, payload);
            }
            Event::Ping(payload) => {
                if self.admit_inbound(turn, key) {
                    self.control(turn, key, Control::Frame(pong(payload).to_vec()));
                }
            }
            Event::Pong(_) => {
                self.admit_inbound(turn, key);
            }
            Event::Close { code, .. } => {
                let fate = fate_of_client_close(*code);
                self.answer_close(turn, key, *code, fate);
            }
        }
    }

    pub(crate) fn admit_inbound(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey) -> bool {
        let max = self.config.inbound_per_minute_max;
        let admitted = self.conns.get_mut(key).is_some_and(|conn| conn.inbox.admit(turn.now.instant, max));
        if !admitted {
            self.close(turn, key, CloseCode::RateLimited);
        }
        admitted
    }

    fn handle_message(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, bytes: &[u8]) {
        if self.admit_inbound(turn, key) {
            self.handle_payload(turn, key, bytes);
        }
    }

    /// Handles an uncompressed message within the rate limit.
    pub(crate) fn handle_payload(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, bytes: &[u8]) {
        self.counters.received_message_bytes += bytes.len() as u64;
        let Some(conn) = self.conns.get(key) else { return };
        let encoding = conn.codec.encoding();
        let Ok(Inbound { op, d }) = decode_payload(encoding, bytes) else {
            let (code, encoding) = (CloseCode::DecodeError, if encoding == Encoding::Etf { "ETF" } else { "JSON" });
            let reason = format!("{}: a message must be an object with `op`, as {encoding}", code.reason());
            return self.close_because(turn, key, code, &reason);
        };
        let Some(opcode) = Opcode::from_client(op) else {
            let code = CloseCode::UnknownOpcode;
            return self.close_because(turn, key, code, &format!("{}: op {op}", code.reason()));
        };
        if let Opcode::Heartbeat | Opcode::QosHeartbeat = opcode {
            return self.handle_heartbeat(turn, key, &d);
        }
        let handled = match conn.phase {
            Phase::AwaitingIdentify => self.handle_unidentified(turn, key, opcode, &d),
            Phase::Established(session) => self.handle_established(turn, key, session, opcode, &d),
            Phase::Authenticating(_) | Phase::Closing => Ok(()),
        };
        if let Err(PayloadError { opcode, problem }) = handled {
            let code = CloseCode::UnknownOpcode;
            self.close_because(turn, key, code, &format!("{}: {opcode}: {problem}", code.reason()));
        }
    }

    /// Answers, and trims the replay buffer to the seq that the client has.
    fn handle_heartbeat(&mut self, turn: &mut Turn<'_, impl Transport>, key: SlotKey, d: &Value) {
        let Some(conn) = self.conns.get(key) else { return };
        let payload = self.fixed(conn.codec.encoding()).heartbeat_ack.clone();
        if let Phase::Established(session) = conn.phase {
            let seen = d.get("seq").unwrap_or(d).as_u64().unwrap_or(0);
            // A client cannot have received more than was written.
            let written = conn.cursor.next_seq().saturating_sub(1);
            if let Some(session) = self.sessions.get_mut(session) {
                session.replay.trim(seen.min(written));
            }
        }
        self.control(turn, key, Control::Payload(payload));
    }

    fn handle_unidentified(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        opcode: Opcode,
        d: &Value,
    ) -> Result<(), PayloadError> {
        let claim = match opcode {
            Opcode::Identify => match Identify::parse(d) {
                Ok(identify) => PendingAuth::Identify(identify),
                Err(PayloadError { opcode, problem }) => {
                    let detail = Some(format!("{opcode}: {problem}").into());
                    let refused = IdentifyRefused { fault: IdentifyFault::Payload, user_id: None, detail };
                    self.refuse_identify(turn, key, refused);
                    return Ok(());
                }
            },
            Opcode::Resume => PendingAuth::Resume(Resume::parse(d)?),
            Opcode::TimeSpentSession => return Ok(()),
            _ => {
                self.close(turn, key, CloseCode::NotAuthenticated);
                return Ok(());
            }
        };
        if let PendingAuth::Identify(identify) = &claim
            && let Err(fault) = self.gatekeeper.may_begin(turn.now, turn.transport.address(key), &identify.token)
        {
            self.refuse_identify(turn, key, fault.into());
            return Ok(());
        }
        let (token, purpose) = match &claim {
            PendingAuth::Identify(identify) => {
                let shard_id = identify.shard().ok().flatten().map_or(0, |shard| shard.id);
                (identify.token.clone(), AuthPurpose::Identify { shard_id })
            }
            PendingAuth::Resume(resume) | PendingAuth::Move(_, resume) => (resume.token.clone(), AuthPurpose::Resume),
        };
        if let Some(conn) = self.conns.get_mut(key) {
            conn.phase = Phase::Authenticating(Box::new(claim));
            turn.transport.pause_reading(key);
            self.outputs.push_back(Output::Authenticate { conn: key, token, purpose });
        }
        Ok(())
    }

    fn handle_established(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        key: SlotKey,
        session_key: SlotKey,
        opcode: Opcode,
        d: &Value,
    ) -> Result<(), PayloadError> {
        let Some(session) = self.sessions.get_mut(session_key) else { return Ok(()) };
        match opcode {
            Opcode::Identify | Opcode::Resume => self.close(turn, key, CloseCode::AlreadyAuthenticated),
            Opcode::PresenceUpdate => {
                let Some(update) = PresenceUpdate::parse(d) else {
                    return Err(PayloadError { opcode: "PRESENCE_UPDATE", problem: "expected an object" });
                };
                if session.admit_presence(turn.now.instant) {
                    self.mirroring.touch(session_key);
                    let update = update.of_kind(session.kind());
                    session.profile.presence = SessionPresence {
                        status: update.status,
                        activities: update.activities.into(),
                        platform: session.platform(),
                    };
                    for guild_id in session.guilds.ids() {
                        let Some(of_guild) = session.key_in(self.config.partition, guild_id) else { continue };
                        let presence = session.profile.presence.clone();
                        self.outputs
                            .push_back(Output::ToGuild(guild_id, ToGuild::Presence { session: of_guild, presence }));
                    }
                    self.output_presence_change(session_key);
                }
            }
            Opcode::VoiceStateUpdate => self.handle_voice(session_key, VoiceStateUpdate::parse(d)?),
            Opcode::RequestGuildMembers => {
                let request = RequestGuildMembers::parse(d)?;
                self.request_members(turn, session_key, request);
            }
            _ if session.kind() == AccountKind::Bot && !opcode.is_for_bots() => {}
            Opcode::GuildSubscription => self.subscribe(session_key, GuildSubscriptions::parse_single(d)?),
            Opcode::GuildSubscriptionsBulk => self.subscribe(session_key, GuildSubscriptions::parse_bulk(d)?),
            _ => self.handle_request(session_key, opcode, d),
        }
        Ok(())
    }

    fn handle_voice(&mut self, key: SlotKey, update: VoiceStateUpdate) {
        let Some(guild_id) = update.guild_id else { return };
        let Some(session) = self.sessions.get_mut(key) else { return };
        let Some(of_guild) = session.key_in(self.config.partition, guild_id) else { return };
        if let Some(entry) = session.guilds.get_mut(guild_id) {
            entry.asked_for_voice = update.channel_id.is_some();
        }
        if update.channel_id.is_some() && session.kind() == AccountKind::User {
            let user_id = session.user.id;
            self.leave_other_voice(user_id, guild_id, &update);
        }
        self.outputs.push_back(Output::ToGuild(guild_id, ToGuild::Voice { session: of_guild, update }));
    }

    /// A user account is in voice in one guild at most: it leaves the other guilds before it joins. Only sessions of
    /// this partition are known here; one of another partition stays until its client leaves.
    fn leave_other_voice(&mut self, user_id: UserId, guild_id: GuildId, update: &VoiceStateUpdate) {
        for key in self.sessions.of_user(user_id) {
            let Some(session) = self.sessions.get_mut(key) else { continue };
            let entries = session.guilds.iter_mut().filter(|entry| entry.guild_id != guild_id);
            let left = entries.filter_map(|entry| mem::take(&mut entry.asked_for_voice).then_some(entry.guild_id));
            for elsewhere in left.collect::<Vec<_>>() {
                if let Some(session) = session.key_in(self.config.partition, elsewhere) {
                    let update = VoiceStateUpdate { guild_id: Some(elsewhere), channel_id: None, ..*update };
                    self.outputs.push_back(Output::ToGuild(elsewhere, ToGuild::Voice { session, update }));
                }
            }
        }
    }

    /// Optional requests of clients. An unreadable body is ignored: it is no reason to close the session.
    fn handle_request(&mut self, session: SlotKey, opcode: Opcode, d: &Value) {
        match opcode {
            Opcode::GetDeletedEntityIds => {
                let Ok(request) = GetDeletedEntityIds::parse(d) else { return };
                self.enqueue_request(session, request.guild_id, PendingRequest::DeletedEntities(request));
            }
            Opcode::RequestSoundboardSounds => {
                let Ok(request) = RequestSoundboardSounds::parse(d) else { return };
                request
                    .guild_ids
                    .into_iter()
                    .for_each(|guild_id| self.enqueue_request(session, guild_id, PendingRequest::Soundboard));
            }
            Opcode::RequestLastMessages => {
                let Ok(request) = RequestLastMessages::parse(d) else { return };
                self.enqueue_request(session, request.guild_id, PendingRequest::LastMessages(request));
            }
            Opcode::RequestChannelStatuses => {
                let Ok(request) = RequestChannelStatuses::parse(d) else { return };
                self.enqueue_request(session, request.guild_id, PendingRequest::ChannelStatuses);
            }
            Opcode::GuildChannelsResync => {
                let Ok(request) = GuildChannelsResync::parse(d) else { return };
                self.enqueue_request(session, request.guild_id, PendingRequest::ChannelSync(request));
            }
            Opcode::RequestChannelInfo => {
                let Ok(request) = RequestChannelInfo::parse(d) else { return };
                self.enqueue_request(session, request.guild_id, PendingRequest::ChannelInfo);
            }
            Opcode::SearchRecentMembers => {
                let Ok(request) = SearchRecentMembers::parse(d) else { return };
                let guild_id = request.guild_id;
                self.enqueue_request(session, guild_id, PendingRequest::RecentMembers(Box::new(request)));
            }
            Opcode::RequestChannelMemberCount => {
                let Ok(request) = RequestChannelMemberCount::parse(d) else { return };
                self.enqueue_request(session, request.guild_id, PendingRequest::CountMembers(request.channel_id));
            }
            // Handled elsewhere.
            Opcode::Heartbeat
            | Opcode::QosHeartbeat
            | Opcode::Identify
            | Opcode::Resume
            | Opcode::PresenceUpdate
            | Opcode::VoiceStateUpdate
            | Opcode::RequestGuildMembers
            | Opcode::GuildSubscription
            | Opcode::GuildSubscriptionsBulk => {}
            // Without a meaning here.
            Opcode::TimeSpentSession | Opcode::Ignored(_) => {}
        }
    }

    /// Ops 14 and 37: subscriptions of a user account.
    fn subscribe(&mut self, session: SlotKey, subscriptions: GuildSubscriptions) {
        for (guild_id, patch) in subscriptions.patches {
            self.enqueue_request(session, guild_id, PendingRequest::Subscribe(patch));
        }
    }

    /// Op 8: passed to the guild within the rate limit. A whole list needs GUILD_MEMBERS (bots), and has a rate
    /// limit of its own.
    fn request_members(
        &mut self,
        turn: &mut Turn<'_, impl Transport>,
        session_key: SlotKey,
        mut request: RequestGuildMembers,
    ) {
        let Some(session) = self.sessions.get_mut(session_key) else { return };
        let is_bot = session.kind() == AccountKind::Bot;
        if is_bot {
            request.guild_ids.truncate(1);
        }
        let guild_ids: Vec<GuildId> = std::mem::take(&mut request.guild_ids);
        for guild_id in guild_ids {
            let Some(session) = self.sessions.get_mut(session_key) else { return };
            let in_shard = session.profile.shard.is_none_or(|shard| shard_of(guild_id, shard.count) == shard.id);
            if !in_shard || session.guilds.membership(guild_id) != Some(Membership::Inside) {
                continue;
            }
            let mut request = request.clone();
            if request.query == MemberQuery::All {
                if let Err(retry_after_ms) = session.admit_whole_list(turn.now.instant, guild_id) {
                    let dispatch = rate_limited(session.encoding, guild_id, request.nonce.as_deref(), retry_after_ms);
                    self.push(turn, session_key.slot, &dispatch, Redaction::None);
                    continue;
                }
                if is_bot && !session.intents.contains(Intents::GUILD_MEMBERS) {
                    // One empty chunk answers the request without naming a member.
                    request.query = MemberQuery::Ids(Vec::new());
                }
            }
            if session.profile.member_requests.len() < MEMBER_REQUESTS_MAX
                && let Some(of_guild) = session.key_in(self.config.partition, guild_id)
            {
                let message = ToGuild::RequestMembers { session: of_guild, request: Box::new(request) };
                self.outputs.push_back(Output::ToGuild(guild_id, message));
            }
        }
    }
}
