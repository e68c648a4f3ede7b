//! Standby: a guild that follows another node's, and emits nothing.

use super::HandoffItem;
use crate::{machine::Guild, outbox::Output};
use guildhall_guild_protocol::{GuildStructure, ThreadEntry};
use guildhall_model::{
    Channel, ChannelId, GuildResource, Id, InviteCode, Member, MessageId, ResourceKey, ResourceKind, ThreadMember,
    UserId, WebhookId,
};
use guildhall_stdx::Now;
use std::{collections::BTreeMap, sync::Arc};

impl Guild {
    /// Applies a change of the guild that this standby follows. Costs what the change costs there, and the building of
    /// a list where it is watched first.
    pub fn follow(&mut self, now: Now, item: HandoffItem) {
        self.input(|guild| guild.follow_item(now, item));
        self.end_standby_work(now);
    }

    /// Runs what the last input began, and drops its outputs (N2).
    pub(super) fn end_standby_work(&mut self, now: Now) {
        loop {
            while let Some(output) = self.poll_output() {
                if let Output::Job(job) = output {
                    self.handle_job_done(now, job.run());
                }
            }
            // Only cleanups of relays: the node that has the guild does everything else.
            let Some(at) = self.background.due_at() else { return };
            let now = Now { instant: at.max(now.instant), ..now };
            self.input(|guild| guild.run_background_task(now));
        }
    }

    fn follow_item(&mut self, now: Now, item: HandoffItem) {
        match item {
            HandoffItem::Guild(fields) => self.follow_structure(|structure| structure.guild = fields),
            HandoffItem::Role(role) => self.follow_structure(|structure| {
                Arc::make_mut(&mut structure.roles).insert(role.id, role);
            }),
            HandoffItem::RoleGone(role_id) => self.follow_structure(|structure| {
                Arc::make_mut(&mut structure.roles).remove(&role_id);
            }),
            HandoffItem::Channel(channel) if channel.kind.is_thread() => self.follow_thread(now, channel),
            HandoffItem::Channel(channel) => self.follow_structure(|structure| {
                Arc::make_mut(&mut structure.channels).insert(channel.id, channel);
            }),
            HandoffItem::ChannelGone(channel_id) => self.follow_channel_gone(channel_id),
            HandoffItem::Member(member) => self.follow_member(member),
            HandoffItem::MemberGone(user_id) => self.follow_member_gone(user_id),
            HandoffItem::Resource(resource) => self.follow_resource(resource),
            HandoffItem::ResourceGone(key) => self.follow_resource_gone(key),
            HandoffItem::ResourcesGone(key) => self.follow_resources_gone(key),
            HandoffItem::Relay(message) => self.run_relay(now, message),
            HandoffItem::Voice(user_id, place) => {
                self.voice.set_place(user_id, place.map(|place| (place.entry, place.session)));
            }
            HandoffItem::Shown(user_id, presence) => {
                self.presences.set_shown(user_id, presence);
                self.refresh_presence(now, user_id);
            }
        }
    }

    /// Changes of voice states that follow from it are items of their own.
    fn follow_structure(&mut self, change: impl FnOnce(&mut GuildStructure)) {
        change(Arc::make_mut(&mut self.structure));
        self.lists_follow_structure();
    }

    fn follow_thread(&mut self, now: Now, channel: Arc<Channel>) {
        match self.threads.get(channel.id).cloned() {
            Some(before) => drop(self.threads.change(now, &before, Arc::unwrap_or_clone(channel))),
            None => self.threads.add(now, ThreadEntry { channel, members: Arc::new(BTreeMap::new()) }),
        }
    }

    fn follow_channel_gone(&mut self, channel_id: ChannelId) {
        if let Some(entry) = self.threads.get(channel_id).cloned() {
            self.threads.remove(&entry);
        } else {
            self.follow_structure(|structure| {
                Arc::make_mut(&mut structure.channels).remove(&channel_id);
            });
        }
        self.messages.forget_channel(channel_id);
    }

    fn follow_member(&mut self, member: Arc<Member>) {
        self.put_entry(member.clone());
        self.voice.set_member(&member);
    }

    fn follow_member_gone(&mut self, user_id: UserId) {
        let sessions: Vec<_> = self.relays.user_sessions(user_id).map(|(key, _)| key).collect();
        sessions.into_iter().for_each(|key| drop(self.relays.remove_session(key)));
        self.presences.forget(user_id);
        self.remove_entry(user_id);
    }

    fn follow_resource(&mut self, resource: GuildResource) {
        match resource {
            GuildResource::Ban(ban) => drop(self.resources.bans.insert(ban.user.id, ban)),
            GuildResource::Invite(invite) => drop(self.resources.invites.insert(invite.code, invite)),
            GuildResource::Webhook(webhook) => drop(self.resources.webhooks.insert(webhook.id, webhook)),
            GuildResource::Pin(pin) => {
                self.resources.pins.entry(pin.channel_id).or_default().insert(pin.message_id, pin.pinned_at);
            }
            GuildResource::ThreadMember(member) => self.follow_thread_member(member),
            GuildResource::TemporaryMember(user_id) => self.temporary.follow(user_id),
            GuildResource::AuditEntry(entry) => self.audit.insert(entry),
            GuildResource::OpenPoll(poll) => self.polls.follow(poll),
            GuildResource::AutoModRule(rule) => self.auto_mod.follow(rule),
            GuildResource::WelcomeScreen(screen) => self.resources.welcome_screen = Some(screen),
            GuildResource::Onboarding(onboarding) => self.resources.onboarding = Some(onboarding),
            GuildResource::Template(template) => self.resources.template = Some(template),
            GuildResource::VanityUses(uses) => self.resources.vanity_uses = uses,
            GuildResource::Follower(of) => {
                self.resources.followers.entry(of.channel_id).or_default().insert(of.webhook_id, of.guild_id);
            }
        }
    }

    fn follow_thread_member(&mut self, member: ThreadMember) {
        if let Some(entry) = self.threads.get(member.thread_id).cloned() {
            self.threads.add_member(&entry, member);
        }
    }

    fn follow_resource_gone(&mut self, key: ResourceKey) {
        let ResourceKey { kind, id, part } = key;
        match kind {
            ResourceKind::Ban => drop(self.resources.bans.remove(&UserId::new(id))),
            ResourceKind::Invite => drop(self.resources.invites.remove(&InviteCode::new(id))),
            ResourceKind::Webhook => drop(self.resources.webhooks.remove(&WebhookId::new(id))),
            ResourceKind::Pin => {
                let channel_id = ChannelId::new(id);
                if let Some(pins) = self.resources.pins.get_mut(&channel_id) {
                    pins.retain(|message_id, _| message_id.get() != part);
                    if pins.is_empty() {
                        self.resources.pins.remove(&channel_id);
                    }
                }
            }
            ResourceKind::ThreadMember => {
                if let Some(entry) = self.threads.get(ChannelId::new(id)).cloned() {
                    self.threads.remove_member(&entry, UserId::new(part));
                }
            }
            ResourceKind::TemporaryMember => {
                self.temporary.remove(UserId::new(id));
            }
            ResourceKind::AuditEntry => self.audit.remove(Id::new(id)),
            ResourceKind::Follower => {
                if let Some(followers) = self.resources.followers.get_mut(&ChannelId::new(id)) {
                    followers.remove(&WebhookId::new(part));
                }
            }
            ResourceKind::AutoModRule => drop(self.auto_mod.remove(Id::new(id))),
            ResourceKind::WelcomeScreen => self.resources.welcome_screen = None,
            ResourceKind::Onboarding => self.resources.onboarding = None,
            ResourceKind::Template => self.resources.template = None,
            ResourceKind::VanityUses => self.resources.vanity_uses = 0,
            ResourceKind::OpenPoll => drop(self.polls.remove((ChannelId::new(id), MessageId::new(part)))),
        }
    }

    /// Whole channels' pins, and the members of a thread that is gone.
    fn follow_resources_gone(&mut self, key: ResourceKey) {
        match key.kind {
            ResourceKind::Pin => drop(self.resources.pins.remove(&ChannelId::new(key.id))),
            ResourceKind::Follower => drop(self.resources.followers.remove(&ChannelId::new(key.id))),
            ResourceKind::ThreadMember => {
                if let Some(entry) = self.threads.get(ChannelId::new(key.id)).cloned() {
                    for user_id in entry.members.keys() {
                        let entry = self.threads.get(entry.channel.id).cloned();
                        entry.into_iter().for_each(|entry| drop(self.threads.remove_member(&entry, *user_id)));
                    }
                }
            }
            _ => self.follow_resource_gone(key),
        }
    }
}
