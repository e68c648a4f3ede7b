//! The URL of a node's database, the value of `store.url`: SQLite or PostgreSQL.
//!
//! Invariants  the URL is shown without its password. (tests `the_password_is_hidden`, `tests::c3_*`)
//! Not here    the rest of the syntax of PostgreSQL URLs, which the driver checks.

use super::{
    StoreConfig,
    raw::Scalar,
    value::{Value, quote},
};
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// The database in a directory.
pub const DATABASE_FILE: &str = "guildhall.db";
const SQLITE: &str = "sqlite:";
/// Text in place of a password.
const HIDDEN: &str = "(hidden)";

/// `sqlite:DIR`, or `postgres://user:password@host:port/database?parameters`.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// The directory of the database, and the URL as it was written.
    Sqlite(PathBuf, String),
    /// Of a PostgreSQL server.
    Postgres(PostgresUrl),
}

/// A URL of PostgreSQL. Its text is shown without passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(String);

/// The place of a database.
#[derive(Clone, Copy, Debug)]
pub enum Database<'a> {
    /// The file `guildhall.db` in a directory.
    Sqlite(&'a Path),
    /// A database of a PostgreSQL server.
    Postgres(&'a PostgresUrl),
}

impl StoreUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// A description of the fault, without any part of the password.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.strip_prefix(SQLITE) {
            Some(path) => Ok(Self::Sqlite(sqlite_dir(path)?, text.to_owned())),
            None if text.starts_with("postgres:") || text.starts_with("postgresql:") => {
                Ok(Self::Postgres(PostgresUrl(text.to_owned())))
            }
            None => Err(format!("expected {}", Self::expected(&()))),
        }
    }

    /// The SQLite database in a directory.
    #[must_use]
    pub fn sqlite(dir: &Path) -> Self {
        Self::Sqlite(dir.to_owned(), format!("{SQLITE}{}", dir.display()))
    }

    /// The database that the URL names.
    #[must_use]
    pub fn database(&self) -> Database<'_> {
        match self {
            Self::Sqlite(dir, _) => Database::Sqlite(dir),
            Self::Postgres(url) => Database::Postgres(url),
        }
    }
}

impl PostgresUrl {
    /// With its password.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn redacted(&self) -> String {
        let (place, query) = self.0.split_once('?').map_or((&*self.0, None), |(place, query)| (place, Some(query)));
        let (scheme, rest) = place.split_once("://").unwrap_or(("postgres", place));
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let authority = match authority.rsplit_once('@') {
            Some((account, server)) => match account.split_once(':') {
                Some((user, _)) => format!("{user}:{HIDDEN}@{server}"),
                None => format!("{account}@{server}"),
            },
            None => authority.to_owned(),
        };
        let shown = |pair: &str| match pair.split_once('=') {
            Some(("password", _)) => format!("password={HIDDEN}"),
            _ => pair.to_owned(),
        };
        let query = query.map(|query| format!("?{}", query.split('&').map(shown).collect::<Vec<_>>().join("&")));
        format!("{scheme}://{authority}{path}{}", query.unwrap_or_default())
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

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.redacted())
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(_, text) => f.write_str(text),
            Self::Postgres(url) => fmt::Display::fmt(url, f),
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
        for wrong in ["mysql://ana:hunter2@db/x", "hunter2"] {
            let error = StoreUrl::parse(wrong).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
        }
        let check = |url: &str, expected: &str| assert_eq!(StoreUrl::parse(url).unwrap().to_string(), expected);
        let url = "postgres://ana:a%40b:c@db.example.net:6432/guildhall?sslmode=require";
        check(url, "postgres://ana:(hidden)@db.example.net:6432/guildhall?sslmode=require");
        check("postgresql://db/x?user=ana&password=hunter2", "postgresql://db/x?user=ana&password=(hidden)");
        check("postgres://ana@localhost", "postgres://ana@localhost");
        check("postgres://ana:hunter2@localhost?dbname=x", "postgres://ana:(hidden)@localhost?dbname=x");
    }
}
