// The lab's page against invented figures: a dark launch and a recording from start to end, and what goes wrong.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { KEY, Stub } from "./stub.js";
import { closeBrowser, overflow, until, violations, visit } from "./support.js";

after(closeBrowser);
const open = async (t, { stub: of = {}, ...options } = {}) => {
  const stub = await Stub.start(of);
  t.after(() => stub.stop());
  const page = await visit(stub, { key: KEY, path: "lab", ...options });
  t.after(() => page.context().close());
  return { stub, page };
};
/** No overflow, no violation, and no complaint but that of the browser about a dark launch that there is not. */
const isSound = async (page) => {
  assert.equal(await overflow(page), 0);
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.complaints.filter((text) => !/status of (404|400)/.test(text)), []);
};
const cells = (table, id) => table.locator(`tr[data-id="${id}"] td`).allTextContents();

test("a dark launch with the defaults: arms ranked, by dispatch type, stopped, discarded", async (t) => {
  const { stub, page } = await open(t);
  await page.getByText("No dark launch runs.").waitFor();
  await isSound(page);
  await page.getByRole("button", { name: "Start dark launch" }).click();
  await page.locator(".answer", { hasText: /zstd sends \d+(\.\d)? % of the uncompressed bytes, zstd:level=3 .* %, zlib .* %, zstd-once .* %: over [\d,]+ dispatches of 8 sessions, [\d.]+ .B/ }).waitFor();
  assert.deepEqual(stub.plans, [{ arms: ["zlib", "zstd", "zstd:level=3", "zstd-once"], one_in: 1, sessions_max: 16, cpu_permille: 10, memory_bytes_max: 64 * 2 ** 20 }]);
  await page.getByText("No session was left out.").waitFor();
  await page.locator(".facts-line", { hasText: /It measures 8 sessions now\. It has used .* of the 1 % it may use, and its contexts hold 13\.4 MB now/ }).waitFor();
  const arms = page.getByRole("region", { name: "Arms", exact: true });
  assert.match((await cells(arms, "zstd")).join("|"), /^zstd\|[\d.]+ .B\|1\d(\.\d)? %\|0\.81 ×\|32 µs\|643 kB\|zstd:level=6,window=18,chain=16,hash=16,block=16384$/);
  const types = page.getByRole("region", { name: "Dispatch types by arm" });
  assert.match((await cells(types, "MESSAGE_CREATE")).join("|"), /^MESSAGE_CREATE\|[\d,]+\|780 B\|[\d.]+ %\|11\.6 %\|9\.4 %\|11\.2 %\|57\.1 %$/);
  await page.getByRole("button", { name: "CPU time each" }).click();
  await until("times", async () => (await cells(types, "MESSAGE_CREATE")).at(-3) === "32 µs");
  await isSound(page);
  await page.getByRole("button", { name: "Stop dark launch" }).click();
  await page.locator(".facts-line", { hasText: "Stopped" }).waitFor();
  await page.getByText("Start another dark launch").click();
  await page.getByText("The figures above are discarded when it starts.").waitFor();
  await page.getByRole("button", { name: "Discard figures" }).click();
  await page.getByText("No dark launch runs.").waitFor();
});

test("sessions that were left out, and a launch that failed, are findings with what to do", async (t) => {
  const { stub, page } = await open(t);
  await page.getByRole("button", { name: "Start dark launch" }).click();
  await page.locator(".facts-line").waitFor();
  stub.dark.left = { busy: 3, memory: 1 };
  await page.locator("li.warn", { hasText: "3 sessions left the sample early: not enough CPU time. Dispatches came faster than 1 % of a core compresses them. The newest sessions leave first, and one is added again when there is time. Raise the CPU budget, or compare fewer arms. 4 sessions are measured in full." }).waitFor();
  await page.locator("li.warn", { hasText: "1 session left out: the memory budget is used up. Raise the memory budget, or take fewer sessions or arms. 4 sessions are measured in full." }).waitFor();
  await isSound(page);
  stub.dark.left = { busy: 7, memory: 1 };
  await page.locator("li.warn", { hasText: "The next one begins when the copies that wait are compressed." }).first().waitFor();
  stub.dark.state = "failed";
  await page.locator("li.bad", { hasText: "ended by an error" }).waitFor();
});

test("an arm that does not exist is refused with its reason, and the form keeps its texts", async (t) => {
  const { stub, page } = await open(t);
  await page.getByLabel("Arm 2").fill("lz4");
  await page.getByLabel("Arm 3").fill("");
  await page.getByRole("button", { name: "Start dark launch" }).click();
  await page.getByRole("alert").filter({ hasText: 'arms: There is no codec "lz4".' }).waitFor();
  assert.equal(await page.getByLabel("Arm 2").inputValue(), "lz4");
  assert.deepEqual(stub.plans[0].arms, ["zlib", "lz4", "zstd-once"]);
  await page.getByLabel("CPU time").fill("60");
  await page.getByRole("button", { name: "Start dark launch" }).click();
  assert.equal(stub.plans.length, 1, "the browser refuses what is out of range");
});

test("a recording: started, stopped, saved in parts after a fault, discarded", async (t) => {
  const { stub, page } = await open(t);
  await page.getByRole("button", { name: "Start recording" }).click();
  await page.locator(".answer", { hasText: /A recording runs, started (now|\d+ s ago)\. It has 120 dispatches of 3 sessions, 12 MB compressed, of which 12 MB wait on the node/ }).waitFor();
  assert.deepEqual(stub.plans, [{ one_in: 1, sessions_max: 32, seconds_max: 300, bytes_max: 31 * 2 ** 20, private: false, scrub: true }]);
  await isSound(page);
  await page.getByRole("button", { name: "Stop recording" }).click();
  await page.locator(".answer", { hasText: "was stopped" }).waitFor();
  // The second part fails once.
  let faults = 0;
  await page.route(/frames\?from=8388608/, (route) => (faults++ === 0 ? route.abort() : route.continue()));
  await page.getByRole("button", { name: "Save file" }).click();
  await page.getByRole("alert").filter({ hasText: "The node does not answer" }).waitFor();
  await until("the freed part", () => stub.recording.waiting_bytes === 12_000_000);
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Save file" }).click();
  const file = await download;
  assert.equal(file.suggestedFilename(), "recording-1790000000.ndjson.zst");
  const saved = readFileSync(await file.path());
  assert.equal(saved.length, 12_000_000);
  assert.deepEqual([saved[0], saved[(8 << 20) - 1], saved[8 << 20], saved.at(-1)], [1, 1, 2, 2]);
  await page.getByRole("button", { name: "Discard recording" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Discard recording" }).click();
  await page.getByText("No recording is on this node.").waitFor();
});

test("what users write is recorded only after a question", async (t) => {
  const { stub, page } = await open(t);
  await page.getByLabel("Texts, names and ids as they are").check();
  await page.getByLabel("Private channels").check();
  await page.getByRole("button", { name: "Start recording" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("as sensitive as the database. Direct messages").waitFor();
  await page.keyboard.press("Escape");
  assert.equal(stub.plans.length, 0);
  await page.getByRole("button", { name: "Start recording" }).click();
  await dialog.getByRole("button", { name: "Start recording" }).click();
  await page.locator(".facts-line .warn", { hasText: "Texts, names and ids are in it as they are" }).waitFor();
  assert.deepEqual([stub.plans[0].scrub, stub.plans[0].private], [false, true]);
  await page.locator(".facts-line .warn", { hasText: "Private channels and direct messages are in it" }).waitFor();
});

test("a recording that another program reads cannot be saved here", async (t) => {
  const { stub, page } = await open(t);
  await page.getByRole("button", { name: "Start recording" }).click();
  await page.getByRole("button", { name: "Stop recording" }).waitFor();
  Object.assign(stub.recording, { waiting_bytes: 4_000_000, ended: "not_taken", sessions_full: 2 });
  await page.getByText("Another program reads this recording, or an earlier page did: 8 MB of it are there").waitFor();
  await page.getByText("ended because 32 MiB of it waited").waitFor();
  await page.locator("li.warn", { hasText: "2 sessions ended early" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Save file" }).count(), 0);
});

test("without the scope the page names the remedy; requests go to another node of the cluster", async (t) => {
  const { page } = await open(t, { stub: { scopes: ["read"] } });
  await page.locator(".answer", { hasText: "This key has no scope lab" }).waitFor();
  await isSound(page);
  const stub = await Stub.start();
  t.after(() => stub.stop());
  const other = await visit(stub, { key: KEY });
  t.after(() => other.context().close());
  await other.goto(`${stub.origin}/dashboard/?node=1#/lab`);
  await other.getByText("No dark launch runs.").waitFor();
  assert.ok(stub.labsAsked.length > 1 && stub.labsAsked.every((node) => node === "1"), `${stub.labsAsked}`);
});

test("a key for the lab is created on the page of operations", async (t) => {
  const { page } = await open(t);
  await page.evaluate(() => { location.hash = "#/operations"; });
  await page.getByLabel("Name of the new key").fill("lab");
  await page.getByRole("checkbox", { name: "lab" }).check();
  const request = page.waitForRequest((sent) => sent.url().endsWith("/v1/keys") && sent.method() === "POST");
  await page.getByRole("button", { name: "Create key" }).click();
  assert.deepEqual((await request).postDataJSON(), { name: "lab", scopes: ["read", "lab"] });
});

test("with the keyboard alone at 360 pixels, in the dark: a dark launch is started and stopped", async (t) => {
  const { stub, page } = await open(t, { viewport: { width: 360, height: 740 }, colorScheme: "dark" });
  await page.getByLabel("Arm 1").focus();
  await page.keyboard.press("Enter");
  await page.locator(".facts-line").waitFor();
  assert.equal(stub.plans.length, 1);
  await isSound(page);
  await page.getByRole("button", { name: "Stop dark launch" }).focus();
  await page.keyboard.press("Enter");
  await page.locator(".facts-line", { hasText: "Stopped" }).waitFor();
  await page.locator("summary", { hasText: "Start another dark launch" }).focus();
  await page.keyboard.press("Enter");
  await page.getByLabel("Arm 1").waitFor();
  await isSound(page);
});
