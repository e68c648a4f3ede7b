//! Trust: the certificates that authenticate servers.
//!
//! Invariants  T1 a server is trusted if its certificate is signed by one of the trusted, or is one of those in the
//!             file that the operator named; in both cases it is valid now, and names the host. (tests `t1_*` in
//!             `guildhall/tests/it/tls.rs`)

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
    server::ParsedCertificate,
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
    let certificates = CertificateDer::pem_file_iter(&from).map_err(|_| TrustError::Unreadable(from.clone()))?;
    // One that is broken among a system's hundred is no reason to trust none.
    let certificates: Vec<CertificateDer<'static>> = certificates.filter_map(Result::ok).collect();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().cloned());
    if roots.is_empty() {
        return Err(TrustError::Unreadable(from));
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let config = match file {
        None => config.with_root_certificates(roots),
        Some(_) => {
            let signed = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
            let signed = signed.map_err(|_| TrustError::Unreadable(from))?;
            config.dangerous().with_custom_certificate_verifier(Arc::new(Named { signed, certificates }))
        }
    };
    Ok(TlsConnector::from(Arc::new(config.with_no_client_auth())))
}

/// The library's checks, but a certificate of the operator's own file may have CA:TRUE, as `openssl req
/// -x509` makes it.
#[derive(Debug)]
struct Named {
    signed: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

/// The library's name of the fault. Its check of the time comes first, and that of the name later.
const IS_CA: &str = "CaUsedAsEndEntity";

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.signed.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(Error::InvalidCertificate(CertificateError::Other(fault)))
                if fault.0.to_string() == IS_CA && self.certificates.contains(end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}
