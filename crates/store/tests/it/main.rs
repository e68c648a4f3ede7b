//! Tests of the stores: one contract for all drivers, and what is special about each database.

mod backup;
mod check;
mod cluster;
mod contract;
mod copy;
mod crash;
mod drivers;
mod migrations;
mod postgres;
mod postgres_server;
mod private;
mod purge;
mod sqlite;
mod support;
