// Takes the pictures of docs/dashboard.md again, from a demo of its own under the load of some clients.
//
//   GUILDHALL=…/guildhall node pictures.js [FOLDER [SECONDS [NAME,…]]]     default: docs/pictures, after 60 seconds, all

import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Node } from "./test/node.js";
import { closeBrowser, until, visit } from "./test/support.js";

const [folder = fileURLToPath(new URL("../../docs/pictures", import.meta.url)), seconds = "60", names = ""] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const isWanted = (name) => names === "" || names.split(",").includes(name);
const CLIENTS = Number(process.env.CLIENTS ?? 8);
const desktop = { viewport: { width: 1280, height: 800 } };
const phone = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };

const node = await Node.start({ rate: 25 });
try {
  const clients = [];
  for (let index = 0; index < CLIENTS; index++) clients.push(await node.connect());
  await new Promise((resume) => setTimeout(resume, Number(seconds) * 1_000));

  const PICTURES = {
    overview: "overview", bandwidth: "bandwidth", guilds: "guilds", guild: `guilds/${node.demo.guild_id}`, sessions: "sessions",
    session: `sessions/${clients[0].sessionId}`, compression: "compression", operations: "operations",
  };
  for (const [size, options] of [["", desktop], ["-phone", phone]]) {
    for (const colorScheme of ["light", "dark"]) {
      const page = await visit(node, { key: node.demo.admin_key, colorScheme, ...options });
      for (const [name, path] of Object.entries(PICTURES).filter(([name]) => isWanted(name))) {
        await page.evaluate((to) => { location.hash = `#/${to}`; }, path);
        await until("no skeletons", async () => (await page.locator(".skeleton:visible").count()) === 0);
        // Two reports, from which rates are computed, and a line to see.
        await page.waitForTimeout(name === "guild" && size === "" ? 12_000 : 3_000);
        await page.screenshot({ path: `${folder}/dashboard-${name}${size}-${colorScheme}.png` });
        console.log(`dashboard-${name}${size}-${colorScheme}`);
      }
      if (size === "") {
        // The two pictures with which such a project begins: where the bytes go, and where a guild's time goes.
        for (const [name, path, titles] of [["bytes-by-type", "bandwidth", ["Share of bytes by dispatch type"]], ["time-by-type", PICTURES.guild, ["Time by message type", "Busy time by message type"]]].filter(([name]) => isWanted(name))) {
          await page.evaluate((to) => { location.hash = `#/${to}`; }, path);
          await page.getByLabel(titles[0], { exact: true }).waitFor();
          await page.waitForTimeout(name === "time-by-type" ? 30_000 : 5_500);
          const boxes = await Promise.all(titles.map((title) => page.getByLabel(title, { exact: true }).boundingBox()));
          const [x, y] = [Math.min(...boxes.map((box) => box.x)), Math.min(...boxes.map((box) => box.y))];
          const clip = { x, y, width: Math.max(...boxes.map((box) => box.x + box.width)) - x, height: Math.max(...boxes.map((box) => box.y + box.height)) - y };
          await page.screenshot({ path: `${folder}/dashboard-${name}-${colorScheme}.png`, clip });
          console.log(`dashboard-${name}-${colorScheme}`);
        }
      }
      await page.context().close();
    }
  }
} finally {
  await closeBrowser();
  await node.stop();
}
