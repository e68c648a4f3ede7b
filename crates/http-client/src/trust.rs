//! Trust: the certificates that authenticate servers.

use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio_rustls::TlsConnector;

/// Paths at which systems have their trusted certificates.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Why no server can be authenticated.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The file that was named, or the system's.
    #[error("no trusted certificate can be read from {}", .0.display())]
    Unreadable(PathBuf),
    /// The system has no trusted certificates at the known paths.
    #[error("this system's trusted certificates were not found: name a file with them (auth.jwks_ca_file, or --ca)")]
    NoRoots,
    /// The library's.
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
}

/// A TLS connector that trusts the certificates in `file`, or those that the system trusts.
///
/// # Errors
/// See [`TrustError`].
pub fn trust(file: Option<&Path>) -> Result<TlsConnector, TrustError> {
    let from = match file {
        Some(file) => file.to_owned(),
        None => SYSTEM_ROOTS.iter().map(PathBuf::from).find(|path| path.exists()).ok_or(TrustError::NoRoots)?,
    };
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(&from).map_err(|_| TrustError::Unreadable(from.clone()))?;
    // One that is broken among a system's hundred is no reason to trust none.
    roots.add_parsable_certificates(certificates.filter_map(Result::ok));
    if roots.is_empty() {
        return Err(TrustError::Unreadable(from));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
