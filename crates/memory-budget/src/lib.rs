//! Memory budget: how many new zstd-stream connections get larger compression contexts, by the memory that is left.
//!
//! Owns        the decision (`UpgradeLoop`, without I/O: time and measured memory are inputs).
//! Invariants  U2 memory is counted as the system measures it for all its users, not as requested. (traps.md 6) U3 the
//!             share changes slowly; after a lack of room it stays at none for a while.
//! Limits      the budget: a share of the memory that the node may use. Past it (base contexts alone may reach it) no
//!             connection gets a larger context, and the node has those with one reconnect, a few at a time.
//! Not here    reading memory (`guildhall::memory`), the gate that applies a decision (`guildhall_codec::UpgradeGate`,
//!             U1).
//! Spec        docs/adr/0016.
//!
//! The budget minus all other use is the room. Three quarters of it may go to larger contexts; a quarter is reserved
//! for growth, because connections that get a larger context at night still have it during the day. As upgrades fill
//! their part, their share of new connections falls from all to none. If memory still comes close to the budget, the
//! node has connections with larger contexts reconnect: they resume without loss, and get a smaller one.
#![forbid(unsafe_code)]

use guildhall_stdx::Instant;

/// Of the room, what larger contexts may take.
const ROOM_PERCENT: u64 = 75;
/// Percentages of the budget at which upgrades stop, are reclaimed, and are reclaimed down to. They differ, so that one
/// does not trigger the other.
const STOP_PERCENT: u64 = 90;
const RECLAIM_PERCENT: u64 = 95;
const RECLAIMED_PERCENT: u64 = 92;
/// Of what larger contexts may take, where the share begins to fall.
const FULL_SHARE_PERCENT: u64 = 90;
/// Of the budget, the least range over which the share falls from all to none: the error of a reading. Over a smaller
/// range, the noise of each reading would switch between all and none.
const RAMP_MIN_PERCENT: u64 = 2;
/// Of the budget, room that is too little to begin with.
const ROOM_MIN_PERCENT: u64 = 1;
/// The share follows what is wanted in about this time, so that noise in a reading does not move it. It need not be
/// faster: what larger contexts may hold is exact at every moment.
const SHARE_MS: u64 = 120_000;
/// After a lack of room, no connection gets a larger context for this time (U3).
const HOLD_MS: u64 = 600_000;
/// Interval and share of reclaims: clients need time to leave, and their resumes are work.
const RECLAIM_EVERY_MS: u64 = 10_000;
const RECLAIM_SHARE: u64 = 10;

/// Settings of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpgradeConfig {
    /// Of the memory that the node may use, what it may fill: the budget. In percent.
    pub memory_percent: u8,
}

impl Default for UpgradeConfig {
    /// A fifth is left for other uses of memory.
    fn default() -> Self {
        Self { memory_percent: 80 }
    }
}

/// Measured memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Memory that the node may use: a container's, the machine's, or as configured.
    pub limit_bytes: u64,
    /// What of it is used, by whomever, as the system counts it; caches that it drops by itself left out.
    pub used_bytes: u64,
    /// What of that is larger contexts, beyond what they would take otherwise.
    pub extra_bytes: u64,
    /// Larger contexts.
    pub upgraded_count: u64,
}

/// State of the loop, for operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BudgetState {
    /// Memory could not be measured: no connection gets a larger context.
    #[default]
    Blind,
    /// There is room for larger contexts.
    Room,
    /// They have what they may have.
    Full,
    /// There is no room besides what the node needs, or was none lately.
    Tight,
    /// They are being taken back.
    Reclaiming,
}

/// What holds until the next reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Of new connections, how many get larger contexts.
    pub share_permille: u32,
    /// What larger contexts may hold beyond what they would hold otherwise.
    pub extra_bytes_max: u64,
    /// Number of connections with larger contexts that are to reconnect.
    pub reclaim_count: u64,
    /// State of the controller.
    pub state: BudgetState,
    /// Memory that the node may fill.
    pub budget_bytes: u64,
}

/// What contexts may hold whose streams can go on without them, of which `contexts_bytes` are held now: three quarters
/// of what the budget leaves to contexts.
#[must_use]
pub fn movable_bytes_max(config: UpgradeConfig, reading: &Reading, contexts_bytes: u64) -> u64 {
    let budget_bytes = percent(reading.limit_bytes, config.memory_percent.into());
    let other_bytes = reading.used_bytes.saturating_sub(contexts_bytes);
    percent(budget_bytes.saturating_sub(other_bytes), ROOM_PERCENT)
}

/// The controller.
#[derive(Clone, Debug)]
pub struct UpgradeLoop {
    config: UpgradeConfig,
    /// Of a million.
    share_ppm: u64,
    decided_at: Option<Instant>,
    /// The share stays at none until then.
    held_until: Instant,
    may_reclaim_at: Instant,
    /// Since the start.
    reclaimed_total: u64,
}

impl UpgradeLoop {
    /// No connection gets a larger context before the first reading.
    #[must_use]
    pub fn new(config: UpgradeConfig) -> Self {
        let (held_until, may_reclaim_at) = (Instant(0), Instant(0));
        Self { config, share_ppm: 0, decided_at: None, held_until, may_reclaim_at, reclaimed_total: 0 }
    }

    /// Number of connections that the controller had reconnect.
    #[must_use]
    pub fn reclaimed_total(&self) -> u64 {
        self.reclaimed_total
    }

    /// Decides by a reading of memory; none: memory could not be read. Called every few seconds.
    pub fn handle_reading(&mut self, now: Instant, reading: Option<Reading>) -> Decision {
        let Some(reading) = reading else {
            self.close(now);
            return Decision::default();
        };
        let Reading { limit_bytes, used_bytes, extra_bytes, upgraded_count } = reading;
        let budget_bytes = percent(limit_bytes, self.config.memory_percent.into());
        let base_bytes = used_bytes.saturating_sub(extra_bytes);
        let room = percent(budget_bytes.saturating_sub(base_bytes), ROOM_PERCENT);
        let extra_bytes_max = room.min(percent(budget_bytes, STOP_PERCENT).saturating_sub(base_bytes));

        if extra_bytes_max < percent(budget_bytes, ROOM_MIN_PERCENT) {
            self.close(now);
        } else {
            self.move_share(now, wanted_ppm(extra_bytes, extra_bytes_max, percent(budget_bytes, RAMP_MIN_PERCENT)));
        }
        let reclaim_count = self.reclaim(now, &reading, budget_bytes);
        let state = match () {
            () if used_bytes >= percent(budget_bytes, RECLAIM_PERCENT) && upgraded_count > 0 => BudgetState::Reclaiming,
            () if now < self.held_until => BudgetState::Tight,
            () if extra_bytes >= percent(extra_bytes_max, FULL_SHARE_PERCENT) => BudgetState::Full,
            () => BudgetState::Room,
        };
        let share_permille = (self.share_ppm / 1_000) as u32;
        Decision { share_permille, extra_bytes_max, reclaim_count, state, budget_bytes }
    }

    fn close(&mut self, now: Instant) {
        self.share_ppm = 0;
        self.held_until = now.after_ms(HOLD_MS);
        self.decided_at = Some(now);
    }

    /// A step towards the target, in proportion to the time since the last decision.
    fn move_share(&mut self, now: Instant, wanted_ppm: u64) {
        let elapsed_ms = self.decided_at.map_or(0, |at| now.ms_since(at)).min(SHARE_MS);
        self.decided_at = Some(now);
        if now < self.held_until {
            return;
        }
        let way = wanted_ppm.abs_diff(self.share_ppm);
        // At least a thousandth, so that it arrives.
        let part = (way * elapsed_ms / SHARE_MS).max(way.min(1_000));
        self.share_ppm = if wanted_ppm > self.share_ppm { self.share_ppm + part } else { self.share_ppm - part };
    }

    fn reclaim(&mut self, now: Instant, reading: &Reading, budget_bytes: u64) -> u64 {
        let Reading { used_bytes, extra_bytes, upgraded_count, .. } = *reading;
        if used_bytes < percent(budget_bytes, RECLAIM_PERCENT) || upgraded_count == 0 || now < self.may_reclaim_at {
            return 0;
        }
        self.may_reclaim_at = now.after_ms(RECLAIM_EVERY_MS);
        let each_bytes = (extra_bytes / upgraded_count).max(1);
        let excess = used_bytes - percent(budget_bytes, RECLAIMED_PERCENT);
        let count = excess.div_ceil(each_bytes).min(upgraded_count.div_ceil(RECLAIM_SHARE));
        self.reclaimed_total += count;
        count
    }
}

/// All connections until larger contexts have nine tenths of their limit (or the limit less the minimum ramp, if that
/// is less), then a falling share. It falls smoothly, so that new larger contexts can balance those that end.
fn wanted_ppm(extra_bytes: u64, extra_bytes_max: u64, ramp_min_bytes: u64) -> u64 {
    let left = extra_bytes_max.saturating_sub(extra_bytes);
    let ramp = percent(extra_bytes_max, 100 - FULL_SHARE_PERCENT).max(ramp_min_bytes).max(1);
    (u128::from(left) * 1_000_000 / u128::from(ramp)).min(1_000_000) as u64
}

fn percent(of: u64, percent: u64) -> u64 {
    (u128::from(of) * u128::from(percent) / 100) as u64
}
