//! `guildhall token`: accounts and tokens, straight on the store while no node runs.

use super::{
    Failure,
    offline::{self, Need, OfflineArgs},
};
use anyhow::{Context as _, anyhow, bail};
use clap::{Args, Subcommand};
use guildhall_model::{User, UserId};
use guildhall_node::Node;
use std::{io::Read as _, sync::Arc};

pub(super) const HELP: &str = "\
Examples:
  # A new bot account with all privileged intents, and its token:
  guildhall token bot --new helper
  # Another token for a bot that exists:
  guildhall token bot --id 1100000000000000042
  # A new user account, and a token that is valid for 30 days:
  guildhall token user --new mara --ttl 30d
  # Revoke the bot token in a file:
  guildhall token revoke < token.txt

Standard output has the token and nothing else; the account's id goes to
standard error. The node must not run: the data directory (--data, or
store.dir) belongs to one process. While it runs, its backend API mints and
revokes tokens (docs/backend-api.md). All user tokens end when auth.jwt_secret
changes.";

/// A longer input is not a token of this node.
const INPUT_BYTES_MAX: u64 = 2 * guildhall_node::TOKEN_BYTES_MAX as u64;
/// Length of a username on the wire.
const NAME_CHARS: std::ops::RangeInclusive<usize> = 2..=32;

/// Arguments of `token`.
#[derive(Args, Debug)]
pub struct TokenArgs {
    #[command(subcommand)]
    what: TokenAction,
    #[command(flatten)]
    offline: OfflineArgs,
}

#[derive(Debug, Subcommand)]
enum TokenAction {
    /// Mint a token for a bot
    Bot {
        #[command(flatten)]
        whose: Whose,
        /// Give a new bot no privileged intents (presences, members, message content)
        #[arg(long, requires = "new")]
        unprivileged: bool,
    },
    /// Mint a token for a user
    User {
        #[command(flatten)]
        whose: Whose,
        /// Time for which the token is valid: seconds, or a number with s, m, h or d
        #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = parse_ttl)]
        ttl: u64,
    },
    /// Revoke the token that standard input contains
    Revoke,
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Whose {
    /// Existing account
    #[arg(long, value_name = "ID")]
    id: Option<UserId>,
    /// Create an account with this name
    #[arg(long, value_name = "NAME")]
    new: Option<String>,
}

fn parse_ttl(text: &str) -> Result<u64, String> {
    let (digits, unit_s) = match text.strip_suffix(['s', 'm', 'h', 'd']) {
        Some(digits) if text.ends_with('m') => (digits, 60),
        Some(digits) if text.ends_with('h') => (digits, 3600),
        Some(digits) if text.ends_with('d') => (digits, 86_400),
        Some(digits) => (digits, 1),
        None => (text, 1),
    };
    let ttl_s = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit_s)).filter(|s| (1..=TTL_S_MAX).contains(s));
    ttl_s.ok_or_else(|| format!("expected a duration up to {} days, like 90m, 12h or 30d", TTL_S_MAX / 86_400))
}

/// A hundred years.
const TTL_S_MAX: u64 = 36_500 * 86_400;

pub(super) async fn run(args: TokenArgs, environment: Vec<(String, String)>) -> Result<(), Failure> {
    let instead = "use its API (POST /v1/users/{id}/tokens, POST /v1/tokens/revoke, with a key that has the scope `tokens`), or stop it first";
    let need = match &args.what {
        TokenAction::Bot { whose, .. } | TokenAction::User { whose, .. } if whose.new.is_some() => Need::Nothing,
        _ => Need::Database,
    };
    offline::run(args.offline, environment, (instead, need), async |node| execute(node, args.what).await).await
}

/// Executes the command, and returns the text for standard output.
async fn execute(node: &Node, what: TokenAction) -> anyhow::Result<String> {
    match what {
        TokenAction::Bot { whose, unprivileged } => {
            let user = account(node, whose, |user| {
                user.bot = true;
                user.application_flags = if unprivileged { 0 } else { User::APPLICATION_PRIVILEGED };
            })
            .await?;
            if !user.bot {
                bail!("account {} is a user: use `guildhall token user`", user.id);
            }
            Ok(node.mint_bot_token(user.id).await.context("the token cannot be stored")? + "\n")
        }
        TokenAction::User { whose, ttl } => {
            let user = account(node, whose, |_| ()).await?;
            if user.bot {
                bail!("account {} is a bot: use `guildhall token bot`", user.id);
            }
            Ok(node.mint_user_token(user.id, ttl).await.context("the token cannot be made")? + "\n")
        }
        TokenAction::Revoke => {
            let mut token = String::new();
            std::io::stdin()
                .take(INPUT_BYTES_MAX)
                .read_to_string(&mut token)
                .context("standard input cannot be read")?;
            match node.revoke_token(token.trim()).await.context("the token cannot be revoked")? {
                Some(_) => Ok("revoked\n".to_owned()),
                None => bail!("this token is not valid: it was revoked, has expired, or belongs to another node"),
            }
        }
    }
}

async fn account(node: &Node, whose: Whose, new: impl FnOnce(&mut User)) -> anyhow::Result<Arc<User>> {
    if let Some(id) = whose.id {
        let user = node.user(id).await.context("the account cannot be read")?;
        return user.ok_or_else(|| anyhow!("there is no account {id}"));
    }
    let name = whose.new.unwrap_or_default();
    if !NAME_CHARS.contains(&name.chars().count()) || name.chars().any(|c| c.is_control() || "@#:`".contains(c)) {
        bail!("{name:?} cannot be a name: 2 to 32 characters, without @ # : ` and control characters");
    }
    let mut user = User::new(node.next_id().await.context("no id can be made")?, &name);
    new(&mut user);
    let user = Arc::new(user);
    node.put_user(user.clone()).await.context("the account cannot be stored")?;
    eprintln!("account {} ({name})", user.id);
    Ok(user)
}
