/** Decompressors of a connection's messages. */

/**
 * Decompresses the messages of one connection, in order. `push` returns the bytes of the message; they are valid until
 * the next call. It returns null until the message is complete: its end may come in a later WebSocket message. It throws
 * if the data is malformed or the message larger than `MESSAGE_BYTES_MAX`.
 */
export interface Decompressor {
  push(data: Uint8Array): Uint8Array | null;
  /** Releases what it holds. */
  free(): void;
}

/** Decompresses a stream: `push` returns all that is decompressed so far, wherever messages end (`messages.ts`). */
export interface StreamDecompressor extends Decompressor {
  push(data: Uint8Array): Uint8Array;
}

/** Above anything that a gateway sends: READY for hundreds of guilds has some tens of megabytes. */
export const MESSAGE_BYTES_MAX = 64 * 1024 * 1024;
/** Base-2 logarithm of the largest window of zstd, as RFC 8878 advises. */
export const ZSTD_WINDOW_LOG_MAX = 23;

/** One way to decompress, in one runtime. */
export interface Backend {
  readonly name: string;
  /** Loads what it needs; rejects if the runtime cannot do it. */
  load(): Promise<(dictionary?: Uint8Array) => StreamDecompressor>;
}

/**
 * The fastest backend that decompresses `sample` correctly: messages of one stream, each complete at its flush. Backends
 * in their order; a later one has to be faster by a tenth. Rejects if none works.
 */
export async function chooseBackend(backends: readonly Backend[], sample: Sample): Promise<(dictionary?: Uint8Array) => StreamDecompressor> {
  let best: { create: (dictionary?: Uint8Array) => StreamDecompressor; ms: number } | null = null;
  const reasons: string[] = [];
  for (const backend of backends) {
    try {
      const create = await backend.load();
      const ms = test(create, sample);
      if (!best || ms < best.ms * 0.9) best = { create, ms };
    } catch (error) {
      reasons.push(`${backend.name}: ${String(error)}`);
    }
  }
  if (!best) throw new Error(`no decompressor works here (${reasons.join("; ")})`);
  return best.create;
}

/** A short stream and its messages, for the self-test. */
export interface Sample {
  readonly compressed: readonly Uint8Array[];
  readonly messages: readonly string[];
}

const ROUNDS = 8;

/** Time of the fastest of a few rounds, without the comparison. */
function test(create: () => StreamDecompressor, sample: Sample): number {
  let best = Infinity;
  for (let round = 0; round < ROUNDS; round += 1) {
    const decompressor = create();
    let ms = 0;
    sample.compressed.forEach((data, index) => {
      const started = performance.now();
      const bytes = decompressor.push(data);
      ms += performance.now() - started;
      const expected = sample.messages[index] as string;
      if (bytes.length !== expected.length || String.fromCharCode(...bytes) !== expected) throw new Error("the self-test failed");
    });
    best = Math.min(best, ms);
    decompressor.free();
  }
  return best;
}
