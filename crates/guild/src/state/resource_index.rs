//! In-memory index of bans, invites, webhooks, pins and community settings.
//!
//! Owns        `ResourceIndex`: bans, invites, webhooks and pins by their keys; the community settings.
//! Invariants  equals the content of the store plus writes in flight.
//! Limits      `bans_max`, `invites_max`, `webhooks_per_channel_max`, `pins_per_channel_max`, each
//!             enforced on insertion.
//! Not here    the rules of each: `bans`, `invites`, `webhooks`, `pins`, `threads`, `temporary_members`.

use guildhall_model::{
    Ban, ChannelId, Follower, GuildId, GuildResource, GuildTemplate, Invite, InviteCode, MessageId, Onboarding, Pin,
    UserId, Webhook, WebhookId, WelcomeScreen,
};
use guildhall_stdx::Timestamp;
use std::{collections::BTreeMap, sync::Arc};

#[derive(Debug, Default)]
pub(crate) struct ResourceIndex {
    pub bans: BTreeMap<UserId, Arc<Ban>>,
    pub invites: BTreeMap<InviteCode, Arc<Invite>>,
    pub webhooks: BTreeMap<WebhookId, Arc<Webhook>>,
    /// Pinned messages with the time of pinning. No entry for channels without pins.
    pub pins: BTreeMap<ChannelId, BTreeMap<MessageId, Timestamp>>,
    /// Webhooks that follow an announcement channel, with their guilds. No entry for channels without followers.
    pub followers: BTreeMap<ChannelId, BTreeMap<WebhookId, GuildId>>,
    pub welcome_screen: Option<Arc<WelcomeScreen>>,
    pub onboarding: Option<Arc<Onboarding>>,
    pub template: Option<Arc<GuildTemplate>>,
    /// Accounts that joined by the vanity URL. Not stored while it is 0.
    pub vanity_uses: u32,
}

impl ResourceIndex {
    pub fn new(resources: Vec<GuildResource>) -> Self {
        let mut all = Self::default();
        for resource in resources {
            match resource {
                GuildResource::Ban(ban) => drop(all.bans.insert(ban.user.id, ban)),
                GuildResource::Invite(invite) => drop(all.invites.insert(invite.code, invite)),
                GuildResource::Webhook(webhook) => drop(all.webhooks.insert(webhook.id, webhook)),
                GuildResource::Pin(pin) => {
                    all.pins.entry(pin.channel_id).or_default().insert(pin.message_id, pin.pinned_at);
                }
                GuildResource::Follower(of) => {
                    all.followers.entry(of.channel_id).or_default().insert(of.webhook_id, of.guild_id);
                }
                GuildResource::WelcomeScreen(screen) => all.welcome_screen = Some(screen),
                GuildResource::Onboarding(onboarding) => all.onboarding = Some(onboarding),
                GuildResource::Template(template) => all.template = Some(template),
                GuildResource::VanityUses(uses) => all.vanity_uses = uses,
                // Stored with their threads.
                GuildResource::ThreadMember(_) => {}
                // `TemporaryMembers` holds them.
                GuildResource::TemporaryMember(_) => {}
                // `AuditLog` holds them.
                GuildResource::AuditEntry(_) => {}
                // `AutoMod` holds them.
                GuildResource::AutoModRule(_) => {}
                // `OpenPolls` holds them.
                GuildResource::OpenPoll(_) => {}
            }
        }
        all
    }

    /// All of them, as they are stored.
    pub fn all(&self) -> impl Iterator<Item = GuildResource> {
        let bans = self.bans.values().map(|ban| GuildResource::Ban(ban.clone()));
        let invites = self.invites.values().map(|invite| GuildResource::Invite(invite.clone()));
        let webhooks = self.webhooks.values().map(|webhook| GuildResource::Webhook(webhook.clone()));
        let pins = self.pins.iter().flat_map(|(channel_id, pins)| {
            pins.iter().map(|(message_id, pinned_at)| {
                GuildResource::Pin(Pin { channel_id: *channel_id, message_id: *message_id, pinned_at: *pinned_at })
            })
        });
        let followers = self.followers.iter().flat_map(|(channel_id, followers)| {
            followers.iter().map(|(webhook_id, guild_id)| {
                let (channel_id, webhook_id, guild_id) = (*channel_id, *webhook_id, *guild_id);
                GuildResource::Follower(Follower { channel_id, webhook_id, guild_id })
            })
        });
        let settings = [
            self.welcome_screen.clone().map(GuildResource::WelcomeScreen),
            self.onboarding.clone().map(GuildResource::Onboarding),
            self.template.clone().map(GuildResource::Template),
            (self.vanity_uses > 0).then_some(GuildResource::VanityUses(self.vanity_uses)),
        ];
        bans.chain(invites).chain(webhooks).chain(pins).chain(followers).chain(settings.into_iter().flatten())
    }

    /// Number of resources.
    pub fn len(&self) -> usize {
        let pins: usize = self.pins.values().map(BTreeMap::len).sum();
        let followers: usize = self.followers.values().map(BTreeMap::len).sum();
        self.bans.len() + self.invites.len() + self.webhooks.len() + pins + followers
    }
}
