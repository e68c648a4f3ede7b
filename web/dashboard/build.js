// Builds the page into dist/, as the node embeds it: each file plain, gzip and brotli, and embedded.rs, which lists them.
//
//   node build.js           builds
//   node build.js --check   builds elsewhere and fails unless dist/ is what the sources build to
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, brotliDecompressSync, constants, gunzipSync, gzipSync } from "node:zlib";
import { build } from "vite";

const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".wasm": "application/wasm",
  ".svg": "image/svg+xml",
};
/** All files together, gzipped. */
const GZIP_BYTES_MAX = 120 * 1024;

const root = fileURLToPath(new URL(".", import.meta.url));
const dist = join(root, "dist");

function files(folder) {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true });
  return names.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1)).sort();
}

const isCompressed = (name) => name.endsWith(".gz") || name.endsWith(".br");

async function buildInto(outDir) {
  await build({ root, configFile: join(root, "vite.config.js"), logLevel: "warn", build: { outDir } });
  let gzipped = 0;
  const rows = [];
  for (const name of files(outDir)) {
    const path = join(outDir, name);
    const bytes = readFileSync(path);
    const type = TYPES[extname(name)];
    if (!type) throw new Error(`${name}: no content type is known for it`);
    const gzip = gzipSync(bytes, { level: 9 });
    gzipped += gzip.length;
    writeFileSync(`${path}.gz`, gzip);
    const brotli = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length };
    writeFileSync(`${path}.br`, brotliCompressSync(bytes, { params: brotli }));
    const tag = createHash("sha256").update(bytes).digest("hex").slice(0, 16);
    rows.push(`    Asset {
        name: "${name}",
        content_type: "${type}",
        tag: "${tag}",
        plain: include_bytes!("${name}"),
        gzip: include_bytes!("${name}.gz"),
        brotli: include_bytes!("${name}.br"),
    },`);
  }
  if (gzipped > GZIP_BYTES_MAX) throw new Error(`the page has ${gzipped} bytes gzipped; it may have ${GZIP_BYTES_MAX}`);
  writeFileSync(join(outDir, "embedded.rs"), `// Written by web/dashboard/build.js.\nconst ASSETS: &[Asset] = &[\n${rows.join("\n")}\n];\n`);
  return gzipped;
}

if (process.argv.includes("--check")) {
  const fresh = mkdtempSync(join(tmpdir(), "guildhall-dashboard-"));
  try {
    await buildInto(fresh);
    const [wanted, found] = [files(fresh), files(dist)];
    const differ = wanted.filter((name) => !isCompressed(name) && (!found.includes(name) || !readFileSync(join(fresh, name)).equals(readFileSync(join(dist, name)))));
    const extra = found.filter((name) => !wanted.includes(name));
    // Compressors differ between versions of Node: what counts is what they hold.
    const stale = found.filter((name) => {
      if (!isCompressed(name)) return false;
      const bytes = readFileSync(join(dist, name));
      const plain = name.endsWith(".gz") ? gunzipSync(bytes) : brotliDecompressSync(bytes);
      return !plain.equals(readFileSync(join(dist, name.slice(0, -3))));
    });
    const wrong = [...differ, ...extra, ...stale];
    if (wrong.length > 0) {
      console.error(`web/dashboard/dist is not what its sources build to: ${wrong.join(", ")}. Run npm run build in web/dashboard, and commit dist.`);
      process.exitCode = 1;
    } else console.log(`web/dashboard/dist: ${found.length} files, as built from the sources`);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
} else {
  const gzipped = await buildInto(dist);
  console.log(`web/dashboard/dist: ${(gzipped / 1024).toFixed(1)} KiB gzipped in all`);
}
