//! Nodes that a command of the lab is for: all of a cluster, or one.

use super::remote::Asking;
use anyhow::{Context as _, anyhow};
use clap::Args;
use serde::Deserialize;
use std::fmt;

/// Which nodes of a cluster.
#[derive(Args, Clone, Debug)]
pub(super) struct NodeChoice {
    /// Only this node of a cluster, by number or name [default: all]
    #[arg(long, value_name = "NODE", help_heading = "Node")]
    node: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Cluster {
    clustered: bool,
    nodes: Vec<Member>,
}

#[derive(Debug, Deserialize)]
struct Member {
    number: u8,
    name: String,
}

/// Node of a request; the node that --server names forwards it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target(Option<u8>);

impl Target {
    /// The path of a request to it.
    pub fn path(&self, path: &str) -> String {
        match self.0 {
            None => path.to_owned(),
            Some(number) => format!("{path}{}node={number}", if path.contains('?') { '&' } else { '?' }),
        }
    }

    #[cfg(test)]
    pub fn of(number: u8) -> Self {
        Self(Some(number))
    }

    /// It is in no cluster.
    pub fn is_alone(&self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => write!(f, "the node"),
            Some(number) => write!(f, "node {number}"),
        }
    }
}

/// The nodes that were chosen; one without a number if there is no cluster.
pub(super) async fn targets(asking: &Asking, choice: &NodeChoice) -> anyhow::Result<Vec<Target>> {
    let Cluster { clustered, nodes } = asking.get("/v1/cluster").await?;
    let is_chosen = |member: &Member| match &choice.node {
        None => true,
        Some(node) => member.number.to_string() == *node || member.name == *node,
    };
    match (clustered, &choice.node) {
        (false, None) => Ok(vec![Target(None)]),
        (false, Some(_)) => Err(anyhow!("this node is in no cluster: leave --node out")),
        (true, _) => {
            let chosen: Vec<Target> =
                nodes.iter().filter(|member| is_chosen(member)).map(|member| Target(Some(member.number))).collect();
            let names = nodes.iter().map(|member| format!("{} ({})", member.number, member.name));
            let names = names.collect::<Vec<_>>().join(", ");
            let is_there = !chosen.is_empty();
            is_there.then_some(chosen).with_context(|| format!("there is no such node: --node may be {names}"))
        }
    }
}

/// Prints what some nodes refused. If all of them did, it is the error.
pub(super) fn warn_of(refusals: Vec<(Target, anyhow::Error)>, is_all: bool) -> anyhow::Result<()> {
    let name = |node: &Target, error: anyhow::Error| match node.is_alone() {
        true => error,
        false => error.context(node.to_string()),
    };
    let mut refusals = refusals.into_iter();
    if is_all && let Some((node, error)) = refusals.next() {
        return Err(name(&node, error));
    }
    for (node, error) in refusals {
        eprintln!("WARNING: it runs on the other nodes only: {:#}", name(&node, error));
    }
    Ok(())
}
