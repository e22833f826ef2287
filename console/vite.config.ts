import { svelte } from '@sveltejs/vite-plugin-svelte'
import type { Plugin } from 'vite'
import { defineConfig } from 'vitest/config'

// `npm run dev` asks the controller of a cluster on this machine: `gamay serve`
const controller = process.env.GAMAY_URL ?? 'http://localhost:9000'
const proxied = ['/sql', '/auth', '/queries', '/clientQuery', '/console/', '/tables', '/schemas', '/segments', '/cluster', '/zk']

export default defineConfig({
  plugins: [svelte(), forgetAwaited()],
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

/**
 * Have `{#await}` let go of the values it has shown.
 *
 * Svelte 5.57 notes each of them as a write of the effect around it, in a list that is emptied when an effect has run. What a
 * promise brings comes outside of any, so that the list grows for as long as the page is open, with all the answers in it.
 */
function forgetAwaited(): Plugin {
  let isDone = false
  const within = '/svelte/src/internal/client/dom/blocks/await.js'
  const [begin, end] = ['restore(false);', 'unset_context(false);']
  return {
    name: 'forget-awaited',
    apply: 'build',
    transform(code, id) {
      if (!id.endsWith(within)) return undefined
      if ([begin, end].some((part) => code.split(part).length !== 2)) this.error(`${within} is not as it was: see vite.config.ts`)
      isDone = true
      return {
        code:
          "import { set_untracked_writes, untracked_writes } from '../../runtime.js';\n" +
          code.replace(begin, `var writes = untracked_writes; ${begin}`).replace(end, `${end} set_untracked_writes(writes);`),
        map: null,
      }
    },
    buildEnd(error) {
      if (!error && !isDone) this.error(`${within} is not built from: see vite.config.ts`)
    },
  }
}

/** Return the address of what the development server has itself, nothing where the controller is to be asked. */
function ours(url: string): string | undefined {
  return /^\/console\/($|#|@|src\/|node_modules\/)/.test(url) ? url : undefined
}
