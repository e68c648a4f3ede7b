/** The package as it is published: made without a network, from a clone with nothing but its dependencies, and used from elsewhere. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";

const folder = mkdtempSync(join(tmpdir(), "sdk-pack-"));
const user = join(folder, "user", "node_modules", "@guildhall", "sdk");
// npm has no registry: each of its requests fails.
const env = { ...process.env, npm_config_offline: "true", npm_config_registry: "http://127.0.0.1:9/", npm_config_cache: join(folder, "cache") };

before(() => {
  cpSync(".", join(folder, "clone"), { recursive: true, filter: (path) => !/(^|\/)(node_modules|build|dist)(\/|$)/.test(path) });
  symlinkSync(resolve("node_modules"), join(folder, "clone", "node_modules"));
  execFileSync("npm", ["pack", "--silent", "--pack-destination", folder], { cwd: join(folder, "clone"), env });
  mkdirSync(user, { recursive: true });
  const [tarball] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  assert.ok(tarball, "npm pack made no package");
  execFileSync("tar", ["-xzf", join(folder, tarball), "-C", user, "--strip-components=1"]);
});
after(() => rmSync(folder, { recursive: true, force: true }));

test("it has what the exports name, and nothing else", () => {
  assert.deepEqual(readdirSync(user).sort(), ["README.md", "dist", "package.json"]);
});

test("Node imports it, and decompresses with it", () => {
  const program = `
    import { Client, Intents } from "@guildhall/sdk";
    import { etf, zstdStream } from "@guildhall/sdk/codecs";
    const create = await zstdStream().prepare({ httpUrl: "http://127.0.0.1:9", encoding: etf.name });
    create().free();
    new Client({ url: "ws://127.0.0.1:9", token: "t", intents: Intents.GUILDS });
    console.log("well");
  `;
  writeFileSync(join(folder, "user", "program.mjs"), program);
  assert.equal(execFileSync(process.execPath, ["program.mjs"], { cwd: join(folder, "user"), encoding: "utf8" }), "well\n");
});
