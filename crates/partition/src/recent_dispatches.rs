//! Recent dispatches: the dispatch of an event is made once for all relays of its guild here.
//!
//! Limits      `RECENT_DISPATCHES_MAX`; past it a relay that lags makes its own.

use guildhall_guild_protocol::{Published, Retention};
use guildhall_session::{Dispatch, Sharing};
use std::{collections::VecDeque, rc::Rc, sync::Arc};

/// Dispatches remembered for other relays of the same guild.
const RECENT_DISPATCHES_MAX: usize = 32;

/// See the module.
#[derive(Debug, Default)]
pub struct RecentDispatches(VecDeque<Rc<Dispatch>>);

impl RecentDispatches {
    /// The dispatch of an event that is about to be delivered, made once for all relays that get it in a row. Each
    /// relay has its own of a presence: it supersedes the one before when its own sessions get the next.
    pub fn dispatch(&mut self, published: &Arc<Published>, sharing: Sharing) -> Rc<Dispatch> {
        let is_shared = !matches!(published.event.retention(), Retention::Presence(_));
        if let Some(recent) = self.0.iter().find(|recent| is_shared && recent.is_of(published)) {
            recent.share(sharing);
            return recent.clone();
        }
        let dispatch = Dispatch::published(published);
        dispatch.share(sharing);
        if !is_shared {
            return dispatch;
        }
        if self.0.len() >= RECENT_DISPATCHES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(dispatch.clone());
        dispatch
    }
}
