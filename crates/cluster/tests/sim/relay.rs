//! Relay: one guild's stream on one partition, by the rules of `guildhall_relay::Relay`.

use crate::host::{attach, read_snapshot};
use guildhall_cluster::RequestId;
use guildhall_guild_protocol::{Payload, RelayId, RelayMessage, SessionKey, ToGuild, ToRelay};
use guildhall_stdx::Instant;

/// A gap that no snapshot has ended is reported again after this.
const RESYNC_AGAIN_MS: u64 = 1_000;

pub struct Relay {
    pub id: RelayId,
    pub epoch: u32,
    seq: u64,
    gap_reported_at: Option<Instant>,
    /// Length of the guild's log as this relay knows it; none before the first snapshot.
    pub len: Option<u64>,
    /// Whether each session is attached.
    pub attached: Vec<bool>,
}

/// State that a message carried to the relay.
pub enum Learned {
    Nothing,
    /// The log has this length, and this last entry.
    Snapshot(u64, RequestId),
    /// The entry with this number, from 1.
    Entry(u64, RequestId),
}

impl Relay {
    pub fn new(id: RelayId, epoch: u32, sessions: usize) -> Self {
        Self { id, epoch, seq: 0, gap_reported_at: None, len: None, attached: vec![false; sessions] }
    }

    /// The messages with which it begins.
    pub fn subscribe(&self) -> Vec<ToGuild> {
        let mut messages = vec![ToGuild::Subscribe { relay: self.id, epoch: self.epoch }];
        messages.extend(self.waiting());
        messages
    }

    /// Attach requests of the sessions that are not attached.
    fn waiting(&self) -> Vec<ToGuild> {
        let waiting = self.attached.iter().enumerate().filter(|(_, is_attached)| !**is_attached);
        waiting.map(|(slot, _)| attach(self.key(slot))).collect()
    }

    fn key(&self, slot: usize) -> SessionKey {
        SessionKey { relay: self.id, slot: slot as u32, generation: self.epoch }
    }

    /// Takes the guild's next message. Returns messages to the guild.
    pub fn handle(&mut self, now: Instant, message: ToRelay) -> Result<(Learned, Vec<ToGuild>), String> {
        if message.epoch != self.epoch {
            return Ok((Learned::Nothing, Vec::new()));
        }
        let restarts = matches!(message.message, RelayMessage::Snapshot { .. });
        if !restarts && message.seq != self.seq + 1 {
            let is_reported = self.gap_reported_at.is_some_and(|at| now.ms_since(at) < RESYNC_AGAIN_MS);
            if message.seq <= self.seq || is_reported {
                return Ok((Learned::Nothing, Vec::new()));
            }
            self.gap_reported_at = Some(now);
            return Ok((Learned::Nothing, vec![ToGuild::Resync { relay: self.id, epoch: self.epoch }]));
        }
        self.seq = message.seq;
        match message.message {
            RelayMessage::Snapshot { replica, reset } => {
                let before = self.len;
                let (len, last) = read_snapshot(&replica);
                self.len = Some(len);
                self.gap_reported_at = None;
                if before.is_some() {
                    self.attached.fill(false);
                }
                let to_guild = if reset || before.is_some() { self.waiting() } else { Vec::new() };
                Ok((Learned::Snapshot(len, last), to_guild))
            }
            RelayMessage::Published(published) => {
                let Payload::MessageDelete { id, channel_id } = published.event.payload else {
                    return Err("an event of another kind".to_owned());
                };
                let Some(len) = &mut self.len else { return Err("an event before the first snapshot".to_owned()) };
                if channel_id.get() != *len + 1 {
                    return Err(format!(
                        "event {} follows {len}, as number {} of epoch {}",
                        channel_id.get(),
                        message.seq,
                        self.epoch
                    ));
                }
                *len += 1;
                Ok((Learned::Entry(*len, RequestId(id.get())), Vec::new()))
            }
            RelayMessage::Attached { session, .. } => {
                if self.len.is_none() {
                    return Err("attached before the first snapshot".to_owned());
                }
                if session.generation == self.epoch {
                    self.attached[session.slot as usize] = true;
                }
                Ok((Learned::Nothing, Vec::new()))
            }
            RelayMessage::Unavailable { session } => {
                if session.generation == self.epoch {
                    self.attached[session.slot as usize] = false;
                }
                Ok((Learned::Nothing, Vec::new()))
            }
            _ => Err("a message of another kind".to_owned()),
        }
    }
}
