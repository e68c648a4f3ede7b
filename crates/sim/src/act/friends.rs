//! Actions of friends, and searches.

use crate::{checker::Fault, world::World};
use guildhall_model::Status;

const STATUSES: [Status; 4] = [Status::Offline, Status::Idle, Status::Online, Status::Dnd];

impl World {
    pub(super) fn act_among_friends(&mut self) -> Result<(), Fault> {
        let users: Vec<u64> =
            self.clients.iter().filter(|client| !client.user.bot).map(|client| client.user.id.get()).collect();
        let (Some(one), Some(other)) = (self.rng.pick(&users).copied(), self.rng.pick(&users).copied()) else {
            return Ok(());
        };
        match self.rng.below(4) {
            0 => self.befriend_or_part(one, other),
            1 => {
                // Accounts outside of the guild search too.
                let reader = self.rng.pick(&self.accounts).map_or(one, |user| user.id.get());
                return self.search(reader);
            }
            _ => {
                let status = *self.rng.pick(&STATUSES).expect("there are four");
                self.show_to_friends(one, status);
            }
        }
        Ok(())
    }
}
