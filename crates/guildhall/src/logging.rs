//! Logging: destination and format of log lines.
//!
//! Invariants  all lines go to standard error; standard output has only a command's result.

use crate::config::{LogConfig, LogFilter, LogFormat};
use std::io::{self, IsTerminal as _};
use tracing_subscriber::{
    Layer as _, Registry, filter::Targets, fmt, layer::SubscriberExt as _, reload, util::SubscriberInitExt as _,
};

/// Changes which lines are written.
#[derive(Debug)]
pub struct LogHandle(reload::Handle<Targets, Registry>);

impl LogHandle {
    /// From now on these.
    pub fn set_level(&self, level: &LogFilter) {
        // It fails only when there is another subscriber, which is not ours to change.
        let _ = self.0.reload(level.targets());
    }
}

/// Starts logging for the whole process. A second call has no effect.
pub fn init(config: &LogConfig) -> LogHandle {
    let (filter, handle) = reload::Layer::new(config.level.targets());
    let base = fmt::layer().with_writer(io::stderr);
    let layer = match config.format {
        LogFormat::Text => base.with_ansi(io::stderr().is_terminal()).with_filter(filter).boxed(),
        LogFormat::Json => base.json().flatten_event(true).with_filter(filter).boxed(),
    };
    // It fails only when there is a subscriber already, which is then as good.
    let _ = tracing_subscriber::registry().with(layer).try_init();
    LogHandle(handle)
}
