//! Preflight: opens every file that a configuration names, before a node binds its port or writes anything.
//!
//! Doors       `check`, for `serve` and `config check` alike: both give the same result and exit code.
//! Invariants  nothing is created, changed or stored. (tests `it::config_check`)
//! Not here    the port, and the content of the database, which depend on other processes and on earlier runs.

use crate::{
    compression,
    database::{self, Options},
    dictionaries, files, issuers, jwks_url,
    secrets::secret,
    start_error::StartError,
    tls,
};
use guildhall_settings::Config;
use guildhall_store::{PostgresOptions, StoreError};
use guildhall_telemetry::traces;
use rustix::fs::{Access, access};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Opens the files that a node opens at its start.
///
/// # Errors
/// The first fault that would prevent the start.
pub fn check(config: &Config) -> Result<(), StartError> {
    let auth = &config.auth;
    secret("auth.jwt_secret_file", &auth.jwt_secret, &auth.jwt_secret_file)?;
    secret("auth.admin_key_file", &auth.admin_key, &auth.admin_key_file)?;
    tls::read(&config.tls)?;
    issuers::check(auth).map_err(|(path, source)| StartError::Issuers { path, source })?;
    jwks_url::check(auth)?;
    traces::check(&config.traces)?;
    files::bucket(&config.uploads)?;
    if let Some(dir) = &config.codec.dictionaries_dir {
        dictionaries::load(dir)?;
    }
    compression::contexts(&config.codec)?;
    check_data_dir(&config.store.dir)?;
    match database::options(&config.store)? {
        Options::Sqlite(dir) => check_data_dir(dir)?,
        Options::Postgres(options) => check_files(&options)?,
    }
    Ok(())
}

/// Whether the files of a URL can be read.
fn check_files(options: &PostgresOptions) -> Result<(), StartError> {
    for (parameter, path) in options.files() {
        let unreadable = |source| StartError::StoreUrlFile { parameter, path: path.clone(), source };
        fs::read(path).map_err(unreadable)?;
    }
    Ok(())
}

/// Whether the directory can be written, or created.
fn check_data_dir(dir: &Path) -> Result<(), StoreError> {
    let fail = |source| StoreError::DataDir { path: dir.to_owned(), source };
    let mut existing: PathBuf = std::path::absolute(dir).map_err(fail)?;
    while !existing.exists() && existing.pop() {}
    if !existing.is_dir() {
        return Err(fail(io::Error::from(io::ErrorKind::NotADirectory)));
    }
    access(&existing, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| fail(error.into()))
}
