/** The page that trains, in Chromium: its steps against Node's, reload, download, accessibility. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Device } from '../../packages/tfjs-onnxruntime/src/onnxruntime/library.js'
import { buildTrainingPage } from '../../scripts/make/page.js'
import { loadRecipe } from '../../src/cli/recipeFile.js'
import { trainOptionsOf } from '../../src/run/define/choices.js'
import type { RunEvent } from '../../src/run/train/events.js'
import { train } from '../../src/run/train/train.js'
import { chromiumPath, noChromium } from '../kit/chromium.js'
import { compiled } from '../kit/compiled.js'
import { useEngine } from '../kit/engine.js'
import { useTemporaryFolder } from '../kit/runs.js'
import { type StaticSite, serveFolder } from '../kit/staticSite.js'
import { PHONE } from '../kit/viewPages.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

const IS_SHORT = process.env.LEARNING === 'short'
const STEPS = 3
const SMALL = {
  tasks: { prompts: 2, group: 4 },
  keep: { evalEvery: 10, evalTasks: 8, checkpointEvery: 1 },
}

/** A GPU in software, which comes with Chromium. */
const SWIFTSHADER = ['--enable-unsafe-webgpu', '--use-webgpu-adapter=swiftshader']

type StepEvent = Extract<RunEvent, { readonly type: 'step' }>
type SamplesEvent = Extract<RunEvent, { readonly type: 'samples' }>

/** Keeps the events that the worker of a page sends, as `trainingEvents`. */
const RECORDER = `
  globalThis.trainingEvents = []
  globalThis.Worker = class extends Worker {
    constructor(...given) {
      super(...given)
      this.addEventListener('message', ({ data }) => data.type === 'event' && trainingEvents.push(data.event))
    }
  }`

const eventsOf = async (page: Page): Promise<readonly RunEvent[]> =>
  JSON.parse(await page.evaluate<string>('JSON.stringify(trainingEvents)')) as readonly RunEvent[] // written by train

const stepsIn = (events: readonly RunEvent[]): readonly StepEvent[] =>
  events.filter((event): event is StepEvent => event.type === 'step')

/** The tokens and log-probs of the recorded completions, by step. */
const rowsIn = (events: readonly RunEvent[]) =>
  events
    .filter((event): event is SamplesEvent => event.type === 'samples')
    .flatMap(({ step, samples }) =>
      samples.map(({ tokens, logProbs, reward }) => ({ step, text: tokens.join(''), logProbs, reward })),
    )

/** The same run in Node, by a recipe. */
const nodeEvents = async (
  steps: number,
  { name = 'wordProblems', changed = SMALL }: { readonly name?: string; readonly changed?: object } = {},
): Promise<readonly RunEvent[]> => {
  const { recipe } = await loadRecipe(name)
  const settings = recipe.settings.parse({ ...changed, steps })
  const run = await recipe.build(settings, {})
  const events: RunEvent[] = []
  for await (const event of train(run, trainOptionsOf(settings as Parameters<typeof trainOptionsOf>[0])))
    events.push(event)
  return events
}

/** Compares steps of the page with those of Node: the same completions, and losses within 1e-4. */
const expectEqualSteps = (there: readonly RunEvent[], here: readonly RunEvent[]): void => {
  expect(stepsIn(there).map(({ step }) => step)).toEqual(stepsIn(here).map(({ step }) => step))
  for (const [i, { update, reward }] of stepsIn(there).entries()) {
    expect(reward).toBeCloseTo(stepsIn(here)[i]!.reward!, 6)
    expect(Math.abs(update.loss - stepsIn(here)[i]!.update.loss)).toBeLessThan(1e-4)
  }
  expect(rowsIn(there).map(({ text, reward }) => ({ text, reward }))).toEqual(
    rowsIn(here).map(({ text, reward }) => ({ text, reward })),
  )
  const gaps = rowsIn(there).flatMap(({ logProbs }, row) =>
    logProbs!.map((logProb, i) => Math.abs(logProb - rowsIn(here)[row]!.logProbs![i]!)),
  )
  expect(Math.max(...gaps)).toBeLessThan(1e-4)
}

const statusOf = (page: Page): Promise<string | null> => page.locator('#status').textContent()

describe.skipIf(noChromium !== undefined)(`the page that trains${noChromium ?? ''}`, () => {
  let isolated: StaticSite
  let plain: StaticSite
  let browser: Browser
  let problems: string[] = []

  beforeAll(async () => {
    await buildTrainingPage(path('site'))
    isolated = await serveFolder(path('site'), 'isolated')
    plain = await serveFolder(path('site'), 'plain')
    browser = await chromium.launch({ executablePath: chromiumPath, args: ['--no-sandbox', ...SWIFTSHADER] })
  })
  afterAll(async () => {
    await browser?.close()
    await isolated?.close()
    await plain?.close()
  })

  /** Opens the page and waits for the engine. */
  const open = async (
    context: BrowserContext,
    site: StaticSite,
    {
      settings = SMALL,
      device = 'cpu',
      file = '',
    }: { readonly settings?: object; readonly device?: Device; readonly file?: string } = {},
  ): Promise<Page> => {
    problems = []
    const page = await context.newPage()
    await page.addInitScript(RECORDER)
    page.on('pageerror', (error) => problems.push(String(error.stack)))
    page.on('console', (message) => void (message.type() === 'error' && problems.push(message.text())))
    await page.goto(`${site.origin}/${file}?${new URLSearchParams({ settings: JSON.stringify(settings), device })}`)
    await expect.poll(() => statusOf(page), { timeout: 240_000 }).toMatch(/Ready|saved|Failed/)
    return page
  }

  it('computes the rows and losses of Node, resumes after a reload, and its download evaluates alike', async () => {
    const context = await browser.newContext()
    const page = await open(context, isolated)
    expect(await statusOf(page)).toContain('onnxruntime WebAssembly')
    await page.fill('#steps', String(STEPS))
    await page.keyboard.press('Enter')
    await expect
      .poll(async () => (await eventsOf(page)).some(({ type }) => type === 'checkpoint'), { timeout: 600_000 })
      .toBe(true)
    const before = await eventsOf(page)
    await page.reload()
    await expect.poll(() => statusOf(page), { timeout: 240_000 }).toContain(`of ${STEPS}`)
    expect(await statusOf(page)).toContain('A run is saved at step')
    await page.getByRole('button', { name: 'Resume' }).click()
    await expect.poll(() => statusOf(page), { timeout: 600_000 }).toContain(`Finished at step ${STEPS}`)
    const after = await eventsOf(page)

    const first = stepsIn(after)[0]?.step ?? 0
    const there = [...before.filter((event) => !('step' in event) || event.step < first), ...after]
    expectEqualSteps(there, await nodeEvents(STEPS))

    const saving = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Download the run' }).click()
    await (await saving).saveAs(path('run.tar'))
    execFileSync('tar', ['xf', path('run.tar'), '-C', path('.')])
    const printed = execFileSync(
      process.execPath,
      [compiled('src/cli/main.ts'), 'eval', path('page'), '--threads', '1', '--json'],
      { encoding: 'utf8' },
    )
    const scores = JSON.parse(printed.trim().split('\n').at(-1)!) as { readonly scores: { readonly accuracy: number } } // the last line
    const evaluations = there.filter((event) => event.type === 'evaluation')
    const best = Math.max(...evaluations.map((event) => Object.values(event.scores)[0]!))
    expect(Object.values(scores.scores)[0]).toBeCloseTo(best, 6)
    expect(problems).toEqual([])
    await context.close()
  })

  it('computes the rows and losses of Node on WebGPU', async () => {
    const context = await browser.newContext()
    const changed = { ...SMALL, keep: { ...SMALL.keep, evalTasks: IS_SHORT ? 1 : 8 } }
    const page = await open(context, isolated, { settings: changed, device: 'webgpu' })
    expect(await statusOf(page)).toContain('onnxruntime WebGPU')
    const steps = IS_SHORT ? 1 : STEPS
    await page.fill('#steps', String(steps))
    await page.keyboard.press('Enter')
    await expect.poll(() => statusOf(page), { timeout: 1_200_000 }).toMatch(/Finished|Failed/)
    expectEqualSteps(await eventsOf(page), await nodeEvents(steps, { changed }))
    expect(problems).toEqual([])
    await context.close()
  })

  it('refuses WebGPU in a page that is not isolated, and names the headers', async () => {
    const context = await browser.newContext()
    const page = await open(context, plain, { device: 'webgpu' })
    expect(await statusOf(page)).toMatch(/Failed: .*Cross-Origin-Opener-Policy/)
    await context.close()
  })

  it('plays itself at poker: the steps are those of Node, and NashConv falls', async () => {
    const changed = { tasks: { prompts: 64 }, keep: { evalEvery: 4, checkpointEvery: 4 } }
    const context = await browser.newContext()
    const page = await open(context, isolated, { settings: changed, file: 'poker.html' })
    await page.fill('#steps', '12')
    await page.keyboard.press('Enter')
    await expect.poll(() => statusOf(page), { timeout: 1_200_000 }).toMatch(/Finished|Failed/)
    const there = await eventsOf(page)
    expectEqualSteps(there, await nodeEvents(12, { name: 'kuhnPoker', changed }))
    const nash = there.flatMap((event) => (event.type === 'evaluation' ? [event.scores.nashConv!] : []))
    expect(nash[0]).toBeGreaterThan(0.9)
    expect(nash.at(-1)).toBeLessThan(0.8)
    expect(problems).toEqual([])
    await context.close()
  })

  it.each(['light', 'dark'] as const)('has no fault of accessibility, also on a phone: %s', async (colorScheme) => {
    const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
    const context = await browser.newContext({ ...PHONE, colorScheme, bypassCSP: true })
    const page = await open(context, plain)
    expect(await statusOf(page)).toContain('1 thread')
    await page.evaluate(axe)
    const faults = await page.evaluate(
      "axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + ' ' + nodes[0].html))",
    )
    expect(faults).toEqual([])
    expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBeLessThanOrEqual(0)
    await page.fill('#reward', 'right / (1 + words')
    expect(await page.locator('#reward-problem').textContent()).not.toBe('')
    expect(await page.locator('#start').isDisabled()).toBe(true)
    await context.close()
  })

  it.skipIf(IS_SHORT).each(['isolated', 'plain'] as const)(
    'learns on a page that is %s: held-out accuracy rises from below 0.4 to above 0.8',
    async (kind) => {
      const context = await browser.newContext()
      const page = await open(context, kind === 'isolated' ? isolated : plain, { settings: {} })
      const started = performance.now()
      await page.getByRole('button', { name: 'Start' }).click()
      await expect.poll(() => statusOf(page), { timeout: 1_500_000 }).toMatch(/Finished|Failed/)
      const scores = (await eventsOf(page)).flatMap((event) =>
        event.type === 'evaluation' ? [Object.values(event.scores)[0]!] : [],
      )
      console.log(kind, `${((performance.now() - started) / 1000).toFixed(0)} s`, scores)
      expect(scores[0]).toBeLessThan(0.4)
      expect(scores.at(-1)).toBeGreaterThan(0.8)
      await context.close()
    },
  )
})
