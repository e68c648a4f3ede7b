//! Fixture: the guild that the clients of these benches are in.
//!
//! Owns        its ids, and making it by the backend API, as a backend would.

use super::backend::Http;
use anyhow::{Context as _, Result};
use guildhall_model::User;
use serde_json::json;
use std::fmt::Write as _;

pub const GUILD: u64 = 1_100_000_000_000_000_001;
pub const CHANNEL: u64 = 1_100_000_000_000_000_002;
/// The account that posts; it never connects.
pub const SPEAKER: u64 = 1_100_000_000_000_000_003;
const FIRST_USER: u64 = 1_100_000_000_001_000_000;

/// An account with a token.
#[derive(Clone, Debug)]
pub struct Account {
    pub is_bot: bool,
    pub token: String,
}

/// Creates the guild with `count` members, every second one a bot. Returns their accounts, and the token of `SPEAKER`.
pub fn make(backend: &mut Http, count: usize) -> Result<(Vec<Account>, String)> {
    let speaker = json!({"username": "speaker", "bot": true, "application_flags": User::APPLICATION_PRIVILEGED});
    backend.ask("PUT", &format!("/v1/users/{SPEAKER}"), &speaker)?;
    let guild = json!({"name": "bench", "owner_id": SPEAKER.to_string()});
    backend.ask("PUT", &format!("/v1/guilds/{GUILD}"), &guild)?;
    backend.ask("PUT", &format!("/v1/guilds/{GUILD}/channels/{CHANNEL}"), &json!({"name": "general", "type": 0}))?;
    let is_bot = |index: usize| index.is_multiple_of(2);
    let mut lines = String::new();
    for index in 0..count {
        let flags = if is_bot(index) { User::APPLICATION_PRIVILEGED } else { 0 };
        let id = (FIRST_USER + index as u64).to_string();
        let user =
            json!({"id": id, "username": format!("member{index}"), "bot": is_bot(index), "application_flags": flags});
        let _ = writeln!(lines, "{}", json!({"user": user}));
    }
    let done = backend.send_lines(&format!("/v1/guilds/{GUILD}/members/import"), &lines)?;
    anyhow::ensure!(done["done"] == true && done["failed"] == 0, "importing members: {done}");
    let mut accounts = Vec::with_capacity(count);
    for index in 0..count {
        let id = FIRST_USER + index as u64;
        accounts.push(Account { is_bot: is_bot(index), token: mint(backend, id)? });
    }
    Ok((accounts, mint(backend, SPEAKER)?))
}

fn mint(backend: &mut Http, id: u64) -> Result<String> {
    let minted = backend.ask("POST", &format!("/v1/users/{id}/tokens"), &json!({}))?;
    let token = minted["token"].as_str().context("a token")?;
    Ok(token.trim_start_matches("Bot ").to_owned())
}

/// Posts a message with its number, which counts up, and its time.
pub fn say(speaker: &mut Http, phase: usize, number: u32, said_us: u64) -> Result<bool> {
    let content = json!({"content": format!("p={phase} n={number} t={said_us} and some words, as people write them")});
    let path = format!("/api/v10/channels/{CHANNEL}/messages");
    let (status, _) = speaker.request("POST", &path, &content.to_string())?;
    Ok(status == 200)
}

/// Phase, number and time of a message of `say`, parsed from its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentMessage {
    pub phase: usize,
    pub number: u32,
    pub said_us: u64,
}

impl SentMessage {
    pub fn find(body: &str) -> Option<Self> {
        let rest = &body[body.find("\"p=")? + 1..];
        let mut words = rest.split(' ');
        let mut field = |name: &str| words.next()?.strip_prefix(name)?.parse::<u64>().ok();
        Some(Self { phase: field("p=")? as usize, number: field("n=")? as u32, said_us: field("t=")? })
    }
}

/// The numbers of all stored messages, ascending.
pub fn history(speaker: &mut Http) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    let mut before = String::new();
    loop {
        let path = format!("/api/v10/channels/{CHANNEL}/messages?limit=100{before}");
        let page = speaker.ask("GET", &path, &json!(null))?;
        let page = page.as_array().context("a page of messages")?;
        let Some(oldest) = page.last() else {
            numbers.reverse();
            return Ok(numbers);
        };
        before = format!("&before={}", oldest["id"].as_str().context("an id")?);
        numbers
            .extend(page.iter().filter_map(|message| SentMessage::find(&message.to_string())).map(|sent| sent.number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed_from_the_content() {
        let sent = SentMessage::find(r#"{"content":"p=1 n=42 t=123456 and some","id":"5"}"#);
        assert_eq!(sent, Some(SentMessage { phase: 1, number: 42, said_us: 123_456 }));
        assert_eq!(SentMessage::find(r#"{"content":"hello"}"#), None);
    }
}
