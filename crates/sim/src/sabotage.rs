//! Sabotage: faults put into messages on their way to a relay, to see whether the checker notices.
//!
//! Invariants  the product's code is what it always is; only what it is told is wrong.

use guildhall_model::{Channel, Permissions, Role};
use guildhall_relay::{Audience, Effect, Event, GuildMeta, Published, RelayMessage, ToRelay};
use std::sync::Arc;

/// Which fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sabotage {
    /// None.
    #[default]
    None,
    /// One relay believes that everybody may view every channel.
    Permissions,
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
        match (&mut message.message, self.kind) {
            (RelayMessage::Snapshot { meta, .. }, Sabotage::Permissions) => *meta = open(meta),
            (RelayMessage::Published(published), Sabotage::Permissions) => {
                if let Effect::Meta(meta) = &published.effect {
                    *published =
                        Arc::new(Published { event: copy(&published.event), effect: Effect::Meta(open(meta)) });
                }
            }
            (RelayMessage::Published(published), Sabotage::Redaction) => {
                let event = Event { content_readers: None, ..copy(&published.event) };
                *published = Arc::new(Published { event, effect: published.effect.clone() });
            }
            _ => {}
        }
        message
    }
}

/// A guild where everybody may view everything.
fn open(meta: &GuildMeta) -> Arc<GuildMeta> {
    let mut meta = meta.clone();
    for channel in Arc::make_mut(&mut meta.channels).values_mut() {
        *channel = Arc::new(Channel { overwrites: Vec::new(), ..Channel::clone(channel) });
    }
    for role in Arc::make_mut(&mut meta.roles).values_mut() {
        *role = Arc::new(Role { permissions: role.permissions | Permissions::VIEW_CHANNEL, ..Role::clone(role) });
    }
    Arc::new(meta)
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
