//! Reading: the read states of READY, with the mentions after each.
//!
//! Owns        the rule which messages count as a mention.
//! Invariants  M1 a mention counts only in a channel that the account can view when READY is composed, so the counts
//!             reveal nothing of others. M2 a message after the view of its guild does not count: its MESSAGE_CREATE
//!             follows READY. (tests `m1_*`, `m2_*`)
//! Limits      those of the store, which returns the mentions.
//! Spec        docs/protocol/reference.md §6.12; docs/protocol/choices.md "Read states".

use crate::OwnData;
use guildhall_guild_protocol::{GuildReplica, GuildView};
use guildhall_model::{
    ChannelId, GuildId, MentionTarget, MessageId, NotificationSettings, ReadState, UnreadMention,
    from_gateway::ReadStateBody,
};
use guildhall_relay::newest_in_view;
use guildhall_stdx::Timestamp;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Read states by channel: those that are stored, and those of channels with mentions.
pub(crate) fn read_states(own: &OwnData, views: &[(GuildReplica, GuildView)], now: Timestamp) -> Vec<ReadStateBody> {
    let mut counts = mention_counts(own, views, now);
    let in_directs = own.notifications.iter().find(|settings| settings.guild_id.is_none());
    let counted = own.unread_directs.iter().filter(|(id, _)| !in_directs.is_some_and(|of| of.mutes(*id, now)));
    counts.extend(counted.copied());
    let mut bodies = Vec::with_capacity(own.read_states.len() + counts.len());
    for state in &own.read_states {
        bodies.push(ReadStateBody::new(state, counts.remove(&state.channel_id).unwrap_or(0)));
    }
    bodies.extend(counts.into_iter().map(|(id, count)| ReadStateBody::new(&ReadState::new(id), count)));
    bodies
}

/// A guild's part in the counts of one channel.
struct Place {
    guild_id: GuildId,
    newest: MessageId,
}

fn mention_counts(own: &OwnData, views: &[(GuildReplica, GuildView)], now: Timestamp) -> BTreeMap<ChannelId, u32> {
    let settings: HashMap<GuildId, &NotificationSettings> =
        own.notifications.iter().filter_map(|settings| Some((settings.guild_id?, settings))).collect();
    let place = |channel_id| {
        views.iter().find_map(|(replica, view)| {
            let newest = newest_in_view(replica, &view.member, channel_id, now)?;
            Some(Place { guild_id: replica.id(), newest })
        })
    };
    let mut places: HashMap<ChannelId, Option<Place>> = HashMap::new();
    let mut counted: BTreeSet<(ChannelId, MessageId)> = BTreeSet::new();
    for UnreadMention { channel_id, message_id, target } in own.mentions.iter().copied() {
        let Some(place) = places.entry(channel_id).or_insert_with(|| place(channel_id)) else { continue };
        let settings = settings.get(&place.guild_id);
        let is_suppressed = match target {
            MentionTarget::User => false,
            MentionTarget::Role(id) if id.get() == place.guild_id.get() => {
                settings.is_some_and(|settings| settings.suppress_everyone)
            }
            MentionTarget::Role(_) => settings.is_some_and(|settings| settings.suppress_roles),
        };
        if !is_suppressed && message_id <= place.newest {
            counted.insert((channel_id, message_id));
        }
    }
    let mut counts = BTreeMap::new();
    for (channel_id, _) in counted {
        *counts.entry(channel_id).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_guild_protocol::{GuildStructure, ReplicaUpdate};
    use guildhall_model::{
        Channel, ChannelType, Guild, Id, Member, Overwrite, OverwriteKind, Permissions, Role, RoleId, User, UserId,
    };
    use std::sync::Arc;

    const GUILD: GuildId = GuildId::new(100);
    const ADA: UserId = UserId::new(7);
    const CREW: RoleId = RoleId::new(110);
    const NOW: Timestamp = Timestamp(1_000);

    fn id<T>(n: u64) -> Id<T> {
        Id::new(n)
    }

    /// A guild with two channels. The newest message of each is 20; all may view 101, and only owners 102.
    fn views() -> Vec<(GuildReplica, GuildView)> {
        let everyone = Role::everyone(GUILD, Permissions::VIEW_CHANNEL);
        let mut hidden = Channel::new(id(102), GUILD, ChannelType::Text, "hidden");
        hidden.overwrites = vec![Overwrite {
            target: OverwriteKind::Role(GUILD.cast()),
            allow: Permissions::NONE,
            deny: Permissions::VIEW_CHANNEL,
        }];
        let open = Channel::new(id(101), GUILD, ChannelType::Text, "open");
        let mut replica = GuildReplica::new(Arc::new(GuildStructure {
            guild: Arc::new(Guild::new(GUILD, "guild", UserId::new(50))),
            roles: Arc::new([(everyone.id, Arc::new(everyone))].into_iter().collect()),
            channels: Arc::new([open, hidden].into_iter().map(|channel| (channel.id, Arc::new(channel))).collect()),
        }));
        for channel_id in [101, 102] {
            replica.apply(&ReplicaUpdate::Message(id(channel_id), id(20)));
        }
        let member = Arc::new(Member::new(Arc::new(User::new(ADA, "ada")), Timestamp(0)));
        vec![(replica, GuildView { member, member_count: 2, members: None, version: 1, is_transferred: false })]
    }

    fn mention(channel_id: u64, message_id: u64, target: MentionTarget) -> UnreadMention {
        UnreadMention { channel_id: id(channel_id), message_id: id(message_id), target }
    }

    /// READY has exactly these channels, in none of which something was read, with these counts.
    #[track_caller]
    fn check(own: &OwnData, expected: &[(u64, u32)]) {
        let unread = |(channel_id, count): &(u64, u32)| ReadStateBody::new(&ReadState::new(id(*channel_id)), *count);
        let expected: Vec<ReadStateBody> = expected.iter().map(unread).collect();
        // A body can only be serialized.
        assert_eq!(format!("{:?}", read_states(own, &views(), NOW)), format!("{expected:?}"));
    }

    #[test]
    fn m1_only_viewed_channels_count() {
        let (user, crew) = (MentionTarget::User, MentionTarget::Role(CREW));
        let mut own =
            OwnData { read_states: vec![ReadState::new(id(102)), ReadState::new(id(105))], ..OwnData::default() };
        // One message by two targets, another one, a hidden channel, a channel of no guild.
        own.mentions = vec![
            mention(101, 11, user),
            mention(101, 11, crew),
            mention(101, 12, crew),
            mention(102, 11, user),
            mention(103, 11, user),
        ];
        check(&own, &[(102, 0), (105, 0), (101, 2)]);
        let views: Vec<(GuildReplica, GuildView)> = Vec::new();
        assert!(read_states(&OwnData { read_states: Vec::new(), ..own }, &views, NOW).is_empty());
    }

    #[test]
    fn m2_later_messages_do_not_count() {
        let mentions = vec![mention(101, 20, MentionTarget::User), mention(101, 21, MentionTarget::User)];
        let own = OwnData { mentions, ..OwnData::default() };
        check(&own, &[(101, 1)]);
    }

    #[test]
    fn settings_suppress_mentions_of_roles() {
        let everyone = MentionTarget::Role(GUILD.cast());
        let mentions = vec![
            mention(101, 1, everyone),
            mention(101, 2, MentionTarget::Role(CREW)),
            mention(101, 3, MentionTarget::User),
            mention(101, 3, everyone),
        ];
        let mut own = OwnData { mentions, ..OwnData::default() };
        let mut settings = NotificationSettings::new(Some(GUILD));
        for (suppress_everyone, suppress_roles, expected) in
            [(false, false, 3), (true, false, 2), (false, true, 2), (true, true, 1)]
        {
            (settings.suppress_everyone, settings.suppress_roles) = (suppress_everyone, suppress_roles);
            own.notifications = vec![settings.clone()];
            check(&own, &[(101, expected)]);
        }
    }

    #[test]
    fn a_muted_direct_message_counts_nothing() {
        let mut own = OwnData { unread_directs: vec![(id(900), 4), (id(901), 5)], ..OwnData::default() };
        let mut settings = NotificationSettings::new(None);
        let mut muted = guildhall_model::ChannelOverride::new(id(900));
        muted.muted = true;
        settings.channel_overrides = vec![muted];
        own.notifications = vec![settings.clone()];
        check(&own, &[(901, 5)]);
        let end_time = Some(Timestamp(NOW.0 - 1));
        settings.channel_overrides[0].mute_config =
            Some(guildhall_model::MuteConfig { end_time, selected_time_window: Some(1) });
        own.notifications = vec![settings];
        // Not muted any more.
        check(&own, &[(900, 4), (901, 5)]);
    }
}
