//! In-memory index of bans, invites, webhooks and pins.
//!
//! Owns        `Belongings`: bans, invites, webhooks and pins by their keys.
//! Invariants  equals the content of the store plus writes in flight.
//! Limits      `bans_max`, `invites_max`, `webhooks_per_channel_max`, `pins_per_channel_max`, each
//!             enforced on insertion.
//! Not here    the rules of each: `bans`, `invites`, `webhooks`, `pins`, `threads`, `temporary`.

use crate::{machine::Guild, record::Write};
use guildhall_model::{
    Ban, Belonging, BelongingKey, BelongingKind, ChannelId, Invite, InviteCode, MessageId, UserId, Webhook, WebhookId,
};
use guildhall_stdx::Timestamp;
use std::{collections::BTreeMap, sync::Arc};

#[derive(Debug, Default)]
pub(crate) struct Belongings {
    pub bans: BTreeMap<UserId, Arc<Ban>>,
    pub invites: BTreeMap<InviteCode, Arc<Invite>>,
    pub webhooks: BTreeMap<WebhookId, Arc<Webhook>>,
    /// Pinned messages with the time of pinning. No entry for channels without pins.
    pub pins: BTreeMap<ChannelId, BTreeMap<MessageId, Timestamp>>,
}

impl Belongings {
    pub fn new(belongings: Vec<Belonging>) -> Self {
        let mut all = Self::default();
        for belonging in belongings {
            match belonging {
                Belonging::Ban(ban) => drop(all.bans.insert(ban.user.id, ban)),
                Belonging::Invite(invite) => drop(all.invites.insert(invite.code, invite)),
                Belonging::Webhook(webhook) => drop(all.webhooks.insert(webhook.id, webhook)),
                Belonging::Pin(pin) => {
                    all.pins.entry(pin.channel_id).or_default().insert(pin.message_id, pin.pinned_at);
                }
                // Stored with their threads.
                Belonging::ThreadMember(_) => {}
                // `Temporary` holds them.
                Belonging::TemporaryMember(_) => {}
                // `AuditLog` holds them.
                Belonging::AuditEntry(_) => {}
            }
        }
        all
    }

    /// Number of resources.
    pub fn len(&self) -> usize {
        let pins: usize = self.pins.values().map(BTreeMap::len).sum();
        self.bans.len() + self.invites.len() + self.webhooks.len() + pins
    }
}

impl Guild {
    pub(crate) fn put_belonging(&mut self, belonging: Belonging) {
        self.write(Write::PutBelonging(self.meta.id(), belonging));
    }

    pub(crate) fn delete_belonging(&mut self, key: BelongingKey) {
        self.write(Write::DeleteBelonging(self.meta.id(), key));
    }

    /// Removes the invites, webhooks and pins of a deleted channel, without events. Costs time proportional to the
    /// guild's resources.
    pub(crate) fn forget_belongings_of(&mut self, channel_id: ChannelId) {
        let invites = self.belongings.invites.values().filter(|invite| invite.channel_id == channel_id);
        let codes: Vec<_> = invites.map(|invite| invite.code).collect();
        for code in codes {
            self.belongings.invites.remove(&code);
            self.delete_belonging(BelongingKey::whole(BelongingKind::Invite, code.number()));
        }
        let webhooks = self.belongings.webhooks.values().filter(|webhook| webhook.channel_id == channel_id);
        let ids: Vec<_> = webhooks.map(|webhook| webhook.id).collect();
        for id in ids {
            self.belongings.webhooks.remove(&id);
            self.delete_belonging(BelongingKey::whole(BelongingKind::Webhook, id.get()));
        }
        self.forget_pins_of(channel_id);
    }

    pub(crate) fn forget_pins_of(&mut self, channel_id: ChannelId) {
        if self.belongings.pins.remove(&channel_id).is_some() {
            let key = BelongingKey::whole(BelongingKind::Pin, channel_id.get());
            self.write(Write::DeleteBelongings(self.meta.id(), key));
        }
    }
}
