//! Routes without the types of their handlers.
//!
//! Owns        `Erased`, the one type of all handlers.
//! Price       an indirect call per request. Axum compiles some twenty functions for each type of handler; with one
//!             type this crate has a seventh less code, and takes a sixth less time to compile.

use crate::state::Api;
use axum::{extract::Request, handler::Handler};
use guildhall_http_kit::Answering;
use std::sync::Arc;

/// A handler of any type.
#[derive(Clone)]
pub(super) struct Erased(Arc<dyn Fn(Request, Arc<Api>) -> Answering + Send + Sync>);

impl Handler<(), Arc<Api>> for Erased {
    type Future = Answering;

    fn call(self, request: Request, api: Arc<Api>) -> Answering {
        (self.0)(request, api)
    }
}

pub(super) fn erased<T: 'static>(handler: impl AsyncHandler<T>) -> Erased {
    Erased(Arc::new(move |request, api| handler.clone().call(request, api)))
}

/// A handler as axum makes it of an async function.
pub(super) trait AsyncHandler<T>: Handler<T, Arc<Api>, Future = Answering> + Sync {}

impl<T, H: Handler<T, Arc<Api>, Future = Answering> + Sync> AsyncHandler<T> for H {}
