/** What a hostile or broken gateway can make a decoder do: every decoder has to end with an error in bounded memory. */
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, test } from "node:test";
import * as zlib from "node:zlib";
import { MESSAGE_BYTES_MAX, type Backend } from "../../src/codec/compression.js";
import { etf } from "../../src/codec/etf.js";
import { json } from "../../src/codec/encoding.js";
import { zlibNode, zstdNode } from "../../src/codec/nodeZlib.js";
import { zstdStreamOf } from "../../src/codec/streams.js";
import { zlibWasm, zstdWasm } from "../../src/codec/wasm.js";

const MIB = 1024 * 1024;
const hasNodeZstd = "createZstdDecompress" in zlib;

/** Zeros, as a zlib stream that does not end. */
function zlibBomb(size: number): Uint8Array {
  return zlib.deflateSync(new Uint8Array(size), { finishFlush: zlib.constants.Z_SYNC_FLUSH });
}

/** A zstd frame header without a content size; `exponent` sets a window of 2^(10 + exponent) bytes. */
const frameHead = (exponent: number): number[] => [0x28, 0xb5, 0x2f, 0xfd, 0x00, exponent << 3];

/** Repeated bytes, as a zstd frame of run-length blocks that does not end: 4 bytes for 128 KiB. */
function zstdBomb(size: number): Uint8Array {
  const block = [(131_072 << 3) & 0xff | 2, (131_072 << 3) >> 8 & 0xff, (131_072 << 3) >> 16, 0x61];
  return Uint8Array.from([...frameHead(11), ...Array.from({ length: Math.ceil(size / 131_072) }, () => block).flat()]);
}

const DECODERS: [backend: Backend, bomb: (size: number) => Uint8Array, isThere: boolean][] = [
  [zlibWasm, zlibBomb, true],
  [zlibNode, zlibBomb, true],
  [zstdWasm, zstdBomb, true],
  [zstdNode, zstdBomb, hasNodeZstd],
];

for (const [backend, bomb, isThere] of DECODERS) {
  const name = backend === zstdNode ? "zstd of node:zlib" : backend.name;
  describe(`a bomb for ${name}`, { skip: isThere ? false : "this Node has no zstd" }, () => {
    test("a message above the limit throws", async () => {
      const data = bomb(MESSAGE_BYTES_MAX + MIB);
      assert.ok(data.length < MESSAGE_BYTES_MAX / 500, `${data.length} bytes are no bomb`);
      const decompressor = (await backend.load())();
      assert.throws(() => decompressor.push(data));
      decompressor.free();
    });

    test("a message below the limit does not", async () => {
      const decompressor = (await backend.load())();
      // Blocks of 128 KiB: the last one is whole as well.
      assert.equal(decompressor.push(bomb(8 * MIB)).length, 8 * MIB);
      decompressor.free();
    });

    test("the stream cannot be used after the error", async () => {
      const decompressor = (await backend.load())();
      assert.throws(() => decompressor.push(bomb(MESSAGE_BYTES_MAX + MIB)));
      for (let i = 0; i < 3; i += 1) {
        try {
          // Whatever follows is garbage to it: at most an empty message, never an old one.
          assert.equal(decompressor.push(Uint8Array.of(0xff, 0xff, 0xff, 0xff)).length, 0);
        } catch (error) {
          assert.ok(error instanceof Error);
        }
      }
      decompressor.free();
    });
  });
}

for (const [backend, isThere] of [[zstdWasm, true], [zstdNode, hasNodeZstd]] as const) {
  const name = backend === zstdNode ? "zstd of node:zlib" : backend.name;
  test(`${name}: a window of more than 8 MiB is refused`, { skip: isThere ? false : "this Node has no zstd" }, async () => {
    const last = [0x09, 0, 0, 0x61];
    assert.equal((await backend.load())().push(Uint8Array.from([...frameHead(13), ...last])).length, 1);
    for (const exponent of [14, 17, 21, 31]) {
      await assert.rejects(backend.load().then((create) => create().push(Uint8Array.from([...frameHead(exponent), ...last]))), `2^${exponent + 10}`);
    }
  });
}

test("zstd in WebAssembly: frames whose windows grow and shrink do not pile up buffers", async () => {
  // zstd gives a buffer of 8 MiB back after 128 frames that need less. Each round is 1.3 kB on the wire.
  const frame = (exponent: number): number[] => [...frameHead(exponent), 0x09, 0, 0, 0x61];
  const round = Uint8Array.from([frame(13), ...Array.from({ length: 140 }, () => frame(0))].flat());
  const decompressor = (await zstdWasm.load())();
  for (let i = 0; i < 100; i += 1) assert.equal(decompressor.push(round).length, 141);
});

describe("encodings", () => {
  const bytes = (hex: string, repeat: string, times: number): Uint8Array => Uint8Array.from(Buffer.from(hex + repeat.repeat(times), "hex"));

  test("ETF that is nested too deeply throws an error of its own", () => {
    const list = "6c00000001", map = "7400000001640001ff", tuple = "6801", wide = "6900000001";
    for (const level of [list, map, tuple, wide]) assert.throws(() => etf.decode(bytes("83", level, 100_000)), /nested too deeply/, level);
    // Keys can nest as well.
    assert.throws(() => etf.decode(bytes("83", "7400000001", 100_000)), /nested too deeply/);
  });

  test("ETF of the greatest depth that is permitted is read", () => {
    const depth = 250;
    const nested = bytes("83 7400000002 6400026f70 6100 64000164".replaceAll(" ", ""), "6c00000001", depth);
    let { d } = etf.decode(Uint8Array.from([...nested, 0x6a, ...Array.from({ length: depth }, () => 0x6a)]));
    for (let i = 0; i < depth; i += 1) d = (d as unknown[])[0];
    assert.deepEqual(d, []);
  });

  test("ETF with lengths that nothing follows throws before anything is allocated", () => {
    const before = process.memoryUsage().heapUsed;
    for (const head of ["836cffffffff", "8374ffffffff", "836dffffffff", "8369ffffffff", "836fffffffff00", "836bffff", "8364ffff"]) {
      for (let i = 0; i < 1_000; i += 1) assert.throws(() => etf.decode(bytes(head, "", 0)), /cut off|64 bits/, head);
    }
    assert.ok(process.memoryUsage().heapUsed - before < 256 * MIB);
  });

  test("compressed terms are refused: they would be a second decompressor", () => {
    const packed = zlib.deflateSync(new Uint8Array(1_000));
    assert.throws(() => etf.decode(Uint8Array.from([0x83, 0x50, 0, 0, 3, 0xe8, ...packed])), /tag 80 is not known/);
  });

  test("JSON that is nested deeply is read or refused; it does not exhaust the stack", () => {
    for (const [open, close] of [["[", "]"], ['{"a":', "}"]] as const) {
      const text = `{"op":0,"d":${open.repeat(1_000_000)}${open === "[" ? "" : "1"}${close.repeat(1_000_000)}}`;
      try {
        assert.equal(json.decode(text).op, 0);
      } catch (error) {
        assert.ok(error instanceof SyntaxError || error instanceof RangeError, String(error));
      }
    }
  });
});

describe("dictionaries", () => {
  test("a dictionary without an end is given up at the limit", async () => {
    let sent = 0;
    let isCut = false;
    const server = createServer((request, response) => {
      if (request.url === "/dictionaries") return void response.end(JSON.stringify([{ id: "ab", encoding: "json", compression: "zstd-stream" }]));
      const chunk = Buffer.alloc(64 * 1024);
      const more = (): void => {
        // Four times the limit, so that a test of a reader without one ends as well.
        while (!isCut && sent < 16 * MIB) { sent += chunk.length; if (!response.write(chunk)) return void response.once("drain", more); }
        response.end();
      };
      response.on("close", () => (isCut = true));
      more();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const httpUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    try {
      await assert.rejects(zstdStreamOf([zstdWasm], { dictionary: true }).prepare({ httpUrl, encoding: "json" }), /too large/);
      assert.ok(sent < 16 * MIB, `the node sent ${sent} bytes`);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });

  test("a list of dictionaries without an end is given up as well", async () => {
    const server = createServer((_, response) => void response.end(`[${'{"id":"","encoding":"etf","compression":""},'.repeat(100_000)}{}]`));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const httpUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    try {
      await assert.rejects(zstdStreamOf([zstdWasm], { dictionary: true }).prepare({ httpUrl, encoding: "json" }), /too large/);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });
});
