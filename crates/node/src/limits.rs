//! Limits: how much a node holds in memory, and for how long.

use crate::{canaries::CanaryLimits, directs::DirectLimits, sign_on::SignOnAccounts};
use guildhall_guild::GuildLimits;

/// How long an unused guild stays loaded: ten minutes, so that guilds with short but regular visits
/// are not loaded each time.
pub const GUILD_IDLE_MS: u64 = 600_000;

/// Settings in addition to `NodeConfig`; the defaults suit most nodes.
#[derive(Clone, Debug)]
pub struct NodeLimits {
    /// After how many milliseconds without use a guild is unloaded. No relays, presences or voice states must be there.
    pub guild_idle_ms: u64,
    /// Guilds that one worker loads from the store at once. Others wait, so that a node that starts does not read ten
    /// thousand guilds at once.
    pub guild_loads_max: usize,
    /// Direct messages without inputs that one worker keeps in memory, about 4 KiB each. Past it they are unloaded at
    /// once; they are also unloaded after `guild_idle_ms`.
    pub idle_directs_max: usize,
    /// Jobs of guilds (searches, counts, prunes) that run at once on the node. Others wait, and guilds alternate. The
    /// default is half the cores, so that the other half is free for work with deadlines.
    pub guild_jobs_max: usize,
    /// Direct messages and groups that accounts make.
    pub directs: DirectLimits,
    /// Accounts that are made for subjects of the sign-on.
    pub sign_on: SignOnAccounts,
    /// Guilds whose relays are watched by canaries.
    pub canaries: CanaryLimits,
    /// Limits of every guild. Its `seed` is mixed with the system's randomness.
    pub guild: GuildLimits,
}

impl Default for NodeLimits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            guild_idle_ms: GUILD_IDLE_MS,
            guild_loads_max: 16,
            idle_directs_max: 4096,
            guild_jobs_max: (cores / 2).max(1),
            directs: DirectLimits::default(),
            sign_on: SignOnAccounts::default(),
            canaries: CanaryLimits::default(),
            guild: GuildLimits::default(),
        }
    }
}
