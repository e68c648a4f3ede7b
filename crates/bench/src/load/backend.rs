//! Backend: HTTP as a backend and a bot speak it, one connection and one request at a time.
//!
//! Limits      `TIMEOUT` for each piece of a request and of an answer.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

const TIMEOUT: Duration = Duration::from_secs(120);

/// See the module. It reconnects when the server has closed the connection.
pub struct Http {
    addr: SocketAddr,
    authorization: String,
    connection: Option<BufReader<TcpStream>>,
}

impl Http {
    /// With the key of a backend.
    pub fn backend(addr: SocketAddr, key: &str) -> Self {
        Self { addr, authorization: format!("Bearer {key}"), connection: None }
    }

    /// A client with a bot's token.
    pub fn bot(addr: SocketAddr, token: &str) -> Self {
        Self { addr, authorization: format!("Bot {token}"), connection: None }
    }

    /// Sends a request. After an error its effect is unknown.
    pub fn request(&mut self, method: &str, path: &str, body: &str) -> Result<(u16, Value)> {
        if method == "GET" {
            // The server closes idle connections; a GET can be repeated.
            if let done @ Ok(_) = self.try_request(method, path, body) {
                return done;
            }
            self.connection = None;
        }
        self.try_request(method, path, body)
    }

    fn try_request(&mut self, method: &str, path: &str, body: &str) -> Result<(u16, Value)> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        self.send(connection.get_mut(), method, path, body)?;
        let head = Head::read(&mut connection)?;
        let mut answer = Vec::new();
        match head.length {
            Some(length) => {
                answer.resize(length, 0);
                connection.read_exact(&mut answer)?;
            }
            None => read_chunks(&mut connection, |piece| {
                answer.extend_from_slice(piece);
                Ok(())
            })?,
        }
        if !head.closes {
            self.connection = Some(connection);
        }
        Ok((head.status, serde_json::from_slice(&answer).unwrap_or(Value::Null)))
    }

    /// Sends a request, and fails unless it succeeds.
    pub fn ask(&mut self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let (status, answer) = self.request(method, path, &body.to_string())?;
        ensure!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        Ok(answer)
    }

    /// Sends all of `lines` as a stream, and returns the last line of the answer.
    pub fn send_lines(&mut self, path: &str, lines: &str) -> Result<Value> {
        let mut connection = self.connect()?;
        self.send(connection.get_mut(), "POST", path, lines)?;
        let head = Head::read(&mut connection)?;
        let mut answer = Vec::new();
        read_chunks(&mut connection, |piece| {
            answer.extend_from_slice(piece);
            Ok(())
        })?;
        let last = answer.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty()).unwrap_or_default();
        ensure!(head.status == 200, "POST {path}: {} {}", head.status, String::from_utf8_lossy(last));
        Ok(serde_json::from_slice(last)?)
    }

    fn connect(&self) -> Result<BufReader<TcpStream>> {
        let stream = TcpStream::connect(self.addr)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(BufReader::new(stream))
    }

    fn send(&self, stream: &mut TcpStream, method: &str, path: &str, body: &str) -> Result<()> {
        let kind = if path.ends_with("/import") { "application/x-ndjson" } else { "application/json" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            self.authorization,
            body.len()
        );
        Ok(stream.write_all(request.as_bytes())?)
    }
}

/// Status line and headers of an answer.
pub struct Head {
    pub status: u16,
    /// None: the body comes in chunks.
    length: Option<usize>,
    closes: bool,
}

impl Head {
    pub fn read(connection: &mut impl BufRead) -> Result<Self> {
        let mut line = String::new();
        connection.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).context("this is no answer")?;
        let mut head = Self { status, length: Some(0), closes: false };
        loop {
            line.clear();
            ensure!(connection.read_line(&mut line)? > 0, "the answer broke off");
            let Some((name, value)) = line.trim_end().split_once(':') else { return Ok(head) };
            let (name, value) = (name.to_ascii_lowercase(), value.trim());
            match name.as_str() {
                "content-length" => head.length = Some(value.parse()?),
                "transfer-encoding" => head.length = None,
                "connection" => head.closes = value.eq_ignore_ascii_case("close"),
                _ => {}
            }
        }
    }
}

/// Reads the head of a request, and returns the length of its body.
pub fn read_request_head(connection: &mut impl BufRead) -> Result<usize> {
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        ensure!(connection.read_line(&mut line)? > 0, "the connection has ended");
        let field = line.trim_end();
        if field.is_empty() {
            return Ok(length);
        }
        if let Some((name, value)) = field.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
    }
}

/// Reads a body in chunks to its end.
pub fn read_chunks(connection: &mut impl BufRead, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let (mut line, mut piece) = (String::new(), Vec::new());
    loop {
        line.clear();
        if connection.read_line(&mut line)? == 0 {
            bail!("the answer broke off");
        }
        let length = usize::from_str_radix(line.trim(), 16).with_context(|| format!("{line:?} is no chunk"))?;
        piece.resize(length + 2, 0);
        connection.read_exact(&mut piece)?;
        if length == 0 {
            return Ok(());
        }
        take(&piece[..length])?;
    }
}
