// Takes the pictures of docs/dashboard.md again, from demos of its own at which clients of all kinds work.
//
//   GUILDHALL=…/guildhall node pictures.js [FOLDER [SECONDS [NAME,…]]]     default: docs/pictures, after 120 seconds, all

import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { populate } from "./test/clients.js";
import { Node } from "./test/node.js";
import { closeBrowser, until, visit } from "./test/support.js";

const [folder = fileURLToPath(new URL("../../docs/pictures", import.meta.url)), seconds = "120", names = ""] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const isWanted = (name) => names === "" || names.split(",").includes(name);
const desktop = { viewport: { width: 1280, height: 800 } };
const phone = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));

/** A demo with its clients, after some time. User accounts are passive in its large guild unless they have it in view. */
async function start(settings = []) {
  const node = await Node.start({ rate: 12, settings: ["limits.passive_above_members=40", ...settings] });
  node.crowd = await populate(node);
  await pause(Number(seconds) * 500);
  node.crowd.clients[2].cut();
  await pause(Number(seconds) * 500);
  return node;
}

async function stop(node) {
  node.crowd.stop();
  await node.stop();
}

const node = await start();
try {
  const { sessions } = await (await fetch(`${node.origin}/v1/node/sessions?limit=100`, { headers: { authorization: `Bearer ${node.demo.admin_key}` } })).json();
  const one = sessions.find(({ codec, encoding, guilds }) => codec === "zstd-stream" && encoding === "etf" && guilds > 2);
  const arms = ["zlib", "zstd", "zstd:level=3", "zstd-once"];
  await fetch(`${node.origin}/v1/lab/dark`, { method: "POST", headers: { authorization: `Bearer ${node.demo.admin_key}`, "content-type": "application/json" }, body: JSON.stringify({ arms, sessions_max: 8, cpu_permille: 100 }) });
  const PICTURES = {
    overview: "overview", bandwidth: "bandwidth", guilds: "guilds", guild: `guilds/${node.demo.guild_id}`, sessions: "sessions",
    session: `sessions/${one.id}`, compression: "compression", lab: "lab", operations: "operations",
  };
  for (const [size, options] of [["", desktop], ["-phone", phone]]) {
    for (const colorScheme of ["light", "dark"]) {
      const page = await visit(node, { key: node.demo.admin_key, colorScheme, ...options });
      for (const [name, path] of Object.entries(PICTURES).filter(([name]) => isWanted(name))) {
        await page.evaluate((to) => { location.hash = `#/${to}`; }, path);
        await until("no skeletons", async () => (await page.locator(".skeleton:visible").count()) === 0);
        // Two reports, from which rates are computed, and a line to see.
        await page.waitForTimeout(name === "guild" && size === "" ? 20_000 : 6_000);
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
  await stop(node);
}

// Streams with a context for each connection, as they can be chosen.
if (isWanted("contexts")) {
  const other = await start(["codec.streams=per-connection", "deflate.mode=takeover"]);
  try {
    for (const colorScheme of ["light", "dark"]) {
      const page = await visit(other, { key: other.demo.admin_key, path: "compression", colorScheme, ...desktop });
      await page.waitForTimeout(6_000);
      await page.screenshot({ path: `${folder}/dashboard-contexts-${colorScheme}.png` });
      console.log(`dashboard-contexts-${colorScheme}`);
      await page.context().close();
    }
  } finally {
    await stop(other);
  }
}
await closeBrowser();
