//! The guild machine from outside: a module per theme.

mod fixture;
mod messages;
mod presence;
mod random;
mod reactions;
mod records;
mod relays;
