//! Sittings: dispatches to one account's client from READY until it is closed, by the habits of its user.
//!
//! Owns        [`Persona`] and the four personas; the course of a sitting.
//! Doors       `Traffic::sitting`. Both forms of a passive update are generated, one after the other: a client receives
//!             the one that it has the capability for.
//! Invariants  S1 the same persona, seed and chat yield the same bytes.
//! Not here    events in guilds: `traffic.rs`.
//!
//! # Model
//!
//! Upstream published the share of each event in the bytes of a gateway with zlib-stream and PASSIVE_UPDATE_V1, and the
//! shares after it had changed to zstd and PASSIVE_UPDATE_V2 ("How Discord reduced WebSocket traffic by 40 %", 2024).
//! The rates and weights of [`PERSONAS`] were chosen so that the shares before the change come out as published; those
//! after it were not used. `guildhall-bench waterfall` prints both.

use crate::guild::Size;

/// Habits of a user, in one sitting of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Persona {
    /// Its name in reports.
    pub name: &'static str,
    /// Guilds of the account.
    pub guilds: usize,
    /// Length of the sitting.
    pub minutes: u64,
    /// Sittings of this persona, of a thousand.
    pub weight: u64,
    /// Events per minute in the guild that is open; of a bot, in all of its guilds.
    pub open_rate: u64,
    /// Messages and changes in voice per minute in all other guilds together.
    pub passive_rate: u64,
    /// Members of the open guild whose presence changes, per minute.
    pub crowd_rate: u64,
    /// Minutes for which a guild is open.
    pub glance_minutes: u64,
    /// Share of these guilds whose member list is open.
    pub lists: f64,
    /// Share of presences in the open guild that the client follows.
    pub presences: f64,
    /// A bot: active in all guilds, without member lists and passive updates.
    pub is_bot: bool,
}

/// The personas.
pub const PERSONAS: [Persona; 4] = [
    Persona {
        name: "lurker",
        guilds: 100,
        minutes: 36,
        weight: 400,
        open_rate: 48,
        passive_rate: 12,
        crowd_rate: 40,
        glance_minutes: 10,
        lists: 0.42,
        presences: 0.19,
        is_bot: false,
    },
    Persona {
        name: "member",
        guilds: 30,
        minutes: 36,
        weight: 450,
        open_rate: 72,
        passive_rate: 8,
        crowd_rate: 40,
        glance_minutes: 15,
        lists: 0.42,
        presences: 0.19,
        is_bot: false,
    },
    Persona {
        name: "moderator",
        guilds: 20,
        minutes: 80,
        weight: 100,
        open_rate: 96,
        passive_rate: 7,
        crowd_rate: 60,
        glance_minutes: 60,
        lists: 0.5,
        presences: 0.19,
        is_bot: false,
    },
    Persona {
        name: "bot",
        guilds: 50,
        minutes: 60,
        weight: 50,
        open_rate: 240,
        passive_rate: 0,
        crowd_rate: 0,
        glance_minutes: 60,
        lists: 0.0,
        presences: 0.0,
        is_bot: true,
    },
];

impl Persona {
    /// Length of a sitting.
    #[must_use]
    pub fn length_ms(&self) -> u64 {
        self.minutes * 60_000
    }

    /// Sizes of its guilds: members by Zipf's law, and 35 to 84 text channels.
    pub(crate) fn sizes(&self) -> Vec<Size> {
        let size = |n: usize| Size { members: (2400 / (n + 1)).max(60), text_channels: 35 + n * 17 % 50 };
        (0..self.guilds).map(size).collect()
    }
}

/// State of a sitting.
#[derive(Debug)]
pub(crate) struct Sitting {
    pub persona: Persona,
    /// The guild that is open.
    pub open: usize,
    pub is_list_open: bool,
    pub next_glance_ms: u64,
    pub has_begun: bool,
}

impl Sitting {
    pub fn new(persona: Persona) -> Self {
        Self { persona, open: 0, is_list_open: false, next_glance_ms: 0, has_begun: false }
    }
}
