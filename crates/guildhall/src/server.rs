//! Server: a node inside another program.
//!
//! Owns        `Server` and `ServerBuilder`, by which programs configure, start and stop a node.
//! Invariants  E1 a setting has the meaning that it has in the configuration file, and is checked as there. E2 the
//!             hooks are set before the node serves its first client. (tests `it/embed.rs`)
//! Not here    how the parts are connected: `assemble`. The traits of hooks: `guildhall_node`. `guildhall serve`, which
//!             also reloads settings and passes its connections on: `cli`.
//!             Spec  docs/embedding.md, docs/adr/0048.

use crate::{
    assemble::{RunningNode, assemble_over, assemble_with},
    config,
    start_error::StartError,
};
use guildhall_node::{Authenticate, Hooks, Node, ReviewMessage};
use guildhall_settings::{Config, ConfigError, Flag, Sources};
use std::{future::Future, net::SocketAddr, path::PathBuf, sync::Arc};

/// A node that serves clients. The program stops it by `stop` or `run_until`; a dropped one does not end its sessions
/// in order.
pub struct Server(RunningNode);

/// Settings and hooks of a node that has not started.
#[derive(Default)]
pub struct ServerBuilder {
    sources: Sources,
    /// Takes the place of `sources`.
    config: Option<Config>,
    hooks: Hooks,
    takes_over: bool,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Settings are wrong; the error names each.
    #[error(transparent)]
    Settings(#[from] ConfigError),
    /// The node cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A part of the node failed while it served, such as its database.
    #[error("a part of the node failed, and it was stopped")]
    Failed,
}

impl Server {
    /// A builder with the default settings: 127.0.0.1:8080, and state in `data/node`.
    #[must_use]
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// Address of the listener, with the port that the system chose for port 0.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr
    }

    /// URL of the gateway for clients, without a slash at the end.
    #[must_use]
    pub fn gateway_url(&self) -> &str {
        &self.0.gateway_url
    }

    /// Accounts, guilds, tokens and commands.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.0.node
    }

    /// Serves until `stop` completes or a part of the node fails; then stops.
    ///
    /// # Errors
    /// `Failed`.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<(), ServerError> {
        let has_failed = tokio::select! {
            () = stop => false,
            () = self.0.failed() => true,
        };
        self.stop().await;
        if has_failed { Err(ServerError::Failed) } else { Ok(()) }
    }

    /// Makes clients reconnect, completes requests, and closes the store: within `server.drain_notice_ms` and
    /// `server.drain_timeout_ms`.
    pub async fn stop(self) {
        self.0.stop().await;
    }

    /// For `guildhall serve`, which also reloads settings and passes connections on.
    pub(crate) fn into_running(self) -> RunningNode {
        self.0
    }
}

impl ServerBuilder {
    /// Sets a setting (docs/operations/reference.md) to a value as in an environment variable:
    /// `"limits.rest_rate_percent", "0"`. Overrides `toml`.
    #[must_use]
    pub fn set(mut self, setting: &str, value: impl Into<String>) -> Self {
        self.sources.flags.push(Flag::new(setting, setting, value));
        self
    }

    /// Settings in the form of the configuration file; `path` is the name that errors have.
    #[must_use]
    pub fn toml(mut self, path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        self.sources.file = Some((path.into(), text.into()));
        self
    }

    /// Directory of the node's state.
    #[must_use]
    pub fn data_dir(self, dir: impl Into<String>) -> Self {
        self.set("store.dir", dir)
    }

    /// Address and port for clients; port 0 lets the system choose one.
    #[must_use]
    pub fn listen(self, addr: impl Into<String>) -> Self {
        self.set("server.listen", addr)
    }

    /// Checks tokens by `hook` before the node does.
    #[must_use]
    pub fn authenticate(mut self, hook: impl Authenticate) -> Self {
        self.hooks.authenticate = Some(Arc::new(hook));
        self
    }

    /// Lets `hook` review the messages of accounts and webhooks before they are published.
    #[must_use]
    pub fn review_messages(mut self, hook: impl ReviewMessage) -> Self {
        self.hooks.review_message = Some(Arc::new(hook));
        self
    }

    /// Settings that were read and checked before, in place of `set` and `toml`.
    pub(crate) fn config(mut self, config: &Config) -> Self {
        self.config = Some(config.clone());
        self
    }

    /// Takes over the connections of the node that runs on the same data directory.
    pub(crate) fn takes_over(mut self, takes_over: bool) -> Self {
        self.takes_over = takes_over;
        self
    }

    /// Starts the node, on the caller's tokio runtime. When this returns, clients may connect.
    ///
    /// # Errors
    /// `Settings` with every wrong setting; `Start` if the port, the store or another resource cannot be used. No part
    /// is left running.
    pub async fn start(self) -> Result<Server, ServerError> {
        let config = match self.config {
            Some(config) => config,
            None => config::load(&self.sources)?.config,
        };
        let running = match self.takes_over {
            true => assemble_over(&config, self.hooks).await?,
            false => assemble_with(&config, self.hooks).await?,
        };
        running.set_ready();
        Ok(Server(running))
    }
}
