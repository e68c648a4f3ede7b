import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, test } from "node:test";
import * as zlib from "node:zlib";
import { chooseBackend, type Backend, type StreamDecompressor } from "../../src/codec/compression.js";
import { zlibNode, zstdNode } from "../../src/codec/nodeZlib.js";
import { zlibMessages, zstdMessages } from "../../src/codec/messages.js";
import { zlibSample, zstdSample } from "../../src/codec/samples.js";
import { zstdStreamOf } from "../../src/codec/streams.js";
import { zlibWasm, zstdWasm } from "../../src/codec/wasm.js";

/** A stream of zlib, one flushed piece per message. */
async function deflated(messages: readonly Uint8Array[]): Promise<Uint8Array[]> {
  const deflate = zlib.createDeflate();
  const pieces: Uint8Array[] = [];
  for (const message of messages) {
    const parts: Buffer[] = [];
    const collect = (part: Buffer): void => void parts.push(part);
    deflate.on("data", collect);
    deflate.write(message);
    await new Promise<void>((resolve) => deflate.flush(zlib.constants.Z_SYNC_FLUSH, () => resolve()));
    deflate.off("data", collect);
    pieces.push(new Uint8Array(Buffer.concat(parts)));
  }
  return pieces;
}

function messages(): Uint8Array[] {
  const sizes = [0, 1, 100, 65_535, 65_536, 65_537, 10, 300_000, 5_000_000, 7];
  let state = 1;
  return sizes.map((size) =>
    Uint8Array.from({ length: size }, (_, i) => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      // Half is random, so that compressed pieces are larger than the input buffer as well.
      return i % 2 ? state >>> 24 : i & 0xff;
    }),
  );
}

for (const backend of [zlibWasm, zlibNode]) {
  describe(backend.name, () => {
    test("messages of all sizes, each complete at its flush", async () => {
      const all = messages();
      const decompressor = (await backend.load())();
      for (const [index, piece] of (await deflated(all)).entries()) {
        assert.ok(Buffer.from(decompressor.push(piece)).equals(Buffer.from(all[index] as Uint8Array)), `message ${index}`);
      }
      decompressor.free();
    });

    test("many messages leave nothing behind", async () => {
      const warnings: Error[] = [];
      const collect = (warning: Error): void => void warnings.push(warning);
      process.on("warning", collect);
      const decompressor = (await backend.load())();
      for (const piece of await deflated(Array.from({ length: 50 }, (_, i) => Uint8Array.of(i)))) decompressor.push(piece);
      await new Promise((resolve) => setImmediate(resolve));
      process.off("warning", collect);
      assert.deepEqual(warnings, []);
    });

    test("bytes behind the end of the stream throw", async () => {
      const whole = zlib.deflateSync(Buffer.from("all of it"));
      const decompressor = (await backend.load())();
      assert.throws(() => decompressor.push(Buffer.concat([whole, Buffer.from("more")])));
    });

    test("a broken stream throws", async () => {
      const decompressor = (await backend.load())();
      assert.throws(() => decompressor.push(new Uint8Array([1, 2, 3, 4, 5, 6])));
    });
  });
}

describe("zstd in WebAssembly", () => {
  test("the sample", async () => {
    const decompressor = (await zstdWasm.load())();
    const sample = zstdSample();
    const got = sample.compressed.map((piece) => Buffer.from(decompressor.push(piece)).toString());
    assert.deepEqual(got, sample.messages);
  });

  test("a message larger than the output buffer, twice, in one stream", async () => {
    // One frame: 3,000,000 zeros as RLE blocks of 128 KiB, not the last one, each time.
    const block = (size: number): number[] => {
      const header = (size << 3) | (1 << 1);
      return [header & 0xff, (header >> 8) & 0xff, header >> 16, 0x61];
    };
    const body = [...Array.from({ length: 22 }, () => block(131_072)).flat(), ...block(1_000)];
    const decompressor = (await zstdWasm.load())();
    const head = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    for (const piece of [[...head, ...body], body]) {
      const got = decompressor.push(Uint8Array.from(piece));
      assert.equal(got.length, 22 * 131_072 + 1_000);
      assert.ok(got.every((byte) => byte === 0x61));
    }
  });

  test("a window that is too large, and garbage, throw", async () => {
    for (const bytes of [[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]]) {
      const decompressor = (await zstdWasm.load())();
      assert.throws(() => decompressor.push(Uint8Array.from(bytes)));
    }
  });
});

/** A stream of zstd, one frame of raw blocks of at most `blockBytes`: one piece per message. */
function rawZstd(messages: readonly Uint8Array[], blockBytes: number): Uint8Array[] {
  return messages.map((message, index) => {
    const parts: Uint8Array[] = index === 0 ? [Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58)] : [];
    for (let at = 0; at < message.length; at += blockBytes) {
      const block = message.subarray(at, at + blockBytes);
      parts.push(Uint8Array.of((block.length << 3) & 0xff, block.length >> 5, block.length >> 13), block);
    }
    return new Uint8Array(Buffer.concat(parts));
  });
}

describe("a message in two WebSocket messages", () => {
  const texts = ['{"t":"FIRST","s":1,"op":0,"d":[]}', `{"t":"LONG","s":2,"op":0,"d":["${"long ".repeat(40)}"]}`, '{"t":"LAST","s":3,"op":0,"d":null}'];
  const bytes = texts.map((text) => new TextEncoder().encode(text));
  const kinds = [
    ["zlib", () => deflated(bytes), async () => zlibMessages((await zlibWasm.load())())],
    ["zlib of Node", () => deflated(bytes), async () => zlibMessages((await zlibNode.load())())],
    ["zstd, a block per message", () => Promise.resolve(rawZstd(bytes, 1000)), async () => zstdMessages((await zstdWasm.load())(), "json")],
    ["zstd, many blocks per message", () => Promise.resolve(rawZstd(bytes, 16)), async () => zstdMessages((await zstdWasm.load())(), "json")],
    ["zstd, ETF", () => Promise.resolve(rawZstd(bytes, 1000)), async () => zstdMessages((await zstdWasm.load())(), "etf")],
  ] as const;
  const textOf = (message: Uint8Array | null): string | null => message && Buffer.from(message).toString();

  for (const [name, pieces, messages] of kinds) {
    test(`${name}: it is complete with its last byte, wherever it is split`, async () => {
      const all = await pieces();
      for (const [split, piece] of all.entries()) {
        for (let at = 1; at < piece.length; at += 1) {
          const decompressor = await messages();
          for (const [index, other] of all.entries()) {
            if (index === split) {
              assert.equal(textOf(decompressor.push(piece.subarray(0, at))), null, `message ${split}, split at ${at}`);
              assert.equal(textOf(decompressor.push(piece.subarray(at))), texts[index], `message ${split}, split at ${at}`);
            } else {
              assert.equal(textOf(decompressor.push(other)), texts[index]);
            }
          }
          decompressor.free();
        }
      }
    });

    test(`${name}: each byte may come alone`, async () => {
      const decompressor = await messages();
      const got: (string | null)[] = [];
      for (const piece of await pieces()) for (const byte of piece) got.push(textOf(decompressor.push(Uint8Array.of(byte))));
      assert.deepEqual(got.filter((text) => text !== null), texts);
    });
  }

  test("a frame with a checksum, a skippable frame and a second frame", async () => {
    const decompressor = zstdMessages((await zstdWasm.load())(), "json");
    const message = new TextEncoder().encode('{"op":11}');
    const last = Uint8Array.of((message.length << 3) | 1, 0, 0);
    const skippable = Uint8Array.of(0x53, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9);
    const frame = Buffer.concat([Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd, 0x20, message.length), last, message]);
    assert.equal(textOf(decompressor.push(Buffer.concat([frame, skippable.subarray(0, 9)]))), null);
    assert.equal(textOf(decompressor.push(skippable.subarray(9))), '{"op":11}');
    assert.equal(textOf(decompressor.push(frame)), '{"op":11}');
  });

  test("what never ends has a limit", async () => {
    const decompressor = zstdMessages((await zstdWasm.load())(), "json");
    // Blocks of 128 KiB of one byte that is no brace.
    const block = Uint8Array.of(0x02, 0x00, 0x10, 0x61);
    decompressor.push(Uint8Array.of(0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58));
    assert.throws(() => {
      for (let count = 0; count <= 512; count += 1) decompressor.push(block);
    }, /too large/);
  });
});

describe("the choice", () => {
  const fake = (name: string, push: StreamDecompressor["push"]): Backend => ({ name, load: () => Promise.resolve(() => ({ push, free() {} })) });

  test("a backend that is wrong is not taken", async () => {
    const wrong = fake("wrong", (data) => data);
    const create = await chooseBackend([wrong, zlibWasm], zlibSample());
    assert.equal(create().push(zlibSample().compressed[0] as Uint8Array).length, zlibSample().messages[0]?.length);
    await assert.rejects(chooseBackend([wrong], zlibSample()), /no decompressor works here \(wrong:/);
  });

  test("of Node's and ours one works, for zlib and zstd", async () => {
    for (const [backends, sample] of [[[zlibWasm, zlibNode], zlibSample()], [[zstdWasm, zstdNode], zstdSample()]] as const) {
      const decompressor = (await chooseBackend(backends, sample))();
      for (const [index, piece] of sample.compressed.entries()) {
        assert.equal(Buffer.from(decompressor.push(piece)).toString(), sample.messages[index]);
      }
    }
  });
});

test("node:zlib: the next message releases the memory of a large one", async () => {
  const decompressor = (await zlibNode.load())();
  const pieces = await deflated([Buffer.alloc(5_000_000), Buffer.from("small")]);
  assert.ok(decompressor.push(pieces[0] as Uint8Array).buffer.byteLength >= 5_000_000);
  assert.ok(decompressor.push(pieces[1] as Uint8Array).buffer.byteLength <= 65_536);
  decompressor.free();
});

test("the client lists dictionaries with its token and downloads the newest without", async () => {
  const bytes = new TextEncoder().encode("the bytes of a dictionary");
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const id = Buffer.from(digest.subarray(0, 16)).toString("hex");
  const asked: [string | undefined, string | undefined][] = [];
  const server = createServer((request, response) => {
    const { url, headers } = request;
    asked.push([url, headers.authorization]);
    const isInShare = headers.authorization === "Bot in";
    const listed = isInShare ? [{ id, encoding: "json", compression: "zstd-stream" }] : [];
    response.end(url === "/dictionaries" ? JSON.stringify(listed) : bytes);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const httpUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const stream = zstdStreamOf([zstdWasm], { dictionary: true });
  await assert.rejects(stream.prepare({ httpUrl, encoding: "json", token: "Bot out" }), /no dictionary for json and this account/);
  await stream.prepare({ httpUrl, encoding: "json", token: "Bot in" });
  server.close();
  assert.deepEqual(asked, [["/dictionaries", "Bot out"], ["/dictionaries", "Bot in"], [`/dictionaries/${id}`, undefined]]);
  assert.equal(stream.query["dict"], id);
});
