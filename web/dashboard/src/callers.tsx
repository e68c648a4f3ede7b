// Callers with the most requests to REST and the backend API: accounts, keys of backends, addresses.

import { signal } from "@preact/signals";
import { may } from "./api.ts";
import { duration, exact, join, number, percent, perSecond } from "./format.ts";
import { useReport } from "./report.ts";
import { Table, type Column } from "./table.tsx";
import type { Caller, CallersReport } from "./types.ts";
import { Fault } from "./ui.tsx";

const SHOWN_MAX = 10;
const EVERY_MS = 5_000;

interface Row { kind: "account" | "key" | "address"; caller: Caller; often: number; ofRequests: number; ofTime: number; each: number }

const nameOf = ({ caller }: Row): string => caller.name || caller.id;
const COLUMNS: Column<Row>[] = [
  { key: "name", label: "Caller", width: 264, value: nameOf, title: ({ kind, caller }) => `${kind} ${caller.id}` },
  { key: "kind", label: "Kind", width: 88, value: ({ kind }) => kind },
  { key: "often", label: "Requests/s", width: 112, isNumber: true, value: (row) => row.often, show: (row) => number(row.often), title: ({ caller }) => `${exact(caller.requests)} in the window${caller.requests_over > 0 ? `; up to ${exact(caller.requests_over)} of them are of others` : ""}` },
  { key: "ofRequests", label: "Of requests", width: 108, isNumber: true, value: (row) => row.ofRequests, show: (row) => join(percent(row.ofRequests)) },
  { key: "ofTime", label: "Of time", width: 88, isNumber: true, value: (row) => row.ofTime, show: (row) => join(percent(row.ofTime)), title: () => "Of the wall time until answers, waiting included" },
  { key: "each", label: "Each", width: 88, isNumber: true, value: (row) => row.each, show: (row) => join(duration(row.each)), title: () => "Mean wall time until the answer" },
];
const sort = signal({ key: "often", isDescending: true });

function rowsOf(report: CallersReport): Row[] {
  const lists = [["account", report.accounts], ["key", report.keys], ["address", report.addresses]] as const;
  return lists.flatMap(([kind, callers]) => callers.slice(0, SHOWN_MAX).map((caller) => ({
    kind, caller, often: caller.requests / Math.max(1, report.window_s), ofRequests: report.requests > 0 ? caller.requests / report.requests : NaN,
    ofTime: report.busy_ns > 0 ? caller.busy_ns / report.busy_ns : NaN, each: caller.requests > 0 ? caller.busy_ns / caller.requests / 1e9 : NaN,
  }))).sort((a, b) => b.caller.requests - a.caller.requests);
}

export function Callers() {
  return <section aria-label="Callers"><h2>Loudest callers</h2>{may("sessions") ? <List /> : <p class="says">A key with the scope <code>sessions</code> sees which account, key or address asks most.</p>}</section>;
}

function List() {
  const { value, fault, retry } = useReport<CallersReport>(`node/callers?limit=${SHOWN_MAX}`, () => EVERY_MS);
  if (!value) return fault ? <Fault fault={fault} retry={retry} /> : <p class="says">Counting…</p>;
  const rows = rowsOf(value);
  // An account or key is more useful than an address.
  const loudest = rows.find(({ kind }) => kind !== "address") ?? rows[0];
  if (!loudest) return <p class="says">Nobody asked the REST or the backend API in the last minute.</p>;
  return (
    <>
      <p class="says">The {loudest.kind} “{nameOf(loudest)}” asked most in the last minute: {join(perSecond(loudest.often))}, {join(percent(loudest.ofRequests))} of all requests and {join(percent(loudest.ofTime))} of their time. Each request counts for its account or key, and for its address.</p>
      <Table label="Loudest callers" rows={rows} columns={COLUMNS} id={({ kind, caller }) => `${kind} ${caller.id}`} sort={sort.value} onSort={(next) => { sort.value = next; }} empty="" height={320} />
    </>
  );
}
