// Figures: digits, shares and causes, as functions; and a node that is quiet, or was busy a while ago.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";
import { accountId, guildId, KEY, Stub } from "./stub.js";
import { closeBrowser, overflow, show, until, violations, visit } from "./support.js";

const source = async (name) => (await runnerImport(fileURLToPath(new URL(`../src/${name}`, import.meta.url)), { configFile: false })).module;
const { bytes, cores, duration, join, number, onScale, percent, perSecond, shareOf } = await source("format.ts");
const { causeOf } = await source("cause.ts");
after(closeBrowser);

const open = (stub, options) => visit(stub, { key: KEY, ...options });

test("numbers have the digits that mean something", () => {
  const shown = [0, 1, 0.997, 0.00601, 0.0601, 0.14, 0.5, 2.03, 9.96, 12.34, 47.42, 99.96, 123.4, 1234.5, 1e-9, -0.78, NaN, Infinity].map(number);
  assert.deepEqual(shown, ["0", "1", "1.0", "0.006", "0.06", "0.14", "0.5", "2.0", "10", "12.3", "47.4", "100", "123", "1,235", "0", "−0.78", "–", "–"]);
  assert.deepEqual([perSecond(0.997), percent(0.0000601), bytes(1_012), bytes(999_900), duration(0.0000346), cores(0.004)].map(join), ["1.0/s", "0.006 %", "1.0 kB", "1.0 MB", "34.6 µs", "0 cores"]);
  assert.deepEqual(onScale(() => [0.25, 1.25, 0.005].map(number)), ["0.25", "1.25", "0.005"]);
});

test("a share of nothing is a dash, and none is negative", () => {
  assert.deepEqual([percent(-0.00781), percent(NaN), percent(0 / 0), percent(1 / 0)].map(join), ["–", "–", "–", "–"]);
  assert.deepEqual([shareOf(-1e-9, 1e-7), shareOf(1e-7, 1e-7), shareOf(0, 0), shareOf(-5, 100)].map((share) => join(percent(share))), ["–", "–", "–", "–"]);
  assert.equal(shareOf(25, 100), 0.25);
});

test("the cause of a guild's work is a message, with the commits that follow it, and no step", () => {
  const types = [{ name: "committed", busy: 0.044, often: 300 }, { name: "begin_commit", busy: 0.03, often: 300 }, { name: "relay_presence", busy: 0.012, often: 900 }, { name: "backend_put_channel", busy: 0.007, often: 470 }, { name: "create_message", busy: 0.001, often: 5 }, { name: "read_members", busy: 0.009, often: 1_000 }];
  const cause = causeOf(types);
  assert.deepEqual([cause.name, cause.hasCommits, cause.share > 0.7 && cause.share < 0.8], ["backend_put_channel", true, true], JSON.stringify(cause));
  // A caller that only reads causes no commit; a step alone is no cause.
  assert.equal(causeOf([{ name: "read_members", busy: 0.5, often: 10 }, { name: "create_message", busy: 0.01, often: 1 }, { name: "committed", busy: 0.02, often: 1 }]).name, "read_members");
  assert.equal(causeOf([{ name: "committed", busy: 0.5, often: 1 }, { name: "timer", busy: 0.1, often: 1 }]), undefined);
});

test("a guild's first sentence names the message that keeps it busy", async (t) => {
  const stub = await Stub.start({ kinds: [["backend_put_channel", 470, 15_000], ["committed", 400, 110_000], ["begin_commit", 400, 60_000], ["relay_presence", 30, 9_000]] });
  t.after(() => stub.stop());
  const page = await open(stub, { path: `guilds/${guildId(0)}` });
  const answer = page.locator(".answer", { hasText: "of this guild’s time" });
  await answer.waitFor();
  assert.match(await answer.textContent(), /“backend put channel” takes 9\d(\.\d)? % of this guild’s time in the last minute: 4[67]\d\/s, 1\d\d µs each, with the commits that it causes\./);
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("a quiet node: one calm sentence, no share, no empty boxes", async (t) => {
  const stub = await Stub.start({ quiet: true });
  t.after(() => stub.stop());
  for (const viewport of [{ width: 1440, height: 900 }, { width: 390, height: 844 }]) {
    const page = await open(stub, { viewport });
    await page.locator(".tile", { hasText: "Memory" }).waitFor();
    await until("the limit", async () => /of at most 4 GB/.test(await page.locator(".tile", { hasText: "Memory" }).textContent()));
    assert.doesNotMatch(await page.locator("main").innerText(), /for each connection/);
    await page.getByText("No client is connected.").waitFor();
    for (const path of ["overview", "bandwidth", "compression"]) {
      await show(page, path);
      assert.doesNotMatch(await page.locator("main").innerText(), /[-−]\d[\d.]* %|NaN|Infinity/, path);
      assert.deepEqual([await violations(page), await overflow(page)], [[], 0], path);
      if (path === "bandwidth") {
        assert.match(await page.locator(".answer").textContent(), /^Nothing was sent to clients in the last 5 min\.$/);
        assert.deepEqual([await page.locator(".nothing").count(), await page.locator("main table").count()], [0, 0]);
      }
      if (path === "compression") {
        assert.match(await page.locator(".answer").textContent(), /Nothing was sent in the last 5 min/);
        assert.equal(await page.locator(".chart", { hasText: "by codec" }).count(), 0);
      }
    }
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  }
});

test("shares are those of the chosen range", async (t) => {
  const stub = await Stub.start({ sentUntilAgoS: 450 });
  t.after(() => stub.stop());
  const page = await open(stub, { path: "bandwidth" });
  await page.locator(".answer", { hasText: "Nothing was sent to clients in the last 5 min." }).waitFor();
  await page.getByRole("button", { name: "10 min" }).click();
  await page.locator(".answer", { hasText: /PRESENCE_UPDATE is \d+(\.\d)? % of .* in the last 10 min/ }).waitFor();
  const shares = await page.locator(".bars", { hasText: "Share of bytes" }).locator(".bar-value").allInnerTexts();
  assert.ok(shares.length > 3, `${shares}`);
  await page.evaluate(() => { location.hash = "#/compression"; });
  await page.locator(".chart", { hasText: "Sent of uncompressed bytes, by codec" }).filter({ hasText: /zlib-stream \d+(\.\d)? % in the last 10 min: less is better/ }).waitFor();
  await page.getByRole("button", { name: "5 min" }).click();
  await page.locator(".answer", { hasText: "Nothing was sent in the last 5 min" }).waitFor();
  assert.doesNotMatch(await page.locator("main").innerText(), /[-−]\d[\d.]* %/);
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

test("the bill names the types for which more is sent than zlib would make", async (t) => {
  for (const [zlib, expected] of [[0.8, /As sent is 1\.[23] × of zlib-stream, most of it for PRESENCE_UPDATE \([\d.,]+ [kMG]B more\), /], [1.2, undefined]]) {
    const stub = await Stub.start({ zlib });
    t.after(() => stub.stop());
    const page = await open(stub, { path: "bandwidth" });
    const says = page.locator(".bars", { hasText: "The bandwidth bill" }).locator(".says");
    await says.waitFor();
    if (expected) assert.match(await says.textContent(), expected);
    else assert.doesNotMatch(await says.textContent(), /of zlib-stream/);
    await page.context().close();
  }
});

test("codecs, encodings, platforms and places are lists of their own", async (t) => {
  const stub = await Stub.start();
  t.after(() => stub.stop());
  const page = await open(stub);
  const labels = async (title) => {
    const bars = page.locator(".bars", { has: page.getByRole("heading", { name: title }) });
    await bars.locator("li").first().waitFor();
    return bars.locator(".bar-label").allInnerTexts();
  };
  assert.deepEqual([await labels("Connections by codec"), await labels("Connections by encoding"), await labels("Sessions by platform"), await labels("Places of sessions in guilds")], [["zlib-stream", "none"], ["json"], ["web"], ["passive", "active"]]);
  assert.match(await page.locator(".tile", { hasText: "Memory" }).innerText(), /for each connection/);
  await page.context().close();
});

test("callers with the most requests: accounts, keys and addresses, with their share of the time", async (t) => {
  const stub = await Stub.start();
  t.after(() => stub.stop());
  const page = await open(stub);
  const callers = page.getByRole("region", { name: "Callers", exact: true });
  await callers.locator(".says", { hasText: "asked most" }).waitFor();
  assert.match(await callers.locator(".says").textContent(), /^The key “root key” asked most in the last minute: 470\/s, 99\.4 % of all requests and 99\.4 % of their time\./);
  const row = callers.locator("tbody tr", { hasText: "192.0.2.7" });
  assert.equal((await row.innerText()).replaceAll(/\s+/g, " ").trim(), "192.0.2.7 address 470 99.4 % 99.4 % 3 ms");
  // Without a name the id; a tooltip has the part of the count that may be others'.
  const count = callers.locator("tbody tr", { hasText: accountId(4) }).locator("td").nth(2);
  await count.hover();
  await until("what hover tells", async () => /up to 12 of them are of others/.test((await count.getAttribute("title")) ?? ""));
  await page.evaluate(() => { location.hash = "#/operations"; });
  const files = page.locator(".bars", { hasText: "Files by guild" });
  await files.waitFor();
  assert.match(await files.innerText(), /61 MB of at most 100 MB.*Guild 0\s+45 MB\s+212 files, 90 % of its 50 MB/s);
  assert.match(await page.locator(".bars", { hasText: "Uploads of the last day" }).innerText(), /greeter\s+9 MB\s+90 % of its 10 MB/);
  assert.deepEqual([await violations(page), await overflow(page), page.complaints], [[], 0, []]);
  await page.context().close();
  const reader = await Stub.start({ scopes: ["read"] });
  t.after(() => reader.stop());
  const other = await open(reader);
  await other.getByText("sees which account, key or address asks most").waitFor();
  assert.ok(!reader.asked.some((path) => path.includes("callers")), "it does not request callers without the scope");
  await other.context().close();
});
