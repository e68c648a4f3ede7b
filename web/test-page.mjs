// Support of the tests of web/: pages in Chromium that record the console, axe, waiting with patience, and the node to test.

import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
/** The node to test. */
export const SERVER = process.env.GUILDHALL ?? ["release", "debug"].map((profile) => join(process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL("../target", import.meta.url)), profile, "guildhall")).find(existsSync);
/** How long a state may take: the machine may be busy. */
export const PATIENCE_MS = Number(process.env.PATIENCE_MS ?? 30_000);

/** Longer than the tests of a file take: one that waits for ever ends here. */
const TEST_MS_MAX = 600_000;

/** One browser for all pages of a test file. `from` is the importer's URL: its packages are used. `prepare` gets each new context. */
export function browserFor(from, { arguments: more = [], viewport, prepare = () => {} }) {
  const require = createRequire(from);
  let browser, axe;
  const openBrowser = async () => (browser ??= await require("playwright-core").chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", ...more] }));
  return {
    openBrowser,

    /** A page in a context of its own. What the console says is kept in `page.complaints`. */
    async newPage(options = {}) {
      const context = await (await openBrowser()).newContext({ viewport, reducedMotion: "reduce", ...options });
      await prepare(context);
      const page = await context.newPage();
      page.setDefaultTimeout(PATIENCE_MS);
      page.complaints = [];
      page.on("console", (message) => { if (["error", "warning"].includes(message.type())) page.complaints.push(message.text()); });
      page.on("pageerror", (error) => page.complaints.push(String(error)));
      return page;
    },

    async closeBrowser() {
      await browser?.close();
      browser = undefined;
    },

    /** Violations by axe, each with the elements that it means. */
    async violations(page) {
      // The page permits no foreign script: the test's is put in through the debugger.
      await page.evaluate((axe ??= readFileSync(require.resolve("axe-core/axe.min.js"), "utf8")));
      const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
      return found.violations.map((violation) => `${violation.id}: ${violation.nodes.slice(0, 3).map((each) => `${each.target} ${each.any[0]?.message ?? ""}`).join("; ")}`);
    },
  };
}

/** A port of the loopback interface that was free a moment ago. */
export async function freePort() {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address();
  probe.close();
  await once(probe, "close");
  return port;
}

/** By how many pixels the page is wider than the screen. */
export const overflow = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

/** Waits until `check` returns something true. */
export async function until(what, check) {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    const result = await check();
    if (result) return result;
    if (Date.now() > deadline) throw new Error(`waited in vain for ${what}`);
    await new Promise((resume) => setTimeout(resume, 50));
  }
}

/** Runs the tests of the importer's folder against the binary `server`, or says what is missing. */
export function runTests(from, name, server) {
  const folder = fileURLToPath(new URL(".", from));
  if (!CHROMIUM) return console.log(`${name}: Chromium is missing (apt-get install chromium): the page is not tested`);
  if (!server) {
    console.log(`${name}: there is no guildhall to test: cargo build -p guildhall, or set GUILDHALL`);
    process.exitCode = 1;
    return;
  }
  const tests = readdirSync(folder).filter((file) => file.endsWith(".test.js")).map((file) => folder + file);
  const { status } = spawnSync(process.execPath, ["--test", `--test-timeout=${TEST_MS_MAX}`, "--test-concurrency=1", "--test-reporter=spec", ...tests], { stdio: "inherit" });
  process.exitCode = status ?? 1;
}
