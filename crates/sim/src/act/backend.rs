//! Actions of backends other than on members and channels: publishing, changing accounts, ending sessions.

use super::{GUILD, role, some_permissions};
use crate::{
    checker::Fault,
    model::{AudienceModel, Publication, PublicationKind, Telling},
    world::World,
};
use guildhall_guild::{Actor, BackendCommand, Command};
use guildhall_guild_protocol::{AudienceRule, BackendEvent, Whose};
use guildhall_model::{
    Channel, ChannelId, ChannelType, CloseCode, Guild as GuildFields, Overwrite, OverwriteKind, Permissions, RoleId,
    UserId,
};
use std::{collections::BTreeSet, sync::Arc};

impl World {
    pub(super) fn act_as_backend(&mut self) -> Result<(), Fault> {
        match self.rng.below(21) {
            0..3 => self.put_whole(),
            3..12 => self.publish(),
            12..14 => {
                let mut publication = self.some_publication();
                let users = self.some_users(5);
                publication.who = AudienceModel::Users(users.clone());
                let event = backend_event(&publication)?;
                self.publish_to_accounts(&users, &publication, event);
                Ok(())
            }
            14 | 15 => {
                let at = self.rng.below(self.accounts.len() as u64) as usize;
                // It begins as it did: searches that are under way find the same.
                let begin: Vec<&str> = self.accounts[at].display_name().split(' ').take(2).collect();
                let begin = begin.join(" ");
                let name = format!("{begin} {}", self.rng.below(10));
                self.rename(at, &name)
            }
            18 | 19 => {
                let members: Vec<u64> = self.checker.state.members.keys().copied().collect();
                let Some(reader) = self.rng.pick(&members).copied() else { return Ok(()) };
                let mut publication = self.some_publication();
                publication.who = AudienceModel::Users([reader].into());
                let event = backend_event(&publication)?;
                self.publish_interaction(reader, &publication, event);
                Ok(())
            }
            16 | 17 => {
                let at = self.rng.below(self.clients.len() as u64) as usize;
                let token = self.clients[at].token.clone();
                self.revoke(&token);
                Ok(())
            }
            _ => {
                let at = self.rng.below(self.clients.len() as u64) as usize;
                let client = &self.clients[at];
                let of_session = client.session.map(|at| Whose::Session(self.checker.sessions[at].id.clone()));
                let of_user = Whose::User(client.user.id);
                let whose = of_session.filter(|_| self.rng.chance(0.7)).unwrap_or(of_user);
                self.close_sessions(&whose, CloseCode::SessionTimedOut);
                Ok(())
            }
        }
    }

    /// Roles, channels and base fields as the backend has them.
    fn put_whole(&mut self) -> Result<(), Fault> {
        let state = self.checker.state.clone();
        let channels: Vec<u64> = state.channels.keys().copied().collect();
        let roles: Vec<u64> = state.roles.keys().copied().collect();
        let command = match (self.rng.below(5), self.rng.pick(&channels), self.rng.pick(&roles)) {
            (0 | 1, _, Some(id)) => {
                let permissions = some_permissions(&mut self.rng);
                BackendCommand::PutRole(Box::new(role(RoleId::new(*id), permissions)), None)
            }
            (2 | 3, Some(id), Some(shown_to)) => {
                let of = &state.channels[id];
                let kind = ChannelType::from_wire(of.kind).unwrap_or(ChannelType::Text);
                let everyone = OverwriteKind::Role(GUILD.cast());
                let shown_to = OverwriteKind::Role(RoleId::new(*shown_to));
                let hide = Overwrite { target: everyone, allow: Permissions::NONE, deny: Permissions::VIEW_CHANNEL };
                let show = Overwrite { target: shown_to, allow: Permissions::VIEW_CHANNEL, deny: Permissions::NONE };
                let overwrites = match (self.rng.below(3), shown_to == everyone) {
                    (0, _) => Vec::new(),
                    (_, true) => vec![show],
                    (_, false) => vec![hide, show],
                };
                let parent_id = of.parent.map(ChannelId::new);
                let channel =
                    Channel { overwrites, parent_id, ..Channel::new(ChannelId::new(*id), GUILD, kind, &of.name) };
                BackendCommand::PutChannel(Box::new(channel), None)
            }
            _ => {
                let owner = UserId::new(self.some_user());
                let name = format!("whole guild {}", self.rng.below(10));
                BackendCommand::PutGuild(Box::new(GuildFields::new(GUILD, &name, owner)), None)
            }
        };
        self.command(Actor::System, &Command::Backend(Box::new(command)))?;
        Ok(())
    }

    fn publish(&mut self) -> Result<(), Fault> {
        let publication = self.some_publication();
        let rule = match &publication.who {
            AudienceModel::Viewers(channel) => AudienceRule::Channel(ChannelId::new(*channel)),
            AudienceModel::Roles(roles) => AudienceRule::Roles(roles.iter().map(|role| RoleId::new(*role)).collect()),
            AudienceModel::Users(users) => AudienceRule::Users(users.iter().map(|user| UserId::new(*user)).collect()),
            _ => AudienceRule::Members,
        };
        let event = Arc::new(backend_event(&publication)?);
        let command = Command::Backend(Box::new(BackendCommand::Publish { rule, event, id: None }));
        self.checker.telling = Telling::Publication(publication);
        self.command(Actor::System, &command)?;
        self.checker.telling = Telling::Usual;
        Ok(())
    }

    fn some_publication(&mut self) -> Publication {
        let state = self.checker.state.clone();
        let channels: Vec<u64> = state.channels.keys().copied().collect();
        let roles: Vec<u64> = state.roles.keys().copied().collect();
        let who = match (self.rng.below(4), self.rng.pick(&channels)) {
            (0, Some(channel)) => AudienceModel::Viewers(*channel),
            (1, _) => AudienceModel::Roles(roles.into_iter().filter(|_| self.rng.chance(0.3)).collect()),
            (2, _) => AudienceModel::Users(self.some_users(5)),
            _ => AudienceModel::Members,
        };
        let kind = match self.rng.below(4) {
            0 => PublicationKind::Typing(self.some_user()),
            1 => PublicationKind::Message(self.some_user(), self.some_user()),
            _ => PublicationKind::Round,
        };
        self.actions.published += 1;
        Publication { who, kind, number: self.actions.published }
    }

    fn some_user(&mut self) -> u64 {
        self.rng.pick(&self.accounts).map_or(0, |user| user.id.get())
    }

    fn some_users(&mut self, count: usize) -> BTreeSet<u64> {
        (0..count).map(|_| self.some_user()).collect()
    }
}

fn backend_event(publication: &Publication) -> Result<BackendEvent, Fault> {
    let body = serde_json::value::to_raw_value(&publication.body()).map_err(|error| Fault(error.to_string()))?;
    BackendEvent::new(publication.name(), &body, None).map_err(|error| Fault(error.to_string()))
}
