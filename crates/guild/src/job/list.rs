//! Builds of member lists: the job that builds the rows of a list, or applies changes since its snapshot.
//!
//! Owns        `ListBuild`, `ListBuilt`; `Viewers`, the members who can view a list's channel.
//! Not here    which lists exist and what their watchers are sent: `member_lists`.

use guildhall_guild_protocol::{GuildStructure, MemberEntry, MemberTable};
use guildhall_member_list::{ListId, ListRules, MemberList};
use guildhall_model::{Channel, Member, Permissions, Presence, Role, UserId};
use guildhall_stdx::Timestamp;
use std::{collections::BTreeSet, sync::Arc};

/// Members who can view a list's channel.
#[derive(Clone, Debug)]
pub(crate) struct Viewers {
    pub structure: Arc<GuildStructure>,
    pub channel: Arc<Channel>,
    /// Every member can view the channel.
    everyone: bool,
}

impl Viewers {
    pub fn new(structure: Arc<GuildStructure>, channel: Arc<Channel>, list: ListId) -> Self {
        Self { structure, channel, everyone: list == ListId::Everyone }
    }

    /// A time-out never removes VIEW_CHANNEL, so the time does not matter.
    pub fn include(&self, member: &Member) -> bool {
        self.everyone || {
            let standing = self.structure.standing(member, Timestamp(0));
            self.structure.channel_permissions(standing, &self.channel).contains(Permissions::VIEW_CHANNEL)
        }
    }

    /// Whether the same members can view the channel after a change of roles or channels.
    pub fn matches(&self, structure: &GuildStructure, channel: &Channel) -> bool {
        const THAT_MATTER: u64 = Permissions::VIEW_CHANNEL.0 | Permissions::ADMINISTRATOR.0;
        let letting_in = |role: &Arc<Role>| (role.id, role.permissions.0 & THAT_MATTER);
        let views = |channel: &Channel| -> Vec<_> {
            let view = Permissions::VIEW_CHANNEL.0;
            channel.overwrites.iter().map(|o| (o.target, o.allow.0 & view, o.deny.0 & view)).collect()
        };
        self.everyone
            || self.structure.guild.owner_id == structure.guild.owner_id
                && self.structure.roles.values().map(letting_in).eq(structure.roles.values().map(letting_in))
                && views(&self.channel) == views(channel)
    }

    pub fn entry<'a>(&self, entry: Option<&'a MemberEntry>) -> Option<(&'a Member, Option<&'a Presence>)> {
        let entry = entry.filter(|entry| self.include(&entry.member))?;
        Some((&entry.member, entry.presence.as_deref()))
    }

    pub fn owned(&self, entry: Option<&MemberEntry>) -> Option<(Arc<Member>, Option<Arc<Presence>>)> {
        let entry = entry.filter(|entry| self.include(&entry.member))?;
        Some((entry.member.clone(), entry.presence.clone()))
    }
}

/// Work to build a list, or to apply changes made since its snapshot. Runs in a background job.
#[derive(Debug)]
pub(crate) struct ListBuild {
    pub list: ListId,
    /// Distinguishes the builds of one list.
    pub number: u64,
    pub viewers: Viewers,
    pub rules: ListRules,
    /// Rows with the member table that they match, and the table to reach.
    pub rows: Option<(MemberTable, MemberList)>,
    pub members: MemberTable,
    /// Members who may differ between the two.
    pub touched: BTreeSet<UserId>,
}

/// A completed build.
#[derive(Debug)]
pub(crate) struct ListBuilt {
    pub list: ListId,
    pub number: u64,
    pub rows: MemberList,
    pub members: MemberTable,
}

impl ListBuild {
    pub fn run(self) -> ListBuilt {
        let Self { list, number, viewers, rules, rows, members, touched } = self;
        let rows = match rows {
            None => MemberList::build(rules, members.iter().filter_map(|entry| viewers.owned(Some(entry)))),
            Some((before, mut rows)) => {
                for user_id in touched {
                    rows.set(viewers.entry(before.entry(user_id)), viewers.owned(members.entry(user_id)));
                }
                rows
            }
        };
        ListBuilt { list, number, rows, members }
    }
}
