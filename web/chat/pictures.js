// Takes the pictures of docs/ again, from a demo of its own that has talked for a while.
//
//   GUILDHALL=…/guildhall node pictures.js [FOLDER] [NAME…]     default: docs/pictures, all
//
// Pictures of the meter are taken after some four minutes of messages.

import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { closeBrowser, Node, until, visit } from "./test/support.js";

const [folder = fileURLToPath(new URL("../../docs/pictures", import.meta.url)), ...only] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const desktop = { viewport: { width: 1440, height: 900 } };
const phone = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };
const node = await Node.start({ members: 300, rate: 2, settings: ["limits.rest_rate_percent=0", "limits.passive_update_interval_ms=5000"] });

const tab = (page, name) => page.getByRole("navigation", { name: "Views" }).getByRole("button", { name }).tap();

const PICTURES = {
  chat: { ...desktop },
  meter: { ...desktop, prepare: (page) => page.locator(".meter-strip").click() },
  phone: { ...phone },
  "phone-channels": { ...phone, prepare: (page) => tab(page, "Channels") },
  "phone-meter": { ...phone, prepare: (page) => tab(page, "Meter") },
};

for (const colorScheme of ["light", "dark"]) {
  const taken = Object.entries(PICTURES).filter(([name]) => only.length === 0 || only.includes(`${name}-${colorScheme}`));
  const pages = await Promise.all(taken.map(async ([name, { prepare, ...options }]) => {
    const page = await visit(node, { colorScheme, ...options });
    // The page after some minutes: several codecs tried, and news from the guild that is not on the screen.
    if (name.includes("meter")) {
      await page.waitForTimeout(1000);
      for (const codec of ["zlib-stream", "zstd-stream"]) {
        if (!name.includes("phone")) { if (codec === "zlib-stream") await prepare(page); } else if (codec === "zlib-stream") await prepare(page);
        await page.waitForTimeout(15_000);
        await page.getByRole("button", { name: codec, exact: true }).click();
        await page.locator(".log li", { hasText: `Resumed by ${codec}` }).first().waitFor();
      }
    } else await prepare?.(page);
    return [name, page];
  }));
  await pages[0]?.[1].waitForTimeout(taken.some(([name]) => name.includes("meter")) ? 210_000 : 45_000);
  for (const [name, page] of pages) {
    if (name === "chat" || name === "meter" || name === "phone-channels") await page.locator(".rail-item .pip").first().waitFor().catch(() => console.log(`${name}: no mark`));
    await until("no skeletons", async () => (await page.locator(".skeleton:visible").count()) === 0);
    // No row is under the pointer.
    await page.mouse.move(0, 0);
    await page.screenshot({ path: `${folder}/${name}-${colorScheme}.png` });
    console.log(`${name}-${colorScheme}`);
    await page.context().close();
  }
}
await closeBrowser();
await node.stop();
