import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

export default defineConfig({
  base: '/console/',
  plugins: [react()],
  build: {
    outDir: '../src/ebbtide/api/console_files',
    emptyOutDir: true,
    target: 'es2022',
    // Inlined files would be data: URLs, and the policy of the page allows those for images alone.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: {
    proxy: Object.fromEntries(
      ['/v1', '/user', '/admin', '/session', '/sessions', '/setup', '/health', '/openapi.json'].map((path) => [
        path,
        process.env.EBBTIDE_URL ?? 'http://127.0.0.1:8080',
      ]),
    ),
  },
});
