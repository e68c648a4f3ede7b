/**
 * Messages of a compressed stream: a gateway may send one in several WebSocket messages, its end later.
 *
 * Owns    what of a message is decompressed, until the rest of it arrives.
 * Limits  `MESSAGE_BYTES_MAX` per message, then `push` throws. zstd does not mark the end of a flush: a message is complete
 *         with the end of a block, in JSON if that is a brace. A message that is split exactly between two of its blocks,
 *         in JSON behind a brace, is taken for two.
 */

import { MESSAGE_BYTES_MAX, type Decompressor, type StreamDecompressor } from "./compression.js";

/** Reads the compressed bytes of a stream, and finds the ends of messages. */
interface Boundaries {
  /** Whether a message may end with `data`. */
  push(data: Uint8Array): boolean;
}

const SYNC_FLUSH = 0x0000ffff;

/** zlib: a message ends with an empty stored block, whose last four bytes are fixed. */
class ZlibBoundaries implements Boundaries {
  #last = -1;

  push(data: Uint8Array): boolean {
    for (let at = Math.max(0, data.length - 4); at < data.length; at += 1) this.#last = (this.#last << 8) | (data[at] as number);
    return this.#last === SYNC_FLUSH;
  }
}

const FRAME_MAGIC = 0xfd2fb528;
const SKIPPABLE_MAGIC = 0x184d2a50;
const HEADER_BYTES = { magic: 4, skippable: 4, descriptor: 1, block: 3 } as const;
const DICTIONARY_ID_BYTES = [0, 1, 2, 4] as const;
const CONTENT_SIZE_BYTES = [0, 2, 4, 8] as const;

/** zstd: a message ends with a block. Spec: RFC 8878 §3.1. */
class ZstdBoundaries implements Boundaries {
  #next: keyof typeof HEADER_BYTES = "magic";
  /** The bytes of a header that arrived, as a little-endian number. */
  #header = 0;
  #headerBytes = 0;
  /** Bytes until the next header. */
  #skip = 0;
  #hasChecksum = false;

  push(data: Uint8Array): boolean {
    let at = 0;
    while (at < data.length) {
      if (this.#skip > 0) {
        const skipped = Math.min(this.#skip, data.length - at);
        this.#skip -= skipped;
        at += skipped;
        continue;
      }
      this.#header += (data[at] as number) * 2 ** (8 * this.#headerBytes);
      this.#headerBytes += 1;
      at += 1;
      if (this.#headerBytes < HEADER_BYTES[this.#next]) continue;
      this.#take(this.#header);
      this.#header = 0;
      this.#headerBytes = 0;
    }
    return this.#skip === 0 && this.#headerBytes === 0 && (this.#next === "block" || this.#next === "magic");
  }

  #take(header: number): void {
    if (this.#next === "magic") {
      const isSkippable = header - (header % 16) === SKIPPABLE_MAGIC;
      if (!isSkippable && header !== FRAME_MAGIC) throw new Error("the stream is broken");
      this.#next = isSkippable ? "skippable" : "descriptor";
    } else if (this.#next === "skippable") {
      this.#skip = header;
      this.#next = "magic";
    } else if (this.#next === "descriptor") {
      const isSingleSegment = (header & 0x20) !== 0;
      const sizeFlag = header >> 6;
      const contentSizeBytes = sizeFlag === 0 && isSingleSegment ? 1 : (CONTENT_SIZE_BYTES[sizeFlag] as number);
      this.#hasChecksum = (header & 0x04) !== 0;
      this.#skip = (isSingleSegment ? 0 : 1) + (DICTIONARY_ID_BYTES[header & 3] as number) + contentSizeBytes;
      this.#next = "block";
    } else {
      const isRepeatedByte = ((header >> 1) & 3) === 1;
      this.#skip = isRepeatedByte ? 1 : header >> 3;
      if ((header & 1) === 0) return;
      this.#skip += this.#hasChecksum ? 4 : 0;
      this.#next = "magic";
    }
  }
}

const BRACE = 0x7d;
const SPACE = 0x20;

function endsWithBrace(text: Uint8Array): boolean {
  let last = text.length - 1;
  while (last >= 0 && (text[last] as number) <= SPACE) last -= 1;
  return text[last] === BRACE;
}

class Messages implements Decompressor {
  #stream: StreamDecompressor;
  #boundaries: Boundaries;
  /** Whether a message may end with these bytes of it. */
  #isEnd: (last: Uint8Array) => boolean;
  #held: Uint8Array[] = [];
  #heldBytes = 0;

  constructor(stream: StreamDecompressor, boundaries: Boundaries, isEnd: (last: Uint8Array) => boolean) {
    this.#stream = stream;
    this.#boundaries = boundaries;
    this.#isEnd = isEnd;
  }

  push(data: Uint8Array): Uint8Array | null {
    const isBoundary = this.#boundaries.push(data);
    const bytes = this.#stream.push(data);
    const last = bytes.length > 0 ? bytes : this.#held.at(-1);
    const isComplete = isBoundary && last !== undefined && this.#isEnd(last);
    if (isComplete && this.#heldBytes === 0) return bytes;
    if (this.#heldBytes + bytes.length > MESSAGE_BYTES_MAX) throw new Error("the message is too large");
    if (bytes.length > 0) this.#held.push(Uint8Array.from(bytes));
    this.#heldBytes += bytes.length;
    return isComplete ? this.#take() : null;
  }

  free(): void {
    this.#stream.free();
  }

  #take(): Uint8Array {
    const whole = new Uint8Array(this.#heldBytes);
    let at = 0;
    for (const part of this.#held) {
      whole.set(part, at);
      at += part.length;
    }
    this.#held = [];
    this.#heldBytes = 0;
    return whole;
  }
}

/** The messages of a zlib stream. */
export function zlibMessages(stream: StreamDecompressor): Decompressor {
  return new Messages(stream, new ZlibBoundaries(), () => true);
}

/** The messages of a zstd stream in this encoding. */
export function zstdMessages(stream: StreamDecompressor, encoding: "json" | "etf"): Decompressor {
  return new Messages(stream, new ZstdBoundaries(), encoding === "json" ? endsWithBrace : () => true);
}
