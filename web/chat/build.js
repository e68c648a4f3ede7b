// Builds the page into dist/.
//
//   node build.js           builds
//   node build.js --check   builds elsewhere and fails unless dist/ is what the sources build to
import { fileURLToPath } from "node:url";
import { build } from "vite";
import { buildPage } from "../build-page.mjs";

await buildPage({ name: "chat", root: fileURLToPath(new URL(".", import.meta.url)), gzipBytesMax: 200 * 1024, build });
