/** Sizes of the bundles that a web page loads. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const KIB = 1024;

/** Size of `contents`, bundled with the built package, minified and compressed. */
async function gzipped(contents: string): Promise<number> {
  const resolveDir = new URL("../../../dist/", import.meta.url).pathname;
  const { outputFiles } = await build({
    stdin: { contents, resolveDir }, bundle: true, minify: true, format: "esm", platform: "browser", target: "es2022", write: false, logLevel: "silent",
  });
  return gzipSync(outputFiles[0]?.contents ?? "", { level: 9 }).length;
}

test("the client without codecs and tables has at most 12 KiB", async () => {
  const bytes = await gzipped('export { Client, json, none } from "./index.js";');
  assert.ok(bytes <= 12 * KIB, `${bytes} bytes`);
});

test("the client with all codecs and WebAssembly has at most 60 KiB", async () => {
  const bytes = await gzipped('export * from "./index.js"; export * from "./codecs.js";');
  assert.ok(bytes <= 60 * KIB, `${bytes} bytes`);
});
