//! Command kinds: numbers and names of commands, for accounts of time.
//!
//! Invariants  numbers are dense from 0; a command within `WithReason` counts as that command. (test)

use super::{Command, CommandKind, backend::BackendKind, direct::DirectKind};
use strum::VariantNames;

const DIRECT: usize = CommandKind::VARIANTS.len();
const BACKEND: usize = DIRECT + DirectKind::VARIANTS.len();

impl Command {
    /// Names of all kinds, in the order of their numbers.
    #[must_use]
    pub fn kind_names() -> Vec<String> {
        let plain = CommandKind::VARIANTS.iter().map(|name| (*name).to_owned());
        let direct = DirectKind::VARIANTS.iter().map(|name| format!("direct_{name}"));
        let backend = BackendKind::VARIANTS.iter().map(|name| format!("backend_{name}"));
        plain.chain(direct).chain(backend).collect()
    }

    /// The number of its kind.
    #[must_use]
    pub fn kind(&self) -> usize {
        match self {
            Self::WithReason(_, command) => command.kind(),
            Self::Direct(command) => DIRECT + DirectKind::from(command) as usize,
            Self::Backend(command) => BACKEND + BackendKind::from(&**command) as usize,
            command => CommandKind::from(command) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BackendCommand;
    use std::{collections::BTreeSet, sync::Arc};

    #[test]
    fn a_command_is_found_under_its_own_name() {
        let names = Command::kind_names();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "no name twice");
        let backend = Command::Backend(Box::new(BackendCommand::CompareMembers(Vec::new())));
        let with_reason = Command::WithReason(Arc::from("why"), Box::new(Command::DeleteGuild));
        let expected =
            [(Command::ReadGuild, "read_guild"), (with_reason, "delete_guild"), (backend, "backend_compare_members")];
        for (command, name) in expected {
            assert_eq!(names[command.kind()], name);
        }
    }
}
