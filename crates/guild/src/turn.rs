//! Turn: the context of one command.
//!
//! Owns        `Turn`: the time of a command, its actor, and the actor's reason.
//! Invariants  a turn ends with its input: a job or background task keeps the actor, and has a turn of its own time.

use crate::command::Actor;
use guildhall_stdx::Now;
use std::sync::Arc;

/// The context of one command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn<'a> {
    pub now: Now,
    pub actor: Actor,
    /// For entries of the audit log.
    pub reason: Option<&'a Arc<str>>,
}

impl Turn<'_> {
    /// Without a reason.
    pub fn new(now: Now, actor: Actor) -> Self {
        Self { now, actor, reason: None }
    }

    /// The same turn with the rights of another actor.
    pub fn by(self, actor: Actor) -> Self {
        Self { actor, ..self }
    }
}
