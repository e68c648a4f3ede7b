// Support: pages of the dashboard in Chromium that remember what the console says, and axe.

import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

export const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
/** How long a state may take: the machine may be busy. */
export const PATIENCE_MS = Number(process.env.PATIENCE_MS ?? 30_000);

let browser;
export async function openBrowser() {
  browser ??= await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  return browser;
}
export async function closeBrowser() { await browser?.close(); browser = undefined; }

/** A page of the dashboard; logged in unless `key` is null. What the console says is kept in `page.complaints`. */
export async function visit(node, { path = "overview", key, ...options } = {}) {
  const context = await (await openBrowser()).newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.complaints = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) page.complaints.push(message.text()); });
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  await page.goto(`${node.origin}/dashboard/#/${path}`);
  await page.getByLabel("Admin key").waitFor();
  // The first request says that nobody is logged in.
  page.complaints = page.complaints.filter((text) => !text.includes("401"));
  if (key !== null) {
    await page.getByLabel("Admin key").fill(key);
    await page.keyboard.press("Enter");
    await page.locator("main > header h1").waitFor();
  }
  return page;
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Violations by axe, each with the elements that it means. */
export async function violations(page) {
  // The page permits no foreign script: the test's is put in through the debugger.
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return found.violations.map((violation) => `${violation.id}: ${violation.nodes.slice(0, 3).map((each) => `${each.target} ${each.any[0]?.message ?? ""}`).join("; ")}`);
}

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
