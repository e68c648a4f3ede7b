//! Turn: the context of one input, and the steps that follow every input.
//!
//! Invariants  K2 (as in `core`) `TurnWork` is empty before the next input: relays have detached departed sessions,
//!             requests are answered and owed states are sent. Only `Partition::turn` does this, and every input with a
//!             `Transport` goes through it.

use crate::{partition::Partition, transport::Transport};
use guildhall_stdx::Now;

/// The context of one input: its time, and the sockets to write to.
pub struct Turn<'a, L> {
    pub now: Now,
    pub transport: &'a mut L,
}

impl Partition {
    /// Handles one input, then the steps that follow every input.
    pub(crate) fn turn<L: Transport, T>(
        &mut self,
        now: Now,
        transport: &mut L,
        input: impl FnOnce(&mut Self, &mut Turn<'_, L>) -> T,
    ) -> T {
        self.core.matchers.now = now.instant;
        let mut turn = Turn { now, transport };
        let result = input(self, &mut turn);
        self.finish_arrivals(&mut turn);
        self.process_requests(&mut turn);
        self.pay_all(&mut turn);
        self.enter_all_again();
        self.flush_departures();
        result
    }
}
