//! Drivers: each passes the whole contract.

use crate::{contract, support};
use guildhall_store::{MemoryStore, SqliteStore, Store};

/// A store, and what must outlive it.
type Opened = (Box<dyn Store>, Option<support::TempDir>);

async fn memory() -> Opened {
    (Box::new(MemoryStore::new()), None)
}

async fn sqlite_in_memory() -> Opened {
    (Box::new(SqliteStore::open_in_memory().await.unwrap()), None)
}

async fn sqlite() -> Opened {
    let dir = support::TempDir::new();
    (Box::new(support::open(dir.path()).await), Some(dir))
}

contract::suite!(memory_store, crate::drivers::memory);
contract::suite!(sqlite_in_memory_store, crate::drivers::sqlite_in_memory);
contract::suite!(sqlite_store, crate::drivers::sqlite);
