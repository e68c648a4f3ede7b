/**
 * The benchmark itself, with a few events: the SDK, and eris as `conformance/set-up` installed it. PROGRAMS is the folder
 * of `guildhall` and `guildhall-bench`.
 */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const PROGRAMS = process.env.PROGRAMS ?? path.join(HERE, "../../target/debug");
const MODULES = path.join(HERE, "../../conformance/.cache/eris");
const lack = !existsSync(path.join(PROGRAMS, "guildhall-bench")) ? "no guildhall-bench" : !existsSync(path.join(MODULES, "node_modules")) ? "eris is not installed" : false;

test("the SDK and eris receive all events of a replay", { skip: process.env.CI ? false : lack, timeout: 120_000 }, () => {
  // A pause that a busy machine with a debug build keeps.
  const size = ["--pause-ms", "2500", "--rounds", "1", "--passes", "1", "--guilds", "20", "--messages", "60", "--no-profile", "--summary"];
  const modes = ["--only", "eris", "--encodings", "json", "--compressions", "zlib-stream", "--processing", "off"];
  const out = execFileSync(process.execPath, [path.join(HERE, "run.mjs"), "--programs", PROGRAMS, ...size, ...modes], { env: { ...process.env, CLIENT_MODULES: MODULES }, encoding: "utf8" });
  const { rows, versions } = JSON.parse(out.trim().split("\n").at(-1));
  assert.equal(rows.length, 2);
  assert.ok(versions.eris);
  for (const row of rows) {
    assert.deepEqual(row.failures, {});
    assert.ok(row.results.guildhall.cpu > 0 && row.results.eris.cpu > 0 && row.ratio > 0, JSON.stringify(row));
  }
});
