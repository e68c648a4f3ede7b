//! Restart: the process ends, and another one begins with what the store has and the sessions that the first left (ADR
//! 26). At a takeover it begins with the guild as the first one exported it (ADR 47).
//!
//! Invariants  as in `guildhall::assemble`: clients disconnect, their sessions leave voice, guilds finish, partitions
//!             handle the last messages of the guilds, and only then write their sessions. The next process accepts
//!             clients only after the guilds have attached the restored sessions. At a takeover voice states and
//!             presences go on, and no event reports otherwise.
//! Not here    the hand-over file with its header, hash and age: `guildhall::handover` has tests of its own. Guilds are
//!             loaded at once, not at the first request.

use super::{SIDES, Side, World, rest::Stage, secret};
use crate::{
    checker::{Fault, fault},
    pipeline::Pipeline,
};
use guildhall_guild::{Guild, HandoffParts};
use guildhall_guild_protocol::RelayStreams;
use guildhall_partition::{HandOver, Pause, RecentLoss};
use guildhall_relay::Relay;
use guildhall_stdx::{Now, Rng};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Rounds in which connections that were cut are gone.
const GOING_ROUNDS: usize = 100;
/// Share of restarts that are takeovers.
const TAKEOVERS: f64 = 0.4;
/// Room for all sessions; and for some.
const BYTES_MAX: [usize; 4] = [1 << 30, 1 << 30, 1 << 30, 100_000];

fn written(value: &impl Serialize) -> Result<Value, Fault> {
    serde_json::to_value(value).map_err(|error| Fault(format!("it cannot be written: {error}")))
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, Fault> {
    serde_json::from_value(value).map_err(|error| Fault(format!("it cannot be read: {error}")))
}

impl World {
    pub fn restart(&mut self) -> Result<(), Fault> {
        self.trace(|| "the process ends".to_owned());
        self.at_client = None;
        (0..self.clients.len()).for_each(|client| self.vanish(client));
        self.is_calm = true;
        if self.rng.chance(0.7) {
            self.run_until_idle(Stage::Midway)?;
        }
        for _ in 0..GOING_ROUNDS {
            for side in 0..SIDES {
                self.take_commands(side)?;
                self.sockets(side)?;
            }
        }
        // Its own generator keeps the seeds of other faults.
        let takes_over = Rng::new(self.seed ^ u64::from(self.step) << 32).chance(TAKEOVERS);
        if !takes_over {
            for side in 0..SIDES {
                self.sides[side].partition.leave_voice();
                self.after(side)?;
            }
        }
        self.run_until_idle(Stage::Midway)?;
        let bytes_max = *self.rng.pick(&BYTES_MAX).expect("there are some");
        let left = (0..SIDES).map(|side| self.leave_sessions(side, bytes_max)).collect::<Result<Vec<_>, _>>()?;
        self.begin_anew(bytes_max, &left, takes_over)?;
        self.run_until_idle(Stage::Midway)?;
        if takes_over {
            self.checker.restore_ended();
            let now = self.now();
            self.guild.end_restore(now);
            self.after_guild(Vec::new())?;
            self.run_until_idle(Stage::Midway)?;
        }
        if self.sides.iter().any(|side| side.partition.is_restoring()) {
            return fault("the guild is loaded, and a session still waits for it");
        }
        self.is_calm = false;
        Ok(())
    }

    /// The hand-over that a partition writes at its end.
    fn leave_sessions(&mut self, side: usize, bytes_max: usize) -> Result<String, Fault> {
        let loss = if self.rng.chance(0.1) { RecentLoss::Possible } else { RecentLoss::None };
        let now = self.now();
        let Side { partition, link, .. } = &mut self.sides[side];
        partition.relays().map(Relay::id).for_each(|relay| self.checker.round(relay));
        if loss == RecentLoss::Possible {
            self.checker.lose_sight_of_guild(side);
        }
        let over = partition.hand_over(now, bytes_max, loss, link);
        self.after(side)?;
        self.past += self.sides[side].partition.counters();
        serde_json::to_string(&over).map_err(|error| Fault(format!("the hand-over cannot be written: {error}")))
    }

    /// The guild of the next process, as this one exports it.
    fn exported_guild(&mut self, now: Now) -> Result<Guild, Fault> {
        let (base, tail) = self.guild.export(now);
        let mut parts = HandoffParts::default();
        base.for_each_chunk(|mut chunk| {
            self.fault_injector.export(&mut chunk);
            parts.add(read(written(&chunk)?)?);
            Ok::<_, Fault>(())
        })?;
        let mut tail = written(&tail)?;
        self.fault_injector.export_tail(&mut tail);
        let guild = parts.restored(now, self.process_setup.guild_limits.clone(), 1, read(tail)?);
        guild.ok_or_else(|| Fault("the export lacks its structure".to_owned()))
    }

    fn begin_anew(&mut self, bytes_max: usize, left: &[String], takes_over: bool) -> Result<(), Fault> {
        let away_ms = self.rng.below(20_000);
        self.clock.advance_ms(away_ms);
        let now = self.now();
        let Some(record) = self.store.guild(self.guild_id())? else { return fault("the guild is not in the store") };
        self.checker.process_ended(&record, takes_over)?;
        self.guild = match takes_over {
            true => {
                let guild = self.exported_guild(now)?;
                self.process_setup.observed(now, guild)
            }
            false => self.process_setup.guild(now, record),
        };
        self.streams = RelayStreams::default();
        self.directs.forget_machines();
        self.pipeline = Pipeline::default();
        self.jobs.clear();
        self.lagging.clear();
        self.process_setup.config.session_secret = secret(&mut self.rng);
        let users: BTreeMap<_, _> = self.accounts.iter().map(|user| (user.id, user.clone())).collect();
        let mut ids = BTreeSet::new();
        let pause = if takes_over { Pause::Unnoticed } else { Pause::Noticed };
        for (side, text) in left.iter().enumerate() {
            let mut over: HandOver =
                serde_json::from_str(text).map_err(|error| Fault(format!("the hand-over cannot be read: {error}")))?;
            ids.extend(over.sessions.iter().map(|session| session.id.clone()));
            if over.left_out_count > 0 && bytes_max == BYTES_MAX[0] {
                return fault(format!("{} sessions are left out, and there is room", over.left_out_count));
            }
            self.fault_injector.hand_over(side, &mut over);
            let closed_tokens = std::mem::take(&mut self.sides[side].closed_tokens);
            self.sides[side] = Side { closed_tokens, ..self.process_setup.side(side) };
            let Side { partition, link, .. } = &mut self.sides[side];
            if takes_over {
                over.in_voice.clear();
            }
            partition.take_over(now, &over, &users, pause, link);
        }
        let partitions: Vec<_> = self.sides.iter().map(|side| &side.partition).collect();
        self.checker.restored(now, &partitions, &ids, takes_over)?;
        self.trace(|| format!("the next process begins with {} sessions", ids.len()));
        for side in 0..SIDES {
            self.after(side)?;
            if self.rng.chance(0.1) {
                self.checker.end_restores(side);
                let Side { partition, link, .. } = &mut self.sides[side];
                partition.fail_pending_restores(now, link);
                self.after(side)?;
            }
        }
        Ok(())
    }
}
