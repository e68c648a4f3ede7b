//! Migrations: the SQL files of both drivers, embedded.
//!
//! Invariants  every file of the two folders is embedded, with its name and its bytes (test `every_file_is_embedded`):
//!             databases have a checksum of it. Files are included here and not by `sqlx::migrate!`, because that macro
//!             compiles sqlx, SQLite and aws-lc a second time, for the compiler.

use sqlx::{
    SqlSafeStr as _,
    migrate::{Migration, MigrationType, Migrator},
};
use std::sync::LazyLock;

/// The migrations of a folder; the name of a file is its version, `_`, its description and `.sql`.
macro_rules! migrations {
    ($folder:literal: $($file:literal),+ $(,)?) => {
        LazyLock::new(|| Migrator::with_migrations(vec![
            $(migration($file, include_str!(concat!("../", $folder, "/", $file, ".sql")))),+
        ]))
    };
}

/// Numbers between those of files were never released. A released file keeps its name and its bytes, also where it has
/// a word that is retired (`0002_belongings.sql`).
pub(crate) static SQLITE: LazyLock<Migrator> = migrations!(
    "migrations":
    "0001_initial",
    "0002_belongings",
    "0020_records",
    "0021_directs",
    "0025_attachments",
    "0027_deleted",
    "0031_external_ids",
    "0032_retention",
    "0033_guild_resources",
    "0040_account_versions",
    "0051_events",
    "0052_read_states",
    "0053_search",
    "0054_usernames",
);

pub(crate) static POSTGRES: LazyLock<Migrator> = migrations!(
    "migrations-postgres":
    "0001_initial",
    "0002_cluster",
    "0040_account_versions",
    "0051_events",
    "0052_read_states",
    "0053_search",
    "0054_usernames",
);

fn migration(file: &'static str, sql: &'static str) -> Migration {
    let (version, description) = file.split_once('_').expect("the name has a version and a description");
    let version = version.parse().expect("the version is a number");
    Migration::new(version, description.replace('_', " ").into(), MigrationType::Simple, sql.into_sql_str(), false)
}

/// The newest version that this program knows.
pub(crate) fn newest(migrator: &Migrator) -> i64 {
    migrator.iter().map(|migration| migration.version).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// sqlx's own reader of folders is the reference.
    #[tokio::test]
    async fn every_file_is_embedded() {
        let rows = |migrator: &Migrator| -> Vec<_> {
            let row = |m: &Migration| (m.version, m.description.to_string(), m.checksum.to_vec(), m.no_tx);
            migrator.iter().map(row).collect()
        };
        for (folder, embedded) in [("migrations", &*SQLITE), ("migrations-postgres", &*POSTGRES)] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
            let read = Migrator::new(path.as_path()).await.unwrap();
            assert_eq!(rows(embedded), rows(&read), "{folder}: name each file in store/src/migrations.rs");
        }
    }
}
