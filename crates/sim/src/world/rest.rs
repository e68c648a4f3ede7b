//! Rest: everything arrives, and all of it is looked at.

use super::{SIDES, World};
use crate::{
    checker::{Fault, fault},
    client::Phase,
};
use guildhall_partition::Partition;
use guildhall_test_kit::ServerEnd;

/// What waits in the guild is waited for in steps of this.
const WAIT_MS: u64 = 500;
const WAITS_MAX: usize = 60;
/// Step of waiting for turns of READY; clients that hold turns are cut after a few steps, one after the other.
const TURN_WAIT_MS: u64 = 10_000;
const TURN_WAITS_MAX: usize = 60;
/// Turns in which everything under way must come to rest.
const SETTLE_TURNS_MAX: usize = 400;

/// Where a run is when it comes to rest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Midway,
    /// Clients that are away come back.
    End,
}

impl World {
    /// Lets everything arrive and checks that all of it did. At the end every client must be back, too.
    pub(super) fn rest(&mut self, stage: Stage) -> Result<(), Fault> {
        self.is_calm = true;
        self.at_client = None;
        for client in &self.clients {
            if let Some(wire) = &client.wire {
                wire.socket().set_room(usize::MAX);
                wire.socket().set_write_max(usize::MAX);
            }
        }
        self.run_until_idle(stage)?;
        self.wait_for_turns(stage)?;
        // All passive sessions receive their update, and member lists catch up.
        for _ in 0..4 {
            self.advance(self.passive_interval_ms / 3)?;
            self.run_until_idle(stage)?;
        }
        // Presences wait for their turn.
        for _ in 0..WAITS_MAX {
            let soon = self.now().instant.after_ms(WAIT_MS);
            if self.guild.next_deadline().is_none_or(|at| at > soon) {
                break;
            }
            self.advance(WAIT_MS)?;
            self.run_until_idle(stage)?;
        }
        for at in 0..self.clients.len() {
            self.at_client = Some(at);
            let client = &self.clients[at];
            if stage == Stage::End && client.phase != Phase::Live {
                return fault(format!("it is {:?} at the end; {}", client.phase, self.unrest()));
            }
            if let (Phase::Live, Some(session)) = (client.phase, client.session) {
                self.checker.check_complete(session, client.seq)?;
                self.checker.check_known(session)?;
                let friends = self.friends.of(client.user.id.get()).into_iter();
                self.checker.check_friends(session, friends.map(|friend| (friend, self.friends.shown(friend))))?;
            }
        }
        self.at_client = None;
        let partitions: Vec<&Partition> = self.sides.iter().map(|side| &side.partition).collect();
        self.checker.check_at_rest(&partitions, self.process_setup.is_observed)?;
        self.is_calm = false;
        Ok(())
    }

    /// A connection whose client vanished may hold up READY and GUILD_CREATE of others until it is cut.
    fn wait_for_turns(&mut self, stage: Stage) -> Result<(), Fault> {
        for _ in 0..TURN_WAITS_MAX {
            if !self.sides.iter().any(|side| side.partition.is_waited_for()) {
                return Ok(());
            }
            self.advance(TURN_WAIT_MS)?;
            self.run_until_idle(stage)?;
        }
        fault(format!("READY is waited for in vain: {}", self.unrest()))
    }

    pub(super) fn run_until_idle(&mut self, stage: Stage) -> Result<(), Fault> {
        for _ in 0..SETTLE_TURNS_MAX {
            let before = self.activity();
            for side in 0..SIDES {
                self.turn(side)?;
            }
            self.wires()?;
            self.read_clients()?;
            if stage == Stage::End {
                self.bring_back();
            }
            if self.activity() == before && self.is_quiet() {
                return Ok(());
            }
        }
        fault(format!("it does not come to rest: {}", self.unrest()))
    }

    /// Changes whenever anything happens.
    fn activity(&self) -> (u64, u64, usize, u64) {
        let dispatches = self.sides.iter().map(|side| side.partition.counters().dispatches_total).sum();
        let writes: usize = self
            .clients
            .iter()
            .filter_map(|client| client.wire.as_ref())
            .map(|wire| wire.socket().writes_count() + wire.socket().to_server_bytes())
            .sum();
        (self.guild.version(), dispatches, writes, self.checker.compared_count)
    }

    /// Machines that are not quiet, for a fault's text.
    fn unrest(&self) -> String {
        let mut text = format!("activity {:?}", self.activity());
        for (n, side) in self.sides.iter().enumerate() {
            text.push_str(&format!(
                "; side {n}: inbox {}, to guild {}, commands {}, questions {}, flush {}",
                side.inbox.len(),
                side.to_guild.len(),
                side.commands.len(),
                side.token_checks.len(),
                side.partition.wants_flush()
            ));
        }
        for (at, client) in self.clients.iter().enumerate() {
            let Some(wire) = &client.wire else { continue };
            let socket = wire.socket();
            if socket.unread_bytes() > 0 || socket.server_end() != ServerEnd::Open || client.phase != Phase::Live {
                text.push_str(&format!("; client {at} {} {:?} {socket:?}", client.user.id, client.phase));
            }
        }
        text
    }

    fn is_quiet(&self) -> bool {
        self.pipeline.is_empty()
            && self.lagging.is_empty()
            && self.jobs.is_empty()
            && self.directs.is_quiet()
            && self.sides.iter().all(|side| {
                side.inbox.is_empty()
                    && side.to_guild.is_empty()
                    && side.commands.is_empty()
                    && side.token_checks.is_empty()
                    && !side.partition.wants_flush()
            })
            && self.clients.iter().all(|client| {
                client.wire.as_ref().is_none_or(|wire| {
                    wire.socket().unread_bytes() == 0 && wire.socket().server_end() == ServerEnd::Open
                })
            })
    }
}
