//! Socket: what good and bad clients do alike with theirs.

use mio::net::TcpStream;
use std::io::{ErrorKind, Write as _};

/// Writes as much of `unsent` as the socket accepts; the rest waits until it is writable. After an error the rest is
/// dropped, because the server's last data and its close are still to be read.
pub fn write_unsent(stream: &mut TcpStream, unsent: &mut Vec<u8>) {
    while !unsent.is_empty() {
        match stream.write(unsent) {
            Ok(count) => drop(unsent.drain(..count)),
            Err(error) if is_for_later(error.kind()) => return,
            Err(_) => return unsent.clear(),
        }
    }
}

/// Nothing to be read, or no room to write, or not connected yet.
pub fn is_for_later(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::NotConnected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn what_a_socket_does_not_take_stays_and_what_the_server_said_last_can_be_read() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut stream = TcpStream::from_std(stream);
        let (mut server, _) = listener.accept().unwrap();

        let mut unsent = vec![7; 64 << 20];
        write_unsent(&mut stream, &mut unsent);
        assert!(!unsent.is_empty() && unsent.len() < 64 << 20, "{} left", unsent.len());

        std::io::Write::write_all(&mut server, b"last words").unwrap();
        server.shutdown(std::net::Shutdown::Write).unwrap();
        let mut heard = [0; 32];
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let count = loop {
            match stream.read(&mut heard) {
                Ok(count) => break count,
                Err(error) => assert!(is_for_later(error.kind()) && std::time::Instant::now() < deadline, "{error}"),
            }
        };
        assert_eq!(heard[..count], *b"last words");

        // The server is gone: no room any more, but nothing waits for it either.
        drop(server);
        while !unsent.is_empty() {
            assert!(std::time::Instant::now() < deadline, "{} left", unsent.len());
            write_unsent(&mut stream, &mut unsent);
        }
    }
}
