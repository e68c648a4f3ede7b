//! Stream: the bodies that one connection was sent, and their positions in its stream.

pub mod envelope;
pub mod position_ring;
pub mod references;
pub mod state;
