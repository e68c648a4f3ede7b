// The nodes of a cluster, and which of them the page shows.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask, viewed } from "./api.ts";
import { words } from "./format.ts";

interface ClusterNode { number: number; name: string; version: string; state: string; own: boolean }
interface Cluster { nodes: ClusterNode[]; clustered: boolean; serving: boolean }

/** Nodes come and go within seconds. */
const EVERY_MS = 3_000;

const isShown = (node: ClusterNode): boolean => (viewed === undefined ? node.own : viewed === String(node.number) || viewed === node.name);

/** Nothing for a node that is alone. */
export function Nodes() {
  const cluster = useSignal<Cluster | undefined>(undefined);
  useEffect(() => {
    const stopped = new AbortController();
    // A request that fails shows on the rest of the page.
    const load = () => ask<Cluster>("cluster", "GET", undefined, stopped.signal).then((value) => { cluster.value = value; }, () => undefined);
    void load();
    const timer = window.setInterval(() => void load(), EVERY_MS);
    return () => {
      stopped.abort();
      clearInterval(timer);
    };
  }, []);
  if (!cluster.value?.clustered) return null;
  return (
    <section aria-labelledby="nodes">
      <h2 id="nodes">Nodes of the cluster</h2>
      <ul>
        {cluster.value.nodes.map((node) => (
          <li key={node.number}>
            <a href={`${node.own ? "./" : `./?node=${node.number}`}#/overview`} aria-current={isShown(node) ? "page" : undefined}>{node.name}</a>
            {" "}(number {node.number}): {words(node.state)}, version {node.version}{isShown(node) && "; this page shows it"}{node.own && "; it answers this page"}
          </li>
        ))}
      </ul>
      {!cluster.value.serving && <p class="fault">The node that answers has no valid lease, and serves no guilds.</p>}
    </section>
  );
}
