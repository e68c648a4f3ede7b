//! Small events about guild resources: recipients and content (docs/protocol/reference.md §5.3, §7.1, §7.2, §7.4).

use super::{
    State,
    audience_model::{AudienceModel, ThreadPlace},
    event::{GUILD_MEMBERS, GUILD_MESSAGES, GUILDS, Users},
    permissions::{BAN_MEMBERS, MANAGE_CHANNELS, MANAGE_GUILD, MANAGE_WEBHOOKS, VIEW_AUDIT_LOG},
    text::list,
    thread::thread_notice_text,
};
use guildhall_guild_protocol::ResourcePayload;
use guildhall_model::ChannelId;

const GUILD_MODERATION: u32 = 1 << 2;
const GUILD_EXPRESSIONS: u32 = 1 << 3;
const GUILD_WEBHOOKS: u32 = 1 << 5;
const GUILD_INVITES: u32 = 1 << 6;
const GUILD_SCHEDULED_EVENTS: u32 = 1 << 16;
const AUTO_MODERATION_CONFIGURATION: u32 = 1 << 20;
const AUTO_MODERATION_EXECUTION: u32 = 1 << 21;
const GUILD_MESSAGE_POLLS: u32 = 1 << 24;

/// Recipients of a notice.
pub struct ResourceAudience {
    pub who: AudienceModel,
    pub intents: u32,
    pub users: Users,
    /// Receives it in any case.
    pub own: Option<u64>,
}

/// Of a notice in a guild that was like `before` and is like `state` now.
pub fn resource_audience(resource: &ResourcePayload, before: &State, state: &State) -> ResourceAudience {
    let own = match resource {
        ResourcePayload::ThreadMembers { added, removed, .. } => {
            added.as_ref().map(|(added, _)| added.user_id).or(*removed).map(|user| user.get())
        }
        _ => None,
    };
    let messages_of = |channel: ChannelId| AudienceModel::of_messages(state, channel.get());
    let thread = |id: ChannelId| {
        let gone = before.thread_place(id.get()).map(|thread| ThreadPlace { is_end: true, ..thread });
        state.thread_place(id.get()).or(gone)
    };
    let thread_for = |id: ChannelId, only: Option<u64>| match (thread(id), only) {
        (Some(thread), Some(only)) => AudienceModel::OneOfThread(thread, only),
        (Some(thread), None) => AudienceModel::Thread(thread),
        (None, _) => AudienceModel::Users(Default::default()),
    };
    let (who, intents, users) = match resource {
        ResourcePayload::Ban { .. } => {
            (AudienceModel::Guild(BAN_MEMBERS | VIEW_AUDIT_LOG), GUILD_MODERATION, Users::All)
        }
        ResourcePayload::AuditEntry(_) => (AudienceModel::Guild(VIEW_AUDIT_LOG), GUILD_MODERATION, Users::All),
        ResourcePayload::Invite(invite) => {
            (AudienceModel::Channel(invite.channel_id.get(), MANAGE_CHANNELS), GUILD_INVITES, Users::Watchers)
        }
        ResourcePayload::InviteGone { channel_id, .. } => {
            (AudienceModel::Channel(channel_id.get(), MANAGE_CHANNELS), GUILD_INVITES, Users::Watchers)
        }
        ResourcePayload::Webhooks(channel) => {
            (AudienceModel::Channel(channel.get(), MANAGE_WEBHOOKS), GUILD_WEBHOOKS, Users::All)
        }
        ResourcePayload::Pins { channel_id, .. } => (messages_of(*channel_id), GUILDS, Users::Active),
        ResourcePayload::MessagesGone { channel_id, .. } => (messages_of(*channel_id), GUILD_MESSAGES, Users::Active),
        ResourcePayload::PollVote { channel_id, .. } => (messages_of(*channel_id), GUILD_MESSAGE_POLLS, Users::Active),
        ResourcePayload::AutoModRule(_) => {
            (AudienceModel::Guild(MANAGE_GUILD), AUTO_MODERATION_CONFIGURATION, Users::Watchers)
        }
        ResourcePayload::AutoModExecution(_) => {
            (AudienceModel::Guild(MANAGE_GUILD), AUTO_MODERATION_EXECUTION, Users::Watchers)
        }
        ResourcePayload::Emojis(_) | ResourcePayload::Stickers(_) => {
            (AudienceModel::Members, GUILD_EXPRESSIONS, Users::All)
        }
        // They are of no channel.
        ResourcePayload::ScheduledEvent(_) | ResourcePayload::ScheduledEventUser { .. } => {
            (AudienceModel::Members, GUILD_SCHEDULED_EVENTS, Users::All)
        }
        ResourcePayload::Stage(stage) => (AudienceModel::at(state, stage.channel_id.get()), GUILDS, Users::All),
        ResourcePayload::Thread(event) => {
            (thread_for(event.entry.channel.id, event.own.map(|own| own.user_id.get())), GUILDS, Users::Threads)
        }
        ResourcePayload::ThreadGone(channel) => (thread_for(channel.id, None), GUILDS, Users::Threads),
        ResourcePayload::ThreadMember(member) => {
            (thread_for(member.thread_id, Some(member.user_id.get())), GUILDS, Users::Threads)
        }
        ResourcePayload::ThreadMembers { thread_id, .. } => {
            (thread_for(*thread_id, None), GUILD_MEMBERS, Users::Threads)
        }
        // Relays make the first, no client here requests the second, and the others are not of a guild.
        ResourcePayload::ThreadList { .. }
        | ResourcePayload::ThreadMemberList { .. }
        | ResourcePayload::Direct { .. }
        | ResourcePayload::Recipient { .. } => (AudienceModel::Users(Default::default()), GUILDS, Users::Watchers),
    };
    ResourceAudience { who, intents, users, own }
}

/// Content of a notice.
pub fn notice_text(state: &State, resource: &ResourcePayload) -> String {
    match resource {
        ResourcePayload::Ban { user, delete_message_s } => {
            let seconds = delete_message_s.map_or("none".to_owned(), |seconds| seconds.to_string());
            format!("user={} delete={seconds}", user.id)
        }
        ResourcePayload::AuditEntry(entry) => {
            let target = entry.target_id.map_or(0, |id| id.get());
            format!("id={} action={} user={} target={target}", entry.id, entry.action as u8, entry.user_id)
        }
        ResourcePayload::Invite(invite) => {
            let inviter = invite.inviter.as_ref().map_or(0, |user| user.id.get());
            format!("code={} channel={} inviter={inviter}", invite.code, invite.channel_id)
        }
        ResourcePayload::InviteGone { code, channel_id } => format!("code={code} channel={channel_id}"),
        ResourcePayload::Webhooks(channel_id) => format!("channel={channel_id}"),
        ResourcePayload::Pins { channel_id, last_pin_timestamp } => {
            format!("channel={channel_id} pinned={}", last_pin_timestamp.is_some())
        }
        ResourcePayload::MessagesGone { channel_id, ids } => format!("channel={channel_id} ids={}", list(ids.iter())),
        ResourcePayload::PollVote { user_id, channel_id, message_id, answer_id } => {
            format!("user={user_id} channel={channel_id} message={message_id} answer={answer_id}")
        }
        ResourcePayload::AutoModRule(rule) => format!("id={}", rule.id),
        ResourcePayload::AutoModExecution(of) => format!("rule={} user={}", of.rule_id, of.user_id),
        ResourcePayload::Emojis(guild) => list(guild.emojis.iter().map(|emoji| format!("{}:{}", emoji.id, emoji.name))),
        ResourcePayload::Stickers(guild) => {
            list(guild.stickers.iter().map(|sticker| format!("{}:{}", sticker.id, sticker.name)))
        }
        ResourcePayload::ScheduledEvent(event) => format!("id={} name={:?}", event.id, event.name),
        ResourcePayload::ScheduledEventUser { event_id, user_id } => format!("event={event_id} user={user_id}"),
        ResourcePayload::Stage(stage) => format!("channel={} topic={:?}", stage.channel_id, stage.topic),
        threads => thread_notice_text(state, threads).unwrap_or_else(|| format!("{threads:?}")),
    }
}
