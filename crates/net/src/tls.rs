//! TLS: certificates, handshakes on the runtime, and records on a partition's own sockets.
//!
//! Owns        the certificate in force (`Certificates`), and how plaintext goes through a connection's records (`Records`).
//! Invariants  T1 nothing is taken for sending while older records wait: what waits is at most `BUFFER_BYTES_MAX`, and a client
//!             that does not read looks full, as without TLS. T2 connections without TLS have a null pointer, and nothing else.
//! Limits      `BUFFER_BYTES_MAX` of records per connection; handshakes have the time that a request's head has.
//! Not here    where certificates come from.     Spec  RFC 8446; docs/adr/0020.

use rustls::{
    ServerConfig, ServerConnection,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use std::{
    io::{self, ErrorKind, Read as _, Write as _},
    net::Shutdown,
    path::Path,
    sync::{Arc, PoisonError, RwLock},
};

/// Records that wait for a socket with room.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Why a certificate is not taken.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The certificate chain is invalid.
    #[error("the certificates cannot be read")]
    Chain(#[source] pem::Error),
    /// The key is invalid.
    #[error("the key cannot be read")]
    Key(#[source] pem::Error),
    /// Both together.
    #[error("the key is not the certificate's, or of a kind that cannot be used")]
    Pair(#[source] rustls::Error),
    /// There is none.
    #[error("the file has no certificate")]
    Empty,
}

/// The certificate in force. Connections keep the one they began with.
#[derive(Debug)]
pub struct Certificates(RwLock<Arc<CertifiedKey>>);

impl Certificates {
    /// Reads a chain and its key, both PEM.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn read(chain: &Path, key: &Path) -> Result<Self, CertificateError> {
        Ok(Self(RwLock::new(read(chain, key)?)))
    }

    /// Reads them again. With an error the pair in force stays.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn read_again(&self, chain: &Path, key: &Path) -> Result<(), CertificateError> {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = read(chain, key)?;
        Ok(())
    }
}

fn read(chain: &Path, key: &Path) -> Result<Arc<CertifiedKey>, CertificateError> {
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(chain).and_then(Iterator::collect).map_err(CertificateError::Chain)?;
    if chain.is_empty() {
        return Err(CertificateError::Empty);
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(CertificateError::Key)?;
    let pair = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).map_err(CertificateError::Pair)?;
    pair.keys_match().map_err(CertificateError::Pair)?;
    Ok(Arc::new(pair))
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// Shakes hands with what is in force.
///
/// # Errors
/// The library's: none, with its own defaults.
pub fn acceptor(certificates: Arc<Certificates>) -> Result<tokio_rustls::TlsAcceptor, rustls::Error> {
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?;
    let mut config = config.with_no_client_auth().with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(tokio_rustls::TlsAcceptor::from(Arc::new(config)))
}

/// A connection's keys, and what of its records waits.
#[derive(Debug)]
pub struct Records {
    tls: ServerConnection,
    /// When the rest is out, the socket is half-closed.
    is_finishing: bool,
}

impl Records {
    /// Of a connection that has shaken hands.
    pub fn new(mut tls: ServerConnection) -> Box<Self> {
        tls.set_buffer_limit(Some(BUFFER_BYTES_MAX));
        Box::new(Self { tls, is_finishing: false })
    }

    /// Sends what waits. False: the socket is full.
    pub fn flush(&mut self, stream: &mut mio::net::TcpStream) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(stream) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        if std::mem::take(&mut self.is_finishing) {
            stream.shutdown(Shutdown::Write)?;
        }
        Ok(true)
    }

    /// Takes plaintext. Accepted bytes are sent before anything else; 0: there is no room.
    pub fn send(&mut self, stream: &mut mio::net::TcpStream, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        if !self.flush(stream)? {
            return Ok(0);
        }
        let taken = self.tls.writer().write_vectored(slices)?;
        self.flush(stream)?;
        Ok(taken)
    }

    /// Reads plaintext. `Ok(None)`: nothing there now. `Ok(Some(0))`: the end.
    pub fn read(&mut self, stream: &mut mio::net::TcpStream, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.tls.reader().read(buffer) {
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // It went without saying so: as a hang-up without TLS.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Some(0)),
                Err(error) => return Err(error),
            }
            match self.tls.read_tls(stream) {
                Ok(0) => return Ok(Some(0)),
                Ok(_) => {
                    let processed = self.tls.process_new_packets();
                    // Tickets, key updates, or why it is over.
                    let flushed = self.flush(stream);
                    processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
                    flushed?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Says that nothing more comes, and half-closes the socket once that is out.
    pub fn finish(&mut self, stream: &mut mio::net::TcpStream) -> io::Result<()> {
        self.tls.send_close_notify();
        self.is_finishing = true;
        self.flush(stream).map(drop)
    }
}
