//! Direct messages and groups that a backend makes for accounts, whatever these may make by themselves.
//!
//! Limits      `Direct::RECIPIENTS_MAX` people.

use super::{
    V1,
    caller::{Caller, Write},
    error::V1Error,
    external,
    extract::{Body, Check, FieldErrors},
    types::{AnyId, Snowflake},
};
use axum::{Json, extract::State};
use guildhall_model::{Direct, User};
use guildhall_store::ExternalKind;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// Accounts of a new direct message or group.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DirectPut {
    /// 2 to 10 accounts. The first owns a group; the order of two accounts of a direct message does not matter.
    #[schema(min_items = 2, max_items = 10)]
    user_ids: Vec<AnyId>,
    /// Whether to create a new group of two. Three or more accounts always form a group.
    #[serde(default)]
    group: bool,
}

impl Check for DirectPut {
    fn check(&self, faults: &mut FieldErrors) {
        faults.count("user_ids", self.user_ids.len(), 2, Direct::RECIPIENTS_MAX);
    }
}

/// A direct message or a group.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DirectMade {
    channel_id: Snowflake,
    /// Whether it is a group.
    group: bool,
}

/// Opens the direct message of two accounts, or creates a group
///
/// The first account has the channel in its list from then on. All accounts receive CHANNEL_CREATE for a new channel.
/// The settings in `[directs]` do not apply to backends.
#[utoipa::path(post, path = "/v1/directs", tag = "users", request_body = DirectPut,
    responses((status = 200, body = DirectMade), (status = 404, body = V1Error),
              (status = 409, description = "These accounts cannot write to each other: the same one twice, or two bots",
               body = V1Error)))]
pub(super) async fn create(
    caller: Caller<Write>,
    State(v1): State<Arc<V1>>,
    body: Body<DirectPut>,
) -> Result<Json<DirectMade>, V1Error> {
    let input = body.read(&v1, caller.permit()).await?;
    let mut users: Vec<Arc<User>> = Vec::with_capacity(input.user_ids.len());
    let field = |index| format!("user_ids[{index}]");
    for user_id in external::ids_of(&v1, ExternalKind::User, field, &input.user_ids).await? {
        let user = v1.in_time(v1.node.user(user_id)).await??;
        users.push(user.ok_or_else(|| V1Error::not_found("user: put it with PUT /v1/users first"))?);
    }
    let direct = match &users[..] {
        [user, other] if !input.group => v1.in_time(v1.node.put_direct(user, other)).await?,
        [user, others @ ..] => v1.in_time(v1.node.put_group(user, others)).await?,
        [] => return Err(V1Error::bug("user_ids")),
    }?;
    Ok(Json(DirectMade { channel_id: direct.channel.id.into(), group: direct.is_group() }))
}
