//! Viewers: which of the events each of many sessions is sent.
//!
//! Invariants  V1 whether a session sees an event depends only on both and the seed, not on what was asked before.
//! Price       a few multiplications per answer, and a dozen bytes per session.

use crate::event::{Event, To};

/// Who looks at which guild is drawn anew so often.
const GLANCE_MS: u64 = 600_000;

/// One session, as far as it matters to what it is sent.
#[derive(Clone, Copy, Debug)]
pub struct Viewer {
    seed: u64,
    index: u32,
    is_bot: bool,
}

impl Viewer {
    /// Session `index` of those that watch the traffic made from `seed`. The first is a person.
    #[must_use]
    pub fn new(seed: u64, index: u32) -> Self {
        let seed = mixed(seed ^ mixed(u64::from(index) + 1));
        Self { seed, index, is_bot: index % 7 == 3 }
    }

    /// One that is in every guild and looks at all of them, with every intent and without a member list: a bot.
    #[must_use]
    pub fn is_bot(&self) -> bool {
        self.is_bot
    }

    /// Whether the event is sent to it.
    #[must_use]
    pub fn sees(&self, event: &Event) -> bool {
        match event.to {
            To::Everyone => true,
            To::One(index) => index == self.index,
            _ if !self.is_in(event.guild) => false,
            To::Guild => true,
            To::Active => self.looks_at(event) && self.may_see(event),
            To::Typing => self.looks_at(event) && self.may_see(event) && (!self.is_bot || self.has(1, 50)),
            To::Passive => !self.is_bot && !self.looks_at(event),
            To::Watching => !self.is_bot && self.looks_at(event) && self.chance(event.guild ^ 0x11, 70),
            To::Following(_) if self.is_bot => self.has(2, 30),
            To::Following(user) => self.looks_at(event) && self.chance(user ^ 0x22, 20),
            To::Members if self.is_bot => self.has(3, 50),
            // Of people in voice, or whose messages are on the screen.
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

    /// A property of the session itself.
    fn has(&self, what: u64, percent: u64) -> bool {
        self.chance(what.rotate_left(56), percent)
    }

    /// The same for the same `of`.
    fn chance(&self, of: u64, percent: u64) -> bool {
        mixed(self.seed ^ of) % 100 < percent
    }
}

/// SplitMix64's last step: every bit depends on every bit.
fn mixed(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
