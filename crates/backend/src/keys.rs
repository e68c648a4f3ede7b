//! Keys of the API itself.
//!
//! Invariants  K3 (of the node) a key makes and revokes only keys that may do no more than itself.

use super::{
    V1,
    audit::Made,
    caller::{Caller, Keys},
    error::V1Error,
    extract::{Body, Check, FieldErrors, Path},
    types::{Snowflake, Time},
};
use axum::{Extension, Json, extract::State, http::StatusCode};
use guildhall_model::UserId;
use guildhall_node::{KEY_ACCOUNTS_MAX, Key, KeyError, Scope};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// Scope of a key.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Scope)]
pub(super) enum ScopeName {
    /// Read guilds, channels, roles, members and accounts.
    Read,
    /// Create, replace, change and delete these; import. Deleting an account revokes its tokens and ends its sessions.
    Write,
    /// Publish events.
    Publish,
    /// Mint, list, inspect and revoke tokens. A token does what its account may do, so that this scope amounts to
    /// everything that any account may do, unless `accounts` limits the key.
    Tokens,
    /// List, close and follow sessions.
    Sessions,
    /// Create, list and revoke keys.
    Keys,
    /// Record what sessions are sent, and compare codecs on it.
    Lab,
    /// Read, write, change and delete messages of any channel, as any account.
    Messages,
    /// Follow what happens in all guilds and direct messages, contents of messages included.
    Events,
}

impl From<ScopeName> for Scope {
    fn from(name: ScopeName) -> Self {
        match name {
            ScopeName::Read => Self::Read,
            ScopeName::Write => Self::Write,
            ScopeName::Publish => Self::Publish,
            ScopeName::Tokens => Self::Tokens,
            ScopeName::Sessions => Self::Sessions,
            ScopeName::Keys => Self::Keys,
            ScopeName::Lab => Self::Lab,
            ScopeName::Messages => Self::Messages,
            ScopeName::Events => Self::Events,
        }
    }
}

impl From<Scope> for ScopeName {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Read => Self::Read,
            Scope::Write => Self::Write,
            Scope::Publish => Self::Publish,
            Scope::Tokens => Self::Tokens,
            Scope::Sessions => Self::Sessions,
            Scope::Keys => Self::Keys,
            Scope::Lab => Self::Lab,
            Scope::Messages => Self::Messages,
            Scope::Events => Self::Events,
        }
    }
}

/// A key to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewKey {
    /// Name for operators.
    #[schema(min_length = 1, max_length = 64)]
    name: String,
    /// Scopes of the key; each allows a group of requests.
    #[schema(min_items = 1, max_items = 9)]
    scopes: Vec<ScopeName>,
    /// Limits the key to tokens of these accounts. Such a key has only the scope `tokens`.
    #[serde(default)]
    #[schema(min_items = 1, max_items = 1000)]
    accounts: Option<Vec<Snowflake>>,
}

impl Check for NewKey {
    fn check(&self, faults: &mut FieldErrors) {
        if let Some(accounts) = &self.accounts {
            faults.count("accounts", accounts.len(), 1, KEY_ACCOUNTS_MAX);
            if self.scopes != [ScopeName::Tokens] {
                faults.add(
                    "accounts",
                    "Accounts limit the scope `tokens`, so the key must have that scope alone: make another key for the others.",
                );
            }
        }
        faults.name("name", &self.name, 1, 64);
        faults.count("scopes", self.scopes.len(), 1, Scope::ALL.len());
    }
}

/// A key without its secret.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Key)]
pub(super) struct KeyBody {
    /// Id of the key.
    id: Snowflake,
    /// Name for operators.
    name: String,
    /// Scopes of the key.
    scopes: Vec<ScopeName>,
    /// Accounts whose tokens the key manages; omitted for all accounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    accounts: Option<Vec<Snowflake>>,
    /// Time of creation.
    created_at: Time,
}

impl From<&Key> for KeyBody {
    fn from(key: &Key) -> Self {
        Self {
            id: Snowflake(key.id.unwrap_or(0)),
            name: key.name.clone(),
            scopes: key.scopes.iter().map(|scope| (*scope).into()).collect(),
            accounts: key.accounts.as_ref().map(|ids| ids.iter().map(|id| (*id).into()).collect()),
            created_at: Time(key.created_at),
        }
    }
}

/// A new key with its secret.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MadeKey {
    #[serde(flatten)]
    of: KeyBody,
    /// The key itself, shown only here: the node stores its hash.
    key: String,
}

/// Lists the keys
#[utoipa::path(get, path = "/v1/keys", tag = "keys", responses((status = 200, body = Vec<KeyBody>)))]
pub(super) async fn list(_: Caller<Keys>, State(v1): State<Arc<V1>>) -> Result<Json<Vec<KeyBody>>, V1Error> {
    Ok(Json(v1.in_time(v1.node.keys()).await??.iter().map(KeyBody::from).collect()))
}

/// Creates a key
#[utoipa::path(post, path = "/v1/keys", tag = "keys", request_body = NewKey,
    responses((status = 201, body = MadeKey), (status = 409, description = "There are too many", body = V1Error)))]
pub(super) async fn create(
    caller: Caller<Keys>,
    State(v1): State<Arc<V1>>,
    body: Body<NewKey>,
) -> Result<(StatusCode, Extension<Made>, Json<MadeKey>), V1Error> {
    let new = body.read(&v1, caller.permit()).await?;
    let scopes: Vec<Scope> = new.scopes.iter().map(|name| (*name).into()).collect();
    needs_all(&caller.key, &scopes)?;
    let made = match &new.accounts {
        None => v1.in_time(v1.node.create_key(&new.name, &scopes)).await?,
        Some(accounts) => {
            let accounts: Vec<UserId> = accounts.iter().map(|id| id.id()).collect();
            v1.in_time(v1.node.create_key_for(&new.name, &accounts)).await?
        }
    };
    let (key, text) = made.map_err(|error| match error {
        KeyError::TooMany | KeyError::Accounts => V1Error::conflict(error.to_string()),
        KeyError::Store(error) => error.into(),
    })?;
    let made = Extension(Made("key_id", key.id.unwrap_or(0).to_string()));
    Ok((StatusCode::CREATED, made, Json(MadeKey { of: KeyBody::from(&key), key: text })))
}

fn needs_all(key: &Key, scopes: &[Scope]) -> Result<(), V1Error> {
    match scopes.iter().find(|scope| !key.may(**scope)) {
        None => Ok(()),
        Some(scope) => Err(V1Error::forbidden(format!(
            "A key makes and revokes only keys that may do no more than itself: `{}` does not have `{}`.",
            key.name,
            scope.as_str()
        ))),
    }
}

/// Revokes a key
#[utoipa::path(delete, path = "/v1/keys/{key_id}", tag = "keys", params(("key_id" = Snowflake, Path)),
    responses((status = 204, description = "It is not accepted any more"), (status = 404, body = V1Error)))]
pub(super) async fn revoke(caller: Caller<Keys>, State(v1): State<Arc<V1>>, path: Path) -> Result<StatusCode, V1Error> {
    let id = path.id::<()>("key_id")?.get();
    let keys = v1.in_time(v1.node.keys()).await??;
    let key = keys.iter().find(|key| key.id == Some(id)).ok_or_else(|| V1Error::not_found("key"))?;
    needs_all(&caller.key, &key.scopes)?;
    v1.in_time(v1.node.revoke_key(id)).await??;
    Ok(StatusCode::NO_CONTENT)
}
