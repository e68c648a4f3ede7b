//! The guild's side: commands, what comes out of the guild, commits, and the links to the partitions.

use super::{SIDES, TokenCheck, World};
use crate::{
    checker::{Fault, InTransit},
    model::{Event, State},
    pipeline::Group,
    world::PartitionCommand,
};
use guildhall_guild::{Actor, Command, Outcome, Output as GuildOutput, Reply};
use guildhall_guild_protocol::{Published, RelayId, RelayMessage};
use guildhall_model::{ChannelId, MessageId, UserId};
use guildhall_partition::{Account, AuthFailure, AuthPurpose};
use std::{
    collections::{BTreeSet, VecDeque},
    rc::Rc,
    sync::Arc,
};

impl World {
    /// Runs a command; loads from what is durable what it needs.
    pub fn command(&mut self, actor: Actor, command: &Command) -> Result<Option<Reply>, Fault> {
        let now = self.now();
        for _ in 0..4 {
            let outcome = self.guild.handle_command(now, actor, command);
            let joined = match (command, &outcome) {
                (_, Outcome::Reply(Ok(Reply::Imported(imported)))) => imported.added.clone(),
                (Command::Backend(_), Outcome::Reply(Ok(Reply::Created(made)))) => match &**made {
                    Reply::Member(member) => vec![member.user.id],
                    _ => Vec::new(),
                },
                (_, Outcome::Reply(Ok(_))) => command.joins().into_iter().collect(),
                _ => Vec::new(),
            };
            self.after_guild(joined)?;
            match outcome {
                Outcome::Reply(reply) => {
                    self.trace(|| format!("{actor:?} {command:?} {}", if reply.is_ok() { "ok" } else { "refused" }));
                    return Ok(reply.ok());
                }
                Outcome::Later(_) => return Ok(None),
                Outcome::NeedsMessage(channel, message) => self.load_message(channel, message)?,
            }
        }
        Ok(None)
    }

    fn load_message(&mut self, channel: ChannelId, message: MessageId) -> Result<(), Fault> {
        let record = self.store.message(channel, message)?;
        self.guild.handle_message_loaded(channel, message, record.map(Into::into));
        self.after_guild(Vec::new())
    }

    /// Takes what came out of the guild's input, and shows it to the checker in the order it was made.
    pub(super) fn after_guild(&mut self, joined: Vec<UserId>) -> Result<(), Fault> {
        self.after_guild_and_job(joined, None)
    }

    /// `job_state`: the guild when the job began that has just been done.
    fn after_guild_and_job(&mut self, joined: Vec<UserId>, job_state: Option<Rc<State>>) -> Result<(), Fault> {
        let outputs: Vec<GuildOutput> = std::iter::from_fn(|| self.guild.poll_output()).collect();
        let mut events: Vec<Arc<Published>> = Vec::new();
        for output in &outputs {
            if let GuildOutput::Relay(output) = output
                && let RelayMessage::Published(published) = &output.message
                && events.last().is_none_or(|last| !Arc::ptr_eq(last, published))
            {
                // The same event comes once per relay, in a row.
                events.push(published.clone());
            }
        }
        let mut seen_count = 0;
        let mut current: Option<Rc<Event>> = None;
        let mut group = Group::new(self.guild.version(), joined);
        let now = self.now();
        for output in outputs {
            let output = match output {
                GuildOutput::Write(write) => {
                    group.writes.push(write);
                    continue;
                }
                GuildOutput::Relay(output) => output,
                GuildOutput::Job(job) => {
                    self.jobs.push_back((job, self.checker.state.clone()));
                    continue;
                }
                GuildOutput::Answer(..) | GuildOutput::Users(_) => continue,
            };
            let event = match &output.message {
                RelayMessage::Published(published) => {
                    let is_new = seen_count == 0 || !Arc::ptr_eq(published, &events[seen_count - 1]);
                    if is_new {
                        current = Some(self.checker.published(now, &events[seen_count..])?);
                        seen_count += 1;
                    }
                    current.clone()
                }
                RelayMessage::Direct { event, .. } => Some(self.checker.direct(event)),
                _ => None,
            };
            // The observer has no partition: its stream is not numbered.
            if let Some(message) = self.streams.send(output) {
                let in_transit = InTransit {
                    message,
                    state: self.checker.state.clone(),
                    event,
                    made_at_unix_ms: now.unix.0,
                    job_state: job_state.clone(),
                };
                group.relay.push(in_transit);
            }
        }
        self.pipeline.push(group);
        self.release();
        Ok(())
    }

    /// Lets out what is durable, into links that may be full.
    fn release(&mut self) {
        while let Some(group) = self.pipeline.pop_ready() {
            // Relays that lost a message of this group receive nothing else of it; the guild restarts their streams.
            let mut cut_off: BTreeSet<RelayId> = BTreeSet::new();
            for in_transit in group.relay {
                let relay = in_transit.message.relay;
                if cut_off.contains(&relay) {
                    continue;
                }
                let inbox = &mut self.sides[usize::from(relay.partition.0)].inbox;
                let waiting_count = inbox.iter().filter(|waiting| waiting.message.relay == relay).count();
                if self.is_calm || waiting_count < self.link_capacity {
                    inbox.push_back(in_transit);
                    continue;
                }
                self.trace(|| format!("the link to {relay:?} is full"));
                self.pipeline.cut_off(relay);
                self.lagging.insert(relay);
                cut_off.insert(relay);
                self.guild.handle_relay_lost(relay);
                // Only pushed: this loop lets it out.
                self.collect_silently();
            }
            for user_id in group.joined {
                self.sides.iter_mut().for_each(|side| side.commands.push_back(PartitionCommand::Joined(user_id)));
            }
        }
    }

    /// Outputs of a guild after the loss of a relay go to no other relay.
    fn collect_silently(&mut self) {
        let outputs: Vec<GuildOutput> = std::iter::from_fn(|| self.guild.poll_output()).collect();
        assert!(outputs.is_empty(), "a lost relay led to {outputs:?}");
    }

    /// Commits, the guild's mailbox, and links that have room again.
    pub(super) fn wires(&mut self) -> Result<(), Fault> {
        if self.luck(0.35) {
            self.pipeline.begin_commit();
        }
        if self.luck(0.35)
            && let Some(durable) = self.pipeline.end_commit(&self.store)?
        {
            self.release();
            self.guild.handle_committed(durable.version);
            self.after_guild(Vec::new())?;
        }
        let lagging: Vec<RelayId> = self.lagging.iter().copied().collect();
        for relay in lagging {
            let inbox = &self.sides[usize::from(relay.partition.0)].inbox;
            let waiting_count = inbox.iter().filter(|waiting| waiting.message.relay == relay).count();
            if waiting_count * 2 <= self.link_capacity && self.luck(0.3) {
                self.trace(|| format!("the link to {relay:?} has room again"));
                self.lagging.remove(&relay);
                self.guild.handle_relay_room(relay);
                self.after_guild(Vec::new())?;
            }
        }
        for side in 0..SIDES {
            let count = if self.is_calm { usize::MAX } else { self.rng.below(6) as usize };
            for _ in 0..count {
                let Some(message) = self.sides[side].to_guild.pop_front() else { break };
                let now = self.now();
                self.checker.heard(&message);
                self.streams.handle(&message);
                self.guild.handle_relay(now, message);
                self.after_guild(Vec::new())?;
            }
        }
        self.run_jobs()?;
        self.wire_directs()?;
        self.answer_token_checks()
    }

    /// Finishes jobs, in any order and at any time, or never.
    fn run_jobs(&mut self) -> Result<(), Fault> {
        for _ in 0..self.jobs.len() {
            let Some((job, job_state)) = self.jobs.pop_front() else { break };
            if !self.luck(0.3) {
                self.jobs.push_back((job, job_state));
                continue;
            }
            let now = self.now();
            if !self.is_calm && self.rng.chance(0.05) {
                self.guild.handle_job_lost(now, job.id());
                self.after_guild(Vec::new())?;
            } else {
                self.guild.handle_job_done(now, job.run());
                self.after_guild_and_job(Vec::new(), Some(job_state))?;
            }
        }
        Ok(())
    }

    fn answer_token_checks(&mut self) -> Result<(), Fault> {
        let is_down = !self.is_calm && self.rng.chance(0.01);
        for side in 0..SIDES {
            let mut token_checks = std::mem::take(&mut self.sides[side].token_checks);
            for token_check in &mut token_checks {
                if token_check.answer.is_none() && self.luck(0.6) {
                    let read = if is_down { Err(AuthFailure::Unavailable) } else { self.read_account(token_check)? };
                    token_check.answer = Some(read);
                }
            }
            // Answers may overtake each other.
            let mut left = VecDeque::new();
            for token_check in token_checks {
                match token_check.answer {
                    Some(result) if self.luck(0.6) => {
                        self.sides[side]
                            .commands
                            .push_back(PartitionCommand::Authenticated { conn: token_check.conn, result });
                    }
                    _ => left.push_back(token_check),
                }
            }
            self.sides[side].token_checks = left;
        }
        Ok(())
    }

    fn read_account(&self, token_check: &TokenCheck) -> Result<Result<Account, AuthFailure>, Fault> {
        let Some((token, user_id)) = self.tokens.find(&token_check.token) else { return Ok(Err(AuthFailure::Invalid)) };
        let found = self.accounts.iter().find(|user| user.id == user_id).cloned();
        let Some(user) = found else { return Ok(Err(AuthFailure::Invalid)) };
        let guilds = if matches!(token_check.purpose, AuthPurpose::Identify { .. }) {
            self.store.user_guilds(user_id)?
        } else {
            Vec::new()
        };
        Ok(Ok(Account { user, guilds, token, expires_at: None, admission: None }))
    }
}
