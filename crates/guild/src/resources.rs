//! Stored resources of a guild: bans, invites, webhooks, pins and others.
//!
//! Owns        the writes of resources, their removal with a deleted channel.
//! Not here    the index (`state::resource_index`), the rules of each: `bans`, `invites`,
//!             `webhooks`, `pins`, `threads`.

use crate::{machine::Guild, record::Write};
use guildhall_model::{ChannelId, GuildResource, ResourceKey, ResourceKind};

impl Guild {
    pub(crate) fn put_resource(&mut self, resource: GuildResource) {
        self.write(Write::PutResource(self.structure.id(), resource));
    }

    pub(crate) fn delete_resource(&mut self, key: ResourceKey) {
        self.write(Write::DeleteResource(self.structure.id(), key));
    }

    /// Removes the invites, webhooks and pins of a deleted channel, without events. Costs time proportional to the
    /// guild's resources.
    pub(crate) fn forget_channel_resources(&mut self, channel_id: ChannelId) {
        let invites = self.resources.invites.values().filter(|invite| invite.channel_id == channel_id);
        let codes: Vec<_> = invites.map(|invite| invite.code).collect();
        for code in codes {
            self.resources.invites.remove(&code);
            self.delete_resource(ResourceKey::whole(ResourceKind::Invite, code.number()));
        }
        let webhooks = self.resources.webhooks.values().filter(|webhook| webhook.channel_id == channel_id);
        let ids: Vec<_> = webhooks.map(|webhook| webhook.id).collect();
        for id in ids {
            self.resources.webhooks.remove(&id);
            self.delete_resource(ResourceKey::whole(ResourceKind::Webhook, id.get()));
        }
        self.forget_channel_pins(channel_id);
        self.forget_channel_followers(channel_id);
    }

    /// Those of a deleted channel or thread, and its open polls.
    pub(crate) fn forget_channel_pins(&mut self, channel_id: ChannelId) {
        self.forget_polls_in(channel_id, None);
        if self.resources.pins.remove(&channel_id).is_some() {
            let key = ResourceKey::whole(ResourceKind::Pin, channel_id.get());
            self.write(Write::DeleteResources(self.structure.id(), key));
        }
    }
}
