//! Deletions of accounts that take a while: which account is being deleted, by which job, for all nodes.
//!
//! Invariants  N1 an account has one deletion at a time, whichever node began it: the store decides. N2 the entry is
//!             durable before the account is locked out, and goes when the job has ended.
//! Not here    the jobs: `guildhall-backend`.

use crate::Node;
use guildhall_model::{User, UserId};
use guildhall_store::StoreError;

/// Kind of records: the job that deletes an account.
pub(crate) const DELETION: &str = "user_deletion";
const PAGE: u32 = 256;

fn key_of(user_id: UserId) -> [u8; 8] {
    user_id.get().to_be_bytes()
}

/// A value that cannot be read is no job: the account stays locked until an operator removes the record.
fn job_of(data: &[u8]) -> u64 {
    data.try_into().map_or(0, u64::from_be_bytes)
}

/// The tombstone of a deleted account.
#[must_use]
pub fn as_deleted(user: &User) -> User {
    User::deleted(user.id, user.bot)
}

/// Whether an account was deleted, and not put since.
#[must_use]
pub fn is_deleted(user: &User) -> bool {
    user.username.strip_prefix("deleted_").is_some_and(|id| id.parse() == Ok(user.id)) && *user == as_deleted(user)
}

impl Node {
    /// The job that deletes an account.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn deletion_of(&self, user_id: UserId) -> Result<Option<u64>, StoreError> {
        Ok(self.inner.store.record(DELETION, &key_of(user_id)).await?.as_deref().map(job_of))
    }

    /// Begins the deletion of an account by this job, durably. Returns the job that deletes it, which may be another.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn begin_deletion(&self, user_id: UserId, job: u64) -> Result<u64, StoreError> {
        loop {
            if self.inner.store.swap_record(DELETION, &key_of(user_id), None, Some(&job.to_be_bytes())).await? {
                return Ok(job);
            }
            if let Some(running) = self.deletion_of(user_id).await? {
                return Ok(running);
            }
        }
    }

    /// The job that deletes an account has ended.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn end_deletion(&self, user_id: UserId, job: u64) -> Result<(), StoreError> {
        self.inner.store.swap_record(DELETION, &key_of(user_id), Some(&job.to_be_bytes()), None).await.map(drop)
    }

    /// All accounts that are being deleted, with their jobs.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn deletions(&self) -> Result<Vec<(UserId, u64)>, StoreError> {
        let (mut all, mut after) = (Vec::new(), Vec::new());
        loop {
            let some = self.inner.store.records(DELETION, &after, PAGE).await?;
            let Some((last, _)) = some.last() else { return Ok(all) };
            after.clone_from(last);
            let entry = |(id, data): &(Vec<u8>, Vec<u8>)| Some((UserId::new(job_of(id)), job_of(data)));
            all.extend(some.iter().filter_map(entry));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_does_not_delete() {
        let user = User { global_name: Some("Ana".to_owned()), ..User::new(UserId::new(5), "ana") };
        let gone = as_deleted(&user);
        assert!(is_deleted(&gone) && !is_deleted(&user));
        assert!(is_deleted(&as_deleted(&User { bot: true, ..user.clone() })));
        assert!(!is_deleted(&User { username: gone.username.clone(), ..user }));
        assert!(!is_deleted(&User::new(UserId::new(6), "deleted_5")));
    }
}
