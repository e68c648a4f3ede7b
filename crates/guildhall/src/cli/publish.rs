//! `guildhall publish`: events to clients of a running node.

use super::{Failure, remote, remote::Remote, say};
use anyhow::{Context as _, bail};
use clap::{ArgGroup, Args};
use guildhall_model::{ChannelId, GuildId, RoleId, UserId};
use serde_json::{Value, json};
use std::io::Cursor;
use tokio::io::AsyncRead;

pub(super) const HELP: &str = "\
Examples:
  # To the members of a guild, to those who can view a channel, to roles:
  guildhall publish --event ROUND_STARTED --data '{\"round\":1}' --guild 11
  guildhall publish --event HELLO --data 1 --channel 12
  guildhall publish --event STAFF --guild 11 --role 17 --role 18
  # To an account, wherever it is connected:
  guildhall publish --event YOURS --user 42
  # One event per line; - for standard input:
  guildhall publish --file events.ndjson
  # A node that speaks TLS:
  guildhall publish --event HELLO --guild 11 --server https://g.example.net

A line is {\"t\": NAME, \"d\": JSON, \"audience\": AUDIENCE, \"key\": KEY}:
  AUDIENCE  {\"guild\": ID}, {\"channel\": ID} and so on
  KEY       an idempotency key; may be left out
The results go to standard output, a line each: how many sessions each event
reached. The key needs the scope `publish`. See docs/backend-api.md.";

/// Arguments of `publish`.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("what").required(true).args(["event", "file"])))]
pub struct PublishArgs {
    /// Name of the event
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// File with one event per line (NDJSON); - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["data", "guild", "channel", "role", "user"])]
    file: Option<String>,
    /// Body of the event: any JSON
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = parse_json)]
    data: Value,
    /// Send it to the members of a guild
    #[arg(long, value_name = "ID")]
    guild: Option<GuildId>,
    /// Send it to members who can view a channel
    #[arg(long, value_name = "ID", conflicts_with_all = ["role", "user"])]
    channel: Option<ChannelId>,
    /// Send it to members with a role; may be repeated
    #[arg(long, value_name = "ID", requires = "guild", conflicts_with = "user")]
    role: Vec<RoleId>,
    /// Send it to an account; may be repeated
    #[arg(long, value_name = "ID")]
    user: Vec<UserId>,
    #[command(flatten)]
    remote: Remote,
}

fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("this is not JSON: {error}"))
}

impl PublishArgs {
    /// The event that the arguments describe.
    fn event(&self) -> Value {
        let mut audience = json!({});
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                audience[key] = value;
            }
        };
        put("guild", self.guild.map(|id| json!(id)));
        put("channel", self.channel.map(|id| json!(id)));
        put("roles", (!self.role.is_empty()).then(|| json!(self.role)));
        put("users", (!self.user.is_empty()).then(|| json!(self.user)));
        json!({"t": self.event, "d": self.data, "audience": audience})
    }
}

pub(super) async fn run(args: PublishArgs, environment: &[(String, String)]) -> Result<(), Failure> {
    let input: Box<dyn AsyncRead + Send + Unpin> = match &args.file {
        Some(file) => remote::open(file).await?,
        None => Box::new(Cursor::new(args.event().to_string().into_bytes())),
    };
    let (mut count, mut failed) = (0_u64, 0_u64);
    let done = args.remote.stream(environment, "/v1/publish", input, |line| {
        count += 1;
        failed += u64::from(line.get("code").is_some());
        say(&format!("{line}\n"));
        Ok(())
    });
    done.await.context("some events were not published")?;
    Ok(verdict(count, failed)?)
}

fn verdict(count: u64, failed: u64) -> anyhow::Result<()> {
    if failed > 0 {
        bail!("{failed} of {count} events were not published: their results have the reasons");
    }
    Ok(())
}
