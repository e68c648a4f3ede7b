//! Tests of the real binary: processes, signals, files, HTTP.

mod cli;
mod demo;
mod dictionary;
mod drain;
mod hostile;
mod issuers;
mod kill;
mod metrics;
mod reload;
mod secrecy;
mod support;
mod tls;
mod ws;
