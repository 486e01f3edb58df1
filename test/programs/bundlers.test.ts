/** Bundles a worker that trains, from the packed package, and runs it in Chromium. */
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Browser, chromium } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { chromiumPath, noChromium } from '../kit/chromium.js'
import { pack, userProject } from '../kit/packed.js'
import { serveFolder } from '../kit/staticSite.js'

const run = promisify(execFile)
const folder = mkdtempSync(join(tmpdir(), 'tandem-bundlers-'))
const project = join(folder, 'project')

/** The commands of bundlers, and the folder where each leaves the worker. */
const BUNDLERS = {
  esbuild: {
    command: [
      ...['esbuild', 'worker.js', 'main.js', '--bundle', '--format=esm', '--platform=browser'],
      ...['--external:node:*', '--outdir=out/esbuild'],
    ],
    worker: '.',
  },
  vite: { command: ['vite', 'build'], worker: 'assets' },
  webpack: { command: ['webpack', '--config', 'webpack.config.js'], worker: '.' },
} as const

describe.skipIf(noChromium !== undefined)(`a worker that trains${noChromium ?? ''}`, () => {
  let browser: Browser

  beforeAll(async () => {
    const made = await userProject(project, 'npm')
    const others = ['onnxruntime-web@1.30.0', 'esbuild@0.28', 'vite@7', 'webpack@5', 'webpack-cli@6']
    await made.add(others, await pack(folder))
    cpSync('test/programs/bundled', project, { recursive: true })
    browser = await chromium.launch({ executablePath: chromiumPath, args: ['--no-sandbox'] })
  })
  afterAll(async () => {
    await browser?.close()
    rmSync(folder, { recursive: true })
  })

  it.each(Object.entries(BUNDLERS))(
    'is bundled by %s without a warning and trains in Chromium',
    async (name, bundler) => {
      const { stdout, stderr } = await run('npx', ['--no-install', ...bundler.command], { cwd: project })
      expect(`${stdout}${stderr}`).not.toMatch(/\b(warning|error) in\b|\[WARNING\]/i)
      const out = join(project, 'out', name)
      const served = join(out, bundler.worker, 'onnxruntime-web')
      mkdirSync(served, { recursive: true })
      for (const end of ['mjs', 'wasm']) {
        const file = `ort-wasm-simd-threaded.${end}`
        cpSync(join(project, 'node_modules/onnxruntime-web/dist', file), join(served, file))
      }
      cpSync(join(project, 'node_modules/tandem-rl/models/word-problems'), join(out, 'model'), { recursive: true })
      if (name !== 'vite') cpSync(join(project, 'index.html'), join(out, 'index.html'))
      const site = await serveFolder(out, 'isolated')
      const page = await browser.newPage()
      await page.goto(`${site.origin}/`)
      await expect.poll(() => page.title(), { timeout: 240_000 }).toMatch(/^\{/)
      const result = JSON.parse(await page.title()) as { readonly gap: number } // written by the worker
      expect(result).toEqual({ engine: 'WebAssembly', version: 1, gap: expect.any(Number), tokens: expect.any(Number) })
      expect(result.gap).toBeLessThan(1e-4)
      await page.close()
      await site.close()
    },
  )
})
