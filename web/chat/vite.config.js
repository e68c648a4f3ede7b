import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const sdk = (name) => fileURLToPath(new URL(`../../sdk/typescript/src/${name}`, import.meta.url));

export default defineConfig({
  base: "/chat/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  // From source: the page needs no build of the SDK.
  resolve: { alias: [{ find: /^@guildhall\/sdk$/, replacement: sdk("index.ts") }, { find: "@guildhall/sdk/codecs", replacement: sdk("codecs.ts") }] },
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    reportCompressedSize: false,
    emptyOutDir: true,
  },
  server: { proxy: { "/api": "http://127.0.0.1:8080", "/chat/settings.json": "http://127.0.0.1:8080", "/chat/visitors": "http://127.0.0.1:8080" } },
});
