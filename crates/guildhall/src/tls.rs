//! TLS: which certificate is shown, read at the start, at SIGHUP, and whenever its files change.
//!
//! Invariants  a pair that cannot be read or does not fit together changes nothing, and the log says why.
//! Not here    handshakes and records: `guildhall-net`.

use crate::{config::TlsConfig, watch::Watch};
use guildhall_net::{CertificateError, Certificates};
use std::{path::PathBuf, sync::Arc};

/// The certificate in force, and its files.
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
    /// What is wrong with them.
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
                "the certificate cannot be read again: the one before stays in force"
            ),
        }
    }

    /// Reads them when they change, until what is returned is dropped.
    #[must_use]
    pub fn watch(&self) -> Watch {
        let pair = self.clone();
        Watch::start(vec![self.chain.clone(), self.key.clone()], move || pair.read_again())
    }
}
