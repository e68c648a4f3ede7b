//! HTTP kit: code that the servers for clients, for backends and for files share.
//!
//! Owns        the body of a request: its quotas, deadline and JSON tree; form data; rate limiters; the peer's address;
//!             JSON errors; files of pages; health; wall times and traces of requests.
//! Doors       `detach_body` and `LazyBody` for bodies, `observe` around routers, `ops_router` for orchestrators.
//! Invariants  nothing here depends on a node or a route: errors of guilds, tokens and the permits to read a body
//!             belong to the servers above.
//! Limits      each module names its own.
//! Not here    routes: `guildhall-rest`, `guildhall-backend`, `guildhall-media`. Sockets: `guildhall-net`.
#![forbid(unsafe_code)]

mod body;
mod callers;
pub mod entity_tag;
mod error;
mod field_errors;
mod limiter;
mod line_ends;
mod multipart;
mod note;
mod observe;
mod ops;
pub mod page;
mod peer;
mod quota;
mod tree;

pub use body::{
    BODY_BYTES, BodyFault, BodyQuotas, BodySlot, LISTENER_DRAINS_BYTES, LazyBody, Permit, TREES_SHARE, announced_bytes,
    detach_body, drain, drain_slot, parse_tree,
};
pub use callers::{Callers, LoudCallers};
pub use error::{ErrorAnswer, NOT_FOUND, Retry, over_quota};
pub use field_errors::{FieldError, FieldErrors};
pub use limiter::{Limiter, Rule, Verdict};
pub use multipart::{FileHead, FilePiece, Multipart, MultipartError, Parts, boundary_in};
pub use note::RequestNote;
pub use observe::{Answering, RequestTracer, RestAccount, observe};
pub use ops::ops_router;
pub use peer::{Peer, network, peer_from};
pub use quota::{OverQuota, Parties, Party, Quota, Reservation};
