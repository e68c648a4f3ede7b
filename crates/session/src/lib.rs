//! Sessions: the logical client, its sequence of dispatches, and their replay.
//!
//! Owns        `Session`, `ReplayBuffer`, `Dispatch`, session ids, the dispatches made for one session, and the texts
//!             that some of them share (`GuildTexts`).
//! Not here    who gets an event (`guildhall-relay`), connections and timers (`guildhall-partition`).
#![forbid(unsafe_code)]

mod dispatch;
mod guild_texts;
mod guilds;
mod ids;
mod reading;
mod ready;
mod replay;
mod session;
mod shared_log;
mod snapshot;

pub use dispatch::{Dispatch, Sharing};
pub use guild_texts::GuildTexts;
pub use guilds::{GuildEntry, Guilds, Membership};
pub use ids::{SessionIds, session_home, session_partition};
pub use ready::{
    GuildLoss, OwnData, bot_ready, guild_create, guild_delete, next_chunk, rate_limited, resumed, user_ready,
};
pub use replay::{ReplayBuffer, ReplayEntry, Share};
pub use session::{
    MEMBER_REQUESTS_MAX, MEMBERS_INTERVAL_MS, MemberRequest, MemberRequests, NewSession, PendingReady, Profile,
    RateWindow, Session,
};
pub use shared_log::{LogLimits, Logged, Owed, SharedLog, Size};
pub use snapshot::{DispatchSnapshot, MembershipSnapshot, SessionSnapshot, SubscriptionSnapshot};
