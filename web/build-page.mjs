// Builds a page of web/ into its dist/, as the node embeds it: each file plain, gzip and brotli, and embedded.rs, which lists them.
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { brotliCompressSync, brotliDecompressSync, constants, gunzipSync, gzipSync } from "node:zlib";

const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".wasm": "application/wasm",
  ".svg": "image/svg+xml",
};

function files(folder) {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true });
  return names.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1)).sort();
}

const isCompressed = (name) => name.endsWith(".gz") || name.endsWith(".br");

async function buildInto(outDir, { name: page, root, gzipBytesMax, build }) {
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
  if (gzipped > gzipBytesMax) throw new Error(`the page has ${gzipped} bytes gzipped; it may have ${gzipBytesMax}`);
  writeFileSync(join(outDir, "embedded.rs"), `// Written by web/${page}/build.js.\nconst ASSETS: &[Asset] = &[\n${rows.join("\n")}\n];\n`);
  return gzipped;
}

/**
 * Builds the page `name` from the folder `root` with `build` of Vite; fails above `gzipBytesMax`, which all files together may have gzipped.
 * With `--check` it builds elsewhere instead, and the process fails unless dist/ is what the sources build to.
 */
export async function buildPage(page) {
  const dist = join(page.root, "dist");
  if (process.argv.includes("--check")) {
    const fresh = mkdtempSync(join(tmpdir(), "guildhall-page-"));
    try {
      await buildInto(fresh, page);
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
        console.error(`web/${page.name}/dist is not what its sources build to: ${wrong.join(", ")}. Run npm run build in web/${page.name}, and commit dist.`);
        process.exitCode = 1;
      } else console.log(`web/${page.name}/dist: ${found.length} files, as built from the sources`);
    } finally {
      rmSync(fresh, { recursive: true, force: true });
    }
  } else {
    const gzipped = await buildInto(dist, page);
    console.log(`web/${page.name}/dist: ${(gzipped / 1024).toFixed(1)} KiB gzipped in all`);
  }
}
