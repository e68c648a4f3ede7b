//! Sessions: the logical client, its sequence, and what it may ask for again.
//!
//! Owns        `Session`, `ReplayBuffer`, `Dispatch`, session ids, and the dispatches made for one session.
//! Not here    who gets an event (`guildhall-relay`), connections and timers (`guildhall-partition`).
#![forbid(unsafe_code)]

mod dispatch;
mod guilds;
mod ids;
mod kept;
mod log;
mod ready;
mod replay;
mod seen_by;
mod session;

pub use dispatch::{About, Dispatch, OfDirect, OfThreads, Sharing};
pub use guilds::{GuildEntry, Guilds, Membership};
pub use ids::{SessionIds, partition_of};
pub use kept::{KeptDispatch, KeptGuild, KeptSession, KeptSubscription};
pub use log::{Log, LogLimits, Logged, Owed, Size};
pub use ready::{bot_ready, guild_create, guild_delete, next_chunk, rate_limited, resumed, user_ready};
pub use replay::{ReplayBuffer, ReplayEntry, Share};
pub use seen_by::{KeptUpdate, SeenBy};
pub use session::{
    Gathering, MEMBER_REQUESTS_MAX, MEMBERS_INTERVAL_MS, MemberRequest, NewSession, Profile, Session, Window,
};
