// Runs the tests in Chromium, or says that it is missing.

import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { SERVER } from "./node.js";
import { CHROMIUM } from "./support.js";

const folder = fileURLToPath(new URL(".", import.meta.url));
if (!CHROMIUM) {
  console.log("dashboard: Chromium is missing (apt-get install chromium): the pages are not tested");
} else if (!SERVER) {
  console.log("dashboard: there is no guildhall to test: cargo build -p guildhall, or set GUILDHALL");
  process.exitCode = 1;
} else {
  const tests = readdirSync(folder).filter((name) => name.endsWith(".test.js")).map((name) => folder + name);
  const { status } = spawnSync(process.execPath, ["--test", "--test-concurrency=1", "--test-reporter=spec", ...tests], { stdio: "inherit" });
  process.exitCode = status ?? 1;
}
