//! Reservations of names that are unique in a cluster, such as the id of a channel, while an object with the name comes
//! into being.
//!
//! Invariants  R1 a name has one holder at a time, unless one holds it for longer than `HELD_MAX_MS`, or clocks differ
//!             by as much. That only avoids conflicts between callers; the store itself prevents duplicates
//!             (`Store::commit`, `Store::put_external_ids`).
//! Limits      `WAIT_MAX` for a name with another holder, then `Contended`. A holder that crashed holds its names
//!             until `HELD_MAX_MS`. A node alone reserves nothing: callers have locks in the process.

use crate::{Node, tokens};
use guildhall_store::{ExternalKind, Store, StoreError};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, time::sleep};

/// Kind of records: the holder of a name.
const RESERVATION: &str = "reservation";
/// Twice the deadline of a request.
const HELD_MAX_MS: i64 = 120_000;
const WAIT_MAX: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// A reserved name, until it is dropped.
#[must_use]
pub struct Reservation(Option<ReservedName>);

struct ReservedName {
    store: Arc<dyn Store>,
    runtime: Handle,
    name: Vec<u8>,
    holder: [u8; 16],
}

impl ReservedName {
    async fn delete_record(self) {
        if let Err(error) = self.store.swap_record(RESERVATION, &self.name, Some(&self.holder), None).await {
            tracing::warn!(%error, "a name stays reserved until its time has passed");
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            held.runtime.clone().spawn(held.delete_record());
        }
    }
}

impl Reservation {
    /// Gives the name back. Dropping does it too, later.
    pub async fn release(mut self) {
        if let Some(held) = self.0.take() {
            // Goes on if the caller stops waiting.
            let _ = held.runtime.clone().spawn(held.delete_record()).await;
        }
    }
}

/// Name of an external id.
#[must_use]
pub fn external_id_name(kind: ExternalKind, text: &str) -> String {
    format!("external {} {text}", kind as u8)
}

/// When a holder's time ends, in Unix milliseconds. An entry that cannot be read has ended.
fn end_of(holder: &[u8]) -> i64 {
    holder.get(8..).and_then(|end| end.try_into().ok()).map_or(0, i64::from_be_bytes)
}

impl Node {
    /// Whether a name has a holder in the cluster.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn is_reserved(&self, name: &str) -> Result<bool, StoreError> {
        if self.inner.membership.is_none() {
            return Ok(false);
        }
        let holder = self.inner.store.record(RESERVATION, name.as_bytes()).await?;
        Ok(holder.is_some_and(|holder| end_of(&holder) >= self.inner.clock.now().unix.0))
    }

    /// Reserves a name in the cluster; waits while another node holds it.
    ///
    /// # Errors
    /// `Contended` when it does for too long; the store cannot be read or written.
    pub async fn reserve(&self, name: &str) -> Result<Reservation, StoreError> {
        if self.inner.membership.is_none() {
            return Ok(Reservation(None));
        }
        let (store, name) = (&self.inner.store, name.as_bytes());
        let until = Instant::now() + WAIT_MAX;
        loop {
            let now = self.inner.clock.now().unix.0;
            let mut holder = [0; 16];
            holder[..8].copy_from_slice(&tokens::random_bytes::<8>());
            holder[8..].copy_from_slice(&now.saturating_add(HELD_MAX_MS).to_be_bytes());
            let before = store.record(RESERVATION, name).await?;
            let is_free = before.as_deref().is_none_or(|before| end_of(before) < now);
            if is_free && store.swap_record(RESERVATION, name, before.as_deref(), Some(&holder)).await? {
                let (store, runtime) = (store.clone(), Handle::current());
                return Ok(Reservation(Some(ReservedName { store, runtime, name: name.to_vec(), holder })));
            }
            if Instant::now() >= until {
                return Err(StoreError::Contended { what: "id" });
            }
            sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_holder() {
        let mut holder = [7; 16];
        holder[8..].copy_from_slice(&123_i64.to_be_bytes());
        assert_eq!((end_of(&holder), end_of(b"short"), end_of(b"")), (123, 0, 0));
    }
}
