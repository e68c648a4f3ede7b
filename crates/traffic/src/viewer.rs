//! Viewers: which events each of many sessions receives.
//!
//! Invariants  V1 whether a session receives an event depends only on both and the seed, not on earlier calls.
//! Cost        a few multiplications per call, and a dozen bytes per session.

use crate::event::{Event, To};

/// Interval at which the active guilds of a session are redrawn.
const GLANCE_MS: u64 = 600_000;

/// One session: the properties that decide which events it receives.
#[derive(Clone, Copy, Debug)]
pub struct Viewer {
    seed: u64,
    index: u32,
    is_bot: bool,
}

impl Viewer {
    /// Session `index` of the traffic generated from `seed`. Session 0 is a user account.
    #[must_use]
    pub fn new(seed: u64, index: u32) -> Self {
        let seed = mixed(seed ^ mixed(u64::from(index) + 1));
        Self { seed, index, is_bot: index % 7 == 3 }
    }

    /// Is a bot: a member of every guild and active in all, with every intent and without a member list.
    #[must_use]
    pub fn is_bot(&self) -> bool {
        self.is_bot
    }

    /// The session receives the event.
    #[must_use]
    pub fn sees(&self, event: &Event) -> bool {
        match event.to {
            To::Everyone => true,
            To::One(index) => index == self.index,
            To::Direct(_) => false,
            _ if !self.is_in(event.guild) => false,
            To::Guild => true,
            To::Active => self.looks_at(event) && self.may_see(event),
            To::Typing => self.looks_at(event) && self.may_see(event) && (!self.is_bot || self.has(1, 50)),
            To::Passive => !self.is_bot && !self.looks_at(event),
            To::Watching => !self.is_bot && self.looks_at(event) && self.chance(event.guild ^ 0x11, 70),
            To::Following(_) if self.is_bot => self.has(2, 30),
            To::Following(user) => self.looks_at(event) && self.chance(user ^ 0x22, 20),
            To::Members if self.is_bot => self.has(3, 50),
            // Users in voice, or with messages in view.
            To::Members => self.looks_at(event) && self.chance(event.user.unwrap_or(0) ^ 0x33, 10),
        }
    }

    fn is_in(&self, guild: u64) -> bool {
        self.chance(guild, if self.is_bot { 95 } else { 75 })
    }

    fn looks_at(&self, event: &Event) -> bool {
        self.is_bot || self.chance(event.guild ^ (event.at_ms / GLANCE_MS + 1).rotate_left(40), 35)
    }

    fn may_see(&self, event: &Event) -> bool {
        !event.is_hidden || self.chance(event.channel.unwrap_or(0), 25)
    }

    /// A random property of the session.
    fn has(&self, what: u64, percent: u64) -> bool {
        self.chance(what.rotate_left(56), percent)
    }

    /// Random, but constant per `of`.
    fn chance(&self, of: u64, percent: u64) -> bool {
        mixed(self.seed ^ of) % 100 < percent
    }
}

/// Last step of SplitMix64: every output bit depends on every input bit.
pub(crate) fn mixed(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
