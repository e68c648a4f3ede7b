//! The URL of a node's database, the value of `store.url`: SQLite or PostgreSQL.
//!
//! Invariants  the URL is shown without its password. (tests `the_password_is_hidden`, `config::tests::c3_*`)

use super::{
    StoreConfig,
    raw::Scalar,
    value::{Value, quote},
};
use guildhall_store::{DATABASE_FILE, PostgresOptions, redacted_url};
use std::{
    fmt,
    path::{Path, PathBuf},
};

const SQLITE: &str = "sqlite:";

/// `sqlite:DIR`, or `postgres://user:password@host:port/database?parameters`.
#[derive(Clone)]
pub struct StoreUrl {
    text: String,
    names: Names,
}

#[derive(Clone)]
enum Names {
    Sqlite(PathBuf),
    Postgres(Box<PostgresOptions>),
}

/// The place of a database.
#[derive(Clone, Copy, Debug)]
pub enum Database<'a> {
    /// The file `guildhall.db` in a directory.
    Sqlite(&'a Path),
    /// A database of a PostgreSQL server.
    Postgres(&'a PostgresOptions),
}

impl StoreUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// A description of the fault, without any part of the password.
    pub fn parse(text: &str) -> Result<Self, String> {
        let names = match text.strip_prefix(SQLITE) {
            Some(path) => Names::Sqlite(sqlite_dir(path)?),
            None if text.starts_with("postgres:") || text.starts_with("postgresql:") => {
                Names::Postgres(Box::new(PostgresOptions::new(text).map_err(|error| error.to_string())?))
            }
            None => return Err(format!("expected {}", Self::expected(&()))),
        };
        Ok(Self { text: text.to_owned(), names })
    }

    /// The SQLite database in a directory.
    #[must_use]
    pub fn sqlite(dir: &Path) -> Self {
        Self { text: format!("{SQLITE}{}", dir.display()), names: Names::Sqlite(dir.to_owned()) }
    }

    /// The database that the URL names.
    #[must_use]
    pub fn database(&self) -> Database<'_> {
        match &self.names {
            Names::Sqlite(dir) => Database::Sqlite(dir),
            Names::Postgres(options) => Database::Postgres(options),
        }
    }

    /// Sets how long an opening waits for another node that has the database open.
    pub(crate) fn set_in_use_wait_ms(&mut self, in_use_wait_ms: u32) {
        if let Names::Postgres(options) = &mut self.names {
            options.in_use_wait_ms = in_use_wait_ms;
        }
    }
}

/// The text says everything: `set_in_use_wait_ms` is the command's, not the configuration's.
impl PartialEq for StoreUrl {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl StoreConfig {
    /// The node's database.
    #[must_use]
    pub fn database(&self) -> Database<'_> {
        self.url.as_ref().map_or(Database::Sqlite(&self.dir), StoreUrl::database)
    }

    /// Directory of the SQLite database; none with PostgreSQL.
    #[must_use]
    pub fn sqlite_dir(&self) -> Option<&Path> {
        match self.database() {
            Database::Sqlite(dir) => Some(dir),
            Database::Postgres(_) => None,
        }
    }
}

/// The directory of a database, which may be named as well as the directory.
fn sqlite_dir(path: &str) -> Result<PathBuf, String> {
    let path = Path::new(path.strip_prefix("//").unwrap_or(path));
    let dir = if path.file_name().is_some_and(|name| name == DATABASE_FILE) {
        path.parent().map(Path::to_owned).filter(|parent| parent.as_os_str() != "").unwrap_or_else(|| ".".into())
    } else {
        path.to_owned()
    };
    if dir.as_os_str().is_empty() || path.to_string_lossy().contains('\0') {
        return Err(format!("expected the directory of {DATABASE_FILE} after {SQLITE}"));
    }
    if dir.extension().is_some_and(|extension| extension == "db" || extension == "sqlite") {
        return Err(format!("name the directory: the database in it is always {DATABASE_FILE}"));
    }
    Ok(dir)
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.names {
            Names::Sqlite(_) => f.write_str(&self.text),
            Names::Postgres(_) => f.write_str(&redacted_url(&self.text)),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Value for StoreUrl {
    type Rule = ();
    const SECRET: bool = true;

    fn read(raw: &Scalar, (): &()) -> Option<Self> {
        Self::parse(raw.text()?).ok()
    }
    fn expected((): &()) -> String {
        "sqlite:DIR or postgres://user:password@host:port/database".to_owned()
    }
    fn fault(raw: &Scalar) -> Option<String> {
        Self::parse(raw.text()?).err()
    }
    fn to_toml(&self) -> Option<String> {
        Some(quote(&self.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_sqlite() {
        let check = |text: &str, expected: &str| match StoreUrl::parse(text).unwrap().database() {
            Database::Sqlite(dir) => assert_eq!(dir, Path::new(expected), "{text}"),
            Database::Postgres(_) => panic!("{text}"),
        };
        check("sqlite:data/node", "data/node");
        check("sqlite:/var/lib/guildhall", "/var/lib/guildhall");
        check("sqlite:///var/lib/guildhall", "/var/lib/guildhall");
        check("sqlite:/var/lib/guildhall/guildhall.db", "/var/lib/guildhall");
        check("sqlite:guildhall.db", ".");
        assert!(StoreUrl::parse("sqlite:").unwrap_err().contains("expected the directory"));
        assert!(StoreUrl::parse("sqlite:a/other.db").unwrap_err().contains("name the directory"));
    }

    #[test]
    fn the_password_is_hidden() {
        let url = StoreUrl::parse("postgres://ana:hunter2@db.example.net/guildhall").unwrap();
        assert!(matches!(url.database(), Database::Postgres(_)));
        for shown in [url.to_string(), format!("{url:?}"), url.to_toml().unwrap(), format!("{:?}", url.database())] {
            assert!(!shown.contains("hunter2"), "{shown}");
        }
        for wrong in ["mysql://ana:hunter2@db/x", "hunter2", "postgres:hunter2", "postgres://ana:hunter2@db:x/y"] {
            let told = StoreUrl::parse(wrong).unwrap_err();
            assert!(!told.contains("hunter2"), "{told}");
        }
    }
}
