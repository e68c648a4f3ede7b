import { defineConfig } from "vite";

export default defineConfig({
  base: "/dashboard/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    reportCompressedSize: false,
    emptyOutDir: true,
  },
  server: { proxy: { "/dashboard/api": "http://127.0.0.1:8080" } },
});
