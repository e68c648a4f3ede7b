//! Drivers: each passes the whole contract.

use crate::{contract, postgres, support};
use guildhall_store::{MemoryStore, SqliteStore, Store};

/// A store, and what must outlive it. None: its database is not installed on this machine.
type Opened = Option<(Box<dyn Store>, Option<support::TempDir>)>;

async fn memory() -> Opened {
    Some((Box::new(MemoryStore::new()), None))
}

async fn sqlite_in_memory() -> Opened {
    Some((Box::new(SqliteStore::open_in_memory().await.unwrap()), None))
}

async fn sqlite() -> Opened {
    let dir = support::TempDir::new();
    Some((Box::new(support::open(dir.path()).await), Some(dir)))
}

async fn postgres() -> Opened {
    let server = crate::postgres_server::PostgresServer::shared()?;
    Some((Box::new(postgres::open(&server.url(&server.create_database())).await), None))
}

/// A node of a cluster: its batches state the epochs of guilds.
async fn postgres_cluster() -> Opened {
    let server = crate::postgres_server::PostgresServer::shared()?;
    Some((Box::new(crate::cluster::open_node(&server.url(&server.create_database())).await), None))
}

contract::suite!(memory_store, crate::drivers::memory);
contract::suite!(sqlite_in_memory_store, crate::drivers::sqlite_in_memory);
contract::suite!(sqlite_store, crate::drivers::sqlite);
contract::suite!(postgres_store, crate::drivers::postgres);
contract::suite!(postgres_store_of_a_cluster, crate::drivers::postgres_cluster);
