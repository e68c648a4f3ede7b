//! History: the node's series over the last hour, and the stream that continues them.
//!
//! Limits      a stream has a place of `V1Limits::streams_max`, and ends with its key. It sends one event a second; a
//!             reader that is slower misses samples and is never sent old ones.

use super::{
    super::{
        V1,
        caller::{Caller, Read, StreamSlot},
        error::V1Error,
        extract::{Check, FieldErrors, Query},
    },
    elsewhere::{Followed, samples},
};
use axum::{
    Extension, Json,
    extract::State,
    response::sse::{Event, KeepAlive, Sse},
};
use futures_util::{Stream, stream};
use guildhall_accounting::{HistoryReport, Sample, WINDOW_S_MAX};
use guildhall_node::KeyLife;
use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap as _};
use std::{convert::Infallible, sync::Arc};
use tokio::sync::watch;
use utoipa::IntoParams;

/// Prefixes of one request.
const PREFIXES_MAX: usize = 64;
/// Characters of all prefixes.
const SERIES_CHARS_MAX: usize = 2_048;

fn prefixes(series: Option<&str>) -> Vec<String> {
    series.into_iter().flat_map(|series| series.split(',')).map(ToOwned::to_owned).collect()
}

/// Whether a series begins with one of the prefixes; without any, all do.
pub(super) fn is_wanted(prefixes: &[String], name: &str) -> bool {
    prefixes.is_empty() || prefixes.iter().any(|prefix| name.starts_with(&**prefix))
}

fn check_series(series: Option<&str>, faults: &mut FieldErrors) {
    faults.optional_text("series", series, SERIES_CHARS_MAX);
    let count = series.map_or(0, |series| series.split(',').count());
    faults.count("series", count, 0, PREFIXES_MAX);
}

/// Parameters of the history.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct HistoryQuery {
    /// Seconds; 300 if omitted. Up to 600 there is a value for each second, above that for every ten.
    #[param(minimum = 1, maximum = 3600)]
    window_s: Option<u64>,
    /// Beginnings of names of series, with commas between them; all series if omitted. Names are those of `/metrics`
    /// without `guildhall_` and `_total`, with labels; of histograms with `:p50` or `:p99` at the end.
    #[param(max_length = 2048)]
    series: Option<String>,
}

impl Check for HistoryQuery {
    fn check(&self, faults: &mut FieldErrors) {
        let window_s = i64::try_from(self.window_s.unwrap_or(300)).unwrap_or(i64::MAX);
        faults.number("window_s", window_s, 1, WINDOW_S_MAX as i64);
        check_series(self.series.as_deref(), faults);
    }
}

/// Reads the history of series
///
/// Counters are rates per second, gauges values, histograms quantiles of what came in each second.
#[utoipa::path(get, path = "/v1/node/history", tag = "node", params(HistoryQuery),
    responses((status = 200, body = HistoryReport)))]
pub(in super::super) async fn history(
    _: Caller<Read>,
    State(v1): State<Arc<V1>>,
    Query(query): Query<HistoryQuery>,
) -> Json<HistoryReport> {
    Json(v1.reports.history(query.window_s.unwrap_or(300), &prefixes(query.series.as_deref())))
}

/// Parameters of the live stream.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct LiveQuery {
    /// As of the history.
    #[param(max_length = 2048)]
    series: Option<String>,
}

impl Check for LiveQuery {
    fn check(&self, faults: &mut FieldErrors) {
        check_series(self.series.as_deref(), faults);
    }
}

/// Follows series
///
/// A stream of server-sent events without an end, one a second: `{"at_ms": …, "values": {name: number}}`. The first
/// comes at once. A series without a value in a second is left out of its event.
#[utoipa::path(get, path = "/v1/node/live", tag = "node", params(LiveQuery),
    responses((status = 200, content_type = "text/event-stream", body = String)))]
pub(in super::super) async fn live(
    caller: Caller<Read>,
    State(v1): State<Arc<V1>>,
    followed: Option<Extension<Followed>>,
    Query(query): Query<LiveQuery>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, V1Error> {
    let (life, prefixes) = (caller.life.clone(), prefixes(query.series.as_deref()));
    let slot = caller.into_stream(&v1)?;
    let samples = match followed {
        Some(Extension(Followed(node))) => samples(&v1, node, prefixes.clone()).await?,
        None => v1.reports.samples(),
    };
    let follower = Follower { life, samples, prefixes, is_first: true, _slot: slot };
    let events = stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((Ok(event), follower))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

struct Follower {
    life: KeyLife,
    samples: watch::Receiver<Arc<Sample>>,
    prefixes: Vec<String>,
    is_first: bool,
    _slot: StreamSlot,
}

impl Follower {
    /// The next event; none when the key is revoked or the node ends.
    async fn next(&mut self) -> Option<Event> {
        if !std::mem::take(&mut self.is_first) {
            tokio::select! {
                changed = self.samples.changed() => changed.ok()?,
                () = self.life.over() => return None,
            }
        }
        let sample = self.samples.borrow_and_update().clone();
        let wanted = Wanted { sample: &sample, prefixes: &self.prefixes };
        serde_json::to_string(&SampleBody { at_ms: sample.at_ms, values: wanted })
            .ok()
            .map(|text| Event::default().data(text))
    }
}

#[derive(Serialize)]
struct SampleBody<'a> {
    at_ms: u64,
    values: Wanted<'a>,
}

struct Wanted<'a> {
    sample: &'a Sample,
    prefixes: &'a [String],
}

impl Serialize for Wanted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.sample.values.iter().filter(|(name, _)| is_wanted(self.prefixes, name)) {
            map.serialize_entry(&**name, value)?;
        }
        map.end()
    }
}
