/** Pages of the run viewer in real browsers. */
import { spawnSync } from 'node:child_process'
import { chmodSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { type Browser, type BrowserContextOptions, chromium, firefox, type Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect } from 'vitest'
import { chromiumPath, noChromium } from './chromium.js'

const firefoxPath = process.env.FIREFOX_PATH ?? spawnSync('which', ['firefox-esr'], { encoding: 'utf8' }).stdout.trim()

/** Reason why there is no Firefox here; undefined if there is one. */
const noFirefox: string | undefined = firefoxPath === '' ? 'firefox-esr is not installed' : undefined

export type BrowserName = 'chromium' | 'firefox'

const MISSING: Readonly<Record<BrowserName, string | undefined>> = { chromium: noChromium, firefox: noFirefox }

/** The short form of the long stage drives one browser. */
const BROWSERS: readonly BrowserName[] = process.env.LEARNING === 'short' ? ['chromium'] : ['chromium', 'firefox']

/** Runs the same tests in every browser of this computer. */
export const describeInBrowsers = (title: string, tests: (browser: BrowserName) => void): void => {
  for (const browser of BROWSERS) {
    const missing = MISSING[browser]
    const why = missing === undefined ? '' : ` (skipped: ${missing})`
    describe.skipIf(missing !== undefined)(`${title} in ${browser}${why}`, () => tests(browser))
  }
}

const launch = (name: BrowserName): Promise<Browser> => {
  if (name === 'chromium') return chromium.launch({ executablePath: chromiumPath, args: ['--no-sandbox'] })
  const executablePath = fileURLToPath(new URL('firefoxRelay.mjs', import.meta.url))
  chmodSync(executablePath, 0o755)
  const env = { ...process.env, FIREFOX_PATH: firefoxPath }
  return firefox.launch({ channel: 'moz-firefox', executablePath, env })
}

/** Firefox of Debian cannot emulate these. */
const NO_EMULATION = { colorScheme: null, reducedMotion: null, forcedColors: null, contrast: null }

const WIDE: BrowserContextOptions = { viewport: { width: 1360, height: 860 }, reducedMotion: 'reduce' }

export const PHONE: BrowserContextOptions = { viewport: { width: 390, height: 800 }, hasTouch: true }

/**
 * Opens pages of the viewer in one browser. Every page of a test is closed after it, and the test
 * fails if a page wrote an error or a warning to its console.
 */
export const usePages = (origin: () => string, name: BrowserName = 'chromium') => {
  let browser: Browser
  let problems: string[] = []
  const open: Page[] = []
  beforeAll(async () => {
    browser = await launch(name)
  })
  afterEach(async () => {
    const found = problems
    problems = []
    await Promise.all(open.splice(0).map((page) => page.context().close()))
    expect(found).toEqual([])
  })
  afterAll(async () => {
    await browser.close()
  })

  /** Opens an address of the viewer, such as `#/runs`, or a whole address. */
  const visit = async (hash: string, options: BrowserContextOptions = {}): Promise<Page> => {
    const plain = name === 'firefox' ? NO_EMULATION : {}
    const context = await browser.newContext({ ...WIDE, ...plain, ...options })
    context.setDefaultTimeout(240_000) // on a busy machine, too
    const page = await context.newPage()
    open.push(page)
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) problems.push(message.text())
    })
    page.on('pageerror', (error) => problems.push(String(error.stack)))
    await page.goto(hash.startsWith('#') ? `${origin()}/${hash}` : hash)
    await page.waitForSelector('h1, [role="alert"]')
    return page
  }

  return {
    visit,
    /** Problems that the test expects: they are returned and forgotten. */
    takeProblems: (): readonly string[] => {
      const found = problems
      problems = []
      return found
    },
  }
}

/** Sets a field with a number. Firefox of Debian inserts typed digits before the old ones. */
export const fillNumber = (page: Page, label: string, value: number): Promise<unknown> =>
  page.getByLabel(label, { exact: true }).evaluate((element, text) => {
    Object.assign(element, { value: text })
    element.dispatchEvent(new Event('input', { bubbles: true }))
  }, String(value))

/** Switches an open page to a theme, whatever the browser can emulate. */
export const useTheme = (page: Page, theme: 'light' | 'dark'): Promise<unknown> =>
  page.evaluate(`document.documentElement.dataset.theme = '${theme}'`)

/** Returns the accessibility faults of a page, found by axe-core. The page needs `bypassCSP`. */
export const axeFaults = async (page: Page): Promise<readonly string[]> => {
  await page.waitForTimeout(300)
  await page.evaluate(readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8'))
  return page.evaluate(
    "axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + ' ' + nodes[0].html))",
  )
}

/** Opens the rollout in a row of the list. */
export const openRollout = async (page: Page, row: number): Promise<void> => {
  await page.locator('.virtual a.row').nth(row).click()
  await page.waitForSelector('.transcript')
}
