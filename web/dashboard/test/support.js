// Support: pages of the dashboard, logged in or not.

import { browserFor } from "../../test-page.mjs";

export { overflow, until } from "../../test-page.mjs";

const { openBrowser, newPage, closeBrowser, violations } = browserFor(import.meta.url, { viewport: { width: 1440, height: 900 } });
export { closeBrowser, openBrowser, violations };

/** A page of the dashboard; logged in unless `key` is null. What the console says is kept in `page.complaints`. */
export async function visit(node, { path = "overview", key, ...options } = {}) {
  const page = await newPage(options);
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
