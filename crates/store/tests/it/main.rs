//! Tests of the stores: one contract for all drivers, and what is special about SQLite.

mod contract;
mod crash;
mod drivers;
mod sqlite;
mod support;
