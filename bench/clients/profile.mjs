/** Where the time of a client goes: shares of a V8 CPU profile, made by measure.mjs. */

import { readFileSync } from "node:fs";

const NODE = /^node:/;

function kind({ functionName: name, url }) {
  if (name === "(garbage collector)") return "garbage";
  if (name === "(idle)" || name === "(root)") return null;
  if (name === "(program)") return "V8 and the kernel";
  if (name === "jsonParse") return "JSON.parse";
  if (name === "unpack" && url === "") return "erlpack";
  if (/utf8|Utf8|decode$|toString|latin1/.test(name) && (url === "" || NODE.test(url))) return "UTF-8 to text";
  if (/zlib|inflate|zstd/i.test(url) || ["writeSync", "push"].includes(name) && url === "" || /^wasm:/.test(url)) return "decompression";
  if (NODE.test(url) || url === "") return "Node's streams and sockets";
  return "the library's own code";
}

/** Kinds of time with their share of it, percent, the largest first. */
export function shares(file) {
  const { nodes, samples, timeDeltas } = JSON.parse(readFileSync(file, "utf8"));
  const kinds = new Map(nodes.map(({ id, callFrame }) => [id, kind(callFrame)]));
  const sums = new Map();
  let total = 0;
  samples.forEach((id, at) => {
    const name = kinds.get(id);
    if (name === null) return;
    total += timeDeltas[at];
    sums.set(name, (sums.get(name) ?? 0) + timeDeltas[at]);
  });
  return [...sums].map(([name, sum]) => [name, Math.round((100 * sum) / total)]).filter(([, share]) => share > 0).sort((a, b) => b[1] - a[1]);
}
