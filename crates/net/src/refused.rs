//! Refused: counts and log lines of refused IDENTIFYs and RESUMEs.
//!
//! Limits      one log line per reason in `log_every_ms`.
//! Not here    the reasons: `guildhall-partition`.

use guildhall_partition::{IdentifyFault, IdentifyRefused, ResumeFault, ResumeRefused};
use guildhall_stdx::{Fault as _, Now, Refusals};

/// IDENTIFYs and RESUMEs that were refused, of all partitions.
#[derive(Debug)]
pub struct Refused {
    pub identifies: Refusals<IdentifyFault>,
    pub resumes: Refusals<ResumeFault>,
}

impl Refused {
    /// With one log line per reason in `log_every_ms` at most.
    pub fn new(log_every_ms: u64) -> Self {
        Self { identifies: Refusals::new(log_every_ms), resumes: Refusals::new(log_every_ms) }
    }

    /// Counts an IDENTIFY that started no session, and logs it if a line is due.
    pub fn note_identify(&self, now: Now, refused: &IdentifyRefused) {
        let IdentifyRefused { fault, user_id, detail } = refused;
        if let Some(count) = self.identifies.note(*fault, now.instant) {
            let (what, reason, user_id) = (IdentifyFault::WHAT, fault.name(), user_id.map(tracing::field::display));
            match detail {
                Some(detail) => tracing::info!(what, reason, count, user_id, "refused: {detail}"),
                None => tracing::info!(what, reason, count, user_id, "refused: {fault}"),
            }
        }
    }

    /// Counts a RESUME that continued no session, and logs it if a line is due.
    pub fn note_resume(&self, now: Now, refused: ResumeRefused) {
        let ResumeRefused { fault, user_id } = refused;
        if let Some(count) = self.resumes.note(fault, now.instant) {
            let (what, reason, user_id) = (ResumeFault::WHAT, fault.name(), user_id.map(tracing::field::display));
            tracing::info!(what, reason, count, user_id, "refused: {fault}");
        }
    }
}
