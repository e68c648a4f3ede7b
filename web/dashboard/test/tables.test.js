// Tables against invented figures: every column fits, and ten thousand rows scroll.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { KEY, Stub } from "./stub.js";
import { closeBrowser, PAGES, show, until, violations, visit } from "./support.js";

/** Of a table that scrolls by 400 pixels, twelve and a half rows, in each of 60 frames. */
const [FRAMES, PIXELS, ROW] = [60, 400, 32];
let node;
before(async () => { node = await Stub.busy(); });
after(async () => {
  await closeBrowser();
  node.stop();
});

const open = (stub, options) => visit(stub, { key: KEY, ...options });

test("tables: no text is cut off, with each column sorted; at 1,280 pixels none scrolls sideways", async () => {
  for (const viewport of [{ width: 1280, height: 800 }, { width: 390, height: 844 }]) {
    const page = await open(node, { viewport });
    for (const path of [...PAGES, `sessions/${node.session(3).id}`]) {
      await show(page, path);
      const cut = await page.evaluate(async () => {
        const found = new Set();
        for (const table of document.querySelectorAll(".table")) {
          const name = table.getAttribute("aria-label");
          if (innerWidth >= 1280 && table.scrollWidth > table.clientWidth) found.add(`${name} is ${table.scrollWidth} wide in ${table.clientWidth}`);
          for (const button of table.querySelectorAll("th button")) {
            button.click();
            await new Promise((resume) => requestAnimationFrame(() => setTimeout(resume)));
            // Names that people choose are whole as titles; on a phone the first column is narrow, and its rows open.
            for (const each of [button, ...table.querySelectorAll(innerWidth >= 1280 ? "td:not(:has(a))" : "td:not(:first-child)")]) if (each.scrollWidth > each.clientWidth) found.add(`${name}: ${each.textContent} ${each.scrollWidth} in ${each.clientWidth}`);
          }
        }
        return [...found];
      });
      assert.deepEqual(cut, [], `${path} at ${viewport.width}`);
    }
    await page.context().close();
  }
});

/** Scrolls a box frame by frame: how long the frames took, and what changed below it while it did. */
const scroll = (box) => box.evaluate((box, [frames, pixels]) => new Promise((done) => {
  const known = new Set(box.querySelectorAll("tr"));
  const changes = { texts: 0, attributes: 0, places: 0, created: 0 };
  const observer = new MutationObserver((records) => {
    for (const { type, addedNodes, attributeName } of records) {
      if (type === "characterData") changes.texts++;
      else if (type === "attributes") changes[attributeName === "style" ? "places" : "attributes"]++;
      else for (const node of addedNodes) if (!known.has(node)) changes.created++;
    }
  });
  observer.observe(box, { subtree: true, childList: true, characterData: true, attributes: true });
  const times = [];
  const step = (time) => {
    times.push(time);
    if (times.length <= frames) {
      box.scrollTop += pixels;
      requestAnimationFrame(step);
      return;
    }
    observer.disconnect();
    done({ changes, times: times.slice(1).map((each, index) => each - times[index]).sort((a, b) => a - b) });
  };
  requestAnimationFrame(step);
}), [FRAMES, PIXELS]);

/** Waits until a table rests: then its rows are in order again for those who hear the page. */
const inOrder = (table) => until("order", () => table.locator("tbody tr").evaluateAll((rows) => rows.every((row, index) => index === 0 || Number(row.dataset.index) === Number(rows[index - 1].dataset.index) + 1)));

/** Scrolls, and says what the page's thread did for one frame: times in milliseconds of its own CPU time, which other programs do not lengthen much. */
async function scrollCost(page, box) {
  const debug = await page.context().newCDPSession(page);
  await debug.send("Performance.enable", { timeDomain: "threadTicks" });
  const figures = async () => Object.fromEntries((await debug.send("Performance.getMetrics")).metrics.map(({ name, value }) => [name, value]));
  await box.evaluate((each) => { each.scrollTop = 0; });
  await inOrder(box);
  const before = await figures();
  const { changes, times } = await scroll(box);
  const after = await figures();
  await debug.detach();
  const perFrame = (name, factor = 1) => ((after[name] - before[name]) * factor) / FRAMES;
  const [thread, script, style, layout] = ["TaskDuration", "ScriptDuration", "RecalcStyleDuration", "LayoutDuration"].map((name) => perFrame(name, 1_000));
  const cost = { median: times[FRAMES / 2], thread, script, style, layout, seconds: times.reduce((sum, each) => sum + each, 0) / 1_000, layouts: perFrame("LayoutCount"), styles: perFrame("RecalcStyleCount"), changes };
  return { ...cost, text: `median frame ${cost.median.toFixed(1)} ms; thread ${thread.toFixed(1)} ms: script ${script.toFixed(1)}, style ${style.toFixed(1)}, layout ${layout.toFixed(1)}, the browser's painting ${(thread - script - style - layout).toFixed(1)}` };
}

test("10,000 guilds scroll: elements are kept, a row that comes changes its texts and place, nothing is laid out twice", async (t) => {
  const large = await Stub.start({ guilds: 10_000 });
  t.after(() => large.stop());
  const page = await open(large, { path: "guilds" });
  await page.locator(".table tr[data-id]").first().waitFor();
  const table = page.getByRole("region", { name: "Guilds" });
  const drawn = await table.locator("tr[data-id]").count();
  const columns = await table.locator("th").count();
  assert.ok(drawn < 60, `${drawn} rows are drawn`);
  // The first passes compile the script and shape the texts.
  await scroll(table);
  const cost = await scrollCost(page, table);
  console.log(`10,000 rows: ${cost.text}`);
  assert.equal(await table.locator("tr[data-id]").count(), drawn);

  // The page has a report every second, and one may have been on its way.
  const { changes, layouts, styles, seconds } = cost;
  const updates = Math.ceil(seconds) + 1;
  const rows = Math.ceil((FRAMES * PIXELS) / ROW) + updates * drawn;
  assert.equal(changes.created, 0, "elements are made while the table scrolls");
  assert.ok(changes.places > rows / 2 && changes.places <= rows, `${changes.places} rows changed their place`);
  assert.ok(changes.texts <= rows * columns, `${changes.texts} texts changed in ${rows} rows of ${columns}`);
  assert.ok(changes.attributes <= rows * 4, `${changes.attributes} attributes changed in ${rows} rows`);
  assert.ok(layouts <= 1.25 && styles <= 1.5, `${layouts} layouts and ${styles} style passes in a frame: something reads what it has just changed`);
  await page.context().close();
});

test("10,000 guilds: a live update changes the texts that differ, the last row is reached, one is found", async (t) => {
  const large = await Stub.start({ guilds: 10_000 });
  t.after(() => large.stop());
  const page = await open(large, { path: "guilds" });
  await page.locator(".table tr[data-id]").first().waitFor();
  const table = page.getByRole("region", { name: "Guilds" });
  const updated = await table.evaluate((box) => new Promise((done) => {
    const counts = { names: 0, rates: 0, elements: 0 };
    const observer = new MutationObserver((records) => {
      for (const { type, target } of records) {
        if (type !== "characterData") counts.elements += type === "childList" ? 1 : 0;
        else counts[target.parentNode.tagName === "A" ? "names" : "rates"]++;
      }
      if (counts.rates > 0) {
        observer.disconnect();
        done(counts);
      }
    });
    observer.observe(box.querySelector("tbody"), { subtree: true, childList: true, characterData: true });
  }));
  assert.deepEqual({ names: updated.names, elements: updated.elements }, { names: 0, elements: 0 });
  await table.evaluate((box) => { box.scrollTop = box.scrollHeight; });
  const last = table.locator("tr[data-index='9999']");
  await last.waitFor();
  await inOrder(table);
  // The focus follows its row, and leaves the elements when they become another row's.
  await last.focus();
  await table.evaluate((box) => { box.scrollTop = 0; });
  await until("the box to have the focus", () => table.evaluate((box) => document.activeElement === box));
  await page.keyboard.press("ArrowDown");
  await until("the first row to have the focus", () => table.evaluate(() => document.activeElement.dataset.index === "0"));
  await page.keyboard.press("End");
  await until("the last row to have the focus", () => table.evaluate(() => document.activeElement.dataset.index === "9999"));
  assert.equal(await table.evaluate((box) => document.activeElement.getBoundingClientRect().bottom <= box.getBoundingClientRect().bottom), true);
  await page.getByPlaceholder("Name or id").fill("Guild 9999");
  await page.locator("[role=status]", { hasText: "1 of 10,000" }).waitFor();
  assert.equal(await table.locator("tbody tr").count(), 1);
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});
