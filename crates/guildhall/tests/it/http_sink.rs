//! A server that receives requests of a node: webhooks, the hook before delivery, interactions by HTTP.

use aws_lc_rs::{
    hmac,
    signature::{ED25519, UnparsedPublicKey},
};
use serde_json::Value;
use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

/// Status and body of an answer, which is form data if it begins with the boundary `XX`; none: no answer, and the
/// connection stays open.
pub type Reply = Option<(u16, String)>;

/// A request that the sink has received.
#[derive(Debug)]
pub struct Received {
    pub headers: HashMap<String, String>,
    pub text: String,
    pub body: Value,
}

impl Received {
    /// Whether the signature of an interaction is that of this application, by its `verify_key`.
    pub fn is_of_application(&self, verify_key: &str) -> bool {
        let bytes = |hex: &str| -> Option<Vec<u8>> {
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()).collect()
        };
        let signed = format!("{}{}", self.headers["x-signature-timestamp"], self.text);
        let key = UnparsedPublicKey::new(&ED25519, bytes(verify_key).expect("hexadecimal"));
        bytes(&self.headers["x-signature-ed25519"])
            .is_some_and(|signature| key.verify(signed.as_bytes(), &signature).is_ok())
    }

    /// Whether the signature is that of this secret.
    pub fn is_signed(&self, secret: &str) -> bool {
        let signed = format!("{}.{}", self.headers["guildhall-timestamp"], self.text);
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), signed.as_bytes());
        let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        self.headers["guildhall-signature"] == format!("v1={hex}")
    }
}

pub struct Sink {
    pub addr: SocketAddr,
    received: Receiver<Received>,
}

impl Sink {
    /// Answers each request by `reply`, on a thread per connection, until the process of the test ends.
    pub fn start(reply: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_with(move |received| reply(&received.body))
    }

    /// The same by the whole request.
    pub fn start_with(reply: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (sender, received) = channel();
        let reply: Arc<dyn Fn(&Received) -> Reply + Send + Sync> = Arc::new(reply);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (sender, reply) = (sender.clone(), reply.clone());
                thread::spawn(move || serve(&stream, &sender, &*reply));
            }
        });
        Self { addr, received }
    }

    pub fn url(&self) -> String {
        format!("http://{}/events?of=test", self.addr)
    }

    /// The next request.
    #[track_caller]
    pub fn next(&self) -> Received {
        self.received.recv_timeout(std::time::Duration::from_secs(120)).expect("a request in time")
    }

    /// Requests so far that were not taken.
    pub fn rest(&self) -> Vec<Received> {
        self.received.try_iter().collect()
    }
}

fn serve(stream: &TcpStream, sender: &Sender<Received>, reply: &(dyn Fn(&Received) -> Reply + Send + Sync)) {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut text = vec![0; length];
        if reader.read_exact(&mut text).is_err() {
            return;
        }
        let text = String::from_utf8(text).unwrap();
        let body: Value = serde_json::from_str(&text).unwrap();
        let received = Received { headers, text, body };
        let reply = reply(&received);
        let _ = sender.send(received);
        let Some((status, body)) = reply else {
            // Until the other end gives up.
            let _ = reader.read_line(&mut String::new());
            return;
        };
        let kind = match body.starts_with("--XX") {
            true => "Content-Type: multipart/form-data; boundary=XX\r\n",
            false => "",
        };
        let head = format!("HTTP/1.1 {status} X\r\n{kind}Content-Length: {}\r\n\r\n{body}", body.len());
        if writer.write_all(head.as_bytes()).is_err() {
            return;
        }
    }
}
