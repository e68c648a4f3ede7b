//! The partitions' side: their turns, tokens, RESUME, sockets.

use super::{PartitionCommand, Side, TokenCheck, World};
use crate::{
    checker::{Fault, Identified, InTransit, fault},
    client::{Claim, ConnInfo},
    session::Capabilities,
};
use guildhall_guild_protocol::RelayMessage;
use guildhall_model::{User, UserId};
use guildhall_partition::{Account, AuthFailure, Delivery, Output};
use guildhall_stdx::SlotKey;
use guildhall_test_kit::{FakeSocket, Transfer};
use std::sync::Arc;

impl World {
    /// One turn of a partition's loop, as in `guildhall-net`.
    pub(super) fn turn(&mut self, side: usize) -> Result<(), Fault> {
        let count = if self.is_calm { usize::MAX } else { self.rng.below(24) as usize };
        let mut delivery = Delivery::Now;
        for n in 0..count {
            let Some(in_transit) = self.sides[side].inbox.pop_front() else { break };
            if n + 1 < count && !self.sides[side].inbox.is_empty() {
                delivery = Delivery::AtFlush;
            }
            self.deliver(side, &in_transit, delivery)?;
        }
        self.take_commands(side)?;
        self.sockets(side)?;
        let now = self.now();
        let Side { partition, link, .. } = &mut self.sides[side];
        partition.flush(now, link);
        self.after(side)
    }

    pub(super) fn take_commands(&mut self, side: usize) -> Result<(), Fault> {
        let count = if self.is_calm { usize::MAX } else { self.rng.below(8) as usize };
        for _ in 0..count {
            let Some(command) = self.sides[side].commands.pop_front() else { break };
            self.handle_command(side, command)?;
        }
        Ok(())
    }

    /// An input was handled.
    pub(super) fn after(&mut self, side: usize) -> Result<(), Fault> {
        self.outputs(side)?;
        self.look(side)?;
        self.reconcile(side)
    }

    pub(super) fn reconcile(&mut self, side: usize) -> Result<(), Fault> {
        let now = self.now();
        self.checker.reconcile(now, side, &self.sides[side].partition)
    }

    fn deliver(&mut self, side: usize, in_transit: &InTransit, delivery: Delivery) -> Result<(), Fault> {
        let is_reset = matches!(in_transit.message.message, RelayMessage::Snapshot { reset: true, .. });
        self.resets += u64::from(is_reset);
        self.trace(|| {
            let text = in_transit.event.as_ref().map(|event| event.text(0)).unwrap_or_default();
            format!(
                "to {side}: {} {}",
                crate::act::brief(&in_transit.message),
                text.chars().take(200).collect::<String>()
            )
        });
        let now = self.now();
        self.checker.deliver(now, in_transit)?;
        let messages = self.fault_injector.pass(side, in_transit.message.clone());
        let Side { partition, link, .. } = &mut self.sides[side];
        for message in messages {
            partition.handle_guild(now, message, delivery, link);
        }
        self.after(side)
    }

    fn handle_command(&mut self, side: usize, command: PartitionCommand) -> Result<(), Fault> {
        let now = self.now();
        match command {
            PartitionCommand::Joined(user_id) => {
                let guild_id = self.guild_id();
                self.sides[side].partition.handle_joined(now, user_id, guild_id);
                self.after(side)
            }
            PartitionCommand::UserChanged(user) => self.user_changed_at(side, &user),
            PartitionCommand::Publish { published, publication } => {
                self.publish_to_accounts_at(side, &published, &publication)
            }
            PartitionCommand::DirectEvent { published, event } => self.publish_direct_at(side, &published, &event),
            PartitionCommand::Friend { published, event } => self.friend_at(side, &published, &event),
            PartitionCommand::DirectsRead { session, read } => self.directs_read_at(side, session, read),
            PartitionCommand::Close(whose, code) => self.close_at(side, &whose, code),
            PartitionCommand::Authenticated { conn, result } => self.authenticated(side, conn, result),
            PartitionCommand::Moved { socket, conn, serial } => {
                let key = self.sides[side].partition.next_conn_key();
                let (user, token) = (conn.claimant.user.id, conn.claimant.token);
                self.sides[side].link.insert(key, socket);
                self.sides[side].serials.insert(key, serial);
                self.judge_resume(side, key, serial, (user, token), |world| {
                    let Side { partition, link, .. } = &mut world.sides[side];
                    partition.handle_transferred(now, *conn, link);
                })
            }
        }
    }

    fn authenticated(&mut self, side: usize, conn: SlotKey, result: Result<Account, AuthFailure>) -> Result<(), Fault> {
        let now = self.now();
        let Some(serial) = self.sides[side].serials.get(&conn).copied() else { return Ok(()) };
        let account = result.as_ref().ok().map(|account| (account.user.clone(), account.token));
        let handle = |world: &mut Self| {
            let Side { partition, link, .. } = &mut world.sides[side];
            partition.handle_authenticated(now, conn, result, link);
        };
        let info = self.conns[serial as usize].clone();
        let Some((user, token)) = account else {
            handle(self);
            return self.after(side);
        };
        match info.claim {
            Claim::None => fault("a token was checked that no client sent"),
            Claim::Identify => {
                let before = self.sides[side].partition.counters().identified_total;
                handle(self);
                if self.sides[side].partition.counters().identified_total > before {
                    self.identified(side, conn, serial, (user, token), info.client)?;
                }
                self.after(side)
            }
            Claim::Resume { .. } => self.judge_resume(side, conn, serial, (user.id, token), handle),
        }
    }

    fn identified(
        &mut self,
        side: usize,
        conn: SlotKey,
        serial: u64,
        (user, token): (Arc<User>, u64),
        client: usize,
    ) -> Result<(), Fault> {
        let found = self.sides[side].partition.sessions().find(|session| session.conn == Some(conn));
        let Some(session) = found else { return fault("IDENTIFY succeeded without a session") };
        let client = &self.clients[client];
        let in_shard = client.is_in_shard(self.guild_id().get());
        // A guild that was joined while the token was checked is known from the notice.
        let guilds = session.guilds.ids().map(|id| id.get()).collect();
        let new = Identified {
            key: session.key,
            id: session.id.clone(),
            user,
            token,
            intents: client.effective_intents(),
            capabilities: Capabilities(client.capabilities.unwrap_or(0)),
            large_threshold: client.large_threshold,
            in_shard,
            is_first_shard: client.shard.is_none_or(|(shard, _)| shard == 0),
            encoding: client.params.conn.encoding,
            guilds,
            conn,
            conn_serial: serial,
        };
        self.check_token(side, token)?;
        let now = self.now();
        let (user, guilds) = (new.user.id, new.guilds.clone());
        self.trace(|| format!("{:?} of {user} starts with {guilds:?}", new.key));
        self.checker.identified(now, side, new)
    }

    /// Handles a RESUME, and holds its outcome against what it had to be.
    fn judge_resume(
        &mut self,
        side: usize,
        conn: SlotKey,
        serial: u64,
        (user, token): (UserId, u64),
        handle: impl FnOnce(&mut Self),
    ) -> Result<(), Fault> {
        let ConnInfo { client, claim, .. } = self.conns[serial as usize].clone();
        let Claim::Resume { session_id, seq } = claim else { return fault("a RESUME that no client sent") };
        let encoding = self.clients[client].params.conn.encoding;
        // It may have ended a moment ago.
        self.look(side)?;
        let known = self.checker.session_by_id(&session_id);
        let now = self.now();
        let must = self.checker.resume_must(now, known, user.get(), encoding, seq);
        let before = self.sides[side].partition.counters();
        handle(self);
        let after = self.sides[side].partition.counters();
        let has_resumed = after.resumed_total > before.resumed_total;
        let was_refused = after.resumes_refused_total > before.resumes_refused_total;
        self.at_client = Some(client);
        self.trace(|| format!("client {client} resumes from {seq}: {has_resumed}, refused {was_refused}"));
        if was_refused && must == Some(true) {
            let kept = self.sides[side].partition.sessions().find(|session| *session.id == *session_id);
            let kept = kept.map(|session| (session.replay.first_seq(), session.replay.last_seq()));
            return fault(format!("RESUME of {session_id} from {seq} was refused, but had to succeed; kept: {kept:?}"));
        }
        if has_resumed && must == Some(false) {
            return fault(format!("RESUME of {session_id} from {seq} succeeded, but had to be refused"));
        }
        if has_resumed && let Some(at) = known {
            self.check_token(side, token)?;
            self.checker.resumed(now, at, conn, (serial, token), seq, &self.sides[side].partition)?;
        }
        self.after(side)
    }

    /// Socket events: room to write, received bytes, closes.
    pub(super) fn sockets(&mut self, side: usize) -> Result<(), Fault> {
        let now = self.now();
        for key in self.sides[side].link.keys() {
            let Some(socket) = self.sides[side].link.socket(key).cloned() else { continue };
            if self.luck(0.8) && socket.take_writable() {
                let Side { partition, link, .. } = &mut self.sides[side];
                partition.handle_writable(now, key, link);
                self.after(side)?;
            }
            if socket.to_server_bytes() > 0 && self.luck(0.8) {
                let max = if self.luck(0.8) { usize::MAX } else { 1 + self.rng.below(200) as usize };
                self.read(side, key, &socket, max)?;
            } else if self.luck(0.3) && socket.take_hangup() {
                let Side { partition, link, .. } = &mut self.sides[side];
                partition.handle_hangup(now, key, link);
                self.after(side)?;
            }
        }
        Ok(())
    }

    /// Hands in what a client sent, but each subscription apart, so that it is known when it takes effect.
    fn read(&mut self, side: usize, key: SlotKey, socket: &FakeSocket, mut max: usize) -> Result<(), Fault> {
        let serial = self.sides[side].serials.get(&key).copied();
        let (mut patch, mut is_whole) = (None, false);
        if let Some(info) = serial.map(|serial| &mut self.conns[serial as usize])
            && let Some(sent) = info.subscriptions.front().cloned()
        {
            max = max.min(if sent.first > 0 { sent.first } else { sent.end });
            let taken = max.min(socket.to_server_bytes());
            if socket.is_server_reading() {
                is_whole = sent.first == 0 && taken == sent.end && !sent.is_begun;
                for sent in &mut info.subscriptions {
                    sent.is_begun |= sent.first < taken;
                    sent.first = sent.first.saturating_sub(taken);
                    sent.end -= taken;
                }
                if info.subscriptions.front().is_some_and(|sent| sent.end == 0) {
                    info.subscriptions.pop_front();
                    patch = Some(sent.patch);
                }
            }
        }
        let Some(mut bytes) = socket.take_readable(max) else { return Ok(()) };
        let served = self.sides[side].partition.sessions().find(|session| session.conn == Some(key));
        let served = served.and_then(|session| self.checker.session_by_id(&session.id));
        if let (Some(patch), Some(at)) = (patch, served) {
            self.trace(|| format!("session {at} subscribes: {patch:?}"));
            self.checker.subscribed(self.clock.now(), at, |subscription| subscription.merge(patch));
        }
        if is_whole && !self.fault_injector.lets_subscribe(side) {
            return Ok(());
        }
        let now = self.now();
        let Side { partition, link, .. } = &mut self.sides[side];
        partition.handle_bytes(now, key, &mut bytes, link);
        self.after(side)
    }

    pub(super) fn outputs(&mut self, side: usize) -> Result<(), Fault> {
        while let Some(output) = self.sides[side].partition.poll_output() {
            match output {
                Output::Authenticate { conn, token, purpose } => {
                    self.sides[side].token_checks.push_back(TokenCheck { conn, token, purpose, answer: None });
                }
                Output::ToGuild(_, message) => {
                    self.trace(|| format!("from {side}: {message:?}").chars().take(120).collect());
                    self.checker.sent_to_guild(side, &message)?;
                    self.sides[side].to_guild.push_back(message);
                }
                Output::FetchDirects { session, user_id } => {
                    let now = self.now();
                    self.checker.directs_requested(now, (side, session))?;
                    self.fetch_directs(side, session, user_id);
                }
                Output::FetchSession { .. } | Output::FetchRest { .. } => {
                    return fault("a session is fetched without other nodes");
                }
                Output::FetchMessages { .. } => return fault("messages are fetched without a request"),
                Output::ShowFriends { user_id, friends } => self.show_friends(user_id.get(), &friends),
                Output::SessionNews(_)
                | Output::PresenceChanged(_)
                | Output::IdentifyRefused(_)
                | Output::ResumeRefused(_)
                | Output::Canary(_) => {}
            }
        }
        for Transfer { key, to, socket, conn } in self.sides[side].link.take_transfers() {
            let Some(serial) = self.sides[side].serials.remove(&key) else { return fault("an unknown socket moves") };
            self.actions.moved += 1;
            self.sides[usize::from(to.0)].commands.push_back(PartitionCommand::Moved { socket, conn, serial });
        }
        Ok(())
    }

    pub(super) fn look(&mut self, side: usize) -> Result<(), Fault> {
        let now = self.now();
        self.checker.look(now, side, &self.sides[side].partition)
    }

    /// As `look`, once the partition has handled its timers.
    pub(super) fn look_after_timers(&mut self, side: usize) -> Result<(), Fault> {
        let now = self.now();
        self.checker.look(now, side, &self.sides[side].partition)?;
        self.checker.check_expired(now, side)
    }
}
