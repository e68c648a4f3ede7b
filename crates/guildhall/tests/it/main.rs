//! Tests of the real binary: processes, signals, files, HTTP.

mod backend;
mod backup;
mod cli;
mod config_check;
mod demo;
mod dictionary;
mod disk;
mod doctor;
mod drain;
mod exact;
mod hostile;
mod issuers;
mod jwks_url;
mod kill;
mod metrics;
mod places;
mod private;
mod reload;
mod secrecy;
mod stalled;
mod support;
mod surface;
mod tls;
mod town;
mod users_policy;
mod ws;
