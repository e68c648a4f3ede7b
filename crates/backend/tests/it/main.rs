//! Integration tests of the backend API: the router as a service, a real node behind it, no sockets.

mod dashboard;
mod delete_user;
mod disk_full;
mod external_ids;
mod import;
mod roles_bulk;
mod routes;
#[expect(dead_code, reason = "the tests of REST use all of it")]
#[path = "../../../rest/tests/it/support.rs"]
mod support;
mod typescript;
mod v1;
