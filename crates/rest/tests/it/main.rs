//! Integration tests of REST: the router as a service, a real node behind it, no sockets.

mod bodies;
mod bootstrap;
mod channels;
mod disk_full;
mod files;
mod forms;
mod limits;
mod members;
mod messages;
mod normalize_path;
mod pictures;
mod reactions;
mod roles;
mod routes;
#[path = "../../../files/tests/it/s3_server.rs"]
mod s3_server;
mod search;
mod shares;
mod support;
mod visitors;
