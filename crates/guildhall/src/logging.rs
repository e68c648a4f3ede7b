//! Logging: where log lines go and what they look like.
//!
//! Invariants  everything goes to standard error, so that standard output is only what a command was asked for.

use crate::config::{LogConfig, LogFormat};
use std::io::{self, IsTerminal as _};
use tracing_subscriber::{Layer as _, filter::Targets, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

/// Starts logging for the whole process. The second call does nothing.
pub fn init(config: &LogConfig) {
    let filter: Targets = config.level.targets();
    let base = fmt::layer().with_writer(io::stderr);
    let layer = match config.format {
        LogFormat::Text => base.with_ansi(io::stderr().is_terminal()).with_filter(filter).boxed(),
        LogFormat::Json => base.json().flatten_event(true).with_filter(filter).boxed(),
    };
    // It fails only when there is a subscriber already, which is then as good.
    let _ = tracing_subscriber::registry().with(layer).try_init();
}
