//! TLS: reads certificate and key at the start, at SIGHUP, and whenever their files change.
//!
//! Invariants  files that are unreadable or do not match change nothing, and the log has the reason.
//! Not here    handshakes and records: `guildhall-net`. The end of a certificate: `guildhall_telemetry::certificate`.

use crate::{start_error::StartError, watch::Watch};
use guildhall_net::{CertificateError, Certificates};
use guildhall_settings::TlsConfig;
use std::{path::PathBuf, sync::Arc};

/// The current certificate, and its files.
#[derive(Clone, Debug)]
pub struct Pair {
    chain: PathBuf,
    key: PathBuf,
    /// For the server.
    pub certificates: Arc<Certificates>,
}

impl Pair {
    /// None when the configuration names no files.
    ///
    /// # Errors
    /// If a file cannot be read or used.
    pub fn read(config: &TlsConfig) -> Result<Option<Self>, CertificateError> {
        let (Some(chain), Some(key)) = (config.cert_file.clone(), config.key_file.clone()) else { return Ok(None) };
        let certificates = Arc::new(Certificates::read(&chain, &key)?);
        Ok(Some(Self { chain, key, certificates }))
    }

    /// Reads the files again.
    pub fn read_again(&self) {
        match self.certificates.read_again(&self.chain, &self.key) {
            Ok(()) => tracing::info!(cert_file = %self.chain.display(), "certificate read again"),
            Err(error) => tracing::error!(
                cert_file = %self.chain.display(),
                key_file = %self.key.display(),
                error = &error as &dyn std::error::Error,
                "the certificate cannot be read: the previous one stays in force"
            ),
        }
    }

    /// Reads the files when they change, until the result is dropped.
    #[must_use]
    pub fn watch(&self) -> Watch {
        let pair = self.clone();
        Watch::start(vec![self.chain.clone(), self.key.clone()], move || pair.read_again())
    }
}

/// The certificate that the configuration names, if it does.
///
/// # Errors
/// `Tls`.
pub(crate) fn read(config: &TlsConfig) -> Result<Option<Pair>, StartError> {
    Pair::read(config).map_err(|source| {
        let path = |file: &Option<PathBuf>| file.clone().unwrap_or_default();
        StartError::Tls { cert_file: path(&config.cert_file), key_file: path(&config.key_file), source }
    })
}
