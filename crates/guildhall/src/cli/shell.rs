//! Completions and manual pages, generated from the definition of the command line.

use super::{Cli, Failure, say};
use anyhow::Context as _;
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use std::path::PathBuf;

pub(super) const COMPLETIONS_HELP: &str = "\
Examples:
  guildhall completions bash > /etc/bash_completion.d/guildhall
  guildhall completions zsh > ~/.zfunc/_guildhall
  guildhall completions fish > ~/.config/fish/completions/guildhall.fish";

pub(super) const MAN_HELP: &str = "\
Examples:
  guildhall man | man -l -
  guildhall man --out /usr/share/man/man1";

/// Arguments of `guildhall completions`.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// Shell to complete for
    shell: Shell,
}

/// Arguments of `guildhall man`.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// Write one page per command into this directory, which must exist; by default the main page goes to
    /// standard output
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints the completion script.
pub(super) fn completions(args: &CompletionsArgs) {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "guildhall", &mut script);
    say(&String::from_utf8_lossy(&script));
}

/// Prints the main manual page, or writes all of them.
///
/// # Errors
/// When the directory cannot be written.
pub(super) fn man(args: &ManArgs) -> Result<(), Failure> {
    let command = Cli::command();
    if let Some(out) = &args.out {
        clap_mangen::generate_to(command, out)
            .with_context(|| format!("the pages cannot be written into {}", out.display()))?;
        return Ok(());
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    say(&String::from_utf8_lossy(&page));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        man(&ManArgs { out: Some(folder.path().to_owned()) }).map_err(|_| "failed").unwrap();
        let page = std::fs::read_to_string(folder.path().join("guildhall-serve.1")).unwrap();
        assert!(page.starts_with(".ie"), "{page}");
        assert!(page.contains("\\-\\-listen"), "{page}");
        assert!(folder.path().join("guildhall-token-bot.1").exists());
    }

    #[test]
    fn completions_name_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "guildhall", &mut script);
            assert!(String::from_utf8(script).unwrap().contains("serve"), "{shell}");
        }
    }
}
