//! State: the tables of a guild, each with its own invariants.
//!
//! Owns        what `Guild` consists of, apart from members, messages and lists.
//! Invariants  no module below imports `machine` or a module that does: a table does not know the guild.
//! Not here    the rules by which commands and messages of relays change a table: the module of the same subject.

pub(crate) mod archive;
pub(crate) mod audit_log;
pub(crate) mod auto_moderation;
pub(crate) mod jobs;
pub(crate) mod patterns;
pub(crate) mod polls;
pub(crate) mod presence;
pub(crate) mod relays;
pub(crate) mod resource_index;
pub(crate) mod tasks;
pub(crate) mod temporary_members;
pub(crate) mod threads;
pub(crate) mod voice;
pub(crate) mod word_lists;
