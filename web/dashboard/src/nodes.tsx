// The nodes of a cluster, which of them the page shows, and the guilds that move between them.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ask, viewed } from "./api.ts";
import { bytes, counted, duration, exact, join, percent, words } from "./format.ts";
import { Ago } from "./ui.tsx";

interface Load { workers_busy_percent: number[]; memory_bytes: number; memory_bytes_max: number; balance: boolean }
interface ClusterNode { number: number; name: string; version: string; state: string; own: boolean; load?: Load | null }
interface Cluster { nodes: ClusterNode[]; clustered: boolean; serving: boolean }
interface Move { guild_id: string; from: number; to: number; reason: string; bytes: number; rounds: number }
interface Leaving extends Move { step: string; frozen: boolean; age_ms: number }
interface Ended extends Move { ended_at_ms: number; total_ms: number; frozen_ms: number; fault: string | null }
interface Moves { leaving: Leaving[]; ended: Ended[]; missing: number[] }

/** Nodes come and go within seconds. */
const EVERY_MS = 3_000;
/** Ended moves that the page shows. */
const ENDED_SHOWN = 8;

const STEPS: Record<string, string> = {
  members: "sends its members", sessions: "sends its sessions", changes: "sends its changes",
  freeze: "requests wait for the last changes", record: "requests wait for the lease store", serve: "requests wait for the next owner",
};

const isShown = (node: ClusterNode): boolean => (viewed === undefined ? node.own : viewed === String(node.number) || viewed === node.name);

/** The busiest worker is the one that a guild waits for. */
function loadOf({ load }: ClusterNode): string {
  if (!load) return "";
  const memory = load.memory_bytes_max > 0 ? `, memory ${join(percent(load.memory_bytes / load.memory_bytes_max))} in use` : "";
  return `, busiest guild worker ${join(percent(Math.max(0, ...load.workers_busy_percent) / 100))}${memory}${load.balance ? "" : ", takes no part in the balance"}`;
}

const cluster = signal<Cluster | undefined>(undefined);
const moves = signal<Moves | undefined>(undefined);

/** Nothing for a node that is alone. */
export function Nodes() {
  useEffect(() => {
    const stopped = new AbortController();
    // A request that fails shows on the rest of the page.
    const read = <T,>(path: string) => ask<T>(path, "GET", undefined, stopped.signal).catch(() => undefined);
    const load = async () => {
      const found = await read<Cluster>("cluster");
      if (found) cluster.value = found;
      if (!found?.clustered) return;
      const moving = await read<Moves>("cluster/moves");
      if (moving) moves.value = moving;
    };
    void load();
    const timer = window.setInterval(() => void load(), EVERY_MS);
    return () => {
      stopped.abort();
      clearInterval(timer);
    };
  }, []);
  if (!cluster.value?.clustered) return null;
  const { nodes, serving } = cluster.value;
  const leaving = moves.value?.leaving ?? [];
  return (
    <section class="nodes" aria-labelledby="nodes">
      <h2 id="nodes">Nodes of the cluster</h2>
      <ul>
        {nodes.map((node) => (
          <li key={node.number}>
            <a href={`${node.own ? "./" : `./?node=${node.number}`}#/overview`} aria-current={isShown(node) ? "page" : undefined}>{node.name}</a>
            {" "}(number {node.number}): {words(node.state)}, version {node.version}{loadOf(node)}{isShown(node) && "; this page shows it"}{node.own && "; it answers this page"}
          </li>
        ))}
      </ul>
      {leaving.length > 0 && <p>{counted(leaving.length, "guild")} {leaving.length === 1 ? "moves" : "move"} to another node now: see the moves below the charts.</p>}
      {!serving && <p class="fault">The node that answers has no valid lease, and serves no guilds.</p>}
    </section>
  );
}

/** Guilds on their way, and the last moves. Nothing for a node that is alone. */
export function MovesOfGuilds() {
  if (!cluster.value?.clustered || !moves.value) return null;
  const { nodes } = cluster.value;
  const { leaving, ended, missing } = moves.value;
  const nameOf = (number: number): string => nodes.find((node) => node.number === number)?.name ?? `node ${number}`;
  const isOwn = (number: number): boolean => nodes.some((node) => node.number === number && node.own);
  // The page of a guild is at its owner.
  const guild = (id: string, at: number) => <a class="guild" href={`${isOwn(at) ? "./" : `./?node=${at}`}#/guilds/${id}`}><code>{id}</code></a>;
  const way = ({ from, to }: Move) => <span title={`From node ${from} to node ${to}`}>{nameOf(from)} → {nameOf(to)}</span>;
  const sent = ({ bytes: size, rounds }: Move) => <span title={`${exact(size)} bytes of state, ${counted(rounds, "round")} of changes behind it`}>{join(bytes(size))}, {counted(rounds, "round")}</span>;
  const last = ended.find(({ fault }) => fault === null);
  return (
    <section class="moves" aria-labelledby="moves">
      <h2 id="moves">Moves of guilds</h2>
      <p class="says">
        {leaving.length === 0 ? "No guild is on its way." : `${counted(leaving.length, "guild")} ${leaving.length === 1 ? "is" : "are"} on the way.`}
        {last && <> The last move ended <Ago at={last.ended_at_ms} />; requests waited {join(duration(last.frozen_ms / 1e3))}.</>}
        {ended.length === 0 && " None has moved since the nodes started: guilds move when a node drains or is loaded, or on request."}
        {missing.length > 0 && ` Moves of ${missing.map(nameOf).join(", ")} are missing: ${missing.length === 1 ? "it does" : "they do"} not answer.`}
      </p>
      {leaving.length + ended.length > 0 && (
        <ul>
          {leaving.map((move) => (
            <li key={move.guild_id}>
              {guild(move.guild_id, move.from)}{way(move)}<b class={move.frozen ? "warn" : ""}>{STEPS[move.step] ?? words(move.step)}</b>
              {sent(move)}<span>for {join(duration(move.age_ms / 1e3))}</span><small>{move.reason}</small>
            </li>
          ))}
          {ended.slice(0, ENDED_SHOWN).map((move) => (
            <li key={`${move.guild_id} ${move.ended_at_ms}`}>
              {guild(move.guild_id, move.fault === null ? move.to : move.from)}{way(move)}
              {move.fault === null ? <span>requests waited {join(duration(move.frozen_ms / 1e3))}</span> : <b class="warn">▲ not moved</b>}
              {move.fault === null ? sent(move) : <span />}<span>took {join(duration(move.total_ms / 1e3))}, <Ago at={move.ended_at_ms} /></span>
              <small>{move.reason}{move.fault !== null && `; it stayed: ${move.fault}`}</small>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
