// Support: pages of the dashboard, logged in or not.

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { browserFor, until } from "../../test-page.mjs";
import { guildId } from "./stub.js";

export { overflow, until } from "../../test-page.mjs";

const { openBrowser, newPage, closeBrowser, violations } = browserFor(import.meta.url, { viewport: { width: 1440, height: 900 } });
export { closeBrowser, openBrowser, violations };

const DIST = fileURLToPath(new URL("../dist/", import.meta.url));
/** With PAGE=dist the files of a page come from dist/, in case the binary was built before them; policy and headers are the node's. */
async function fromDist(route) {
  const name = new URL(route.request().url()).pathname.slice("/dashboard/".length) || "index.html";
  const path = DIST + name;
  if (!existsSync(path)) return route.continue();
  const { headers } = await fetch(route.request().url().replace(/assets.*/, ""));
  const type = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css" }[name.split(".").at(-1)];
  return route.fulfill({ path, headers: { "content-security-policy": headers.get("content-security-policy") ?? "", "content-type": type } });
}

/** Pages against the stub. */
export const PAGES = ["overview", "bandwidth", "guilds", `guilds/${guildId(0)}`, "sessions", "compression", "lab", "experiments", "experiments/zstd-3", "operations"];

/** Shows a page of the dashboard in one that is logged in, and waits for its figures. */
export async function show(page, path) {
  await page.evaluate((to) => { location.hash = `#/${to}`; }, path);
  await page.locator(".answer, .findings").first().waitFor();
  await until(`${path} to load`, async () => (await page.locator(".skeleton").count()) === 0);
}

/** Shows a page by the navigation. */
export async function go(page, name) {
  await page.getByRole("navigation").getByRole("link", { name }).click();
  await page.locator("main > header h1", { hasText: name }).waitFor();
}

/** The cookie of the first log-in at a node. */
const logins = new WeakMap();

/** A page of the dashboard; logged in unless `key` is null. What the console says is kept in `page.complaints`. */
export async function visit(node, { path = "overview", key, ...options } = {}) {
  const login = key === null ? undefined : logins.get(node);
  const page = await newPage({ storageState: login, ...options });
  if (process.env.PAGE === "dist") await page.route(/\/dashboard\/(assets\/.*)?$/, fromDist);
  await page.goto(`${node.origin}/dashboard/#/${path}`);
  if (login) {
    await page.locator("main > header h1").waitFor();
    return page;
  }
  await page.getByLabel("Admin key").waitFor();
  // The first request gets 401: there is no login yet.
  page.complaints = page.complaints.filter((text) => !text.includes("401"));
  if (key !== null) {
    await page.getByLabel("Admin key").fill(key);
    await page.keyboard.press("Enter");
    await page.locator("main > header h1").waitFor();
    logins.set(node, await page.context().storageState());
  }
  return page;
}
