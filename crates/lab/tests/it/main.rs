//! The lab from outside: recordings without secrets, their files, and arms over them.

mod guardrails;
mod no_influence;
mod recording;
mod scrub;
mod support;
mod train;
