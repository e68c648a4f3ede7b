//! Traffic: what a busy gateway has to send, made up from a seed; to measure, to train, and to test codecs with.
//!
//! Owns        what happens (`Traffic`, an endless iterator of events), who of many sessions is told (`Viewer`), what
//!             is said (`Chat`).
//! Doors       `Traffic::new`; `Viewer::sees` per (session, event).
//! Invariants  T1 the same parameters and the same chat give the same bytes, on every machine. T2 bodies are written by
//!             the product's own serialisers, from the product's own objects: their shape cannot differ. T3 snowflakes
//!             ascend, and what is edited, reacted to or deleted was said before. (tests `t1_*` …)
//! Limits      what is remembered per guild: `RECENT_MAX` messages, `VOICE_MAX` people in voice, `JOINED_MAX`
//!             newcomers.
//! Not here    envelopes and sequence numbers (`guildhall_codec::DispatchFrame`), clocks, files.
//!
//! # What it is like
//!
//! There is no published mix of events that we know of. This one is what a busy public gateway looks like to us; it was
//! fixed before the codec was measured with it, and is the same for all modes.
//!
//! [`Kind::Channel`]: one channel of messages, up to six conversations at a time, 400 people of whom few say most.
//!
//! [`Kind::Session`]: twelve guilds with 60 to 2,400 members (one in four events happens in the largest), three to
//! twelve text channels each, one of them hidden from most. [`SHARES`] is how often what happens; beyond it:
//!
//! * Of messages, 15 % answer another (with the message they answer inside), 8 % mention somebody, 1 % a role, 4 % have
//!   a link, 5 % a custom emoji, 12 % an emoji, 3 % are by bots with an embed, and 4 % are not in English.
//! * Member lists are told every 200 ms at most where rows 0 to 99 changed, as the guild's own list says.
//! * Passive updates are told every 30 s of the traffic's time; 20 things happen per second.
//! * Each session is sent something large of its own about every 1,500 deliveries: a guild (GUILD_CREATE, 8 KB to
//!   1.3 MB, as guilds are large and the session asks), a chunk of 25 to 1,000 members, or, if it is a person, the
//!   first hundred rows of a member list.
//!
//! Who sees what: one session in seven is a bot, in nearly all guilds and active in each, with or without the intents
//! for members, presences and typing. The others are people, in three of four guilds, and look at about a third of
//! those; at which, changes every ten minutes. So no two streams are alike for long.
//!
//! Not in it, since the product does not send them yet: attachments, threads, polls, scheduled events.
#![forbid(unsafe_code)]

mod chat;
mod event;
mod guild;
mod happening;
mod large;
mod people;
mod talk;
mod traffic;
mod viewer;

pub use chat::{Chat, ChatError};
pub use event::{Event, To};
pub use happening::{Happening, SHARES};
pub use traffic::{Kind, Params, Traffic};
pub use viewer::Viewer;
