//! `guildhall import`: members from a file into a guild of a running node.

use super::{Failure, remote, remote::Remote};
use anyhow::bail;
use clap::Args;
use guildhall_model::GuildId;
use serde_json::Value;

pub(super) const HELP: &str = "\
Examples:
  guildhall import members.ndjson --guild 1100000000000000001
  guildhall import - --guild 1100000000000000001 < members.ndjson
  # Go on where it broke off:
  guildhall import members.ndjson --guild 1100000000000000001 --skip 250000
  # A node that speaks TLS with a certificate of your own authority:
  guildhall import members.ndjson --guild 1100000000000000001 \\
      --server https://gateway.example.net --ca ca.pem

FILE has a member a line, with the account:
  {\"user\": {\"id\": \"1100000000000000042\", \"username\": \"mara\"},
   \"roles\": [\"1100000000000000007\"], \"nick\": null}     (all in one line)
A member who is there is replaced; one who is the same costs nothing, so that a
file can be imported again. Progress and lines that are refused go to standard
error. The key needs the scope `write`. See docs/backend-api.md.";

/// Arguments of `import`.
#[derive(Args, Debug)]
pub struct ImportArgs {
    /// A member a line (NDJSON); - for standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// Into which guild
    #[arg(long, value_name = "ID")]
    guild: GuildId,
    /// Leave out so many lines at the beginning
    #[arg(long, value_name = "LINES", default_value_t = 0)]
    skip: u64,
    /// Tell everybody in the guild who joined
    #[arg(long)]
    events: bool,
    #[command(flatten)]
    remote: Remote,
}

/// How far it is.
#[derive(Debug, Default)]
struct Far {
    line: u64,
    failed: u64,
    done: bool,
}

impl Far {
    fn take(&mut self, line: &Value) {
        let number = line["line"].as_u64().unwrap_or(0);
        if let Some(message) = line["message"].as_str() {
            let faults = line["errors"].as_array().into_iter().flatten();
            let faults = faults.map(|fault| match text(&fault["field"]) {
                "" => text(&fault["message"]).to_owned(),
                field => format!("{field}: {}", text(&fault["message"])),
            });
            let faults = faults.collect::<Vec<_>>().join("; ");
            eprintln!("line {number}: {}", if faults.is_empty() { message } else { &faults });
            return;
        }
        *self = Self { line: number, failed: line["failed"].as_u64().unwrap_or(0), done: line["done"] == true };
        eprintln!(
            "{number} lines: {} added, {} changed, {} as they were, {} not taken",
            line["added"], line["changed"], line["unchanged"], self.failed
        );
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) async fn run(args: ImportArgs, environment: &[(String, String)]) -> Result<(), Failure> {
    let input = remote::open(&args.file).await?;
    let path = format!("/v1/guilds/{}/members/import?skip={}&events={}", args.guild, args.skip, args.events);
    let mut far = Far::default();
    let done = args.remote.stream(environment, &path, input, |line| {
        far.take(&line);
        Ok(())
    });
    let done = done.await;
    Ok(verdict(done, &far)?)
}

fn verdict(done: anyhow::Result<()>, far: &Far) -> anyhow::Result<()> {
    if !far.done && far.line > 0 {
        eprintln!("It broke off. Everything up to line {0} is stored: go on with --skip {0}", far.line);
    }
    done?;
    if !far.done {
        bail!("the import did not reach its end");
    }
    if far.failed > 0 {
        bail!("{} lines were not taken: correct them, and import the file again", far.failed);
    }
    Ok(())
}
