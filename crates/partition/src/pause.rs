//! Pause: whether restored sessions were away.

/// Whether clients can have noticed the pause before their sessions were restored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pause {
    /// The guild goes on as it was: presences of the sessions are not published again, and voice states stay.
    Unnoticed,
    Noticed,
}
