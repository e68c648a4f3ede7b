//! Hand-offs between processes, by the rules of `guildhall_node`'s driver: the state of a guild is its log's length.

use super::{
    BalanceEvent, Core, Event, GuildInput, Input, KV_ANSWER_MS_MAX, Key, KvOp, KvResult, Process, Value, Waiter,
};
use crate::{
    host::{Moved, Waiting},
    world::InjectedFault,
};
use guildhall_cluster::{Incarnation, NodeNumber, OwnerRecord};
use guildhall_guild::{Actor, Command};
use guildhall_model::GuildId;

/// How long the guild and the new owner may take before the guild stays.
const SETTLE_MS_MAX: u64 = 500;
/// How long the lease store may take.
const RECORD_MS_MAX: u64 = 2_000;

#[derive(Clone, Debug)]
pub enum HandoffEvent {
    /// The operator wants a guild to move.
    Wanted,
    /// The state has not reached the new owner in time.
    Late(GuildId, u64),
    /// The old owner's state arrives.
    Arrives {
        guild_id: GuildId,
        from: Incarnation,
        number: u64,
        moved: Box<Moved>,
    },
    /// The new owner has taken it, or not.
    Answered(GuildId, u64, bool),
    /// The guild stays at the old owner.
    Stays(GuildId, Incarnation, u64),
    Claimed(GuildId, Option<u64>),
    Balance(BalanceEvent),
}

/// A guild that leaves.
pub struct Leaves {
    number: u64,
    to: OwnerRecord,
    term: u64,
    is_for_load: bool,
    stage: LeaveStage,
}

enum LeaveStage {
    /// The state is on its way.
    Sending,
    /// The lease store is to name the new owner by `until`. `is_unsure`: a write had no answer.
    Naming { until: u64, is_unsure: bool },
}

/// A guild that arrives.
pub struct Arrives {
    from: (Incarnation, u64),
    moved: Moved,
}

impl Process {
    pub(super) fn handle_handoff(&mut self, core: &mut Core, event: HandoffEvent) {
        match event {
            HandoffEvent::Wanted => {
                if !core.is_calm {
                    self.want_move(core);
                    let at = core.now + 50 + core.rng.below(1_500);
                    core.at(at, self.slot, Event::Handoff(HandoffEvent::Wanted));
                }
            }
            HandoffEvent::Late(guild_id, number) => {
                let is_its = |leaves: &Leaves| leaves.number == number && matches!(leaves.stage, LeaveStage::Sending);
                if self.leaves.get(&guild_id).is_some_and(is_its) {
                    self.stays(core, guild_id);
                }
            }
            HandoffEvent::Arrives { guild_id, from, number, moved } => {
                let is_taken = self.with(core, |machine, now| {
                    let from = machine.peer_of(from)?;
                    machine.expect(now, guild_id, from).then_some(from)
                });
                let Some(to) = self.machine.peer_of(from) else { return };
                if is_taken.is_some() {
                    self.arrives.insert(guild_id, Arrives { from: (from, number), moved: *moved });
                }
                core.tell(self.slot.0, to, HandoffEvent::Answered(guild_id, number, is_taken.is_some()));
            }
            HandoffEvent::Answered(guild_id, number, is_taken) => {
                let now = core.now;
                let Some(leaves) = self.leaves.get_mut(&guild_id).filter(|leaves| leaves.number == number) else {
                    return;
                };
                if !matches!(leaves.stage, LeaveStage::Sending) {
                    return;
                }
                if !is_taken {
                    return self.stays(core, guild_id);
                }
                leaves.stage = LeaveStage::Naming { until: now + RECORD_MS_MAX, is_unsure: false };
                self.read_record(core, guild_id);
            }
            HandoffEvent::Stays(guild_id, from, number) => {
                if self.arrives.get(&guild_id).is_some_and(|arrives| arrives.from == (from, number)) {
                    self.arrives.remove(&guild_id);
                    self.with(core, |machine, now| machine.unexpect(now, guild_id));
                }
            }
            HandoffEvent::Claimed(guild_id, epoch) => self.claimed(core, guild_id, epoch),
            HandoffEvent::Balance(event) => self.handle_balance(core, event),
        }
    }

    fn want_move(&mut self, core: &mut Core) {
        let Some(guild_id) = core.any_guild() else { return };
        let peers: Vec<NodeNumber> = self.machine.peers().map(|(number, _)| number).collect();
        if let Some(to) = core.rng.pick(&peers).copied() {
            self.begin_move(core, guild_id, to, false);
        }
    }

    pub(super) fn begin_move(&mut self, core: &mut Core, guild_id: GuildId, to: NodeNumber, is_for_load: bool) {
        let Some((to, term)) = self.machine.may_leave(guild_id, to) else { return };
        if self.leaves.contains_key(&guild_id) || !self.hosts.contains_key(&guild_id) {
            return;
        }
        core.handoffs_count += 1;
        let number = core.handoffs_count;
        self.leaves.insert(guild_id, Leaves { number, to, term, is_for_load, stage: LeaveStage::Sending });
        core.at(core.now + SETTLE_MS_MAX, self.slot, Event::Handoff(HandoffEvent::Late(guild_id, number)));
        self.post(core, guild_id, Input::Freeze);
    }

    /// The guild is frozen, and has this state.
    pub(super) fn frozen(&mut self, core: &mut Core, guild_id: GuildId, moved: Moved) {
        let from = self.machine.record().incarnation;
        let Some(leaves) = self.leaves.get(&guild_id) else {
            return self.post(core, guild_id, Input::Stay);
        };
        let (number, to) = (leaves.number, leaves.to.node);
        let moved = Box::new(moved);
        core.tell(self.slot.0, to, HandoffEvent::Arrives { guild_id, from, number, moved });
    }

    /// The hand-off has ended at the old owner, and the guild goes on here.
    fn stays(&mut self, core: &mut Core, guild_id: GuildId) {
        let Some(leaves) = self.leaves.remove(&guild_id) else { return };
        self.post(core, guild_id, Input::Stay);
        let from = self.machine.record().incarnation;
        core.tell(self.slot.0, leaves.to.node, HandoffEvent::Stays(guild_id, from, leaves.number));
    }

    /// Whether the guild is about to leave: its record may name another node already.
    pub fn is_leaving(&self, guild_id: GuildId) -> bool {
        self.leaves.contains_key(&guild_id)
    }

    fn read_record(&mut self, core: &mut Core, guild_id: GuildId) {
        core.kv_call(self.slot, KvOp::Get(Key::Guild(guild_id)), KV_ANSWER_MS_MAX, Waiter::Naming(guild_id, None));
    }

    /// As `Membership::name_owner`.
    pub(super) fn named(
        &mut self,
        core: &mut Core,
        guild_id: GuildId,
        written: Option<OwnerRecord>,
        result: &KvResult,
    ) {
        let own = OwnerRecord { node: self.number, incarnation: self.machine.record().incarnation };
        let now = self.instant(core);
        let has_lease = self.lease.is_valid(now);
        let Some(leaves) = self.leaves.get_mut(&guild_id) else { return };
        let LeaveStage::Naming { until, is_unsure } = &mut leaves.stage else { return };
        let to = leaves.to;
        let is_in_term = self.machine.is_in_term(guild_id, leaves.term);
        match (written, result) {
            (Some(record), KvResult::Written(_)) if record == to => return self.moved_away(core, guild_id, to),
            (Some(_), KvResult::Written(_)) => return self.stays(core, guild_id),
            (None, KvResult::Found(Some((Value::Owner(record), _)))) if *record == to => {
                return self.moved_away(core, guild_id, to);
            }
            (None, KvResult::Found(Some((Value::Owner(record), revision)))) if *record == own && has_lease => {
                let wanted = if *is_unsure || !is_in_term { own } else { to };
                let call = KvOp::Update(Key::Guild(guild_id), Value::Owner(wanted), *revision);
                core.kv_call(self.slot, call, KV_ANSWER_MS_MAX, Waiter::Naming(guild_id, Some(wanted)));
                return;
            }
            (Some(_), KvResult::Away) => {
                *is_unsure = true;
                if core.sabotage == InjectedFault::StaysUnsure {
                    return self.stays(core, guild_id);
                }
            }
            (None, KvResult::Found(_)) => *until = 0,
            _ => {}
        }
        if core.now < *until && has_lease {
            return self.read_record(core, guild_id);
        }
        self.leaves.remove(&guild_id);
        self.with(core, |machine, now| machine.release_unsure(now, guild_id));
    }

    fn moved_away(&mut self, core: &mut Core, guild_id: GuildId, to: OwnerRecord) {
        let Some(Leaves { number, term, is_for_load, .. }) = self.leaves.remove(&guild_id) else { return };
        if self.with(core, |machine, now| machine.left(now, guild_id, to, term)) {
            core.summary.handed_over += 1;
            if is_for_load {
                core.moved_for_load(self.slot, guild_id);
            }
        } else {
            let from = self.machine.record().incarnation;
            core.tell(self.slot.0, to.node, HandoffEvent::Stays(guild_id, from, number));
        }
    }

    /// The guild is gone, and has not handled these.
    pub(super) fn gave_up(&mut self, core: &mut Core, guild_id: GuildId, waiting: Vec<Waiting>) {
        let inputs = waiting.into_iter().filter_map(|waiting| match waiting {
            // The driver retries requests of other nodes, and passes the answer on; the simulation refuses them.
            Waiting::Command(guildhall_cluster::Origin::Own, request) => {
                let command = Box::new(Command::ReadGuild);
                Some(GuildInput::Command { request, actor: Actor::System, command, trace: None })
            }
            Waiting::Command(origin, request) => {
                self.answer_soon(core, origin, request, false);
                None
            }
            Waiting::Relay(_) | Waiting::Reset { .. } if core.sabotage == InjectedFault::ForgetsWaiting => None,
            Waiting::Relay(message) => Some(GuildInput::Relay(message)),
            Waiting::Reset { relay, epoch } => Some(GuildInput::Reset { relay, epoch }),
        });
        let inputs = inputs.collect();
        self.with(core, |machine, now| machine.gave_up(now, guild_id, inputs));
    }

    pub(super) fn claim(&mut self, core: &mut Core, guild_id: GuildId) {
        if self.arrives.contains_key(&guild_id) {
            core.claim_only(self.slot, guild_id);
        } else {
            core.soon(self.slot, Event::Handoff(HandoffEvent::Claimed(guild_id, None)));
        }
    }

    fn claimed(&mut self, core: &mut Core, guild_id: GuildId, epoch: Option<u64>) {
        let arrives = self.arrives.remove(&guild_id);
        let (Some(epoch), Some(Arrives { moved, .. })) = (epoch, arrives) else {
            return self.with(core, |machine, now| machine.arrival_failed(now, guild_id));
        };
        self.ready.insert(guild_id, (moved, epoch));
        self.with(core, |machine, now| machine.arrived(now, guild_id));
    }

    pub(super) fn serve(&mut self, core: &mut Core, guild_id: GuildId, forget: &[NodeNumber]) {
        if let Some((moved, epoch)) = self.ready.remove(&guild_id) {
            self.arrived.insert(guild_id, core.now);
            core.arrived.insert(guild_id, (self.slot, core.now));
            let forget = forget.iter().map(|node| node.0).collect();
            self.post(core, guild_id, Input::TakeOver { moved, epoch, forget });
        }
    }
}
