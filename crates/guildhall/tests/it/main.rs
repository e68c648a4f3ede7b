//! Tests of the real binary: processes, signals, files, HTTP.

mod backend;
mod cli;
mod demo;
mod dictionary;
mod drain;
mod exact;
mod hostile;
mod issuers;
mod jwks_url;
mod kill;
mod metrics;
mod places;
mod reload;
mod secrecy;
mod stalled;
mod support;
mod surface;
mod tls;
mod town;
mod ws;
