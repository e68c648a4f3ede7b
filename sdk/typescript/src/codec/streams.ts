/** The stream compressions of the gateway. Spec: docs/protocol/reference.md §2.3, docs/adr/18. */

import type { Compression } from "./codec.js";
import { chooseBackend, type Backend } from "./compression.js";
import { textOf } from "./encoding.js";
import { zlibMessages, zstdMessages } from "./messages.js";
import { zlibSample, zstdSample } from "./samples.js";

const FETCH_TIMEOUT_MS = 20_000;
const DICTIONARY_BYTES_MAX = 4 * 1024 * 1024;
const LIST_BYTES_MAX = 256 * 1024;

/** An entry of `GET /dictionaries`. */
interface Listed {
  readonly id: string;
  readonly encoding: string;
  readonly compression: string;
}

export interface ZstdOptions {
  /** Id of a dictionary that the node serves, or `true` for the newest one of the encoding for this account. */
  readonly dictionary?: string | true;
}

export function zlibStreamOf(backends: readonly Backend[]): Compression {
  return {
    name: "zlib-stream",
    query: { compress: "zlib-stream" },
    async prepare() {
      const create = await chooseBackend(backends, zlibSample());
      return () => zlibMessages(create());
    },
  };
}

export function zstdStreamOf(backends: readonly Backend[], { dictionary }: ZstdOptions): Compression {
  const query: { [key: string]: string } = { compress: "zstd-stream" };
  return {
    name: dictionary === undefined ? "zstd-stream" : "zstd-stream with dictionary",
    query,
    async prepare({ httpUrl, encoding, token }) {
      const create = await chooseBackend(backends, zstdSample());
      if (dictionary === undefined) return () => zstdMessages(create(), encoding);
      const id = dictionary === true ? await newestDictionary(httpUrl, encoding, token) : dictionary;
      const bytes = await fetchDictionary(httpUrl, id);
      query["dict"] = id;
      return () => zstdMessages(create(bytes), encoding);
    },
  };
}

/** The body of `url`, of at most `max` bytes: reading ends there. */
async function read(url: string, max: number, token?: string): Promise<Uint8Array> {
  const headers: Record<string, string> = token ? { authorization: token } : {};
  const response = await fetch(url, { headers, signal: AbortSignal.timeout(FETCH_TIMEOUT_MS) });
  if (!response.ok) throw new Error(`${url} answered HTTP ${response.status}`);
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const parts: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > max) {
      await reader.cancel();
      throw new Error(`the answer of ${url} is too large: more than ${max} bytes`);
    }
    parts.push(value);
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

async function newestDictionary(httpUrl: string, encoding: string, token: string | undefined): Promise<string> {
  const listed = JSON.parse(textOf(await read(`${httpUrl}/dictionaries`, LIST_BYTES_MAX, token))) as Listed[];
  const found = listed.find((of) => of.encoding === encoding && of.compression === "zstd-stream");
  if (!found) throw new Error(`the node has no dictionary for ${encoding} and this account`);
  return found.id;
}

/** The dictionary with this id, checked: the id is the first half of its SHA-256. */
async function fetchDictionary(httpUrl: string, id: string): Promise<Uint8Array> {
  const bytes = (await read(`${httpUrl}/dictionaries/${encodeURIComponent(id)}`, DICTIONARY_BYTES_MAX)) as Uint8Array<ArrayBuffer>;
  // Browsers have no digests outside of secure contexts; there zstd still checks the number inside.
  const subtle = (globalThis as { crypto?: { subtle?: SubtleCrypto } }).crypto?.subtle;
  if (subtle) {
    const digest = new Uint8Array(await subtle.digest("SHA-256", bytes));
    const hex = Array.from(digest.subarray(0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("");
    if (hex !== id) throw new Error(`the dictionary ${id} has other bytes than its id says`);
  }
  return bytes;
}
