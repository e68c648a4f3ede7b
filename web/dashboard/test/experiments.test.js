// The pages of experiments against invented figures: from the form to the end, intervals, and a rollback with its reason.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { KEY, Stub } from "./stub.js";
import { closeBrowser, overflow, until, violations, visit } from "./support.js";

after(closeBrowser);
const open = async (t, { stub: of = {}, ...options } = {}) => {
  const stub = await Stub.start(of);
  t.after(() => stub.stop());
  const page = await visit(stub, { key: KEY, path: "experiments", ...options });
  t.after(() => page.context().close());
  return { stub, page };
};
const isSound = async (page) => {
  assert.equal(await overflow(page), 0);
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.complaints.filter((text) => !/status of (404|409)/.test(text)), []);
};
const PLAN = { name: "zstd-3", layer: "default", permille: 100, arms: [{ name: "control", weight: 1 }, { name: "test", weight: 1, arm: "zstd:level=3" }], audience: { platforms: [], bots: null, guild_id: null }, alpha: 0.05, tolerance_percent: 5, samples_min: 200, reconnect_on_rollback: true, draft: false };

test("an experiment: started by the form, ramped, stopped with its clients reconnected, removed", async (t) => {
  const { stub, page } = await open(t);
  await page.locator(".answer", { hasText: "No experiment runs." }).waitFor();
  await isSound(page);
  await page.getByLabel("Name", { exact: true }).fill("zstd-3");
  await page.getByRole("button", { name: "Start experiment" }).click();
  await page.locator(".title", { hasText: "zstd-3 running" }).waitFor();
  assert.deepEqual(stub.plans, [PLAN]);
  await page.locator(".answer", { hasText: /It has 10 % of the accounts of the layer default: 2,401 connections, on 1 node/ }).waitFor();
  await page.getByLabel("Accounts, %").fill("25.5");
  await page.getByRole("button", { name: "Change share" }).click();
  await page.locator(".answer", { hasText: "It has 25.5 % of the accounts" }).waitFor();
  assert.deepEqual(stub.plans[1], { permille: 255 });
  await page.getByRole("button", { name: "Stop and reconnect clients" }).click();
  await page.getByRole("dialog").getByText("are sent op 7, at a bounded rate").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Stop and reconnect clients" }).click();
  await page.locator(".answer", { hasText: "Stopped by stub" }).waitFor();
  assert.deepEqual(stub.plans[2], { reconnect: true });
  await page.getByRole("button", { name: "Remove experiment" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove experiment" }).click();
  await page.locator(".answer", { hasText: "No experiment runs." }).waitFor();
  assert.equal(stub.experiments.length, 0);
});

test("metrics have intervals with a word, and none before there are enough samples", async (t) => {
  const { stub, page } = await open(t);
  stub.samples = 57;
  stub.experiment({ ...PLAN, arms: [...PLAN.arms, { name: "shared", weight: 2, policy: "shared-match" }] });
  await page.getByRole("link", { name: "zstd-3" }).first().click();
  const bytes = page.getByRole("region", { name: "Bytes per dispatch" });
  await bytes.getByText("57 of 200 samples: no interval yet").first().waitFor();
  assert.equal(await bytes.locator(".track").count(), 0);
  stub.samples = 1_200;
  await bytes.locator("li", { hasText: "test" }).filter({ hasText: "● better: −9.6 B (−8 %)" }).filter({ hasText: "−13.2 B to −6 B; 1,200 samples" }).waitFor();
  await page.getByRole("region", { name: "CPU time per dispatch" }).getByText("no difference shown").first().waitFor();
  await page.getByRole("region", { name: "Wait for the socket" }).getByText("more, within the limit").first().waitFor();
  await page.getByRole("region", { name: "Connections that resume" }).getByText("+0.2 points (+10 %)").first().waitFor();
  // The whole interval is left of the control, at the place that the scale gives.
  const part = await bytes.locator("li.better").first().evaluate((row) => {
    const [track, interval] = [row.querySelector(".track"), row.querySelector(".interval")].map((each) => each.getBoundingClientRect());
    return [(interval.left - track.left) / track.width, (interval.right - track.left) / track.width];
  });
  assert.ok(Math.abs(part[0] - 0.045) < 0.02 && Math.abs(part[1] - 0.293) < 0.02, `${part}`);
  const shares = await page.getByRole("region", { name: "Arms" }).locator("tbody tr").evaluateAll((rows) => rows.map((row) => [row.dataset.id, row.cells[2].textContent]));
  assert.deepEqual(shares.sort(), [["control", "2.5 %"], ["shared", "5 %"], ["test", "2.5 %"]]);
  await isSound(page);
});

test("a rollback has its reason, in the list and on its page", async (t) => {
  const { stub, page } = await open(t);
  stub.harm = true;
  Object.assign(stub.experiment(PLAN), { state: "rolled_back", reason: "wire_bytes of the arm test is worse than the limit", changed_by: "guardrail", reconnected: true, ended_at: Math.round(Date.now() / 1_000) });
  await page.locator("li.bad", { hasText: "zstd-3 was rolled back" }).filter({ hasText: "wire_bytes of the arm test is worse than the limit." }).waitFor();
  await isSound(page);
  await page.locator("li.bad").getByRole("link").click();
  await page.locator("li.bad", { hasText: "A guardrail rolled it back" }).filter({ hasText: "Its clients were sent op 7" }).waitFor();
  await page.getByRole("region", { name: "Bytes per dispatch" }).locator("li.worse", { hasText: "▲ worse than the limit: +108 B (+90 %)" }).waitFor();
  assert.equal(await page.getByRole("button", { name: /^Stop/ }).count(), 0);
  await isSound(page);
});

test("a refused form shows the reason and keeps its texts; a draft is started later", async (t) => {
  const { stub, page } = await open(t);
  stub.experiment(PLAN);
  await page.locator("summary", { hasText: "Start an experiment" }).click();
  await page.getByLabel("Name", { exact: true }).fill("zstd-3");
  await page.getByRole("button", { name: "Start experiment" }).click();
  await page.getByRole("alert").filter({ hasText: "There is an experiment zstd-3: choose another name" }).waitFor();
  await page.getByLabel("Name", { exact: true }).fill("policies");
  await page.getByLabel("Writes streams by").nth(1).fill("shared-match");
  await page.locator("select[name=accounts]").selectOption("bots");
  await page.getByLabel("As a draft").check();
  await page.getByRole("button", { name: "Start experiment" }).click();
  await page.locator(".answer", { hasText: "It is a draft" }).waitFor();
  assert.deepEqual(stub.plans[1].arms, [{ name: "control", weight: 1 }, { name: "test", weight: 1, policy: "shared-match" }]);
  assert.equal(stub.plans[1].audience.bots, true);
  await page.getByRole("button", { name: "Start experiment" }).click();
  await page.locator(".answer", { hasText: "only those that are bots" }).waitFor();
  assert.deepEqual(stub.plans[2], { start: true });
});

test("for an experiment that is gone, and a key without the scope, the page names the remedy", async (t) => {
  const { page } = await open(t);
  await page.evaluate(() => { location.hash = "#/experiments/gone"; });
  await page.getByRole("alert").filter({ hasText: "There is no such experiment." }).waitFor();
  await page.getByRole("link", { name: "All experiments" }).click();
  await page.locator(".answer", { hasText: "No experiment runs." }).waitFor();
  const { page: other } = await open(t, { stub: { scopes: ["read"] } });
  await other.locator(".answer", { hasText: "This key has no scope lab" }).waitFor();
});

test("with the keyboard alone at 360 pixels, in the dark: opened, ramped, stopped", async (t) => {
  const { stub, page } = await open(t, { viewport: { width: 360, height: 740 }, colorScheme: "dark" });
  stub.experiment(PLAN);
  await page.locator(".table tr[data-id=zstd-3]").focus();
  await page.keyboard.press("Enter");
  await page.getByRole("region", { name: "Bytes per dispatch" }).locator(".track").waitFor();
  await isSound(page);
  await page.getByLabel("Accounts, %").fill("50");
  await page.keyboard.press("Enter");
  await until("the new share", () => stub.experiments[0].permille === 500);
  await page.getByRole("button", { name: "Stop experiment" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByRole("button", { name: "Stop experiment" }).focus();
  await page.keyboard.press("Enter");
  await page.locator(".answer", { hasText: "Stopped by" }).waitFor();
});
