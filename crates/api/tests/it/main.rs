//! Integration tests of the API: the router as a service, a real node behind it, no sockets.

mod bodies;
mod bootstrap;
mod channels;
mod dashboard;
mod delete_user;
mod external_ids;
mod files;
mod import;
mod limits;
mod members;
mod messages;
mod normalize_path;
mod pictures;
mod reactions;
mod roles;
mod roles_bulk;
#[path = "../../../files/tests/it/s3_server.rs"]
mod s3_server;
mod support;
mod v1;
