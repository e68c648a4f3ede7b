//! Routes without the types of their handlers.
//!
//! Owns        `Table` and `Methods`: axum's `Router` and `MethodRouter` for handlers of one type, `Erased`.
//! Price       an indirect call per request. Axum compiles some twenty functions for each type of handler; with one
//!             type this crate has a seventh less code, and takes a sixth less time to compile.

use crate::state::Api;
use axum::{
    Router,
    extract::Request,
    handler::Handler,
    routing::{self, MethodRouter},
};
use guildhall_http_kit::Answering;
use std::sync::Arc;

/// A handler of any type.
#[derive(Clone)]
struct Erased(Arc<dyn Fn(Request, Arc<Api>) -> Answering + Send + Sync>);

impl Handler<(), Arc<Api>> for Erased {
    type Future = Answering;

    fn call(self, request: Request, api: Arc<Api>) -> Answering {
        (self.0)(request, api)
    }
}

fn erased<T: 'static>(handler: impl AsyncHandler<T>) -> Erased {
    Erased(Arc::new(move |request, api| handler.clone().call(request, api)))
}

/// A handler as axum makes it of an async function.
pub(super) trait AsyncHandler<T>: Handler<T, Arc<Api>, Future = Answering> + Sync {}

impl<T, H: Handler<T, Arc<Api>, Future = Answering> + Sync> AsyncHandler<T> for H {}

/// The handlers of one path, by method.
pub(super) struct Methods(MethodRouter<Arc<Api>>);

macro_rules! first_method {
    ($($method:ident),*) => { $(
        pub(super) fn $method<T: 'static>(handler: impl AsyncHandler<T>) -> Methods {
            Methods(routing::$method(erased(handler)))
        }
    )* };
}

macro_rules! further_method {
    ($($method:ident),*) => { $(
        pub(super) fn $method<T: 'static>(self, handler: impl AsyncHandler<T>) -> Self {
            Self(self.0.$method(erased(handler)))
        }
    )* };
}

first_method!(get, put, post, patch, delete);

impl Methods {
    further_method!(put, post, patch, delete);
}

/// Paths and their handlers.
pub(super) struct Table(Router<Arc<Api>>);

impl Table {
    pub(super) fn new() -> Self {
        Self(Router::new())
    }

    pub(super) fn route(self, path: &str, methods: Methods) -> Self {
        Self(self.0.route(path, methods.0))
    }

    pub(super) fn merge(self, other: Self) -> Self {
        Self(self.0.merge(other.0))
    }

    pub(super) fn router(self) -> Router<Arc<Api>> {
        self.0
    }
}
