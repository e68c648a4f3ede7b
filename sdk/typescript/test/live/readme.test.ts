/** The package, packed and installed without a network, and the programs of README.md exactly as they stand there. */

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Node, end, until } from "../support/node.js";

const PACKAGE = new URL("../../../", import.meta.url).pathname;
const readme = readFileSync(join(PACKAGE, "README.md"), "utf8");
const programs = [...readme.matchAll(/```js\n(.*?)```/gs)].map(([, program]) => program as string);
const ownEvents = /```ts\n(import \{ Client \}[^`]*?Client<GameEvents>.*?)```/s.exec(readme)?.[1];

describe("README.md", { timeout: 180_000 }, () => {
  let node: Node;
  const folder = mkdtempSync(join(tmpdir(), "guildhall-readme-"));
  before(async () => {
    node = await Node.start();
    execFileSync("npm", ["pack", "--offline", "--ignore-scripts", "--pack-destination", folder], { cwd: PACKAGE });
    writeFileSync(join(folder, "package.json"), '{"type":"module"}');
    execFileSync("npm", ["install", "--offline", "--no-audit", "--no-fund", join(folder, "guildhall-sdk-0.1.0.tgz")], { cwd: folder });
  });
  after(async () => {
    await node.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Runs a program until its output matches, posting meanwhile. */
  async function run(index: number, ...expected: RegExp[]): Promise<void> {
    const file = join(folder, `program${index}.js`);
    writeFileSync(file, programs[index] as string);
    const { demo } = node;
    const env = {
      ...process.env, GATEWAY: demo.gateway_url, BOT_TOKEN: demo.bot_token, USER_TOKEN: demo.user_token, GUILD_ID: demo.guild_id,
      CHANNEL_ID: demo.channel_ids[0], STATE_FILE: join(folder, "state.json"),
    };
    const child = spawn(process.execPath, [file], { env, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    child.stdout.on("data", (data) => void (output += String(data)));
    child.stderr.on("data", (data) => void (output += String(data)));
    const posting = setInterval(() => void node.post("hello from the test").catch(() => {}), 300);
    try {
      await until(`output of program ${index}`, () => expected.every((of) => of.test(output)) || child.exitCode !== null);
    } catch (error) {
      throw new Error(`${String(error)}\n${output}`);
    } finally {
      clearInterval(posting);
      child.kill("SIGTERM");
      await end(child, () => output);
    }
    for (const of of expected) assert.match(output, of);
    assert.doesNotMatch(output, /Error|Warning/);
  }

  test("has five programs", () => assert.equal(programs.length, 5));
  test("a bot", () => run(0, /^in The /m, /: hello from the test/));
  test("a user account", () => run(1, /channels$/m, /newest in #.*: \d+/));
  test("a member list", () => run(2, /\d+ of \d+ online, \d+ rows/, /^ {2}\w/m));
  test("codecs", () => run(3, /READY 1: \d+ bytes, \d+ on the wire, first byte 131/));
  test("a session that outlives the process", async () => {
    await run(4, /a new session/);
    await run(4, /resumed, \d+ events replayed/);
  });

  test("types: a project that uses the package, and names events of its backend", () => {
    const project = join(folder, "types");
    mkdirSync(project);
    writeFileSync(
      join(project, "main.ts"),
      `import { Client } from "@guildhall/sdk";
       import { zstdStream } from "@guildhall/sdk/codecs";
       declare module "@guildhall/sdk" { interface EventBodies { ROUND_STARTED: { round: number } } }
       const client = new Client({ url: "ws://x", token: "t", compression: zstdStream() });
       client.on("ROUND_STARTED", ({ round }) => round.toFixed());
       client.on("MESSAGE_CREATE", ({ author }) => author.username.trim());
      `,
    );
    assert.ok(ownEvents, "the example of own events");
    writeFileSync(join(project, "events.ts"), `declare const url: string, token: string;\n${ownEvents}`);
    cpSync(join(folder, "package.json"), join(project, "package.json"));
    symlinkSync(join(folder, "node_modules"), join(project, "node_modules"));
    const tsc = join(PACKAGE, "node_modules", "typescript", "bin", "tsc");
    for (const [module, resolution] of [["NodeNext", "NodeNext"], ["ESNext", "Bundler"]] as const) {
      const options = ["--noEmit", "--strict", "--target", "ES2022", "--lib", "ES2022,DOM", "--module", module, "--moduleResolution", resolution];
      try {
        execFileSync(process.execPath, [tsc, ...options, "main.ts", "events.ts"], { cwd: project, encoding: "utf8" });
      } catch (error) {
        assert.fail((error as { stdout: string }).stdout);
      }
    }
  });
});
