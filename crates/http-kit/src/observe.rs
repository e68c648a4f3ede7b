//! Observation of requests: the wall time of each route, and the trace of a request.
//!
//! Owns        `RestAccount`, the histogram per method and route, and the loudest callers; the root span of
//!             a traced request.
//! Doors       `observe` around the routers of clients and backends.
//! Invariants  O1 names are patterns of routes and known methods, never paths. O2 a request whose client goes away is
//!             counted and traced like any other. (tests)
//! Limits      `ROUTES_MAX` routes; further ones count as `other`. The time of a stream is that until its head.
//! Not here    which requests are traced: `RequestTracer`.

use crate::{callers::Callers, note::RequestNote};
use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, Method, StatusCode},
    middleware::{Next, from_fn},
    response::Response,
};
use guildhall_accounting::{Durations, KindReport, LoopReport, SpanStatus, TraceHandle};
use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
    time::Instant,
};

/// More routes than both APIs have.
const ROUTES_MAX: usize = 1_024;

/// Decides which requests are traced.
pub trait RequestTracer: Send + Sync {
    /// The root span of a request, with the value of its header `traceparent`. None: the request is not traced.
    fn begin(&self, traceparent: Option<&str>) -> Option<TraceHandle>;

    /// Runs a traced request: spans within become part of `trace`, and its log lines carry the trace's id.
    fn run(&self, trace: TraceHandle, answering: Answering) -> Answering;
}

/// Work that ends with the answer to a request.
pub type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Wall time of requests, by method and route.
#[derive(Debug, Default)]
pub struct RestAccount {
    routes: RwLock<BTreeMap<String, Arc<Durations>>>,
    /// The loudest of the last minute.
    pub callers: Callers,
}

impl RestAccount {
    /// A request of this method and route took `ns`.
    fn handled(&self, name: &str, ns: u64) {
        let known = self.routes.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        let times = known.unwrap_or_else(|| {
            let mut routes = self.routes.write().unwrap_or_else(PoisonError::into_inner);
            let name = if routes.len() < ROUTES_MAX { name } else { "other" };
            routes.entry(name.to_owned()).or_default().clone()
        });
        times.record_shared(ns);
    }

    /// Routes that were requested, in the form of a loop's account. Its busy time is the wall time of all requests,
    /// most of which is waiting.
    #[must_use]
    pub fn report(&self) -> LoopReport {
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        let kinds: Vec<KindReport> =
            routes.iter().map(|(name, times)| KindReport { name: name.clone(), times: times.snapshot() }).collect();
        let busy_ns = kinds.iter().map(|kind| kind.times.total_ns).sum();
        LoopReport { name: "rest", index: 0, kinds, waits: Durations::default().snapshot(), busy_ns, mailbox: 0 }
    }
}

/// Counts and traces the requests of `router`.
pub fn observe(router: Router, account: Arc<RestAccount>, tracer: Option<Arc<dyn RequestTracer>>) -> Router {
    router.layer(from_fn(move |request: Request, next: Next| {
        let begin = |tracer: &Arc<dyn RequestTracer>| {
            tracer.begin(traceparent_of(request.headers())).map(|trace| (trace, tracer.clone()))
        };
        let observed = Observed {
            account: account.clone(),
            trace: tracer.as_ref().and_then(begin),
            method: method_name(request.method()),
            started: Instant::now(),
            note: None,
            status: None,
        };
        run(observed, request, next)
    }))
}

async fn run(mut observed: Observed, request: Request, next: Next) -> Response {
    let response = match observed.trace.clone() {
        None => next.run(request).await,
        Some((trace, tracer)) => {
            let method = observed.method;
            let answering = async move {
                let response = next.run(request).await;
                let status = response.status().as_u16();
                tracing::debug!(method, status, "a traced request was answered");
                response
            };
            tracer.run(trace, Box::pin(answering)).await
        }
    };
    observed.note = response.extensions().get::<RequestNote>().cloned();
    observed.status = Some(response.status());
    response
}

/// A request in progress. It is counted when it is dropped.
struct Observed {
    account: Arc<RestAccount>,
    trace: Option<(TraceHandle, Arc<dyn RequestTracer>)>,
    method: &'static str,
    started: Instant,
    /// None until there is an answer, and for requests without a route: pages, health, metrics.
    note: Option<RequestNote>,
    /// None: the client went away.
    status: Option<StatusCode>,
}

impl Drop for Observed {
    fn drop(&mut self) {
        let now = Instant::now();
        let route = self.note.as_ref().map(RequestNote::route);
        let name = match (&route, self.status) {
            (Some(route), _) => format!("{} {route}", self.method),
            (None, None) => format!("{} gone", self.method),
            (None, Some(_)) => return,
        };
        let ns = now.duration_since(self.started).as_nanos() as u64;
        self.account.handled(&name, ns);
        self.note.iter().for_each(|note| self.account.callers.note(note, ns));
        let Some((trace, _)) = &self.trace else { return };
        let status = self.status.map_or(0, |status| status.as_u16());
        let mut attributes = vec![("http.request.method", self.method.into())];
        attributes.extend(route.map(|route| ("http.route", route.into())));
        if status > 0 {
            attributes.push(("http.response.status_code", u64::from(status).into()));
        }
        let is_error = status == 0 || status >= 500;
        let span_status = if is_error { SpanStatus::Error } else { SpanStatus::Ok };
        trace.finish(name, (trace.began(), now), attributes, span_status);
    }
}

fn traceparent_of(headers: &HeaderMap) -> Option<&str> {
    headers.get("traceparent")?.to_str().ok()
}

fn method_name(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("OTHER")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use tower::ServiceExt as _;

    fn names(account: &RestAccount) -> Vec<(String, u64)> {
        account.report().kinds.into_iter().map(|kind| (kind.name, kind.times.count())).collect()
    }

    #[tokio::test]
    async fn o2_a_request_of_a_client_that_disconnects_is_counted() {
        let account = Arc::new(RestAccount::default());
        let slow = Router::new().fallback(async || std::future::pending::<()>().await);
        let slow = observe(slow, account.clone(), None);
        let request = Request::builder().method("POST").uri("/x").body(Body::empty()).unwrap();
        let answer = tokio::time::timeout(std::time::Duration::from_millis(5), slow.oneshot(request)).await;
        assert!(answer.is_err());
        assert_eq!(names(&account), [("POST gone".to_owned(), 1)]);
    }

    #[tokio::test]
    async fn o1_requests_without_a_route_are_not_counted() {
        let account = Arc::new(RestAccount::default());
        let page = observe(Router::new().fallback(async || "a page"), account.clone(), None);
        page.oneshot(Request::builder().uri("/x").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(names(&account), []);
        assert_eq!(method_name(&Method::from_bytes(b"FOO7").unwrap()), "OTHER");
    }

    #[test]
    fn routes_are_bounded() {
        let account = RestAccount::default();
        (0..ROUTES_MAX + 5).for_each(|n| account.handled(&format!("GET /{n}"), 1_000));
        let report = account.report();
        assert_eq!((report.kinds.len(), report.busy_ns), (ROUTES_MAX + 1, (ROUTES_MAX as u64 + 5) * 1_000));
        assert_eq!(report.kinds.iter().find(|kind| kind.name == "other").unwrap().times.count(), 5);
    }
}
