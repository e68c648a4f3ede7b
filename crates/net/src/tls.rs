//! TLS: certificates, handshakes on the runtime, and records on a partition's own sockets.
//!
//! Owns        the certificate in use (`Certificates`), and the encryption of a connection's bytes (`Records`).
//! Invariants  T1 no plaintext is accepted while older records wait for the socket. So at most `BUFFER_BYTES_MAX` wait,
//!             and a client that does not read looks full, as without TLS. T2 a connection without TLS costs a null
//!             pointer.
//! Limits      `BUFFER_BYTES_MAX` of records per connection. The time limit of a handshake is that of a request's head.
//! Not here    files of certificates (`guildhall::tls`).     Spec  RFC 8446; docs/adr/0020.

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

/// Bytes of records that wait for a socket with room.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Reason why a certificate is refused.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The certificate chain is invalid.
    #[error("the certificates cannot be read")]
    Chain(#[source] pem::Error),
    /// The key is invalid.
    #[error("the key cannot be read")]
    Key(#[source] pem::Error),
    /// Key and certificate do not match.
    #[error("the key is not the certificate's, or of a kind that cannot be used")]
    Pair(#[source] rustls::Error),
    /// The file has no certificate.
    #[error("the file has no certificate")]
    Empty,
}

/// The certificate in use. Connections keep the one with which they began.
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

    /// Reads them again. On an error the current certificate stays in use.
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

/// Accepts TLS with the certificate in use.
///
/// # Errors
/// An error of the library; its default settings cause none.
pub fn acceptor(certificates: Arc<Certificates>) -> Result<tokio_rustls::TlsAcceptor, rustls::Error> {
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?;
    let mut config = config.with_no_client_auth().with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(tokio_rustls::TlsAcceptor::from(Arc::new(config)))
}

/// TLS state of a connection, and records that wait for its socket.
#[derive(Debug)]
pub struct Records {
    tls: ServerConnection,
    /// Half-close the socket once all records are sent.
    is_finishing: bool,
}

impl Records {
    /// Takes over a connection after its handshake.
    pub fn new(mut tls: ServerConnection) -> Box<Self> {
        tls.set_buffer_limit(Some(BUFFER_BYTES_MAX));
        Box::new(Self { tls, is_finishing: false })
    }

    /// Sends waiting records. False: the socket is full.
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

    /// Encrypts plaintext and returns the number of accepted bytes. Sends waiting records first; 0: no room.
    pub fn send(&mut self, stream: &mut mio::net::TcpStream, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        if !self.flush(stream)? {
            return Ok(0);
        }
        let taken = self.tls.writer().write_vectored(slices)?;
        self.flush(stream)?;
        Ok(taken)
    }

    /// Reads plaintext. `Ok(None)`: none available now. `Ok(Some(0))`: end of stream.
    pub fn read(&mut self, stream: &mut mio::net::TcpStream, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.tls.reader().read(buffer) {
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The peer closed without close_notify: treated as a hang-up without TLS.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Some(0)),
                Err(error) => return Err(error),
            }
            match self.tls.read_tls(stream) {
                Ok(0) => return Ok(Some(0)),
                Ok(_) => {
                    let processed = self.tls.process_new_packets();
                    // Sends the answer to a key update, or the alert with the reason of the end.
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

    /// Sends close_notify, and half-closes the socket once it is out.
    pub fn finish(&mut self, stream: &mut mio::net::TcpStream) -> io::Result<()> {
        self.tls.send_close_notify();
        self.is_finishing = true;
        self.flush(stream).map(drop)
    }
}
