//! Direct messages: their machines, their commits, and delivery to both partitions.
//!
//! Invariants  as in `guildhall-node`: events are durable, both partitions receive all of them, and those of one direct
//!             message in order. An idle one is unloaded now and then, and loaded from the store again.

use super::{PartitionCommand, Side, World};
use crate::{
    checker::{Fault, fault},
    model::{DirectEvent, DirectModel, ListedDirects},
    pipeline::{Group, Pipeline},
};
use guildhall_guild::{
    Actor, Command, DirectCommand, Guild, GuildLimits, NewDirect, Outcome, Output as GuildOutput, Reply,
};
use guildhall_guild_protocol::Published;
use guildhall_model::{ChannelId, Direct, SnowflakeGenerator, User, UserId};
use guildhall_partition::OwnData;
use guildhall_stdx::SlotKey;
use std::{collections::BTreeMap, rc::Rc, sync::Arc};

/// Origin of the ids that are generated here, which no other generator uses.
const ORIGIN: u16 = 7;
/// Times that a command is tried again with another message loaded.
const LOADS_MAX: usize = 4;

/// One direct message or group.
struct SimulatedDirect {
    /// None: it is not in memory.
    guild: Option<Box<Guild>>,
    pipeline: Pipeline,
    model: DirectModel,
    /// As it is in the store.
    durable: Option<Rc<DirectModel>>,
}

/// A request for an account's direct messages, for a READY.
struct Fetch {
    side: usize,
    session: SlotKey,
    user_id: UserId,
    /// Once they were read.
    answer: Option<DirectsRead>,
}

/// Direct messages that were read, and the expected ones; `None`: the store did not answer.
pub struct DirectsRead(Option<(Vec<Direct>, Rc<ListedDirects>)>);

/// See the module.
pub struct Directs {
    held: BTreeMap<u64, SimulatedDirect>,
    fetches: Vec<Fetch>,
    ids: SnowflakeGenerator,
    limits: GuildLimits,
}

impl Directs {
    pub fn new(limits: GuildLimits) -> Self {
        Self { held: BTreeMap::new(), fetches: Vec::new(), ids: SnowflakeGenerator::new(ORIGIN), limits }
    }

    pub fn is_quiet(&self) -> bool {
        self.fetches.is_empty() && self.held.values().all(|held| held.pipeline.is_empty())
    }

    /// The process ends.
    pub fn forget_machines(&mut self) {
        self.held.values_mut().for_each(|held| held.guild = None);
    }

    /// Those that there are.
    pub fn all(&self) -> impl Iterator<Item = &DirectModel> {
        self.held.values().map(|held| &held.model).filter(|direct| !direct.is_gone)
    }
}

/// Collects the outputs of one input.
fn collect(guild: &mut Guild, now: guildhall_stdx::Now, group: &mut Group) -> Vec<Arc<Published>> {
    let mut published_events = Vec::new();
    while let Some(output) = guild.poll_output() {
        match output {
            GuildOutput::Write(write) => group.writes.push(write),
            GuildOutput::Users(published) => published_events.push(published),
            GuildOutput::Job(job) => guild.handle_job_done(now, job.run()),
            GuildOutput::Relay(..) | GuildOutput::Answer(..) => {}
        }
    }
    group.version = guild.version();
    published_events
}

impl World {
    /// As `Node::open_direct`.
    pub fn open_direct(&mut self, user: &Arc<User>, other: &Arc<User>) -> Result<(), Fault> {
        if user.id == other.id || user.bot && other.bot {
            return Ok(());
        }
        let new = self.directs.ids.next(self.clock.now().unix);
        let id = self.store.direct_of_pair([user.id, other.id], new)?;
        match self.directs.held.get(&id.get()) {
            // The write that ends it is on its way to the store.
            Some(held) if held.model.is_gone && !held.pipeline.is_empty() => return Ok(()),
            Some(held) if !held.model.is_gone => {}
            _ => {
                let recipients = vec![user.clone(), other.clone()];
                self.make_direct(NewDirect { id, recipients, is_group: false })?;
            }
        }
        let open = Command::Direct(DirectCommand::Open);
        self.command_direct(id, Actor::User(user.id), &open)?;
        Ok(())
    }

    /// A group of these accounts, each named once; the first owns it.
    pub fn make_group(&mut self, recipients: Vec<Arc<User>>) -> Result<(), Fault> {
        let id = self.directs.ids.next(self.clock.now().unix);
        self.make_direct(NewDirect { id, recipients, is_group: true })
    }

    fn make_direct(&mut self, new: NewDirect) -> Result<(), Fault> {
        let now = self.now();
        let (id, people) = (new.id.get(), new.recipients.iter().map(|user| user.id.get()).collect::<Vec<u64>>());
        self.trace(|| format!("direct message {id} of {people:?}, a group: {}", new.is_group));
        let mut model = DirectModel::new(id, new.is_group, &people, now.unix.0);
        let mut guild = Box::new(Guild::create_direct(now, new, self.directs.limits.clone(), ORIGIN));
        let mut group = Group::default();
        let published = collect(&mut guild, now, &mut group);
        let events = model.made(&published).or_else(fault)?;
        let mut held = SimulatedDirect { guild: Some(guild), pipeline: Pipeline::default(), model, durable: None };
        push(&mut held, group, published, events);
        self.directs.held.insert(id, held);
        Ok(())
    }

    /// Runs a command in a direct message, and compares its outcome with the model.
    pub fn command_direct(&mut self, id: ChannelId, actor: Actor, command: &Command) -> Result<Option<Reply>, Fault> {
        let now = self.now();
        for _ in 0..LOADS_MAX {
            let Some(held) = self.directs.held.get_mut(&id.get()) else { return Ok(None) };
            let guild = match &mut held.guild {
                Some(guild) => guild,
                None => {
                    let Some(record) = self.store.guild(id.cast())? else {
                        return if held.model.is_gone { Ok(None) } else { fault(format!("{id} is not in the store")) };
                    };
                    held.model.loaded();
                    held.guild.insert(Box::new(Guild::load(record, self.directs.limits.clone(), ORIGIN)))
                }
            };
            guild.swap_ids(&mut self.directs.ids);
            let outcome = guild.handle_command(now, actor, command);
            let mut group = Group::default();
            let published = collect(guild, now, &mut group);
            guild.swap_ids(&mut self.directs.ids);
            let reply = match outcome {
                Outcome::NeedsMessage(channel, message) => {
                    let record = self.store.message(channel, message)?;
                    guild.handle_message_loaded(channel, message, record.map(Into::into));
                    continue;
                }
                Outcome::Later(_) => return fault(format!("{command:?} is answered later")),
                Outcome::Reply(reply) => reply,
            };
            let events = held.model.follow(now.unix.0, actor, command, reply.is_ok(), &published).or_else(fault)?;
            push(held, group, published, events);
            self.trace(|| format!("in {id}: {actor:?} {command:?} {}", if reply.is_ok() { "ok" } else { "refused" }));
            return Ok(reply.ok());
        }
        Ok(None)
    }

    /// Commits, what they let out, and answers of the store.
    pub(super) fn wire_directs(&mut self) -> Result<(), Fault> {
        let ids: Vec<u64> = self.directs.held.keys().copied().collect();
        for id in ids {
            let (begins, ends, lets_out) = (self.luck(0.35), self.luck(0.35), self.luck(0.8));
            let forgets = self.rng.chance(0.02);
            let now = self.now();
            let Some(held) = self.directs.held.get_mut(&id) else { continue };
            if begins {
                held.pipeline.begin_commit();
            }
            if ends && let Some(durable) = held.pipeline.end_commit(&self.store)? {
                held.durable = durable.direct.or(held.durable.take());
                if let Some(guild) = &mut held.guild {
                    guild.handle_committed(durable.version);
                }
            }
            while lets_out && let Some(group) = held.pipeline.pop_ready() {
                for (published, event) in group.direct_events {
                    for side in &mut self.sides {
                        side.commands.push_back(PartitionCommand::DirectEvent {
                            published: published.clone(),
                            event: event.clone(),
                        });
                    }
                }
            }
            if let Some(guild) =
                held.guild.as_mut().filter(|guild| guild.next_deadline().is_some_and(|at| at <= now.instant))
            {
                guild.handle_timer(now);
            }
            let is_idle = held.pipeline.is_empty() && held.guild.as_ref().is_some_and(|guild| guild.is_idle());
            if forgets && is_idle {
                held.guild = None;
            }
        }
        self.answer_fetches()
    }

    pub(super) fn fetch_directs(&mut self, side: usize, session: SlotKey, user_id: UserId) {
        self.directs.fetches.push(Fetch { side, session, user_id, answer: None });
    }

    fn answer_fetches(&mut self) -> Result<(), Fault> {
        for mut fetch in std::mem::take(&mut self.directs.fetches) {
            if fetch.answer.is_none() && self.luck(0.6) {
                let is_down = !self.is_calm && self.rng.chance(0.01);
                let read = (!is_down).then(|| self.read_directs(fetch.user_id)).transpose()?;
                fetch.answer = Some(DirectsRead(read));
            }
            match fetch.answer {
                Some(read) if self.luck(0.6) => {
                    self.sides[fetch.side]
                        .commands
                        .push_back(PartitionCommand::DirectsRead { session: fetch.session, read });
                }
                answer => self.directs.fetches.push(Fetch { answer, ..fetch }),
            }
        }
        Ok(())
    }

    fn read_directs(&self, user_id: UserId) -> Result<(Vec<Direct>, Rc<ListedDirects>), Fault> {
        let durable = self.directs.held.values().filter_map(|held| held.durable.as_deref());
        let listed = ListedDirects::of(user_id.get(), durable);
        Ok((self.store.user_directs(user_id)?, Rc::new(listed)))
    }

    pub(super) fn directs_read_at(&mut self, side: usize, session: SlotKey, read: DirectsRead) -> Result<(), Fault> {
        let now = self.now();
        let (directs, listed) = read.0.unzip();
        if let Some(listed) = listed {
            self.checker.directs_read(now, (side, session), &listed);
        }
        let friend_presences = |session| {
            let user = self.sides[side].partition.session(session).map(|session| session.user.id.get());
            user.map(|user| self.friends.presences(user)).unwrap_or_default()
        };
        let own = directs.map(|directs| OwnData {
            directs,
            friend_presences: friend_presences(session),
            ..OwnData::default()
        });
        let Side { partition, link, .. } = &mut self.sides[side];
        partition.handle_directs(now, session, own, link);
        self.after(side)
    }

    pub(super) fn publish_direct_at(
        &mut self,
        side: usize,
        published: &Arc<Published>,
        event: &Rc<DirectEvent>,
    ) -> Result<(), Fault> {
        self.trace(|| format!("to {side}, {:?}: {}", event.to, event.text));
        self.checker.publish_direct(side, event);
        let now = self.now();
        let to = published.event.audience.rule.users().to_vec();
        let to = self.fault_injector.recipients(side, published, to);
        let Side { partition, link, .. } = &mut self.sides[side];
        partition.publish_to_users(now, published, &to, link);
        self.after(side)
    }

    /// An account changed: its direct messages use the new name.
    pub(super) fn refresh_in_directs(&mut self, user: &Arc<User>) -> Result<(), Fault> {
        let its = |direct: &&DirectModel| direct.people.contains_key(&user.id.get());
        let ids: Vec<u64> = self.directs.all().filter(its).map(|direct| direct.id).collect();
        for id in ids {
            self.command_direct(ChannelId::new(id), Actor::System, &Command::RefreshMember(user.clone()))?;
        }
        Ok(())
    }
}

fn push(held: &mut SimulatedDirect, mut group: Group, published: Vec<Arc<Published>>, events: Vec<DirectEvent>) {
    group.direct_events = published.into_iter().zip(events.into_iter().map(Rc::new)).collect();
    group.direct = Some(Rc::new(held.model.clone()));
    held.pipeline.push(group);
}
