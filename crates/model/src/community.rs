//! Community settings of a guild: its welcome screen, its onboarding, and its template.
//!
//! Owns        `WelcomeScreen`, `Onboarding`, `GuildTemplate`; which parts of a guild a template has.
//! Spec        docs/protocol/choices.md "Community".

use crate::{
    channel::{Channel, Overwrite, OverwriteKind},
    emoji::ReactionEmoji,
    forum::DefaultReaction,
    guild::Guild,
    id::{ChannelId, GuildId, Id, RoleId, UserId},
    invite::InviteCode,
    role::{Role, RoleIcon},
    user::User,
};
use guildhall_stdx::Timestamp;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Text and channels that a guild shows to newcomers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WelcomeScreen {
    /// Shown with invites, and to all members.
    pub enabled: bool,
    /// 0–140 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// At most five.
    #[serde(default)]
    pub channels: Vec<WelcomeChannel>,
}

/// A channel of a welcome screen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WelcomeChannel {
    pub channel_id: ChannelId,
    /// 1–50 characters.
    pub description: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emoji: Option<ReactionEmoji>,
}

/// Questions to new members, and the channels that all of them get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Onboarding {
    pub enabled: bool,
    /// What counts for the number of channels: `MODE_DEFAULT` or `MODE_ADVANCED`.
    pub mode: u8,
    #[serde(default)]
    pub default_channel_ids: Vec<ChannelId>,
    #[serde(default)]
    pub prompts: Vec<OnboardingPrompt>,
}

impl Onboarding {
    /// Only the default channels count.
    pub const MODE_DEFAULT: u8 = 0;
    /// The channels of the questions count too.
    pub const MODE_ADVANCED: u8 = 1;
}

/// A question of an onboarding, with its answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnboardingPrompt {
    pub id: Id<()>,
    /// 0 multiple choice, 1 drop-down.
    pub kind: u8,
    pub title: String,
    pub single_select: bool,
    pub required: bool,
    /// Shown to new members; otherwise only among the channels and roles.
    pub in_onboarding: bool,
    pub options: Vec<OnboardingOption>,
}

/// An answer, and what a member gets for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnboardingOption {
    pub id: Id<()>,
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emoji: Option<ReactionEmoji>,
    #[serde(default)]
    pub role_ids: Vec<RoleId>,
    #[serde(default)]
    pub channel_ids: Vec<ChannelId>,
}

/// A copy of a guild's structure, from which others can be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuildTemplate {
    pub code: InviteCode,
    /// 1–100 characters.
    pub name: String,
    /// 0–120 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// None: the backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creator: Option<Arc<User>>,
    pub created_at: Timestamp,
    /// When `source` was made.
    pub updated_at: Timestamp,
    /// Guilds that were made from it.
    #[serde(default)]
    pub usage_count: u32,
    pub source: Arc<TemplateSource>,
}

/// The parts of a guild that a template has, with the ids of the guild: settings, roles, channels, and the overwrites
/// of roles. No members, messages, pictures or custom emoji.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateSource {
    pub guild: Guild,
    /// `@everyone` too, in the order of their ids.
    pub roles: Vec<Role>,
    /// Without threads, in the order of their ids.
    pub channels: Vec<Channel>,
}

/// A guild that was made from a template, with ids of its own.
#[derive(Clone, Debug)]
pub struct FromTemplate {
    pub guild: Guild,
    pub roles: Vec<Role>,
    pub channels: Vec<Channel>,
}

impl TemplateSource {
    /// The parts of this guild. Roles of integrations, and overwrites of members, are left out.
    #[must_use]
    pub fn new<'a>(
        guild: &Guild,
        roles: impl Iterator<Item = &'a Role>,
        channels: impl Iterator<Item = &'a Channel>,
    ) -> Self {
        let roles: Vec<Role> = roles.filter(|role| !role.managed).map(plain_role).collect();
        let role_ids: BTreeSet<RoleId> = roles.iter().map(|role| role.id).collect();
        let has = |overwrite: &&Overwrite| match overwrite.target {
            OverwriteKind::Role(id) => role_ids.contains(&id),
            OverwriteKind::Member(_) => false,
        };
        let plain = |channel: &Channel| Channel {
            overwrites: channel.overwrites.iter().filter(has).copied().collect(),
            ..plain_channel(channel)
        };
        let channels = channels.filter(|channel| !channel.kind.is_thread()).map(plain).collect();
        Self { guild: plain_guild(guild, guild.id), channels, roles }
    }

    /// Number of ids that `instantiate` needs.
    #[must_use]
    pub fn ids_count(&self) -> usize {
        self.roles.len() + self.channels.len()
    }

    /// A guild with these settings, and with new ids. A role or channel without one is left out.
    #[must_use]
    pub fn instantiate(&self, guild_id: GuildId, ids: impl IntoIterator<Item = Id<()>>) -> FromTemplate {
        let mut ids = ids.into_iter();
        let everyone: RoleId = self.guild.id.cast();
        let mut role_ids = BTreeMap::from([(everyone, guild_id.cast())]);
        role_ids.extend(
            self.roles.iter().filter(|role| role.id != everyone).map_while(|role| Some((role.id, ids.next()?.cast()))),
        );
        let channel_ids: BTreeMap<ChannelId, ChannelId> =
            self.channels.iter().map_while(|channel| Some((channel.id, ids.next()?.cast()))).collect();
        let channel_of = |id: Option<ChannelId>| id.and_then(|id| channel_ids.get(&id).copied());
        let role = |role: &Role| Some(Role { id: *role_ids.get(&role.id)?, ..role.clone() });
        let overwrite = |overwrite: &Overwrite| match overwrite.target {
            OverwriteKind::Role(id) => {
                Some(Overwrite { target: OverwriteKind::Role(*role_ids.get(&id)?), ..*overwrite })
            }
            OverwriteKind::Member(_) => None,
        };
        let channel = |channel: &Channel| {
            Some(Channel {
                id: *channel_ids.get(&channel.id)?,
                guild_id,
                parent_id: channel_of(channel.parent_id),
                overwrites: channel.overwrites.iter().filter_map(overwrite).collect(),
                ..channel.clone()
            })
        };
        FromTemplate {
            guild: Guild {
                afk_channel_id: channel_of(self.guild.afk_channel_id),
                system_channel_id: channel_of(self.guild.system_channel_id),
                ..plain_guild(&self.guild, guild_id)
            },
            roles: self.roles.iter().filter_map(role).collect(),
            channels: self.channels.iter().filter_map(channel).collect(),
        }
    }
}

fn plain_guild(guild: &Guild, id: GuildId) -> Guild {
    Guild {
        description: guild.description.clone(),
        afk_channel_id: guild.afk_channel_id,
        afk_timeout: guild.afk_timeout,
        verification_level: guild.verification_level,
        default_message_notifications: guild.default_message_notifications,
        explicit_content_filter: guild.explicit_content_filter,
        system_channel_id: guild.system_channel_id,
        preferred_locale: guild.preferred_locale.clone(),
        ..Guild::new(id, &guild.name, UserId::new(0))
    }
}

fn plain_role(role: &Role) -> Role {
    let icon = role.icon.clone().filter(|icon| matches!(icon, RoleIcon::Emoji(_)));
    Role { icon, ..role.clone() }
}

/// Without what belongs to its messages, and without custom emoji.
fn plain_channel(channel: &Channel) -> Channel {
    let forum = channel.forum.as_ref().map(|forum| {
        let mut forum = forum.clone();
        forum.available_tags.iter_mut().for_each(|tag| tag.emoji_id = None);
        let is_unicode = |emoji: &DefaultReaction| emoji.emoji_id.is_none();
        forum.default_reaction_emoji = forum.default_reaction_emoji.filter(is_unicode);
        forum
    });
    Channel { last_message_id: None, last_pin_timestamp: None, forum, ..channel.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{channel::ChannelType, permissions::Permissions};

    #[test]
    fn a_template_makes_the_same_structure_with_other_ids() {
        let guild_id = GuildId::new(1);
        let roles = [
            Role::everyone(guild_id, Permissions::VIEW_CHANNEL),
            Role { id: RoleId::new(5), name: "mods".to_owned(), ..Role::everyone(guild_id, Permissions::ALL) },
            Role { id: RoleId::new(6), managed: true, ..Role::everyone(guild_id, Permissions::ALL) },
        ];
        let overwrite = |target| Overwrite { target, allow: Permissions::NONE, deny: Permissions::VIEW_CHANNEL };
        let category = Channel::new(ChannelId::new(10), guild_id, ChannelType::Category, "staff");
        let mut channel = Channel::new(ChannelId::new(11), guild_id, ChannelType::Text, "talk");
        channel.parent_id = Some(category.id);
        channel.overwrites = vec![
            overwrite(OverwriteKind::Role(guild_id.cast())),
            overwrite(OverwriteKind::Role(RoleId::new(5))),
            overwrite(OverwriteKind::Role(RoleId::new(6))),
            overwrite(OverwriteKind::Member(UserId::new(7))),
        ];
        channel.last_message_id = Some(Id::new(99));
        let guild = Guild {
            system_channel_id: Some(channel.id),
            icon: Some("hash".to_owned()),
            ..Guild::new(guild_id, "first", UserId::new(7))
        };
        let source = TemplateSource::new(&guild, roles.iter(), [&category, &channel].into_iter());
        assert_eq!((source.roles.len(), source.channels[1].overwrites.len()), (2, 2));
        assert_eq!((&source.guild.icon, source.channels[1].last_message_id), (&None, None));

        let made = source.instantiate(GuildId::new(100), (101..).map(Id::new));
        let ids: Vec<u64> = made.roles.iter().map(|role| role.id.get()).collect();
        assert_eq!(ids, [100, 101]);
        let [category, channel] = &made.channels[..] else { panic!("{:?}", made.channels) };
        assert_eq!((channel.parent_id, channel.guild_id), (Some(category.id), GuildId::new(100)));
        let targets: Vec<_> = channel.overwrites.iter().map(|overwrite| overwrite.target).collect();
        assert_eq!(targets, [OverwriteKind::Role(RoleId::new(100)), OverwriteKind::Role(RoleId::new(101))]);
        assert_eq!(made.guild.system_channel_id, Some(channel.id));
        let few = source.instantiate(GuildId::new(100), [Id::new(101)]);
        assert_eq!((few.roles.len(), few.channels.len()), (2, 0));
    }
}
