//! `guildhall top`: a running node's loops, guilds, sessions and bandwidth in a terminal, refreshed every second.
//!
//! Owns        the terminal while it runs, and what it shows (`Shown`).
//! Invariants  the terminal is as it was before when the command ends, by a key, a signal or a failure.
//! Limits      `ROWS_MAX` guilds and sessions; a node that does not answer for `PATIENCE` counts as gone, and the
//!             command goes on asking.
//! Not here    what the reports mean: `guildhall_accounting::report`. How they are drawn: `view`.

mod figures;
mod view;

use super::{
    Failure,
    remote::{Asking, Remote},
    say,
};
use clap::Args;
use figures::{Figures, Reports};
use futures_util::StreamExt as _;
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{Event, EventStream, KeyCode, KeyEventKind, KeyModifiers},
};
use serde::Deserialize;
use std::{
    future::Future,
    io::{self, IsTerminal as _},
    pin::pin,
    time::Duration,
};

pub(super) const HELP: &str = "\
Examples:
  # The node on this machine, with a key in the environment:
  GUILDHALL_KEY=ghk_… guildhall top
  # Another node:
  guildhall top --server https://gateway.example.net --key-file top.key
  # One picture as text, for a report:
  guildhall top --once

Keys: 1 to 4 or Tab choose a view (loops, guilds, sessions, bandwidth),
q or Esc ends it. The key needs the scope `read`, and `sessions` for the
view of sessions: guildhall key create --name top --scopes read,sessions";

/// Maximum number of guilds or sessions that the command requests.
const ROWS_MAX: usize = 200;
const REFRESH: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(5);
/// Size of `--once`.
const ONCE: (u16, u16) = (120, 40);

/// Arguments of `top`.
#[derive(Args, Debug)]
pub struct TopArgs {
    #[command(flatten)]
    remote: Remote,
    /// Print every view once, as text, and end
    #[arg(long)]
    once: bool,
}

/// One of the four tables, chosen by a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum View {
    #[default]
    Loops,
    Guilds,
    Sessions,
    Bandwidth,
}

impl View {
    pub const ALL: [Self; 4] = [Self::Loops, Self::Guilds, Self::Sessions, Self::Bandwidth];

    pub fn title(self) -> &'static str {
        match self {
            Self::Loops => "Loops",
            Self::Guilds => "Guilds",
            Self::Sessions => "Sessions",
            Self::Bandwidth => "Bandwidth",
        }
    }

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|view| *view == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }
}

/// State of the screen.
#[derive(Debug, Default)]
struct Shown {
    pub view: View,
    pub figures: Figures,
    /// Why the figures are old; none while they are fresh.
    pub fault: Option<String>,
}

pub(super) async fn run(
    args: TopArgs,
    environment: &[(String, String)],
    stop: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let mut asking = args.remote.asking(environment)?;
    if args.once {
        return once(&mut asking).await.map_err(Failure::Other);
    }
    if !io::stdout().is_terminal() {
        return Err(Failure::Usage(anyhow::anyhow!("standard output is no terminal: use --once for text")));
    }
    // The first answer comes before the screen is taken, so that a wrong key is an ordinary message.
    let first = collect(&mut asking, View::default()).await?;
    let mut terminal = ratatui::try_init()?;
    let ended = watch(&mut terminal, &mut asking, first, stop).await;
    ratatui::restore();
    ended.map_err(Failure::Other)
}

async fn once(asking: &mut Asking) -> anyhow::Result<()> {
    let mut shown = Shown::default();
    for view in View::ALL {
        shown.view = view;
        shown.figures.take(view, collect(asking, view).await?);
        tokio::time::sleep(REFRESH).await;
        shown.figures.take(view, collect(asking, view).await?);
        let mut terminal = Terminal::new(TestBackend::new(ONCE.0, ONCE.1))?;
        terminal.draw(|frame| view::draw(frame, &shown))?;
        say(&view::text(terminal.backend().buffer()));
    }
    Ok(())
}

async fn watch(
    terminal: &mut ratatui::DefaultTerminal,
    asking: &mut Asking,
    first: Reports,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let mut shown = Shown::default();
    shown.figures.take(shown.view, first);
    let mut keys = EventStream::new();
    let mut timer = tokio::time::interval(REFRESH);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut stop = pin!(stop);
    loop {
        terminal.draw(|frame| view::draw(frame, &shown))?;
        tokio::select! {
            () = &mut stop => return Ok(()),
            key = keys.next() => match key {
                None => return Ok(()),
                Some(event) => match pressed(&event?, shown.view) {
                    Pressed::End => return Ok(()),
                    Pressed::Show(view) => {
                        shown.view = view;
                        timer.reset_immediately();
                    }
                    Pressed::Nothing => {}
                },
            },
            _ = timer.tick() => match tokio::time::timeout(PATIENCE, collect(asking, shown.view)).await {
                Ok(Ok(reports)) => {
                    shown.fault = None;
                    shown.figures.take(shown.view, reports);
                }
                Ok(Err(error)) => shown.fault = Some(format!("{error:#}")),
                Err(_) => shown.fault = Some("the node does not answer".to_owned()),
            },
        }
    }
}

/// Meaning of a key.
#[derive(Debug, PartialEq, Eq)]
enum Pressed {
    End,
    Show(View),
    Nothing,
}

fn pressed(event: &Event, view: View) -> Pressed {
    let Event::Key(key) = event else { return Pressed::Nothing };
    if key.kind == KeyEventKind::Release {
        return Pressed::Nothing;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => Pressed::End,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Pressed::End,
        KeyCode::Tab => Pressed::Show(view.next()),
        KeyCode::Char(digit @ '1'..='4') => Pressed::Show(View::ALL[digit as usize - '1' as usize]),
        _ => Pressed::Nothing,
    }
}

/// Asks for the head of every view, and for the figures of one.
async fn collect(asking: &mut Asking, view: View) -> anyhow::Result<Reports> {
    /// The answer of `GET /v1/node` that is of interest here.
    #[derive(Deserialize)]
    struct State {
        version: String,
        unready: Option<String>,
    }
    let State { version, unready } = asking.get("/v1/node").await?;
    let series = figures::SERIES.join(",");
    let history = asking.get(&format!("/v1/node/history?window_s=3&series={series}")).await?;
    let mut reports = Reports { version, unready, history, ..Reports::default() };
    match view {
        View::Loops => reports.overview = Some(asking.get("/v1/node/overview").await?),
        View::Guilds => reports.guilds = Some(asking.get(&format!("/v1/node/guilds?limit={ROWS_MAX}")).await?),
        View::Sessions => reports.sessions = Some(asking.get(&format!("/v1/node/sessions?limit={ROWS_MAX}")).await?),
        View::Bandwidth => reports.bandwidth = Some(asking.get("/v1/node/bandwidth").await?),
    }
    Ok(reports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::crossterm::event::KeyEvent;

    #[test]
    fn keys() {
        let press = |code, modifiers| pressed(&Event::Key(KeyEvent::new(code, modifiers)), View::Guilds);
        let plain = KeyModifiers::NONE;
        assert_eq!(press(KeyCode::Char('q'), plain), Pressed::End);
        assert_eq!(press(KeyCode::Esc, plain), Pressed::End);
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Pressed::End);
        assert_eq!(press(KeyCode::Char('c'), plain), Pressed::Nothing);
        assert_eq!(press(KeyCode::Tab, plain), Pressed::Show(View::Sessions));
        assert_eq!(press(KeyCode::Char('4'), plain), Pressed::Show(View::Bandwidth));
        assert_eq!(press(KeyCode::Char('5'), plain), Pressed::Nothing);
        assert_eq!(View::Bandwidth.next(), View::Loops);
        assert_eq!(pressed(&Event::Resize(1, 1), View::Loops), Pressed::Nothing);
    }
}
