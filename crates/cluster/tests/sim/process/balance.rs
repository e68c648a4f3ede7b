//! Moves for load, by the rules of `guildhall_node`'s driver: each guild has a load, which nodes measure with noise.

use super::{Core, Event, HandoffEvent, Process};
use crate::world::InjectedFault;
use guildhall_cluster::{BalanceLimits, BalanceMove, GuildLoad, GuildLoads, NodeLoad, NodeNumber, NodeRecord};
use guildhall_model::GuildId;

const LOOK_EVERY_MS: u64 = 300;
/// How long the node that decides waits for the end of a move.
const MOVE_MS: u64 = 1_500;
/// Loads are measured with an error up to this, in thousandths: without B3 guilds would be exchanged.
const NOISE: u64 = 150;

/// Thresholds that a few guilds come to, within seconds.
pub const LIMITS: BalanceLimits = BalanceLimits {
    busy_min: 200,
    memory_min: 800,
    gap_min: 100,
    margin: 50,
    guild_min: 10,
    looks_min: 2,
    moves_per_hour_max: 40,
    settle_ms: 400,
    rest_ms: 6_000,
    retry_ms: 1_000,
};

#[derive(Clone, Debug)]
pub enum BalanceEvent {
    Due,
    /// The node that decides has the guilds measured.
    Measure(NodeNumber),
    Measured(NodeNumber, GuildLoads),
    /// The node that decides has a guild moved.
    Move(GuildId, NodeNumber),
    /// The node that decides looks where the guild is.
    Ended(BalanceMove),
}

impl Process {
    fn members(&self) -> Vec<(NodeNumber, NodeRecord)> {
        let own = (self.number, self.machine.record());
        self.machine.peers().chain([own]).map(|(number, record)| (number, record.clone())).collect()
    }

    fn measure(&self, core: &mut Core) -> GuildLoads {
        let mut guilds = Vec::new();
        for (guild_id, busy) in core.loads.clone() {
            if self.machine.is_here(guild_id) {
                let busy = noisy(core, busy);
                guilds.push(GuildLoad { guild_id, busy, bytes: 0, arrived_ms: self.arrived_ms(core, guild_id) });
            }
        }
        GuildLoads { workers: vec![guilds.iter().map(|guild| guild.busy).sum::<u16>().min(1_000)], guilds }
    }

    fn arrived_ms(&self, core: &Core, guild_id: GuildId) -> Option<u64> {
        let arrived_at = self.arrived.get(&guild_id).filter(|_| core.sabotage != InjectedFault::ForgetsArrivals)?;
        Some(core.now - arrived_at)
    }

    pub(super) fn handle_balance(&mut self, core: &mut Core, event: BalanceEvent) {
        let now = self.instant(core);
        match event {
            BalanceEvent::Due => {
                if core.is_calm {
                    return;
                }
                let workers = self.measure(core).workers;
                self.load = Some(NodeLoad { workers, takes_part: true, ..NodeLoad::default() });
                if let Some(from) = self.balancer.look(now, self.number, &self.members()) {
                    if from == self.number {
                        let measured = self.measure(core);
                        self.choose(core, from, &measured);
                    } else {
                        let measure = BalanceEvent::Measure(self.number);
                        core.tell(self.slot.0, from, HandoffEvent::Balance(measure));
                    }
                }
                let due = Event::Handoff(HandoffEvent::Balance(BalanceEvent::Due));
                core.at(core.now + LOOK_EVERY_MS, self.slot, due);
            }
            BalanceEvent::Measure(by) => {
                let measured = self.measure(core);
                let measured = BalanceEvent::Measured(self.number, measured);
                core.tell(self.slot.0, by, HandoffEvent::Balance(measured));
            }
            BalanceEvent::Measured(from, measured) => self.choose(core, from, &measured),
            BalanceEvent::Move(guild_id, to) => {
                if self.arrived_ms(core, guild_id).is_none_or(|ms| ms >= LIMITS.rest_ms) {
                    self.begin_move(core, guild_id, to, true);
                }
            }
            BalanceEvent::Ended(BalanceMove { guild_id, to, .. }) => {
                let has_moved = self.machine.owner_of(guild_id) == Some(to);
                self.balancer.ended(now, guild_id, has_moved);
            }
        }
    }

    fn choose(&mut self, core: &mut Core, from: NodeNumber, measured: &GuildLoads) {
        let (now, members) = (self.instant(core), self.members());
        let Some(chosen) = self.balancer.choose(now, &members, from, measured) else { return };
        let order = HandoffEvent::Balance(BalanceEvent::Move(chosen.guild_id, chosen.to));
        if from == self.number {
            core.soon(self.slot, Event::Handoff(order));
        } else {
            core.tell(self.slot.0, from, order);
        }
        let ended = HandoffEvent::Balance(BalanceEvent::Ended(chosen));
        core.at(core.now + MOVE_MS, self.slot, Event::Handoff(ended));
    }
}

fn noisy(core: &mut Core, busy: u16) -> u16 {
    let error = core.rng.below(2 * NOISE + 1) as u16;
    (busy + error).saturating_sub(NOISE as u16)
}
