import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

/** A module of the SDK, from source as in the page: the tests need no build of the SDK. */
export async function sdk(name) {
  const path = fileURLToPath(new URL(`../../../sdk/typescript/src/${name}`, import.meta.url));
  const { module } = await runnerImport(path, { configFile: false });
  return module;
}
