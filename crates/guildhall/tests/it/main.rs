//! Tests of the real binary: processes, signals, files, HTTP.

mod cli;
mod demo;
mod dictionary;
mod drain;
mod kill;
mod metrics;
mod reload;
mod support;
mod ws;
