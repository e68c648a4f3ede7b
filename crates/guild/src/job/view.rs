//! View permission of many members in one channel, cached by role set.

use guildhall_guild_protocol::GuildStructure;
use guildhall_model::{Channel, Member, OverwriteKind, Permissions, RoleId, UserId};
use guildhall_stdx::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of cached role sets; past it the cache is cleared. A guild of millions has a few hundred.
const ANSWERS_MAX: usize = 4_096;

/// Members with equal roles share a result, except for the owner and members with an overwrite of their own.
pub(super) struct Viewers<'a> {
    structure: &'a GuildStructure,
    channel: &'a Channel,
    now: Timestamp,
    alone: BTreeSet<UserId>,
    by_roles: BTreeMap<Vec<RoleId>, bool>,
}

impl<'a> Viewers<'a> {
    pub fn new(structure: &'a GuildStructure, channel: &'a Channel, now: Timestamp) -> Self {
        let own = channel.overwrites.iter().filter_map(|overwrite| match overwrite.target {
            OverwriteKind::Member(user_id) => Some(user_id),
            OverwriteKind::Role(_) => None,
        });
        let alone = own.chain([structure.guild.owner_id]).collect();
        Self { structure, channel, now, alone, by_roles: BTreeMap::new() }
    }

    pub fn includes(&mut self, member: &Member) -> bool {
        if self.alone.contains(&member.user.id) {
            return self.can_view(member);
        }
        if let Some(answer) = self.by_roles.get(&member.roles[..]) {
            return *answer;
        }
        let answer = self.can_view(member);
        if self.by_roles.len() == ANSWERS_MAX {
            self.by_roles.clear();
        }
        self.by_roles.insert(member.roles.to_vec(), answer);
        answer
    }

    /// A time-out does not matter here: timed-out members keep VIEW_CHANNEL.
    fn can_view(&self, member: &Member) -> bool {
        let standing = self.structure.standing(member, self.now);
        self.structure.channel_permissions(standing, self.channel).contains(Permissions::VIEW_CHANNEL)
    }
}
