//! GUILD_CREATE: what a session is told of a guild when its view begins.
//!
//! Spec  docs/protocol.md §6.11, "Which members / presences a GUILD_CREATE holds".

use crate::{
    members::MemberEntry,
    meta::GuildMeta,
    picture::{GuildPicture, VoiceEntry},
    protocol::GuildView,
};
use guildhall_model::{
    Channel, Member, MessageId, UserId,
    from_gateway::{ChannelBody, GuildBody, GuildCreateBody, MemberBody, PresenceBody, RoleBody, VoiceStateBody},
};
use std::sync::Arc;

/// Past this many members even a bot with GUILD_PRESENCES gets only its own member and those in voice.
const MEMBERS_LISTED_MAX: u64 = 75_000;

/// Channels with their newest message filled in, in id order.
#[must_use]
pub fn channels_with_last_message(
    meta: &GuildMeta,
    last_message_ids: &std::collections::BTreeMap<guildhall_model::ChannelId, MessageId>,
) -> Vec<Arc<Channel>> {
    let filled = |channel: &Arc<Channel>| match last_message_ids.get(&channel.id) {
        Some(id) if channel.last_message_id != Some(*id) => {
            Arc::new(Channel { last_message_id: Some(*id), ..Channel::clone(channel) })
        }
        _ => channel.clone(),
    };
    meta.channels.values().map(filled).collect()
}

/// Builds the body and hands it to `then`, because it borrows from what it is made of. With more members than
/// `large_threshold` the guild is called large.
pub fn with_guild_create<R>(
    picture: &GuildPicture,
    view: &GuildView,
    large_threshold: u16,
    then: impl FnOnce(&GuildCreateBody<'_>) -> R,
) -> R {
    let meta = &picture.meta;
    let channels = channels_with_last_message(meta, &picture.last_message_ids);
    let own = view.member.user.id;
    let is_in_voice = |user_id: UserId| picture.voice.get(user_id).is_some();
    let voice = || picture.voice.iter().map(|(_, entry)| entry);

    let listed: Vec<&MemberEntry> = match &view.members {
        Some((table, threshold)) => {
            let everybody = view.member_count <= u64::from(*threshold);
            // Roles that were deleted stay with their members for a while, and count for nothing.
            let has_role = |member: &Member| member.roles.iter().any(|role| meta.roles.contains_key(role));
            let stands_out = |entry: &MemberEntry| {
                let member = &entry.member;
                member.user.id == own
                    || is_in_voice(member.user.id)
                    || view.member_count <= MEMBERS_LISTED_MAX
                        && (everybody || entry.presence.is_some() || has_role(member) || member.nick.is_some())
            };
            table.iter().filter(|entry| stands_out(entry)).collect()
        }
        None => Vec::new(),
    };
    let mut members: Vec<MemberBody<'_>> = listed.iter().map(|entry| (&*entry.member).into()).collect();
    if view.members.is_none() {
        members.push((&*view.member).into());
        let others = voice().filter(|VoiceEntry { state, .. }| state.user_id != own);
        members.extend(others.map(|VoiceEntry { member, .. }| MemberBody::from(&**member)));
    }
    let presences = listed
        .iter()
        .filter_map(|entry| Some(PresenceBody::new(None, entry.member.user.id, entry.presence.as_deref()?)))
        .collect();
    then(&GuildCreateBody {
        guild: GuildBody::new(&meta.guild, meta.roles.values().map(|role| RoleBody::from(&**role))),
        joined_at: view.member.joined_at,
        large: view.member_count > u64::from(large_threshold),
        unavailable: false,
        member_count: view.member_count,
        members,
        channels: channels.iter().map(|channel| ChannelBody::from(&**channel)).collect(),
        threads: [],
        presences,
        voice_states: voice().map(|VoiceEntry { state, .. }| VoiceStateBody::within_guild(state)).collect(),
        stage_instances: [],
        guild_scheduled_events: [],
        soundboard_sounds: [],
        activity_instances: [],
        version: view.version,
    })
}
