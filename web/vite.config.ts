import { defineConfig } from "vite";

// `npm run dev` shows the page from its sources, and gets the answers from a running
// `steplake explore`, whose address SERVER names.
const server = process.env["SERVER"] ?? "http://127.0.0.1:31340";

export default defineConfig({
  // The preact plugin is only needed for hot reloading; the compiler knows JSX by itself.
  build: {
    target: "es2023",
    modulePreload: { polyfill: false },
    license: { fileName: "licences.txt" },
    // Small pictures would become data: addresses, which the server's policy forbids.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 400,
  },
  server: {
    proxy: {
      "/api": {
        target: server,
        changeOrigin: true,
        // The server refuses what another page than its own asks for.
        configure: (proxy) => proxy.on("proxyReq", (request) => request.removeHeader("origin")),
      },
    },
  },
});
