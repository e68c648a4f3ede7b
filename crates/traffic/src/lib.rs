//! Synthetic traffic of a busy gateway, generated from a seed, for benches, dictionary training and codec tests.
//!
//! Owns        the events (`Traffic`, an endless iterator), the audience of each (`Viewer`), the
//!             message texts (`Chat`).
//! Doors       `Traffic::new`; `Viewer::sees` per (session, event).
//! Invariants  T1 the same parameters and chat yield the same bytes, on every machine. T2 bodies are serialized by the
//!             server's own serializers from its own objects, so their shape cannot differ. T3 snowflakes ascend, and
//!             only messages sent before are edited, reacted to or deleted. (tests `t1_*` …)
//! Limits      state per guild: `RECENT_MAX` messages, `VOICE_MAX` users in voice, `JOINED_MAX` new members.
//! Not here    envelopes and sequence numbers (`guildhall_codec::DispatchFrame`), clocks, files.
//!
//! # Model
//!
//! We know of no published mix of events. This one models a busy public gateway by our own estimate. It was fixed
//! before the codec was measured with it, and is the same for all compression modes.
//!
//! [`Kind::Channel`]: one channel of messages, up to six conversations at a time, 400 members, few of which write most.
//!
//! [`Kind::Session`]: twelve guilds with 60 to 2,400 members (one event in four occurs in the largest), three to twelve
//! text channels each, one of them hidden from most members. [`SHARES`] is the mix of events. In addition:
//!
//! * Of messages, 15 % are replies (with the original message inside), 8 % mention a user, 1 % a role, 4 % have a link,
//!   5 % a custom emoji, 12 % an emoji, 3 % come from bots with an embed, and 4 % are not in English.
//! * Member list updates are sent at most every 200 ms, if rows 0 to 99 changed, computed by the guild's own list.
//! * Passive updates are sent every 30 s of simulated time; 20 events happen per second.
//! * Each session receives one large payload of its own per 1,500 deliveries: a guild (GUILD_CREATE, 8 KB to 1.3 MB,
//!   depending on the guild's size and the session), a chunk of 25 to 1,000 members, or, for user accounts, the first
//!   hundred rows of a member list.
//!
//! Audience: one session in seven is a bot, a member of nearly all guilds and active in each, with or without the
//! intents for members, presences and typing. The others are user accounts, members of three guilds in four, and active
//! in about a third of those; the active ones change every ten minutes. So no two streams stay alike for long.
//!
//! [`Kind::Node`]: one node with small guilds. Of 10,050 sessions 10,000 belong to accounts and 50 to bots. Each
//! account is in 1 to 100 of 20,000 guilds. The sizes of guilds follow Zipf's law: the median has five members online,
//! the largest 6,000. Each bot is in 1,000 guilds, large ones more often; seven in ten bots lack MESSAGE_CONTENT and
//! receive messages without text. A tenth of the events is in direct messages and groups, a fifth in the private
//! channel that every guild has, for two members and a quarter of the others. A guild's activity is its size to the
//! power of 0.75. An account displays about three of its guilds and is passive in the others; an author always receives
//! the own message. [`Population`] has the rules.
//!
//! [`Traffic::sitting`]: one client from READY on, by the habits of its user ([`PERSONAS`]), calibrated to published
//! shares of events.
//!
//! Not modelled: attachments, threads, polls, scheduled events.
#![forbid(unsafe_code)]

mod chat;
mod event;
mod event_mix;
mod guild;
mod large;
mod node;
mod people;
mod population;
mod sitting;
mod talk;
mod traffic;
mod viewer;

pub use chat::{Chat, ChatError};
pub use event::{Event, To};
pub use event_mix::{EventKind, SHARES};
pub use population::Population;
pub use sitting::{PERSONAS, Persona};
pub use traffic::{Kind, Params, Traffic};
pub use viewer::Viewer;
