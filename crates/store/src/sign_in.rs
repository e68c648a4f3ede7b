//! Sign-ins: tokens, accounts and guilds of many bots that connect at once, in one query each.

use crate::{
    Store, StoreError, TokenHash, TokenRecord,
    sql::Columns,
    stored::{id, int},
};
use guildhall_model::{GuildId, User, UserId};
use std::{collections::HashMap, sync::Arc};

/// How many tokens `Store::sign_ins` takes at once.
pub const SIGN_INS_MAX: usize = 256;
/// Memberships that `Store::sign_ins` reads for all of its accounts.
pub(crate) const MEMBERSHIPS_MAX: u32 = 16_384;

/// A bot token, and what an IDENTIFY with it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignIn {
    pub hash: TokenHash,
    pub record: TokenRecord,
    /// None: it is not stored.
    pub user: Option<Arc<User>>,
    /// The account's guilds, ascending; direct messages are none. None: the accounts are in too many to read them
    /// together, and the caller reads them with `Store::guilds_of_user`.
    pub guilds: Option<Vec<GuildId>>,
}

/// Reads one after the other: for a store without a statement that reads many.
pub(crate) async fn one_by_one<S: Store + ?Sized>(store: &S, hashes: &[TokenHash]) -> Result<Vec<SignIn>, StoreError> {
    let mut all = Vec::new();
    for hash in hashes.iter().take(SIGN_INS_MAX) {
        let Some(record) = store.token(*hash).await? else { continue };
        let user = store.user(record.user_id).await?;
        let guilds = Some(store.guilds_of_user(record.user_id, MEMBERSHIPS_MAX).await?);
        let guilds = guilds.filter(|guilds| guilds.len() < MEMBERSHIPS_MAX as usize);
        all.push(SignIn { hash: *hash, record, user, guilds });
    }
    Ok(all)
}

/// A row of token hash, account id, time of creation and account.
pub(crate) fn without_guilds(row: &impl Columns, share: impl Fn(User) -> Arc<User>) -> Result<SignIn, StoreError> {
    let hash = row.bytes(0)?.try_into().map(TokenHash).unwrap_or(TokenHash([0; 32]));
    let record = TokenRecord { user_id: row.id(1)?, created_at: guildhall_stdx::Timestamp(row.int(2)?) };
    let user = if row.int(4)? == 0 { None } else { Some(share(row.object("account", 3)?)) };
    Ok(SignIn { hash, record, user, guilds: None })
}

/// The accounts of sign-ins, for a statement.
pub(crate) fn user_ids(sign_ins: &[SignIn]) -> Vec<i64> {
    let mut ids: Vec<i64> = sign_ins.iter().map(|sign_in| int(sign_in.record.user_id)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Adds the guilds: rows of account and guild, at most one more than `MEMBERSHIPS_MAX`.
pub(crate) fn with_guilds(mut sign_ins: Vec<SignIn>, memberships: Vec<(i64, i64)>) -> Vec<SignIn> {
    if memberships.len() > MEMBERSHIPS_MAX as usize {
        return sign_ins;
    }
    let mut guilds: HashMap<UserId, Vec<GuildId>> = HashMap::new();
    for (user_id, guild_id) in memberships {
        guilds.entry(id(user_id)).or_default().push(id(guild_id));
    }
    for sign_in in &mut sign_ins {
        let mut of_user = guilds.get(&sign_in.record.user_id).cloned().unwrap_or_default();
        of_user.sort_unstable();
        sign_in.guilds = Some(of_user);
    }
    sign_ins
}
