//! Clients: decoded dispatches, compared with those that their sessions had to receive.

use super::{Checker, Fault, fault};
use crate::model::ClientModel;
use foldhash::fast::FixedState;
use guildhall_test_kit::Dispatch;
use std::hash::BuildHasher;

impl Checker {
    /// A client decoded a dispatch; `seq` is the last it had before. Returns its session.
    pub fn received(&mut self, session: Option<usize>, seq: u64, dispatch: &Dispatch) -> Result<usize, Fault> {
        self.compared_count += 1;
        let parsed = self.texts.of(dispatch);
        let at = match (session, dispatch.name.as_str()) {
            (None, "READY") => {
                let id = parsed.d["session_id"].as_str().unwrap_or("").to_owned();
                self.session_by_id(&id).ok_or(Fault(format!("READY for session {id:?}, which was never created")))?
            }
            (None, name) => return fault(format!("{name} without a session")),
            (Some(at), _) => at,
        };
        self.digest = FixedState::with_seed(self.digest).hash_one((at, dispatch.seq, &parsed.text));
        let session = &mut self.sessions[at];
        session.received(seq, dispatch.seq, &dispatch.name, &parsed.text)?;
        if ClientModel::concerns(&dispatch.name, session.is_bot) {
            let applied = session.known.apply(&dispatch.name, &parsed.d);
            // A client that receives row operations twice cannot always apply them.
            applied.or_else(|what| if session.is_confused { Ok(()) } else { fault(what) })?;
        }
        Ok(at)
    }

    /// Everything has been delivered: a connected, reading client must have received it.
    pub fn check_complete(&self, at: usize, seq: u64) -> Result<(), Fault> {
        let session = &self.sessions[at];
        match session.first_missing(seq) {
            Some(expected) => fault(format!("missing after seq {seq}: {}", expected.text())),
            None if !session.chunks.is_empty() => fault(format!("missing: {}", session.chunks[0])),
            None => Ok(()),
        }
    }
}
