//! Logging: destination and format of log lines.
//!
//! Invariants  all lines go to standard error; standard output has only a command's result.
//! Limits      the last `WARNINGS_MAX` warnings and errors stay in memory, each cut at `WARNING_CHARS_MAX` characters.

use guildhall_accounting::report::Warning;
use guildhall_settings::{LogConfig, LogFilter, LogFormat};
use std::{
    collections::VecDeque,
    fmt::{self as text, Write as _},
    io::{self, IsTerminal as _},
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{
    Layer, Registry, filter::Targets, fmt, layer::Context, layer::SubscriberExt as _, reload,
    util::SubscriberInitExt as _,
};

/// Warnings and errors that are remembered.
const WARNINGS_MAX: usize = 100;
const WARNING_CHARS_MAX: usize = 1_000;

/// Of the process, as the subscriber is. The oldest is first.
static WARNINGS: Mutex<VecDeque<Warning>> = Mutex::new(VecDeque::new());

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
    let _ = tracing_subscriber::registry().with(layer).with(Recent.with_filter(LevelFilter::WARN)).try_init();
    LogHandle(handle)
}

/// The last warnings and errors of the log, newest first, whatever `log.level` is.
#[must_use]
pub fn recent_warnings() -> Vec<Warning> {
    WARNINGS.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
}

/// Remembers warnings.
struct Recent;

impl<S: Subscriber> Layer<S> for Recent {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let level = if *event.metadata().level() == Level::ERROR { "error" } else { "warn" };
        let warning = Warning {
            at_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            level: level.to_owned(),
            target: event.metadata().target().to_owned(),
            text: format!("{}{}", line.message, line.fields).chars().take(WARNING_CHARS_MAX).collect(),
        };
        let mut warnings = WARNINGS.lock().unwrap_or_else(PoisonError::into_inner);
        if warnings.len() >= WARNINGS_MAX {
            warnings.pop_front();
        }
        warnings.push_back(warning);
    }
}

/// Message and fields of an event, in the order of the log.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn text::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_remembered_and_bounded() {
        let subscriber = tracing_subscriber::registry().with(Recent.with_filter(LevelFilter::WARN));
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("not this");
            for n in 0..WARNINGS_MAX + 3 {
                tracing::warn!(n, name = "x", "something is odd");
            }
            tracing::error!(text = "y".repeat(5_000), "worse");
        });
        let ours: Vec<_> = recent_warnings().into_iter().filter(|w| w.target.ends_with("logging::tests")).collect();
        assert_eq!(ours.len(), WARNINGS_MAX);
        assert_eq!((ours[0].level.as_str(), ours[0].text.chars().count()), ("error", WARNING_CHARS_MAX));
        let last = format!("something is odd n={} name=\"x\"", WARNINGS_MAX + 2);
        assert_eq!((ours[1].level.as_str(), &ours[1].text), ("warn", &last));
    }
}
