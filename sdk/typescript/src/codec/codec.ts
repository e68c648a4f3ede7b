/** Codecs of a connection: one encoding, and compressions in the order of preference. */

import type { Decompressor } from "./compression.js";

/** What a compression may need to prepare itself. */
export interface PrepareContext {
  /** Base URL of the node's HTTP, without a path. */
  readonly httpUrl: string;
  readonly encoding: "json" | "etf";
  /** The client's token: a node may serve a dictionary to a share of the accounts. */
  readonly token?: string;
}

/** A compression of the gateway's messages. */
export interface Compression {
  /** Shown in events and statistics. */
  readonly name: string;
  /** Added to the query of the gateway's URL. */
  readonly query: { readonly [key: string]: string };
  /** Loads what it needs, and returns a factory of decompressors; rejects if the runtime cannot do it. */
  prepare(context: PrepareContext): Promise<() => Decompressor>;
}

/** No compression by the stream. Browsers negotiate permessage-deflate by themselves. */
export const none: Compression & { readonly name: "none" } = {
  name: "none",
  query: {},
  prepare: () => Promise.resolve(() => ({ push: (data) => data, free() {} })),
};
