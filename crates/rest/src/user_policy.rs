//! User policy: actions that accounts may perform themselves, and those that only the backend performs.
//!
//! Doors       `Caller::need` in each handler, before its body is read.
//! Not here    direct messages and groups: `guildhall_node::DirectLimits`.

use crate::{auth::Caller, error::ApiError, state::Api};
use axum::http::StatusCode;

/// Actions that accounts, bots included, may perform themselves. The backend API is never bound by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserPolicy {
    /// `POST /guilds`.
    pub create_guilds: bool,
    /// Username, display name and pictures in `PATCH /users/@me`.
    pub change_names: bool,
    /// `POST /channels/{id}/invites`.
    pub create_invites: bool,
    /// `DELETE /users/@me/guilds/{id}`.
    pub leave_guilds: bool,
}

impl UserPolicy {
    /// Accounts may do everything.
    pub const OPEN: Self = Self { create_guilds: true, change_names: true, create_invites: true, leave_guilds: true };
    /// Only the backend may.
    pub const BACKEND: Self =
        Self { create_guilds: false, change_names: false, create_invites: false, leave_guilds: false };
}

impl Default for UserPolicy {
    fn default() -> Self {
        Self::OPEN
    }
}

/// An action of accounts that `[users]` can reserve for the backend.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SelfService {
    CreateGuilds,
    ChangeNames,
    CreateInvites,
    LeaveGuilds,
}

impl Caller {
    /// Refuses actions that only the backend performs on this node.
    ///
    /// # Errors
    /// 403 with code 50013, and a message that names the setting.
    pub fn need(&self, api: &Api, what: SelfService) -> Result<(), ApiError> {
        let policy = &api.limits.users;
        let (is_allowed, message) = match what {
            SelfService::CreateGuilds => {
                (policy.create_guilds, "Only the backend creates guilds on this node (users.create_guilds).")
            }
            SelfService::ChangeNames => {
                (policy.change_names, "Only the backend changes names and pictures on this node (users.change_names).")
            }
            SelfService::CreateInvites => {
                (policy.create_invites, "Only the backend creates invites on this node (users.create_invites).")
            }
            SelfService::LeaveGuilds => {
                (policy.leave_guilds, "Only the backend removes members on this node (users.leave_guilds).")
            }
        };
        if is_allowed { Ok(()) } else { Err(ApiError::coded(StatusCode::FORBIDDEN, 50013, message)) }
    }
}
