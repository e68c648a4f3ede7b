//! Tests of the real binary: processes, signals, files, HTTP.

mod backend;
mod backend_events;
mod backend_history;
mod backend_messages;
mod backend_webhooks;
mod backup;
mod bucket;
mod cli;
mod config_check;
mod demo;
mod dictionary;
mod disk;
mod doctor;
mod drain;
mod embed;
mod exact;
mod experiments;
mod hostile;
mod http_sink;
mod interactions_endpoint;
mod issuers;
mod jwks_url;
mod kill;
mod lab;
mod lab_dictionaries;
mod late;
mod logs;
mod metrics;
#[expect(dead_code, reason = "the bus's tests use more of it")]
#[path = "../../../bus/tests/it/nats_server.rs"]
mod nats_server;
mod nodes;
mod nodes_accounts;
mod nodes_interactions;
mod nodes_webhooks;
mod operators;
mod places;
mod postgres;
#[expect(dead_code, reason = "the store's tests use more of it")]
#[path = "../../../store/tests/it/postgres_server.rs"]
mod postgres_server;
mod private;
mod refusals;
mod rehearsal;
mod reload;
mod reports;
mod review_hook;
#[path = "../../../files/tests/it/s3_server.rs"]
mod s3_server;
mod secrecy;
mod session_mirrors;
mod session_moves;
mod stalled;
mod support;
mod surface;
mod takeover;
mod test_node;
mod tls;
mod traces;
mod upstream;
mod users_policy;
mod voice_reports;
mod ws;
