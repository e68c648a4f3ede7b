//! Upgrades at work: real memory into the loop, its decisions on larger compression contexts to the partitions.
//!
//! Owns        one task of the runtime, which ends with the node; how much memory contexts may hold whose streams can
//!             go on without them (`codec.streams = "auto"`).
//! Limits      a reading every `READ_EVERY`; between two of them the gate holds connections to the last decision.
//! Not here    the decision: `guildhall-memory-budget`.     Spec  docs/adr/0016.

use guildhall_accounting::report::UpgradesReport;
use guildhall_codec::{ContextPool, ContextStats};
use guildhall_memory_budget::{BudgetState, Decision, Reading, UpgradeConfig, UpgradeLoop, movable_bytes_max};
use guildhall_net::{Partitions, SystemClock};
use guildhall_telemetry::memory::{Memory, MemoryReader};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::task::JoinHandle;

/// Connections come over minutes; a reading costs a few small files.
const READ_EVERY: Duration = Duration::from_secs(5);

/// Last reading and decision of the loop.
#[derive(Clone, Copy, Debug, Default)]
pub struct UpgradeStatus {
    /// None: it could not be read.
    pub memory: Option<Memory>,
    /// Decision until the next reading.
    pub decision: Decision,
    /// Connections with a RECONNECT that reclaimed their larger context.
    pub taken_back_total: u64,
}

/// The loop of a running node.
pub struct Upgrades {
    status: Arc<Mutex<UpgradeStatus>>,
    task: JoinHandle<()>,
}

impl Upgrades {
    /// Begins. Unless `may_upgrade`, no connection gets a larger context. Call within a tokio runtime.
    #[must_use]
    pub fn start(
        config: UpgradeConfig,
        may_upgrade: bool,
        reader: MemoryReader,
        clock: SystemClock,
        contexts: ContextPool,
        partitions: Partitions,
    ) -> Self {
        let status = Arc::new(Mutex::new(UpgradeStatus::default()));
        let shared = status.clone();
        let task = tokio::spawn(async move {
            let mut control = UpgradeLoop::new(config);
            let mut timer = tokio::time::interval(READ_EVERY);
            timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            let mut last = None;
            loop {
                timer.tick().await;
                let memory = reader.read();
                if let Err(error) = &memory
                    && may_upgrade
                    && last != Some(BudgetState::Blind)
                {
                    tracing::warn!(%error, "memory cannot be read: no connection gets a larger compression context");
                }
                let memory = memory.ok();
                contexts.set_movable_bytes_max(movable_bytes(config, memory, &contexts));
                if !may_upgrade {
                    continue;
                }
                let decision = decide(&mut control, &clock, memory, &contexts);
                if decision.reclaim_count > 0 {
                    partitions.take_back_upgrades(decision.reclaim_count as usize);
                }
                if last.replace(decision.state) != Some(decision.state) {
                    log_decision(memory, &decision);
                }
                let taken_back_total = control.reclaimed_total();
                *shared.lock().unwrap_or_else(PoisonError::into_inner) =
                    UpgradeStatus { memory, decision, taken_back_total };
            }
        });
        Self { status, task }
    }

    /// Last reading and decision of the loop.
    #[must_use]
    pub fn status(&self) -> UpgradeStatus {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports the same from elsewhere, also once the loop has ended.
    pub fn reader(&self) -> impl Fn(&ContextStats) -> UpgradesReport + Send + Sync + use<> {
        let status = self.status.clone();
        move |stats| report(&status.lock().unwrap_or_else(PoisonError::into_inner), stats)
    }
}

impl Drop for Upgrades {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Bytes that contexts may hold whose streams can go on without them; none if memory cannot be read.
fn movable_bytes(config: UpgradeConfig, memory: Option<Memory>, contexts: &ContextPool) -> u64 {
    let Some(Memory { limit_bytes, used_bytes, .. }) = memory else { return 0 };
    let reading = Reading { limit_bytes, used_bytes, ..Reading::default() };
    movable_bytes_max(config, &reading, contexts.stats().resident_bytes)
}

/// One turn of the loop.
fn decide(control: &mut UpgradeLoop, clock: &SystemClock, memory: Option<Memory>, contexts: &ContextPool) -> Decision {
    let gate = contexts.gate().stats();
    let reading = memory.map(|memory| Reading {
        limit_bytes: memory.limit_bytes,
        used_bytes: memory.used_bytes,
        extra_bytes: gate.extra_bytes,
        upgraded_count: gate.living_count,
    });
    let decision = control.handle_reading(clock.now().instant, reading);
    contexts.gate().set(decision.share_permille, decision.extra_bytes_max);
    decision
}

fn report(status: &UpgradeStatus, stats: &ContextStats) -> UpgradesReport {
    let (standing, explanation) = match status.decision.state {
        BudgetState::Blind => ("blind", "Memory cannot be read, so no connection gets a larger context."),
        BudgetState::Room => ("room", "There is room: a share of new connections gets a larger context."),
        BudgetState::Full => ("full", "Larger contexts hold all that they may hold."),
        BudgetState::Tight => ("tight", "There is no room, or was none lately: new connections get small contexts."),
        BudgetState::Reclaiming => {
            ("reclaiming", "Memory is short: the node has clients with larger contexts reconnect.")
        }
    };
    UpgradesReport {
        standing: standing.to_owned(),
        explanation: explanation.to_owned(),
        share_permille: status.decision.share_permille.into(),
        granted_total: stats.upgrades.granted_total,
        denied_total: stats.upgrades.denied_total,
        reclaimed_total: status.taken_back_total,
    }
}

fn log_decision(memory: Option<Memory>, decision: &Decision) {
    let Some(memory) = memory else { return };
    tracing::info!(
        state = ?decision.state,
        limited_by = ?memory.bound,
        limit_bytes = memory.limit_bytes,
        used_bytes = memory.used_bytes,
        process_bytes = memory.process_bytes,
        budget_bytes = decision.budget_bytes,
        extra_bytes_max = decision.extra_bytes_max,
        reclaim_count = decision.reclaim_count,
        "memory for larger compression contexts (codec.upgrades)",
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_codec::StreamCompressor;
    use guildhall_telemetry::memory::Bound;

    /// Real contexts and slots; a simulated limit close to their memory.
    #[test]
    fn new_connections_get_larger_contexts_while_there_is_room() {
        let contexts = ContextPool::default();
        let mut control = UpgradeLoop::new(UpgradeConfig { memory_percent: 80 });
        let mut at = guildhall_stdx::Instant(0);
        let mut streams: Vec<StreamCompressor> = Vec::new();
        let limit_bytes = 100 << 20;
        let mut states = Vec::new();
        for _ in 0..400 {
            at = at.after_ms(5_000);
            let gate = contexts.gate().stats();
            let resident = contexts.stats().resident_bytes;
            let memory =
                Memory { limit_bytes, used_bytes: resident, process_bytes: resident, bound: Bound::Configured };
            assert!(memory.used_bytes <= limit_bytes * 80 / 100);
            let reading = Reading {
                limit_bytes,
                used_bytes: memory.used_bytes,
                extra_bytes: gate.extra_bytes,
                upgraded_count: gate.living_count,
            };
            let decision = control.handle_reading(at, Some(reading));
            contexts.gate().set(decision.share_permille, decision.extra_bytes_max);
            if states.last() != Some(&decision.state) {
                states.push(decision.state);
            }
            // The oldest leave, upgraded or not, as clients do; there are 90 at most.
            let excess = (streams.len() + 1).saturating_sub(90).max(decision.reclaim_count as usize).min(streams.len());
            streams.drain(..excess);
            let mut stream = contexts.zstd();
            stream.compress(&[b"hello"], &mut Vec::new()).unwrap();
            streams.push(stream);
        }
        let gate = contexts.gate().stats();
        assert!(gate.granted_total > 60 && gate.living_count > 15, "{gate:?}");
        assert_eq!(gate.extra_bytes, gate.living_count * contexts.extra_bytes().unwrap());
        assert!(states.contains(&BudgetState::Room), "{states:?}");
    }

    #[tokio::test]
    async fn it_reads_this_system_and_opens_the_gate() {
        let contexts = ContextPool::default();
        let clock = SystemClock::default();
        let mut control = UpgradeLoop::new(UpgradeConfig { memory_percent: 95 });
        let memory = MemoryReader::new(None).read().ok();
        let decision = decide(&mut control, &clock, memory, &contexts);
        assert_eq!(contexts.gate().stats().extra_bytes_max, decision.extra_bytes_max);
        assert_ne!(decision.state, BudgetState::Blind);
        assert_eq!(decide(&mut control, &clock, None, &contexts).state, BudgetState::Blind);
        assert_eq!(contexts.gate().stats().share_permille, 0);
    }
}
