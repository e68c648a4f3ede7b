//! View: the state of a guild that a session receives when its view begins, in GUILD_CREATE or READY.
//!
//! Owns        which channels, hidden channels, threads, members and presences it has, and in which form.
//! Spec        docs/protocol/reference.md §6.11 "Which members / presences a GUILD_CREATE holds".

use guildhall_guild_protocol::{
    AudienceRule, Event, GuildReplica, GuildStructure, GuildView, HiddenChannels, MemberEntry, Payload, Redaction,
    ResourcePayload, VoiceEntry, threads_of,
};
use guildhall_model::{
    Capabilities, Channel, ChannelId, EventName, Member, MessageId, Overwrite, Permissions, Presence, ScheduledEvent,
    UserId,
    from_gateway::{ChannelBody, GuildPeople, GuildSnapshot, RoleBody},
};
use guildhall_stdx::Timestamp;
use std::{collections::BTreeSet, sync::Arc};

/// Past this many members even a bot with GUILD_PRESENCES gets only its own member and those in voice.
const MEMBERS_LISTED_MAX: u64 = 75_000;

/// Form of the guild that a session receives.
#[derive(Clone, Copy, Debug)]
pub struct ViewForm {
    /// Members past which the guild is `large`.
    pub large_threshold: u16,
    /// Of the client.
    pub capabilities: Capabilities,
    /// Without threads that the account has not joined, as for user accounts.
    pub only_joined_threads: bool,
    /// Setting of the node.
    pub hidden: HiddenChannels,
}

/// The guild without members, presences and voice states, as it was at `now`, when the view began.
#[must_use]
pub fn guild_snapshot<'a>(
    replica: &'a GuildReplica,
    view: &'a GuildView,
    ViewForm { large_threshold, capabilities, only_joined_threads, hidden }: ViewForm,
    now: Timestamp,
) -> GuildSnapshot<'a> {
    let structure = &replica.structure;
    let form = hidden.form(capabilities.contains(Capabilities::CHANNEL_OBFUSCATION));
    let may_view = viewer(structure, &view.member);
    let body = |channel: &'a Channel| {
        if !may_view(channel) {
            return match form? {
                Redaction::Channel => Some(ChannelBody::obfuscated(channel)),
                _ => Some(ChannelBody::from(channel).without_messages()),
            };
        }
        let body = ChannelBody::from(channel);
        Some(match replica.last_message_ids.get(&channel.id) {
            Some(id) => body.with_last_message(*id),
            None => body,
        })
    };
    let is_viewed = |id: &ChannelId| structure.channels.get(id).is_some_and(|channel| may_view(channel));
    let is_open = |event: &&ScheduledEvent| event.channel_id.is_none_or(|id| is_viewed(&id));
    GuildSnapshot {
        guild: &structure.guild,
        stage_instances: structure.guild.stage_instances.iter().filter(|stage| is_viewed(&stage.channel_id)).collect(),
        scheduled_events: structure.guild.scheduled_events.iter().map(|event| &**event).filter(is_open).collect(),
        roles: structure.roles.values().map(|role| RoleBody::from(&**role)).collect(),
        channels: structure.channels.values().filter_map(|channel| body(channel)).collect(),
        threads: threads_of(replica, &view.member, only_joined_threads, None, now)
            .into_iter()
            .map(|entry| entry.body(entry.members.get(&view.member.user.id).copied()))
            .collect(),
        large: view.member_count > u64::from(large_threshold),
        member_count: view.member_count,
        version: view.version,
    }
}

/// The newest message of a channel or thread that a member can view; None if they cannot, or it is not of this guild.
#[must_use]
pub fn newest_in_view(
    replica: &GuildReplica,
    member: &Member,
    channel_id: ChannelId,
    now: Timestamp,
) -> Option<MessageId> {
    let structure = &replica.structure;
    if let Some(channel) = structure.channels.get(&channel_id) {
        let newest = replica.last_message_ids.get(&channel_id).copied().or(channel.last_message_id);
        return viewer(structure, member)(channel).then(|| newest.unwrap_or(MessageId::new(0)));
    }
    let thread = replica.threads.get(channel_id)?;
    let is_viewed = thread.is_viewed_by(structure, member, now);
    is_viewed.then(|| thread.channel.last_message_id.unwrap_or(MessageId::new(0)))
}

/// Whether a member can view a channel. Time-outs never take VIEW_CHANNEL away, so the time does not matter here.
fn viewer(structure: &GuildStructure, member: &Member) -> impl Fn(&Channel) -> bool {
    let standing = structure.standing(member, Timestamp(0));
    let in_guild = structure.guild_permissions(standing).contains(Permissions::VIEW_CHANNEL);
    move |channel| {
        let decides = |overwrite: &Overwrite| (overwrite.allow | overwrite.deny).contains(Permissions::VIEW_CHANNEL);
        // Most channels decide nothing, and some members are in hundreds of them.
        match channel.overwrites.iter().any(decides) {
            false => in_guild,
            true => structure.channel_permissions(standing, channel).contains(Permissions::VIEW_CHANNEL),
        }
    }
}

/// Which of the guild's channels a member can view, as bits in the order of `GuildStructure::channels`. All that
/// `guild_snapshot` has of a member without threads follows from them.
#[must_use]
pub fn viewed_channels(structure: &GuildStructure, member: &Member) -> Box<[u64]> {
    let may_view = viewer(structure, member);
    let mut bits = vec![0; structure.channels.len().div_ceil(64)];
    for (n, channel) in structure.channels.values().enumerate() {
        bits[n / 64] |= u64::from(may_view(channel)) << (n % 64);
    }
    bits.into()
}

/// Whether two replicas without threads are of one state: they share all of it.
#[must_use]
pub fn has_same_state(one: &GuildReplica, other: &GuildReplica) -> bool {
    let is_same_voice = |(one, other): ((UserId, &VoiceEntry), (UserId, &VoiceEntry))| {
        Arc::ptr_eq(&one.1.state, &other.1.state) && Arc::ptr_eq(&one.1.member, &other.1.member)
    };
    Arc::ptr_eq(&one.structure, &other.structure)
        && Arc::ptr_eq(&one.last_message_ids, &other.last_message_ids)
        && one.threads.is_empty()
        && other.threads.is_empty()
        && one.voice.len() == other.voice.len()
        && one.voice.iter().zip(other.voice.iter()).all(is_same_voice)
}

/// Members, presences and voice states that the session receives.
#[must_use]
pub fn guild_people<'a>(replica: &'a GuildReplica, view: &'a GuildView) -> GuildPeople<'a> {
    let own = view.member.user.id;
    // As the events do, this includes users in channels in view, and the user's own state.
    let viewed = viewed_voice_channels(replica, &view.member);
    let is_told = |entry: &&VoiceEntry| {
        entry.state.user_id == own || entry.state.channel_id.is_some_and(|channel_id| viewed.contains(&channel_id))
    };
    let voice = || replica.voice.iter().map(|(_, entry)| entry).filter(is_told);
    let voice_states = voice().map(|VoiceEntry { state, .. }| &**state).collect();
    let Some((table, threshold)) = &view.members else {
        let others = voice().filter(|VoiceEntry { state, .. }| state.user_id != own);
        let others = others.map(|VoiceEntry { member, .. }| &**member).collect();
        return GuildPeople { own: &view.member, others, presences: Vec::new(), voice_states };
    };
    let everybody = view.member_count <= u64::from(*threshold);
    // Roles that were deleted stay with their members for a while, and count for nothing.
    let has_role = |member: &Member| member.roles.iter().any(|role| replica.structure.roles.contains_key(role));
    let stands_out = |entry: &&MemberEntry| {
        let member = &entry.member;
        member.user.id == own
            || replica.voice.get(member.user.id).as_ref().is_some_and(is_told)
            || view.member_count <= MEMBERS_LISTED_MAX
                && (everybody || entry.presence.is_some() || has_role(member) || member.nick.is_some())
    };
    let listed: Vec<&MemberEntry> = table.iter().filter(stands_out).collect();
    let presence = |entry: &&'a MemberEntry| -> Option<(UserId, &'a Presence)> {
        Some((entry.member.user.id, entry.presence.as_deref()?))
    };
    GuildPeople {
        own: &view.member,
        others: listed.iter().map(|entry| &*entry.member).filter(|member| member.user.id != own).collect(),
        presences: listed.iter().filter_map(presence).collect(),
        voice_states,
    }
}

/// Threads and channels in GUILD_CREATE that other members may not see: open threads, channels with others in voice,
/// and all channels in view unless hidden channels are listed.
#[must_use]
pub fn view_places(
    replica: &GuildReplica,
    view: &GuildView,
    ViewForm { only_joined_threads, hidden, .. }: ViewForm,
    now: Timestamp,
) -> Vec<ChannelId> {
    let may_view = viewer(&replica.structure, &view.member);
    let listed =
        replica.structure.channels.values().filter(|channel| hidden != HiddenChannels::Listed && may_view(channel));
    let own = view.member.user.id;
    let viewed = viewed_voice_channels(replica, &view.member);
    let others = replica.voice.iter().map(|(_, entry)| &entry.state).filter(|state| state.user_id != own);
    let voice: BTreeSet<ChannelId> =
        others.filter_map(|state| state.channel_id).filter(|id| viewed.contains(id)).collect();
    let threads = threads_of(replica, &view.member, only_joined_threads, None, now);
    let threads = threads.into_iter().map(|entry| entry.channel.id);
    voice.into_iter().chain(threads).chain(listed.map(|channel| channel.id)).collect()
}

/// The voice channels in use that `member` can view.
fn viewed_voice_channels(replica: &GuildReplica, member: &Member) -> BTreeSet<ChannelId> {
    let structure = &replica.structure;
    let taken: BTreeSet<ChannelId> = replica.voice.iter().filter_map(|(_, entry)| entry.state.channel_id).collect();
    let may_view = viewer(structure, member);
    let is_viewed = |id: &ChannelId| structure.channels.get(id).is_some_and(|channel| may_view(channel));
    taken.into_iter().filter(is_viewed).collect()
}

/// THREAD_LIST_SYNC: open threads of these channels, or of all, that a member can view. None if there are none, and the
/// member receives only joined threads: they have joined none there.
pub(crate) fn thread_list(
    replica: &GuildReplica,
    member: &Member,
    channel_ids: Option<Arc<[ChannelId]>>,
    joined_only: bool,
    now: Timestamp,
) -> Option<Event> {
    let threads = threads_of(replica, member, joined_only, channel_ids.as_deref(), now);
    if threads.is_empty() && joined_only {
        return None;
    }
    let threads = threads.into_iter().cloned().collect();
    let user_id = member.user.id;
    let rule = channel_ids.clone().map_or(AudienceRule::User(user_id), AudienceRule::Channels);
    let resource = ResourcePayload::ThreadList { channel_ids, threads, user_id, joined_only };
    Some(Event::new(replica.id(), EventName::ThreadListSync, rule, Payload::Resource(Box::new(resource))))
}
