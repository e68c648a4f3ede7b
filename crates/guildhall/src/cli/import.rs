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
  # Continue an interrupted import:
  guildhall import members.ndjson --guild 1100000000000000001 --skip 250000
  # Make the file the complete list of members; first print the changes:
  guildhall import members.ndjson --guild 1100000000000000001 \\
      --replace --dry-run
  guildhall import members.ndjson --guild 1100000000000000001 --replace
  # A node that speaks TLS with a certificate of your own authority:
  guildhall import members.ndjson --guild 1100000000000000001 \\
      --server https://gateway.example.net --ca ca.pem

FILE has one member per line, with the account:
  {\"user\": {\"id\": \"1100000000000000042\", \"username\": \"mara\"},
   \"roles\": [\"1100000000000000007\"], \"nick\": null}     (all in one line)
A member who is there is replaced; one who is the same costs nothing, so that a
file can be imported again. Progress and lines that are refused go to standard
error. The key needs the scope `write`. See docs/backend-api.md.";

/// Arguments of `import`.
#[derive(Args, Debug)]
pub struct ImportArgs {
    /// File with one member per line (NDJSON); - for standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// Guild to import into: its id, or ext: followed by its external id
    #[arg(long, value_name = "ID", value_parser = parse_guild)]
    guild: String,
    /// Skip this number of lines at the beginning
    #[arg(long, value_name = "LINES", default_value_t = 0)]
    skip: u64,
    /// Send clients an event for each member who joins
    #[arg(long)]
    events: bool,
    /// Remove members who are not in the file, except the owner
    #[arg(long, conflicts_with = "skip")]
    replace: bool,
    /// Change nothing, and print what would change
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Progress of the import.
#[derive(Debug, Default)]
struct Far {
    line: u64,
    failed: u64,
    done: bool,
    /// Size of the file. None: the size of a pipe is unknown.
    bytes_total: Option<u64>,
    /// Whether the file is the complete list (`--replace`), so that the import cannot continue in the middle.
    is_whole: bool,
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
        let failed = line["failed"].as_u64().unwrap_or(0);
        (self.line, self.failed, self.done) = (number, failed, line["done"] == true);
        let percent = percent(line["bytes"].as_u64(), self.bytes_total);
        let would = if line["dry_run"] == true { "would be: " } else { "" };
        eprintln!(
            "{percent}{number} lines: {would}{} added, {} changed, {} as they were, {} removed, {failed} not taken",
            line["added"], line["changed"], line["unchanged"], line["removed"]
        );
        for (field, what) in [("added_first", "added"), ("removed_first", "removed")] {
            let first: Vec<&str> = line[field].as_array().into_iter().flatten().map(text).collect();
            if !first.is_empty() && self.done {
                let more = if line[what].as_u64() > Some(first.len() as u64) { ", …" } else { "" };
                eprintln!("{would}{what}: {}{more}", first.join(", "));
            }
        }
    }
}

/// Stored part of the file, like `42 %, `; empty if its size is unknown. Rounded down, so that 100 % means the end.
fn percent(bytes: Option<u64>, total: Option<u64>) -> String {
    match bytes.zip(total.filter(|total| *total > 0)) {
        Some((bytes, total)) => format!("{} %, ", bytes.min(total).saturating_mul(100) / total),
        None => String::new(),
    }
}

fn parse_guild(text: &str) -> Result<String, String> {
    let is_id = text.parse::<GuildId>().is_ok() || text.strip_prefix("ext:").is_some_and(|text| !text.is_empty());
    if is_id { Ok(text.to_owned()) } else { Err("expected an id (digits), or ext: and an external id".to_owned()) }
}

/// Percent-encodes a text, so that it is one segment of a path.
fn path_piece(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b':' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) async fn run(args: ImportArgs, environment: &[(String, String)]) -> Result<(), Failure> {
    let input = remote::open(&args.file).await?;
    let ImportArgs { skip, events, replace, dry_run, .. } = args;
    let path = format!(
        "/v1/guilds/{}/members/import?skip={skip}&events={events}&replace={replace}&dry_run={dry_run}",
        path_piece(&args.guild)
    );
    let bytes_total = remote::size_of(&args.file).await;
    let mut far = Far { is_whole: replace, bytes_total, ..Far::default() };
    let done = args.remote.stream(environment, &path, input, |line| {
        far.take(&line);
        Ok(())
    });
    let done = done.await;
    Ok(verdict(done, &far)?)
}

fn verdict(done: anyhow::Result<()>, far: &Far) -> anyhow::Result<()> {
    if !far.done && far.line > 0 {
        match far.is_whole {
            true => {
                eprintln!("The import is incomplete: import the whole file again. Unchanged members cost no write.")
            }
            false => eprintln!(
                "The import broke off. Everything up to line {0} is stored: continue with --skip {0}",
                far.line
            ),
        }
    }
    done?;
    if !far.done {
        bail!("the import is incomplete");
    }
    if far.failed > 0 {
        bail!("{} lines were refused: correct them, and import the file again", far.failed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents() {
        let check = |bytes, total, expected: &str| assert_eq!(percent(bytes, total), expected);
        check(Some(0), Some(300), "0 %, ");
        check(Some(299), Some(300), "99 %, ");
        check(Some(300), Some(300), "100 %, ");
        check(Some(400), Some(300), "100 %, ");
        check(Some(5), Some(0), "");
        check(Some(5), None, "");
        check(None, Some(5), "");
    }
}
