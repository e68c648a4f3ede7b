// The meter's compressors are zstd and zlib: independent decoders read their output.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { inflateRawSync, constants } from "node:zlib";
import { sdk } from "./sdk.js";

const { zlibWasm, zstdWasm } = await sdk("codec/wasm.ts");
const module = new WebAssembly.Module(readFileSync(new URL("../src/compressors.wasm", import.meta.url)));

function start() {
  const exports = new WebAssembly.Instance(module).exports;
  assert.equal(exports.start(), 0);
  /** All bytes that `name` makes of a message that fits into the input. */
  return (name, text) => {
    const raw = Buffer.from(text);
    new Uint8Array(exports.memory.buffer, exports.input(), raw.length).set(raw);
    const length = exports[name](raw.length, 1);
    assert.ok(length > 0 && length < 128 * 1024, `${name}: ${length}`);
    return Buffer.from(exports.memory.buffer.slice(exports.output(), exports.output() + length));
  };
}

const messages = Array.from({ length: 400 }, (_, i) => {
  const words = Array.from({ length: i % 50 === 0 ? 4_000 : (i * 7) % 40 }, (_, k) => `word${(i * 7 + k * k) % 97}`).join(" ");
  return JSON.stringify({ t: "MESSAGE_CREATE", s: i, op: 0, d: { id: `13027${String((i * 7919) % 100000).padStart(5, "0")}21793259`, content: words } });
});

for (const [name, decoder] of [["zstd_push", zstdWasm], ["zlib_push", zlibWasm]]) {
  test(`${name}: each message is complete at its flush, and the history is used`, async () => {
    const compress = start();
    const decompressor = (await decoder.load())();
    let sum = 0;
    for (const text of messages) {
      const bytes = compress(name, text);
      sum += bytes.length;
      assert.equal(Buffer.from(decompressor.push(bytes)).toString(), text);
    }
    const alone = messages.reduce((total, text) => total + start()(name, text).length, 0);
    const raw = messages.reduce((total, text) => total + Buffer.byteLength(text), 0);
    console.log(`# ${name}: ${raw} bytes raw, ${sum} in one stream, ${alone} each alone`);
    assert.ok(sum < alone * 0.6 && sum < raw / 8, `${sum} of ${raw}, alone ${alone}`);
  });
}

test("alone_push forgets the message before", () => {
  const compress = start();
  const [first, again] = [compress("alone_push", messages[3]), compress("alone_push", messages[3])];
  assert.deepEqual(first, again);
  assert.equal(inflateRawSync(first, { finishFlush: constants.Z_SYNC_FLUSH }).toString(), messages[3]);
});
