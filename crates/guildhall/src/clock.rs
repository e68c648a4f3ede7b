//! Clock: the real one.

use guildhall_net::SystemClock;
use guildhall_node::Clock;
use guildhall_stdx::Now;

/// The real clock, as the node and REST want it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeClock(pub SystemClock);

impl Clock for NodeClock {
    fn now(&self) -> Now {
        self.0.now()
    }
}
