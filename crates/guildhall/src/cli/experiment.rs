//! `guildhall experiment`: experiments of a running node or cluster.

use super::{Failure, remote::Remote, say};
use anyhow::anyhow;
use clap::{Args, Subcommand, builder::PossibleValuesParser};
use guildhall_model::GuildId;
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) const HELP: &str = "\
Examples:
  # One account in a hundred gets one of two arms, half of them each:
  GUILDHALL_KEY=ghk_… guildhall experiment start level3 --percent 1 \\
      --arm control=node --arm fast=zstd:level=3
  # What it does, with intervals:
  guildhall experiment report level3 --key-file lab.key
  # More accounts; those that take part keep their arm:
  guildhall experiment ramp level3 --percent 10
  # No new connection takes part; running ones leave it by op 7:
  guildhall experiment stop level3 --reconnect

An arm is NAME=ARM[*WEIGHT]. ARM is zlib or zstd with parameters, shared-match,
a policy (context, larger), zstd:dict=ID: a dictionary of `lab dictionary`, or
node: as the settings have it. The first arm is the control. Guardrails stop
the experiment by themselves if an arm is worse: docs/lab.md. The key needs
the scope `lab`.";

/// Arguments of `experiment`.
#[derive(Args, Debug)]
pub struct ExperimentArgs {
    #[command(subcommand)]
    command: ExperimentCommand,
}

#[derive(Debug, Subcommand)]
enum ExperimentCommand {
    /// List experiments, ended ones included
    List {
        #[command(flatten)]
        remote: Remote,
    },
    /// Create and start an experiment, or start a draft
    Start(StartArgs),
    /// Change the share of the accounts that take part
    Ramp {
        /// Name of the experiment
        name: String,
        /// Share of the accounts, percent
        #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = permille)]
        percent: u16,
        #[command(flatten)]
        remote: Remote,
    },
    /// Stop an experiment: new connections do not take part any more
    Stop {
        /// Name of the experiment
        name: String,
        /// Also send op 7 to clients that have one of its arms
        #[arg(long)]
        reconnect: bool,
        /// Why, for the record
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        remote: Remote,
    },
    /// Print the figures of an experiment
    Report {
        /// Name of the experiment
        name: String,
        #[command(flatten)]
        remote: Remote,
    },
    /// Remove an experiment that does not run
    Remove {
        /// Name of the experiment
        name: String,
        #[command(flatten)]
        remote: Remote,
    },
}

#[derive(Args, Debug)]
struct StartArgs {
    /// Name of the experiment
    name: String,
    /// Share of the accounts that take part, percent, in steps of 0.1
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = permille, required_unless_present = "from_draft")]
    percent: Option<u16>,
    /// An arm: NAME=ARM or NAME=ARM*WEIGHT; two or more, the first is the control
    #[arg(long = "arm", value_name = "ARM", value_parser = arm, required_unless_present = "from_draft")]
    arms: Vec<Value>,
    /// Experiments of one layer have no account in common
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = text)]
    layer: String,
    /// Decides the arm of each account; the name, if not given
    #[arg(long, value_name = "TEXT", value_parser = text)]
    salt: Option<String>,
    /// Only sessions on this platform; can be repeated
    #[arg(long = "platform", value_parser = PossibleValuesParser::new(["desktop", "mobile", "web", "embedded", "vr"]))]
    platforms: Vec<String>,
    /// Only bots
    #[arg(long, conflicts_with = "users")]
    bots: bool,
    /// Only accounts that are no bots
    #[arg(long)]
    users: bool,
    /// Only members of this guild
    #[arg(long, value_name = "ID")]
    guild: Option<GuildId>,
    /// Chance of a false alarm of all guardrails together
    #[arg(long, value_name = "P", default_value_t = 0.05, value_parser = alpha, allow_negative_numbers = true)]
    alpha: f64,
    /// How much worse an arm may be without an alarm, percent
    #[arg(long, value_name = "N", default_value_t = 5.0, value_parser = tolerance, allow_negative_numbers = true)]
    tolerance: f64,
    /// Samples of both arms before a guardrail may stop it
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = samples, allow_negative_numbers = true)]
    samples: u64,
    /// A rollback leaves running clients in their arm
    #[arg(long)]
    keep_on_rollback: bool,
    /// Create it without starting it
    #[arg(long, conflicts_with = "from_draft")]
    draft: bool,
    /// Start a draft of this name as it was created; --percent alone may change it
    #[arg(long, conflicts_with_all = DRAFT_HAS)]
    from_draft: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Fields that are fixed when a draft is created.
const DRAFT_HAS: [&str; 11] = [
    "arms",
    "layer",
    "salt",
    "platforms",
    "bots",
    "users",
    "guild",
    "alpha",
    "tolerance",
    "samples",
    "keep_on_rollback",
];
const NAME_BYTES_MAX: usize = 64;
const WEIGHT_MAX: u32 = 10_000;

fn number(text: &str, range: std::ops::RangeInclusive<f64>, meaning: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<f64>().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("it is {meaning}, from {} to {}", range.start(), range.end()))
}

fn alpha(text: &str) -> Result<f64, String> {
    if text.ends_with('%') {
        return Err("it is a chance, such as 0.05 for 5 %".to_owned());
    }
    number(text, 1e-6..=0.5, "a chance, such as 0.05")
}

fn tolerance(text: &str) -> Result<f64, String> {
    number(text, 0.0..=1_000.0, "a number of percent")
}

fn samples(text: &str) -> Result<u64, String> {
    let samples = text.parse::<u64>().ok().filter(|samples| (30..=1_000_000).contains(samples));
    samples.ok_or_else(|| "it is a whole number from 30 to 1000000".to_owned())
}

fn text(text: &str) -> Result<String, String> {
    match (1..=NAME_BYTES_MAX).contains(&text.len()) {
        true => Ok(text.to_owned()),
        false => Err(format!("it has 1 to {NAME_BYTES_MAX} bytes")),
    }
}

fn permille(text: &str) -> Result<u16, String> {
    let percent = text.trim_end_matches('%').parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
    let permille = percent.map(|percent| percent * 10.0).filter(|permille| (permille - permille.round()).abs() < 1e-6);
    permille.map(|permille| permille.round() as u16).ok_or_else(|| "it is 0 to 100, in steps of 0.1".to_owned())
}

fn arm(text: &str) -> Result<Value, String> {
    let form = || "an arm is NAME=ARM or NAME=ARM*WEIGHT, such as fast=zstd:level=3".to_owned();
    let (name, arm) = text.split_once('=').ok_or_else(form)?;
    if !is_name(name) {
        return Err(format!("{name:?} is no name of an arm: {NAME_RULE}; the form is NAME=ARM"));
    }
    let (arm, weight) = match arm.rsplit_once('*') {
        Some((arm, weight)) => {
            let weight = weight.parse::<u32>().ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight));
            (
                arm,
                weight.ok_or_else(|| {
                    format!("behind * is the weight of the arm, a whole number from 1 to {WEIGHT_MAX}")
                })?,
            )
        }
        None => (arm, 1),
    };
    if arm.is_empty() {
        return Err(format!("{name} has no arm: {name}=node is the stream as the settings have it"));
    }
    let mut body = json!({"name": name, "weight": weight});
    match arm {
        "node" => {}
        "context" | "larger" => body["policy"] = json!(arm),
        arm => body["arm"] = json!(arm),
    }
    Ok(body)
}

#[derive(Debug, Deserialize)]
struct Experiment {
    name: String,
    layer: String,
    permille: u16,
    arms: Vec<Value>,
    state: String,
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Report {
    name: String,
    state: String,
    reason: Option<String>,
    nodes: u32,
    samples_dropped: u64,
    arms: Vec<ArmReport>,
}

#[derive(Debug, Deserialize)]
struct ArmReport {
    name: String,
    connections: u64,
    metrics: Vec<Metric>,
}

#[derive(Debug, Deserialize)]
struct Metric {
    name: String,
    samples: u64,
    mean: f64,
    comparison: Option<Comparison>,
}

#[derive(Debug, Deserialize)]
struct Comparison {
    difference: f64,
    low: f64,
    high: f64,
    is_worse: bool,
}

const ALL: &str = "/v1/experiments";

const NAME_RULE: &str = "a name has 1 to 64 letters, digits, -, _ and ., no . in front";

fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_plain) && !name.starts_with('.')
}

fn check_name(name: &str) -> Result<(), Failure> {
    match is_name(name) {
        true => Ok(()),
        false => Err(Failure::Usage(anyhow!("{name:?} is no name of an experiment: {NAME_RULE}"))),
    }
}

fn path_of(name: &str) -> Result<String, Failure> {
    check_name(name).map(|()| format!("{ALL}/{name}"))
}

/// Runs the command.
///
/// # Errors
/// The node cannot be reached or refuses the request.
pub async fn run(args: ExperimentArgs, environment: &[(String, String)]) -> Result<(), Failure> {
    match args.command {
        ExperimentCommand::List { remote } => {
            let all: Vec<Experiment> = remote.asking(environment)?.get(ALL).await?;
            if all.is_empty() {
                eprintln!("there is no experiment: `guildhall experiment start --help` has examples");
            }
            say(&list(&all));
        }
        ExperimentCommand::Start(args) => start(args, environment).await?,
        ExperimentCommand::Ramp { name, percent, remote } => {
            let path = path_of(&name)?;
            let of: Experiment = remote.asking(environment)?.patch(&path, &json!({"permille": percent})).await?;
            say(&list(&[of]));
        }
        ExperimentCommand::Stop { name, reconnect, reason, remote } => {
            let path = format!("{}/stop", path_of(&name)?);
            let body = json!({"reconnect": reconnect, "reason": reason});
            let of: Experiment = remote.asking(environment)?.send(&path, &body).await?;
            say(&list(&[of]));
        }
        ExperimentCommand::Report { name, remote } => {
            let path = format!("{}/report", path_of(&name)?);
            let report: Report = remote.asking(environment)?.get(&path).await?;
            say(&table(&report));
        }
        ExperimentCommand::Remove { name, remote } => remote.asking(environment)?.delete(&path_of(&name)?).await?,
    }
    Ok(())
}

async fn start(args: StartArgs, environment: &[(String, String)]) -> Result<(), Failure> {
    check_name(&args.name)?;
    if !args.from_draft && args.arms.len() < 2 {
        return Err(Failure::Usage(anyhow!(
            "one --arm has nothing to be compared with: name the control first, such as --arm control=node, then the others"
        )));
    }
    let node = args.remote.asking(environment)?;
    let of: Experiment = match args.from_draft {
        true => node.patch(&path_of(&args.name)?, &json!({"start": true, "permille": args.percent})).await?,
        false => {
            let bots = if args.bots { Some(true) } else { args.users.then_some(false) };
            let guild_id = args.guild.map(|guild| guild.to_string());
            let audience = json!({"platforms": args.platforms, "bots": bots, "guild_id": guild_id});
            let body = json!({
                "name": args.name,
                "salt": args.salt,
                "layer": args.layer,
                "permille": args.percent,
                "audience": audience,
                "arms": args.arms,
                "alpha": args.alpha,
                "tolerance_percent": args.tolerance,
                "samples_min": args.samples,
                "reconnect_on_rollback": !args.keep_on_rollback,
                "draft": args.draft,
            });
            node.send(ALL, &body).await?
        }
    };
    say(&list(&[of]));
    Ok(())
}

fn list(all: &[Experiment]) -> String {
    let mut out = String::new();
    for Experiment { name, layer, permille, arms, state, reason } in all {
        let shown = |arm: &Value| {
            let text = arm["arm"].as_str().or_else(|| arm["policy"].as_str()).unwrap_or("node");
            format!("{}={text}*{}", arm["name"].as_str().unwrap_or_default(), arm["weight"])
        };
        let arms: Vec<String> = arms.iter().map(shown).collect();
        let percent = f64::from(*permille) / 10.0;
        out += &format!("{name}  {state}  {percent} % of {layer}  {}\n", arms.join(" "));
        out += &reason.as_ref().map_or_else(String::new, |reason| format!("    {reason}\n"));
    }
    out
}

fn table(report: &Report) -> String {
    let Report { name, state, reason, nodes, samples_dropped, arms } = report;
    let plural = if *nodes == 1 { "" } else { "s" };
    let mut out = format!("{name}: {state}, {nodes} node{plural}\n");
    out += &reason.as_ref().map_or_else(String::new, |reason| format!("{reason}\n"));
    if *samples_dropped > 0 {
        out += &format!("dropped: {samples_dropped} samples, because too many waited\n");
    }
    for ArmReport { name, connections, metrics } in arms {
        out += &format!("\n{name}, {connections} connections\n");
        out += &format!("{:<14} {:>8} {:>14}  {}\n", "metric", "samples", "mean", "difference from the control");
        for Metric { name, samples, mean, comparison } in metrics {
            let compared = comparison.as_ref().map_or_else(String::new, |of| {
                let alarm = if of.is_worse { "  WORSE" } else { "" };
                format!("{:+.4} ({:+.4} to {:+.4}){alarm}", of.difference, of.low, of.high)
            });
            let mean = if *samples == 0 { "-".to_owned() } else { format!("{mean:.4}") };
            out += format!("{name:<14} {samples:>8} {mean:>14}  {compared}").trim_end();
            out += "\n";
        }
    }
    if arms.iter().all(|arm| arm.connections == 0) {
        out += "\nNo connection has taken part yet. One does if its account is in the experiment, if it begins after \
                the start,\nand if each arm could write its stream: with compress=zstd-stream for an arm of zstd \
                (docs/lab.md).\n";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_and_arms() {
        assert_eq!(["0.1", "1", "100", "12.5%"].map(|text| permille(text).unwrap()), [1, 10, 1_000, 125]);
        for wrong in ["0.05", "101", "-1", "much"] {
            assert!(permille(wrong).is_err(), "{wrong}");
        }
        assert_eq!(arm("control=node").unwrap(), json!({"name": "control", "weight": 1}));
        let fast = json!({"name": "fast", "weight": 3, "arm": "zstd:level=3,window=18"});
        assert_eq!(arm("fast=zstd:level=3,window=18*3").unwrap(), fast);
        assert_eq!(arm("l=larger").unwrap(), json!({"name": "l", "weight": 1, "policy": "larger"}));
        let dictionary = json!({"name": "d", "weight": 1, "arm": "zstd:dict=00112233445566778899aabbccddeeff"});
        assert_eq!(arm("d=zstd:dict=00112233445566778899aabbccddeeff").unwrap(), dictionary);
    }

    #[test]
    fn each_wrong_argument_is_refused_with_the_expected_form() {
        for (refused, because) in [
            (arm("zstd").unwrap_err(), "NAME=ARM"),
            (arm("=zstd").unwrap_err(), "no name of an arm"),
            (arm("a b=zstd").unwrap_err(), "letters, digits"),
            (arm("a=").unwrap_err(), "a=node"),
            (arm("a=b*x").unwrap_err(), "a whole number from 1 to 10000"),
            (arm("a=b*0").unwrap_err(), "a whole number from 1 to 10000"),
            (permille("0.05").unwrap_err(), "in steps of 0.1"),
            (alpha("5%").unwrap_err(), "0.05 for 5 %"),
            (alpha("0").unwrap_err(), "from 0.000001 to 0.5"),
            (alpha("low").unwrap_err(), "a chance, such as 0.05"),
            (tolerance("-1").unwrap_err(), "percent, from 0 to 1000"),
            (tolerance("NaN").unwrap_err(), "percent, from 0 to 1000"),
            (samples("0.5").unwrap_err(), "a whole number from 30 to 1000000"),
            (samples("29").unwrap_err(), "from 30"),
            (text("").unwrap_err(), "1 to 64 bytes"),
        ] {
            assert!(refused.contains(because), "{refused}");
        }
        assert_eq!((alpha("0.01"), tolerance("7.5%"), samples("30")), (Ok(0.01), Ok(7.5), Ok(30)));
        for name in ["", ".", "..", ".a", "a/b", "a b", &"a".repeat(65)] {
            assert!(path_of(name).is_err(), "{name}");
        }
        assert!(path_of("level-3_b.2").is_ok());
    }

    #[test]
    fn a_metric_without_samples_has_no_mean() {
        let metric = |samples| Metric { name: "wire_bytes".to_owned(), samples, mean: 0.0, comparison: None };
        let arm = |connections, samples| ArmReport {
            name: "control".to_owned(),
            connections,
            metrics: vec![metric(samples)],
        };
        let report = |arms| Report {
            name: "a".to_owned(),
            state: "running".to_owned(),
            reason: None,
            nodes: 1,
            samples_dropped: 0,
            arms,
        };
        let empty = table(&report(vec![arm(0, 0)]));
        assert!(empty.contains("No connection has taken part yet") && !empty.contains("0.0000"), "{empty}");
        let some = table(&report(vec![arm(3, 1)]));
        assert!(some.contains("0.0000") && !some.contains("No connection"), "{some}");
    }
}
