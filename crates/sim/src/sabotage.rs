//! Sabotage: faults put into messages on their way to a relay, to see whether the checker notices.
//!
//! Invariants  the product's code is what it always is; only what it is told is wrong.

use guildhall_relay::{Audience, Effect, Event, Gate, Published, RelayMessage, ToRelay};
use std::sync::Arc;

/// Which fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sabotage {
    /// None.
    #[default]
    None,
    /// One relay does not look whether members may view a channel.
    Permissions,
    /// One relay does not hear of changes to roles, channels and overwrites.
    Staleness,
    /// One relay believes that there is nothing to redact.
    Redaction,
    /// One relay never hears of some events, and does not notice.
    Loss,
    /// One relay hears some events twice.
    Duplication,
    /// One relay hears some events in the wrong order.
    Reordering,
}

/// The partition whose relay is lied to.
const VICTIM: usize = 1;
/// One event in so many is lost, doubled or held back.
const EVERY: u64 = 7;

/// Changes what passes by.
#[derive(Debug)]
pub struct Saboteur {
    kind: Sabotage,
    epoch: u32,
    /// How many messages more (or fewer) went in than came.
    offset: i64,
    count: u64,
    held: Option<ToRelay>,
}

impl Saboteur {
    pub fn new(kind: Sabotage) -> Self {
        Self { kind, epoch: 0, offset: 0, count: 0, held: None }
    }

    /// What the relay gets instead of `message`, numbered as if nothing had happened.
    pub fn pass(&mut self, side: usize, message: ToRelay) -> Vec<ToRelay> {
        if self.kind == Sabotage::None || side != VICTIM {
            return vec![message];
        }
        if message.epoch != self.epoch || matches!(message.message, RelayMessage::Snapshot { .. }) {
            (self.epoch, self.offset, self.held) = (message.epoch, 0, None);
        }
        let came = message.seq as i64;
        let mut out: Vec<ToRelay> = Vec::new();
        let is_event = matches!(message.message, RelayMessage::Published(_));
        self.count += u64::from(is_event);
        let is_chosen = is_event && self.count.is_multiple_of(EVERY);
        match self.kind {
            Sabotage::Loss if is_chosen => {}
            Sabotage::Duplication if is_chosen => out.extend([message.clone(), message]),
            Sabotage::Reordering if is_chosen && self.held.is_none() => self.held = Some(message),
            _ => {
                out.push(self.change(message));
                out.extend(self.held.take());
            }
        }
        for (n, message) in out.iter_mut().enumerate() {
            message.seq = (came + self.offset + n as i64) as u64;
        }
        self.offset += out.len() as i64 - 1;
        out
    }

    fn change(&self, mut message: ToRelay) -> ToRelay {
        let RelayMessage::Published(published) = &mut message.message else { return message };
        let (mut event, mut effect) = (copy(&published.event), published.effect.clone());
        match self.kind {
            Sabotage::Permissions => {
                if let Gate::Channel(_) | Gate::ChannelExcept(..) = event.audience.gate {
                    event.audience.gate = Gate::Members;
                }
            }
            Sabotage::Staleness => {
                if let Effect::Meta(_) = effect {
                    effect = Effect::None;
                }
            }
            Sabotage::Redaction => event.content_readers = None,
            Sabotage::None | Sabotage::Loss | Sabotage::Duplication | Sabotage::Reordering => return message,
        }
        *published = Arc::new(Published { event, effect });
        message
    }
}

fn copy(event: &Event) -> Event {
    Event {
        guild_id: event.guild_id,
        name: event.name,
        audience: Audience::clone(&event.audience),
        content_readers: event.content_readers.clone(),
        payload: event.payload.clone(),
    }
}
