/** Builds the documentation site, follows its links, and looks at its pages in Chromium. */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { RUNNABLE } from '../../site/pages.js'
import { noChromium } from '../kit/chromium.js'
import { usePages } from '../kit/viewPages.js'

const SITE = resolve('site/dist')

beforeAll(() => {
  execFileSync('npm', ['run', 'make', '--', 'site'], {
    stdio: 'pipe',
    env: { ...process.env, ONNXRUNTIME_NODE_INSTALL: 'skip' },
  })
})

const htmlFiles = (): readonly string[] =>
  readdirSync(SITE, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.html'))

const idsOf = (html: string): ReadonlySet<string> => new Set([...html.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id!))

describe('the site', () => {
  it('has no link to a page or heading that does not exist', () => {
    const pages = new Map(htmlFiles().map((name) => [name, readFileSync(join(SITE, name), 'utf8')]))
    const ids = new Map([...pages].map(([name, html]) => [name, idsOf(html)]))
    const broken = [...pages].flatMap(([name, html]) =>
      [...html.matchAll(/<a [^>]*href="([^"]+)"/g)].flatMap(([, href]) => {
        if (/^(?:[a-z]+:|\/\/)/.test(href!)) return []
        const [path = '', fragment = ''] = href!.split('#')
        const target = path === '' ? name : path.startsWith('/') ? path.slice(1) : join(dirname(name), path)
        const file = target === '' || target.endsWith('/') ? `${target}index.html` : target
        const page = file.endsWith('.html') || existsSync(join(SITE, file)) ? file : `${file}.html`
        if (!existsSync(join(SITE, page))) return [`${name}: ${href}`]
        const isThere = fragment === '' || ids.get(page)?.has(decodeURIComponent(fragment)) !== false
        return isThere ? [] : [`${name}: ${href}`]
      }),
    )
    expect(pages.size).toBeGreaterThan(100)
    expect([...new Set(broken)]).toEqual([])
  })
})

const AXE = resolve('node_modules/axe-core/axe.min.js')

interface AxeResult {
  readonly violations: readonly { readonly id: string; readonly nodes: readonly { readonly html: string }[] }[]
}

const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html',
  js: 'text/javascript',
  mjs: 'text/javascript',
  css: 'text/css',
  svg: 'image/svg+xml',
  json: 'application/json',
  wasm: 'application/wasm',
}

describe.skipIf(noChromium !== undefined)(`pages of the site${noChromium ?? ''}`, () => {
  const server = createServer((request, response) => {
    const path = new URL(request.url ?? '/', 'http://site').pathname
    const file = join(SITE, path.endsWith('/') ? `${path}index.html` : path)
    if (!file.startsWith(SITE) || !existsSync(file) || !statSync(file).isFile()) {
      response.writeHead(404).end()
      return
    }
    response.writeHead(200, { 'content-type': TYPES[file.split('.').at(-1) ?? ''] ?? 'application/octet-stream' })
    response.end(readFileSync(file))
  })
  let origin = ''
  beforeAll(async () => {
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}` // a server on TCP has an address with a port
  })
  afterAll(() => server.close())
  const pages = usePages(() => origin)

  it.each(['', 'guide/training.html', 'api/packages/host/src.html'])(
    'has no error and no accessibility fault: /%s',
    async (path) => {
      const page = await pages.visit(`${origin}/${path}`)
      await page.waitForSelector('.vp-doc h1')
      await page.addScriptTag({ path: AXE })
      // VitePress labels its search button "Search", and draws the keys that open it inside.
      const rules = JSON.stringify({ rules: { 'label-content-name-mismatch': { enabled: false } } })
      const { violations } = (await page.evaluate(`axe.run(${rules})`)) as AxeResult // as axe-core answers
      expect(violations.map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([])
    },
  )

  it.each([
    ['', 800_000],
    ['guide/training.html', 600_000],
    ['api/packages/host/src.html', 600_000],
    ['train/', 2_000_000],
  ])('/%s paints with less than %d bytes, all from this server', async (path, most) => {
    const page = await pages.visit(`${origin}/${path}`)
    await page.waitForSelector('h1')
    const readings = await page.evaluate<{
      paint: number
      bytes: number
      hosts: readonly string[]
    }>(`new Promise((done) =>
      new PerformanceObserver((list) => {
        const loaded = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
        done({
          paint: list.getEntries()[0].startTime,
          bytes: loaded.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0),
          hosts: [...new Set(loaded.map(({ name }) => new URL(name).origin))],
        })
      }).observe({ type: 'paint', buffered: true }))`)
    console.log(`/${path}: first paint after ${readings.paint.toFixed(0)} ms, ${readings.bytes} bytes`)
    expect(readings.paint).toBeGreaterThan(0)
    expect(readings.bytes).toBeLessThan(most)
    expect(readings.hosts).toEqual([origin])
  })

  it('has the page that trains, with a name for each control and the other page', async () => {
    const page = await pages.visit(`${origin}/train/`)
    await page.getByRole('link', { name: /poker/ }).click()
    await page.waitForURL(/poker/)
    await page.locator('#status', { hasText: 'Ready' }).waitFor()
  })

  it.each(RUNNABLE.map((name) => name.replace(/^\d+-/, '')))(
    'runs the programs of /guide/%s in place',
    async (name) => {
      const page = await pages.visit(`${origin}/guide/${name}.html`)
      await page.getByRole('button', { name: "Run this page's programs here" }).click()
      await page.locator('.run-page [role=status]', { hasText: 'all assertions hold' }).waitFor()
    },
  )

  it('finds a name of the API by search', async () => {
    const page = await pages.visit(`${origin}/`)
    await page.getByRole('button', { name: 'Search' }).click()
    await page.getByRole('searchbox').fill('GRPOLossOptions')
    await page.locator('.VPLocalSearchBox .result').first().waitFor()
  })
})
