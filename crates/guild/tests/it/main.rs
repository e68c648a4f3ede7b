//! The guild machine from outside: a module per theme.

mod fixture;
mod messages;
mod random;
mod reactions;
mod records;
