//! Accounts outside of guilds: changes, events, revoked tokens, ended sessions.

use super::{PartitionCommand, World};
use crate::{
    checker::{Fault, fault},
    model::Publication,
    session::Session,
};
use guildhall_guild::{Actor, Command};
use guildhall_guild_protocol::{BackendEvent, Event, Published, ReplicaUpdate, Whose};
use guildhall_model::{CloseCode, User, UserId};
use guildhall_partition::AuthFailure;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// State of tokens: a version, and their account.
#[derive(Debug, Default)]
pub struct Tokens {
    good: BTreeMap<String, (u64, UserId)>,
    made_count: u64,
}

impl Tokens {
    /// A new token.
    pub fn make(&mut self, user: &User) -> String {
        self.made_count += 1;
        let token = format!("{}~{}", user.username, self.made_count);
        self.good.insert(token.clone(), (self.made_count, user.id));
        token
    }

    pub fn find(&self, token: &str) -> Option<(u64, UserId)> {
        self.good.get(token).copied()
    }
}

impl World {
    /// Changes an account's name: its guild and its sessions are notified.
    pub fn rename(&mut self, at: usize, name: &str) -> Result<(), Fault> {
        let user = Arc::new(User { global_name: Some(name.to_owned()), ..User::clone(&self.accounts[at]) });
        self.accounts[at] = user.clone();
        self.checker.accounts.insert(user.id.get(), user.clone());
        self.store.put_user(&user)?;
        self.command(Actor::System, &Command::RefreshMember(user.clone()))?;
        self.refresh_in_directs(&user)?;
        self.sides.iter_mut().for_each(|side| side.commands.push_back(PartitionCommand::UserChanged(user.clone())));
        Ok(())
    }

    /// Publishes an event to accounts, independent of guilds.
    pub fn publish_to_accounts(&mut self, users: &BTreeSet<u64>, publication: &Publication, event: BackendEvent) {
        let user_ids: Arc<[UserId]> = users.iter().map(|user| UserId::new(*user)).collect();
        self.publish_everywhere(Event::of_backend_to_users(user_ids, Arc::new(event)), publication);
    }

    /// Publishes an event about an interaction, such as an ephemeral message, to the account that reads it.
    pub fn publish_interaction(&mut self, reader: u64, publication: &Publication, event: BackendEvent) {
        let guild_id = Some(self.guild_id());
        self.publish_everywhere(Event::of_interaction(guild_id, UserId::new(reader), Arc::new(event)), publication);
    }

    fn publish_everywhere(&mut self, event: Event, publication: &Publication) {
        let published = Arc::new(Published { event, replica_update: ReplicaUpdate::None });
        for side in &mut self.sides {
            side.commands.push_back(PartitionCommand::Publish {
                published: published.clone(),
                publication: publication.clone(),
            });
        }
    }

    /// Revokes a token: pending checks fail, then its sessions end on all partitions.
    pub fn revoke(&mut self, token: &str) {
        let Some((number, user_id)) = self.tokens.good.remove(token) else { return };
        for token_check in self.sides.iter_mut().flat_map(|side| &mut side.token_checks) {
            if token_check.token == token && token_check.answer.is_some() {
                token_check.answer = Some(Err(AuthFailure::Invalid));
            }
        }
        for client in self.clients.iter_mut().filter(|client| client.token == token) {
            client.token = self.tokens.make(&client.user);
        }
        self.close_sessions(&Whose::Token(user_id, number), CloseCode::AuthenticationFailed);
    }

    pub fn close_sessions(&mut self, whose: &Whose, code: CloseCode) {
        self.sides.iter_mut().for_each(|side| side.commands.push_back(PartitionCommand::Close(whose.clone(), code)));
    }

    /// A partition hears of it.
    pub(super) fn close_at(&mut self, side: usize, whose: &Whose, code: CloseCode) -> Result<(), Fault> {
        if let Whose::Token(_, number) = whose {
            self.sides[side].closed_tokens.insert(*number);
        }
        self.checker.close(side, whose);
        let now = self.now();
        let of_side = &mut self.sides[side];
        if self.fault_injector.lets_close(side) {
            of_side.partition.close_sessions(now, whose, code, &mut of_side.link);
        }
        self.outputs(side)?;
        self.look(side)?;
        self.checker.check_closed(side, &self.sides[side].partition)?;
        self.reconcile(side)
    }

    pub(super) fn user_changed_at(&mut self, side: usize, user: &Arc<User>) -> Result<(), Fault> {
        let in_first_shard = |at: usize| self.clients[self.conns[at].client].shard.is_none_or(|(shard, _)| shard == 0);
        self.checker.user_changed(side, user, in_first_shard);
        let now = self.now();
        let of_side = &mut self.sides[side];
        of_side.partition.handle_user_changed(now, user, &mut of_side.link);
        self.after(side)
    }

    pub(super) fn publish_to_accounts_at(
        &mut self,
        side: usize,
        published: &Arc<Published>,
        publication: &Publication,
    ) -> Result<(), Fault> {
        match published.event.guild_id {
            Some(_) => self.checker.publish_interaction(side, publication),
            None => self.checker.publish_to_accounts(side, publication),
        }
        let now = self.now();
        let user_ids = published.event.audience.rule.users().to_vec();
        let of_side = &mut self.sides[side];
        of_side.partition.publish_to_users(now, published, &user_ids, &mut of_side.link);
        self.after(side)
    }

    /// A session must not be resumed with a revoked token.
    pub(super) fn check_token(&self, side: usize, token: u64) -> Result<(), Fault> {
        match self.sides[side].closed_tokens.contains(&token) {
            true => fault(format!("token {token} is good at {side} after it was revoked there")),
            false => Ok(()),
        }
    }

    /// Whether a client may be closed for a revoked token or an ended session.
    pub(super) fn may_be_sent_away(&self, client: usize, code: u16) -> bool {
        let client = &self.clients[client];
        // It may not know its session yet.
        let is_its = |session: &Session| session.conn_serial == client.serial && session.is_closed;
        let was_closed = client.session.is_some_and(|session| self.checker.sessions[session].is_closed)
            || self.checker.sessions.iter().any(is_its);
        let is_stale = self.conns[client.serial as usize].token.as_ref().is_some_and(|t| self.tokens.find(t).is_none());
        match code {
            4004 => is_stale || was_closed,
            4009 => was_closed,
            _ => false,
        }
    }
}
