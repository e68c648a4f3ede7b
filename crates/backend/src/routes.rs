//! The routes of the backend API: a row for each handler.
//!
//! Owns        the rows. Method, path and description of a row come from the attribute `utoipa::path` of its handler,
//!             its scope from the type of the handler's caller: the router, the OpenAPI document and the table of
//!             docs/backend-api.md follow from them. The compiler warns of a handler without a row.
//! Not here    handlers: their modules. What all routes have in common in the document: `crate::openapi`.
//!             Spec  docs/backend-api.md.

use crate::{
    V1, audit, bans,
    caller::{Caller, Needs},
    channels, cluster, directs, events, experiments, guilds, import, import_messages, jobs, keys, lab, lab_dark,
    lab_dictionaries, members, messages, node, openapi, publish, retention, roles, roles_bulk, search, session_events,
    sessions, tokens, users, voice_states, webhooks,
};
use guildhall_node::Scope;
use std::sync::Arc;
use utoipa::openapi::path::PathItem;
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouter},
    routes,
};

/// A route as the documentation lists it.
#[derive(Debug)]
pub struct V1Route {
    /// Method in capitals.
    pub method: &'static str,
    /// From `/v1` on; `{…}` is one segment.
    pub path: String,
    /// Scope that its key needs. None: any key will do.
    pub scope: Option<Scope>,
    /// First line of its handler's comment.
    pub summary: String,
}

/// A handler with what describes it.
struct Row {
    scope: Option<Scope>,
    route: UtoipaMethodRouter<Arc<V1>>,
}

/// A handler that takes a `Caller` first.
trait Handler<Args> {
    const SCOPE: Option<Scope>;
}

macro_rules! handlers {
    ($(($($arg:ident)*))*) => { $(
        impl<F, Answer, S: Needs, $($arg),*> Handler<(S, $($arg,)*)> for F
        where
            F: Fn(Caller<S>, $($arg),*) -> Answer,
        {
            const SCOPE: Option<Scope> = S::SCOPE;
        }
    )* };
}
handlers!(() (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E G));

fn scope_of<Args, H: Handler<Args>>(_: H) -> Option<Scope> {
    H::SCOPE
}

macro_rules! rows {
    ($($module:ident::$handler:ident),* $(,)?) => {
        vec![$(Row { scope: scope_of($module::$handler), route: routes!($module::$handler) }),*]
    };
}

/// All routes. Methods of a path are in the order of its `Allow` header.
fn rows() -> Vec<Row> {
    rows![
        keys::list,
        keys::create,
        keys::revoke,
        audit::list,
        guilds::list,
        guilds::read,
        guilds::put,
        guilds::update,
        guilds::delete,
        retention::read_of_guild,
        retention::put_of_guild,
        retention::delete_of_guild,
        retention::read_of_channel,
        retention::put_of_channel,
        retention::delete_of_channel,
        channels::list,
        channels::read,
        channels::put,
        channels::update,
        channels::delete,
        roles::list,
        roles_bulk::put_roles,
        roles_bulk::put_members,
        roles_bulk::change_members,
        roles_bulk::put_of_members,
        roles::read,
        roles::put,
        roles::update,
        roles::delete,
        members::list,
        members::read,
        members::put,
        members::update,
        members::delete,
        import::import,
        voice_states::read,
        voice_states::put,
        voice_states::delete,
        bans::list,
        bans::read,
        bans::put,
        bans::delete,
        messages::list,
        messages::create,
        messages::delete_many,
        messages::read,
        messages::update,
        messages::delete,
        search::search,
        search::search_channel,
        import_messages::import,
        users::read,
        users::put,
        users::update,
        users::delete,
        users::list,
        users::guilds,
        directs::create,
        events::poll,
        events::follow,
        webhooks::list,
        webhooks::create,
        webhooks::read,
        webhooks::update,
        webhooks::delete,
        webhooks::list_dead_letters,
        webhooks::retry_dead_letter,
        webhooks::delete_dead_letter,
        jobs::list,
        jobs::read,
        publish::publish,
        tokens::list,
        tokens::mint,
        tokens::revoke_all,
        tokens::revoke_one,
        tokens::revoke,
        tokens::inspect,
        sessions::list,
        session_events::follow,
        sessions::read,
        sessions::close,
        node::state,
        node::overview,
        node::bandwidth,
        node::guilds,
        node::guild,
        node::sessions,
        node::session,
        node::callers,
        node::files,
        node::compression,
        node::operations,
        node::history,
        node::live,
        node::reload,
        node::drain,
        lab::list,
        lab::start,
        lab::read,
        lab::stop,
        lab::frames,
        experiments::list,
        experiments::create,
        experiments::read,
        experiments::update,
        experiments::remove,
        experiments::stop,
        experiments::report,
        lab_dark::read,
        lab_dark::start,
        lab_dark::stop,
        lab_dictionaries::list,
        lab_dictionaries::stage,
        lab_dictionaries::remove,
        lab_dictionaries::serve,
        lab_dictionaries::withdraw,
        cluster::state,
        cluster::owner,
        cluster::drain,
        cluster::moves,
        cluster::move_guild,
    ]
}

pub(crate) fn router() -> OpenApiRouter<Arc<V1>> {
    rows().into_iter().fold(OpenApiRouter::with_openapi(openapi::base()), |router, row| router.routes(row.route))
}

/// The routes, for documentation and tests.
#[must_use]
pub fn v1_routes() -> Vec<V1Route> {
    let listed = |Row { scope, route: (_, paths, _) }: Row| {
        let of_path = move |(path, item): (String, PathItem)| {
            let PathItem { get, put, post, delete, patch, .. } = item;
            let operations = [("GET", get), ("PUT", put), ("POST", post), ("DELETE", delete), ("PATCH", patch)];
            operations.into_iter().filter_map(move |(method, operation)| {
                let summary = operation?.summary.unwrap_or_default();
                Some(V1Route { method, path: path.clone(), scope, summary })
            })
        };
        paths.paths.into_iter().flat_map(of_path)
    };
    rows().into_iter().flat_map(listed).collect()
}
