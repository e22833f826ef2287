import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vitest/config'

// `npm run dev` asks the controller of a cluster on this machine: `gamay serve`
const controller = process.env.GAMAY_URL ?? 'http://localhost:9000'
const proxied = ['/sql', '/auth', '/queries', '/clientQuery', '/console/', '/tables', '/schemas', '/segments', '/cluster', '/zk']

export default defineConfig({
  plugins: [svelte()],
  base: '/console/',
  build: {
    outDir: '../src/gamay/console/static',
    emptyOutDir: true,
    // the policy of the page allows no data: addresses but for images, and no inline scripts
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
    sourcemap: false,
    chunkSizeWarningLimit: 700,
  },
  server: {
    proxy: Object.fromEntries(
      proxied.map((path) => [path, { target: controller, bypass: (request) => ours(request.url ?? '') }]),
    ),
  },
  test: { include: ['src/**/*.test.ts'], environment: 'node' },
})

/** Return the address of what the development server has itself, nothing where the controller is to be asked. */
function ours(url: string): string | undefined {
  return /^\/console\/($|#|@|src\/|node_modules\/)/.test(url) ? url : undefined
}
