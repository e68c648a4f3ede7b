//! What backends do beside members and channels: they publish, change accounts, and end sessions.

use crate::{
    checker::Fault,
    naive::{Publication, PublicationKind, Telling, Who},
    world::World,
};
use guildhall_guild::{Actor, BackendCommand, Command};
use guildhall_model::{ChannelId, CloseCode, RoleId, UserId};
use guildhall_partition::Whose;
use guildhall_relay::{BackendEvent, Gate};
use std::{collections::BTreeSet, sync::Arc};

impl World {
    pub(super) fn act_as_backend(&mut self) -> Result<(), Fault> {
        match self.rng.below(16) {
            0..9 => self.publish(),
            9..11 => {
                let mut publication = self.some_publication();
                let users = self.some_users(5);
                publication.who = Who::Users(users.clone());
                let event = backend_event(&publication)?;
                self.tell_accounts(&users, &publication, event);
                Ok(())
            }
            11..13 => {
                let at = self.rng.below(self.accounts.len() as u64) as usize;
                // It begins as it did: searches that are under way find the same.
                let begin: Vec<&str> = self.accounts[at].display_name().split(' ').take(2).collect();
                let begin = begin.join(" ");
                let name = format!("{begin} {}", self.rng.below(10));
                self.rename(at, &name)
            }
            13 | 14 => {
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

    fn publish(&mut self) -> Result<(), Fault> {
        let publication = self.some_publication();
        let gate = match &publication.who {
            Who::Viewers(channel) => Gate::Channel(ChannelId::new(*channel)),
            Who::Roles(roles) => Gate::Roles(roles.iter().map(|role| RoleId::new(*role)).collect()),
            Who::Users(users) => Gate::Users(users.iter().map(|user| UserId::new(*user)).collect()),
            _ => Gate::Members,
        };
        let event = Arc::new(backend_event(&publication)?);
        let command = Command::Backend(Box::new(BackendCommand::Publish { gate, event }));
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
            (0, Some(channel)) => Who::Viewers(*channel),
            (1, _) => Who::Roles(roles.into_iter().filter(|_| self.rng.chance(0.3)).collect()),
            (2, _) => Who::Users(self.some_users(5)),
            _ => Who::Members,
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
