//! Stream: what one connection was sent, and where it stands in its stream.

pub mod envelope;
pub mod position_ring;
pub mod references;
pub mod state;
