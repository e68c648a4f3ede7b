//! Figures: reports of the node become the lines and tables of a view.
//!
//! Invariants  a rate is a difference of two reports that are at least a second apart; without two there is a dash.

use super::View;
use guildhall_accounting::{
    HistoryReport,
    report::{BandwidthReport, BilledType, BilledWays, GuildsReport, OverviewReport, SessionsReport},
};
use std::collections::BTreeMap;

/// Series of the head, by the beginnings of their names.
pub(super) const SERIES: [&str; 8] = [
    "connections",
    "sessions",
    "dispatches",
    "sent_bytes",
    "sent_body_bytes",
    "event_to_write_seconds",
    "process_cpu_seconds",
    "process_resident_memory_bytes",
];
const NONE: &str = "–";

/// Answers of the node to one refresh.
#[derive(Clone, Debug, Default)]
pub(super) struct Reports {
    pub version: String,
    pub unready: Option<String>,
    pub history: HistoryReport,
    pub overview: Option<OverviewReport>,
    pub guilds: Option<GuildsReport>,
    pub sessions: Option<SessionsReport>,
    pub bandwidth: Option<BandwidthReport>,
}

/// A table: titles, rows, and which columns are numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<String>>,
    /// Shown when there are no rows.
    pub empty: &'static str,
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub title: &'static str,
    pub width: u16,
    pub is_number: bool,
}

fn text(title: &'static str, width: u16) -> Column {
    Column { title, width, is_number: false }
}

fn number(title: &'static str, width: u16) -> Column {
    Column { title, width, is_number: true }
}

/// The newest reports, and the ones before that rates are computed from.
#[derive(Debug, Default)]
pub(super) struct Figures {
    now: Reports,
    before: Reports,
    view: View,
}

impl Figures {
    /// Takes the answers for a view. Those of another view are no base for rates.
    pub fn take(&mut self, view: View, reports: Reports) {
        let last = std::mem::replace(&mut self.now, reports);
        self.before = if self.view == view { last } else { Reports::default() };
        self.view = view;
    }

    /// Version, readiness and the node's figures, a line each.
    pub fn head(&self) -> [String; 2] {
        let now = |name: &str| newest(&self.now.history, name);
        let state = self.now.unready.as_deref().map_or_else(|| "ready".to_owned(), |why| format!("NOT READY: {why}"));
        let (sent, bodies) = (now("sent_bytes"), now("sent_body_bytes"));
        let ratio = match (sent, bodies) {
            (Some(sent), Some(bodies)) if bodies > 0.0 => format!(" ({} of the bodies)", percent(sent / bodies)),
            _ => String::new(),
        };
        [
            format!(
                "Guildhall {}, {state} · {} connections, {} resumable · {} cores, {}",
                self.now.version,
                shown(now("connections"), count),
                shown(now("sessions{state=\"resumable\"}"), count),
                shown(now("process_cpu_seconds"), |cores| format!("{cores:.2}")),
                shown(now("process_resident_memory_bytes"), bytes),
            ),
            format!(
                "{} deliveries/s · {}/s sent{ratio} · latency p50 {}, p99 {}",
                shown(now("dispatches"), count),
                shown(sent, bytes),
                shown(now("event_to_write_seconds:p50"), seconds),
                shown(now("event_to_write_seconds:p99"), seconds),
            ),
        ]
    }

    /// Table of the view.
    pub fn table(&self) -> Table {
        match self.view {
            View::Loops => self.loops(),
            View::Guilds => self.guilds(),
            View::Sessions => self.sessions(),
            View::Bandwidth => self.bandwidth(),
        }
    }

    /// One row per message type, the most expensive now first.
    fn loops(&self) -> Table {
        let columns = vec![
            text("LOOP", 16),
            text("MESSAGE TYPE", 28),
            number("BUSY", 8),
            number("PER S", 9),
            number("MEAN", 9),
            number("P99", 9),
            number("MAX", 9),
        ];
        let (Some(now), before) = (&self.now.overview, &self.before.overview) else { return Table::default() };
        let span_ms = before.as_ref().map_or(0, |before| now.at_ms.saturating_sub(before.at_ms));
        let totals = |report: &OverviewReport| {
            let mut sums: BTreeMap<(String, String), (u64, u64, u64, u64)> = BTreeMap::new();
            for (name, kind) in report.loops.iter().flat_map(|l| l.types.iter().map(move |kind| (&l.name, kind))) {
                let sum = sums.entry((name.clone(), kind.name.clone())).or_default();
                let times = &kind.times;
                *sum = (
                    sum.0 + times.ns_total,
                    sum.1 + times.count_total,
                    sum.2.max(times.p99_ns),
                    sum.3.max(times.max_ns),
                );
            }
            sums
        };
        let old = before.as_ref().map(totals).unwrap_or_default();
        let mut rows: Vec<(f64, Vec<String>)> = Vec::new();
        for ((name, kind), (ns, messages, p99, max)) in totals(now) {
            let (old_ns, old_messages, ..) = old.get(&(name.clone(), kind.clone())).copied().unwrap_or_default();
            let busy = rate(ns, old_ns, span_ms).map(|ns_per_s| ns_per_s / 1e9);
            rows.push((
                busy.unwrap_or(0.0),
                vec![
                    name,
                    kind.replace('_', " "),
                    shown(busy, percent),
                    shown(rate(messages, old_messages, span_ms), count),
                    seconds(ns as f64 / messages.max(1) as f64 / 1e9),
                    seconds(p99 as f64 / 1e9),
                    seconds(max as f64 / 1e9),
                ],
            ));
        }
        Table { columns, rows: most_first(rows), empty: "No loop has handled a message yet." }
    }

    fn guilds(&self) -> Table {
        let columns = vec![
            text("GUILD", 28),
            number("BUSY", 8),
            number("EVENTS/S", 9),
            number("DELIVERIES/S", 13),
            number("BYTES/S", 10),
            number("MEMBERS", 10),
            number("ACTIVE", 9),
            number("PASSIVE", 9),
        ];
        let (Some(now), before) = (&self.now.guilds, &self.before.guilds) else { return Table::default() };
        let span_ms = before.as_ref().map_or(0, |before| now.at_ms.saturating_sub(before.at_ms));
        let old: BTreeMap<&str, _> =
            before.iter().flat_map(|report| &report.guilds).map(|guild| (&*guild.id, guild)).collect();
        let rows = now.guilds.iter().map(|guild| {
            let old = old.get(&*guild.id);
            let busy = rate(guild.busy_ns_total, old.map_or(0, |old| old.busy_ns_total), span_ms).map(|ns| ns / 1e9);
            let per_s = |now: u64, old: Option<u64>| old.and_then(|old| rate(now, old, span_ms));
            let row = vec![
                if guild.name.is_empty() { guild.id.clone() } else { guild.name.clone() },
                shown(busy.filter(|_| old.is_some()), percent),
                shown(per_s(guild.events_total, old.map(|old| old.events_total)), count),
                shown(per_s(guild.deliveries_total, old.map(|old| old.deliveries_total)), count),
                shown(per_s(guild.bytes_total, old.map(|old| old.bytes_total)), bytes),
                count(guild.members as f64),
                count(guild.sessions_active as f64),
                count(guild.sessions_passive as f64),
            ];
            (busy.unwrap_or(0.0), row)
        });
        Table { columns, rows: most_first(rows.collect()), empty: "No guild is loaded." }
    }

    /// Those that are behind first.
    fn sessions(&self) -> Table {
        let columns = vec![
            text("ACCOUNT", 24),
            text("STATE", 10),
            text("CODEC", 20),
            text("ENCODING", 9),
            text("PLATFORM", 9),
            number("GUILDS", 7),
            number("SEQ", 10),
            number("BACKLOG", 8),
            number("REPLAY", 9),
        ];
        let Some(now) = &self.now.sessions else { return Table::default() };
        let rows = now.sessions.iter().map(|session| {
            let row = vec![
                if session.username.is_empty() { session.user_id.clone() } else { session.username.clone() },
                if session.is_connected { "connected" } else { "resumable" }.to_owned(),
                session.codec.clone().unwrap_or_else(|| NONE.to_owned()),
                session.encoding.clone(),
                session.platform.clone(),
                count(session.guilds as f64),
                count(session.seq as f64),
                count(session.backlog_events as f64),
                bytes(session.buffered_bytes as f64),
            ];
            (session.backlog_events as f64, row)
        });
        Table { columns, rows: most_first(rows.collect()), empty: "No session." }
    }

    fn bandwidth(&self) -> Table {
        let columns = vec![
            text("DISPATCH TYPE", 32),
            number("SENT/S", 10),
            number("OF BYTES", 9),
            number("PER S", 9),
            number("EACH", 9),
            number("RATIO", 8),
            number("AS ZLIB", 8),
            number("AS ZSTD", 8),
        ];
        let (Some(now), before) = (&self.now.bandwidth, &self.before.bandwidth) else { return Table::default() };
        let span_ms = before.as_ref().map_or(0, |before| now.at_ms.saturating_sub(before.at_ms));
        let sums = |report: &BandwidthReport| -> BTreeMap<String, [u64; 3]> {
            let sum = |of: &guildhall_accounting::report::DispatchType| {
                of.ways.iter().fold([0; 3], |sum: [u64; 3], way| {
                    [sum[0] + way.count_total, sum[1] + way.raw_bytes_total, sum[2] + way.wire_bytes_total]
                })
            };
            report.types.iter().map(|of| (of.name.clone(), sum(of))).collect()
        };
        let old = before.as_ref().map(sums).unwrap_or_default();
        let rates: Vec<(String, [Option<f64>; 3])> = sums(now)
            .into_iter()
            .map(|(name, now)| {
                let old = old.get(&name).copied().unwrap_or_default();
                (name, std::array::from_fn(|at| rate(now[at], old[at], span_ms)))
            })
            .collect();
        let all: f64 = rates.iter().filter_map(|(_, [_, _, wire])| *wire).sum();
        let billed: BTreeMap<&str, &BilledType> =
            now.bill.iter().flat_map(|bill| &bill.types).map(|of| (&*of.name, of)).collect();
        let rows = rates.into_iter().map(|(name, [events, raw, wire])| {
            let billed = billed.get(&*name).filter(|of| of.sample.count_total > 0);
            let of_plain = |bytes: fn(&BilledWays) -> u64| {
                billed.map(|of| bytes(&of.sample) as f64 / of.sample.plain_bytes_total.max(1) as f64)
            };
            let (zlib, zstd) = (of_plain(|ways| ways.zlib_bytes_total), of_plain(|ways| ways.zstd_bytes_total));
            let per = |a: Option<f64>, b: Option<f64>| Some(a? / b.filter(|b| *b > 0.0)?);
            let row = vec![
                name,
                shown(wire, bytes),
                shown(per(wire, Some(all)), percent),
                shown(events, count),
                shown(per(wire, events), bytes),
                shown(per(wire, raw), percent),
                shown(zlib, percent),
                shown(zstd, percent),
            ];
            (wire.unwrap_or(0.0), row)
        });
        Table { columns, rows: most_first(rows.collect()), empty: "Nothing was sent yet." }
    }
}

fn most_first(mut rows: Vec<(f64, Vec<String>)>) -> Vec<Vec<String>> {
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Per second, from two totals; none without a span.
fn rate(now: u64, before: u64, span_ms: u64) -> Option<f64> {
    (span_ms > 0).then(|| now.saturating_sub(before) as f64 * 1_000.0 / span_ms as f64)
}

/// Newest value of a series that is no gap.
fn newest(history: &HistoryReport, name: &str) -> Option<f64> {
    history.series.get(name)?.iter().rev().find_map(|value| value.map(f64::from))
}

fn shown(value: Option<f64>, show: impl FnOnce(f64) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), show)
}

/// Three significant digits, with a unit of thousands.
fn scaled(value: f64, steps: &[(f64, &str)]) -> String {
    let (size, unit) = steps.iter().find(|(size, _)| value >= *size).copied().unwrap_or(steps[steps.len() - 1]);
    let value = value / size;
    let digits = if value >= 100.0 || value == value.trunc() {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$}{unit}")
}

/// Thousands begin at 10,000: a number of four digits is read at once.
fn count(value: f64) -> String {
    let steps = [(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")];
    scaled(value, if value < 1e4 { &steps[3..] } else { &steps })
}

fn bytes(value: f64) -> String {
    scaled(value, &[(1e12, " TB"), (1e9, " GB"), (1e6, " MB"), (1e3, " kB"), (1.0, " B")])
}

fn seconds(value: f64) -> String {
    scaled(value, &[(1.0, " s"), (1e-3, " ms"), (1e-6, " µs"), (1e-9, " ns")])
}

fn percent(share: f64) -> String {
    scaled(share * 100.0, &[(1.0, " %")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_accounting::report::{Bill, DispatchType, Guild, Loop, MessageType, Session, Times, Way};

    #[test]
    fn numbers() {
        let told = [count(0.0), count(9_999.0), count(12_840.0), count(30.9), bytes(8.2e6), bytes(72_800_000.0)];
        assert_eq!(told, ["0", "9999", "12.8 k", "30.9", "8.20 MB", "72.8 MB"]);
        assert_eq!([seconds(0.0216), seconds(972e-6), percent(0.0193)], ["21.6 ms", "972 µs", "1.93 %"]);
    }

    #[test]
    fn rates_need_two_reports_of_one_view() {
        let guilds = |at_ms, busy_ns_total| Reports {
            guilds: Some(GuildsReport {
                at_ms,
                loaded: 1,
                guilds: vec![Guild { id: "5".to_owned(), busy_ns_total, members: 7, ..Guild::default() }],
            }),
            ..Reports::default()
        };
        let mut figures = Figures::default();
        figures.take(View::Guilds, guilds(1_000, 500_000_000));
        assert_eq!(figures.table().rows[0][..2], ["5", "–"]);
        figures.take(View::Guilds, guilds(3_000, 600_000_000));
        assert_eq!(figures.table().rows[0][1], "5 %");
        figures.take(View::Loops, Reports::default());
        assert_eq!(figures.table(), Table::default());
        figures.take(View::Guilds, guilds(5_000, 700_000_000));
        assert_eq!(figures.table().rows[0][1], "–");
    }

    #[test]
    fn the_most_expensive_is_first() {
        let overview = |at_ms, cheap, dear| {
            let kind = |name: &str, ns_total| MessageType {
                name: name.to_owned(),
                times: Times { count_total: 10, ns_total, ..Times::default() },
            };
            let worker = |index| Loop {
                name: "guild_worker".to_owned(),
                index,
                types: vec![kind("cheap", cheap), kind("dear_one", dear)],
                ..Loop::default()
            };
            Reports {
                overview: Some(OverviewReport {
                    at_ms,
                    loops: vec![worker(0), worker(1)],
                    ..OverviewReport::default()
                }),
                ..Reports::default()
            }
        };
        let mut figures = Figures::default();
        figures.take(View::Loops, overview(0, 0, 0));
        figures.take(View::Loops, overview(1_000, 1_000_000, 50_000_000));
        let rows = figures.table().rows;
        assert_eq!(rows[0][..3], ["guild_worker", "dear one", "10 %"]);
        assert_eq!(rows[1][1], "cheap");
    }

    #[test]
    fn shares_of_bytes() {
        let bandwidth = |at_ms, messages: u64, typing: u64| {
            let of = |name: &str, count_total| DispatchType {
                name: name.to_owned(),
                ways: vec![Way {
                    count_total,
                    raw_bytes_total: count_total * 100,
                    wire_bytes_total: count_total * 25,
                    ..Way::default()
                }],
            };
            let types = vec![of("TYPING_START", typing), of("MESSAGE_CREATE", messages)];
            let sample = BilledWays {
                count_total: 2,
                plain_bytes_total: 200,
                zlib_bytes_total: 60,
                zstd_bytes_total: 50,
                ..BilledWays::default()
            };
            let of_messages = BilledType { name: "MESSAGE_CREATE".to_owned(), sample, ..BilledType::default() };
            let bill = Some(Bill { types: vec![of_messages], ..Bill::default() });
            Reports { bandwidth: Some(BandwidthReport { at_ms, types, bill }), ..Reports::default() }
        };
        let mut figures = Figures::default();
        figures.take(View::Bandwidth, bandwidth(0, 0, 0));
        figures.take(View::Bandwidth, bandwidth(1_000, 30, 10));
        let rows = figures.table().rows;
        assert_eq!(rows[0], ["MESSAGE_CREATE", "750 B", "75 %", "30", "25 B", "25 %", "30 %", "25 %"]);
        assert_eq!(rows[1][..3], ["TYPING_START", "250 B", "25 %"]);
        assert_eq!(rows[1][6..], ["–", "–"], "no sample of it");
    }

    #[test]
    fn who_is_behind_is_first() {
        let session = |username: &str, backlog_events| Session {
            username: username.to_owned(),
            backlog_events,
            is_connected: true,
            ..Session::default()
        };
        let sessions = vec![session("a", 0), session("b", 900)];
        let mut figures = Figures::default();
        let report = SessionsReport { sessions, all: 2, ..SessionsReport::default() };
        figures.take(View::Sessions, Reports { sessions: Some(report), ..Reports::default() });
        assert_eq!(figures.table().rows[0][..2], ["b", "connected"]);
    }
}
