// The meter: a visitor of the demo gets no more bytes than the libraries would make, and sees the writer of the stream.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { closeBrowser, Node, until, visit } from "./support.js";

/** Messages of four minutes at the demo's own rate, one every two seconds; here they come within seconds. */
const MESSAGES = 120;
const RATE = 6;
/** Bytes as received, of what the library with the same name makes. */
const MOST = 1.02;

let node;

before(async () => { node = await Node.start({ members: 250, rate: RATE, seed: 7 }); });
after(async () => {
  await closeBrowser();
  node?.process.kill("SIGCONT");
  await node?.stop();
});

const openMeter = async (codec) => {
  const page = await visit(node, { codec });
  await page.locator(".meter-strip").click();
  return page;
};
const exactBytes = async (page, bar) => Number((await page.locator(".bar-row", { hasText: bar }).locator(".bar-value").getAttribute("title")).replace(/\D/g, ""));
const cells = (page, event) => page.getByRole("region", { name: "By event type" }).locator("tr", { hasText: event }).locator("td");
const count = async (page, event) => Number((await cells(page, event).first().innerText().catch(() => "0")).replace(/\D/g, ""));

test("after four minutes of the demo a visitor has received no more bytes than the library would have made", async (t) => {
  t.after(() => node.process.kill("SIGCONT"));
  const codecs = ["zlib-stream", "zstd-stream"];
  // One after the other: two at once would open two browsers.
  const pages = [];
  for (const codec of codecs) pages.push(await openMeter(codec));
  for (const page of pages) await until(`${MESSAGES} messages`, async () => (await count(page, "MESSAGE_CREATE")) >= MESSAGES);
  for (const page of pages) await page.getByRole("region", { name: "What this stream costs the node" }).getByText("context of the library, for this connection alone").waitFor();
  // Nothing comes any more: the comparison catches up with what was received.
  node.process.kill("SIGSTOP");
  for (const [codec, page] of codecs.map((codec, at) => [codec, pages[at]])) {
    let before;
    const [received, computed] = await until("figures that stay", async () => {
      const now = [await exactBytes(page, "this connection, received"), await exactBytes(page, `${codec}${codec === "zlib-stream" ? "zlib" : "zstd"} level 6`)];
      await page.evaluate(() => new Promise((resume) => requestIdleCallback(resume)));
      const stays = before && now.every((value, at) => value > 0 && value === before[at]);
      before = now;
      return stays && now;
    });
    console.log(`# ${codec}: ${received} bytes received, ${computed} computed: ${(received / computed).toFixed(4)}`);
    assert.ok(received <= MOST * computed, `${codec}: ${received} bytes are more than ${MOST} times ${computed}`);
  }
  for (const page of pages) assert.deepEqual(page.complaints, []);
});

test("the meter shows the writer of a stream, for how long, and its cost", async () => {
  const page = await openMeter("zstd-stream");
  const cost = page.getByRole("region", { name: "What this stream costs the node" });
  await cost.getByText(/^Written by a (larger )?context of the library, for this connection alone for \d+ s\.$/).waitFor();
  await cost.getByText(/^It takes [\d.]+\s[kM]B of the node's memory/).waitFor();
  await page.getByRole("button", { name: "plain JSON", exact: true }).click();
  await cost.getByText(/^Written by (nothing: it is not compressed|each message compressed once)/).waitFor();
  assert.deepEqual(page.complaints, []);
});
