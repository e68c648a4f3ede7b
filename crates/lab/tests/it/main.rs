//! The lab from outside: recordings without secrets, their files, and arms over them.

mod recording;
mod scrub;
mod support;
