//! Tests of the stores: one contract for all drivers, and what is special about SQLite.

mod backup;
mod check;
mod contract;
mod crash;
mod drivers;
mod private;
mod purge;
mod sqlite;
mod support;
