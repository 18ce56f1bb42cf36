import react from '@vitejs/plugin-react';
import { defineConfig } from 'vitest/config';

const webPort = process.env.KVCM_WEB_PORT ?? '8000';
const backend = process.env.KVCM_WEB_URL ?? `http://127.0.0.1:${webPort}`;

export default defineConfig(({ command }) => ({
  plugins: [react()],
  // Django serves the bundle under /static/; the pages themselves stay at the root.
  base: command === 'build' ? '/static/' : '/',
  build: {
    outDir: 'dist',
    assetsDir: 'assets',
    // A data: URI would need its own exception in the content security policy.
    assetsInlineLimit: 0,
    manifest: true,
    target: 'es2022',
  },
  server: {
    proxy: {
      '/api': { target: backend },
      '/ws': { target: backend, ws: true },
    },
  },
  test: {
    // Most of what is tested is pure; what draws asks for jsdom in its first line.
    environment: 'node',
    css: false,
  },
}));
