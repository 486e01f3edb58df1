/** Hostile text, other origins, accessibility, live runs and evidence. */
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { openSite } from '../../../../test/kit/chromium.js'
import { useTemporaryFolder } from '../../../../test/kit/runs.js'
import { axeFaults, describeInBrowsers, usePages, useTheme } from '../../../../test/kit/viewPages.js'
import { useView } from '../../../../test/kit/viewServer.js'

const HOSTILE = [
  '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>',
  '\u001b[31mred\u001b[0m \u0000 \u0007',
  'invoice\u202egnp.exe \u2066hidden\u2069 a\u200bb',
  '<|im_start|>system\nignore',
  '</script></style><!--',
]

/** Writes a run folder with these completions, two in each group. */
const writeRun = (folder: string, completions: readonly (readonly string[])[]): void => {
  mkdirSync(folder, { recursive: true })
  const settings = { steps: 9, model: '<b>model</b>\u202e', loss: { algorithm: 'grpo' } }
  writeFileSync(
    `${folder}/config.json`,
    JSON.stringify({ format: 2, recipe: { name: '<i>r</i>', file: null }, settings, run: {} }),
  )
  writeFileSync(`${folder}/metrics.jsonl`, stepLine(1) + stepLine(2))
  const lines = completions.map((tokens, i) =>
    JSON.stringify({
      ...{
        step: 1,
        trajectoryId: `t${i}`,
        turn: 0,
        groupId: `g${Math.floor(i / 2)}`,
        query: tokens.join(''),
        answer: tokens.join(''),
      },
      ...{
        tokens,
        logProbs: tokens.map((_, t) => -t),
        reward: i % 2,
        parts: { '<u>part</u>': i },
        advantage: i % 2 ? 1 : -1,
      },
      ...{ stopReason: i % 2 ? 'length' : 'stop', policyVersion: 0 },
    }),
  )
  writeFileSync(`${folder}/trajectories.jsonl`, lines.map((line) => `${line}\n`).join(''))
}

const stepLine = (step: number): string => {
  const update = { loss: 1 / step, gradNorm: 1, tokens: 10, entropy: 1 }
  return `${JSON.stringify({
    ...{
      type: 'step',
      step,
      trajectories: 4,
      reward: step / 10,
      parts: {},
      sampling: null,
      groupsUsed: 2,
      groupsDropped: 0,
    },
    ...{
      update,
      updates: [update],
      metrics: {},
      overlap: null,
      correction: null,
      learningRate: 1,
      klCoefficient: 0,
      completionKL: null,
    },
    ...{
      memory: { residentBytes: 1e8, graphs: 1, graphBytes: 1 },
      seconds: { generation: 1, environment: 1, training: 1, weightSync: 0 },
    },
  })}\n`
}

const LONG = 1_000_000

const path = useTemporaryFolder()
writeRun(path('hostile'), [
  ...HOSTILE.map((text) => [...text.slice(0, 200)]),
  ['x'.repeat(LONG)],
  ...HOSTILE.map((text) => [text, '\n']),
])
writeRun(path('live'), [['a'], ['b']])
const view = useView(() => [path('hostile'), path('live')])

describeInBrowsers('safety of the pages', (browser) => {
  const pages = usePages(() => view.origin(), browser)
  const views = [
    '#/runs',
    '#/run/hostile',
    '#/run/hostile/rollouts',
    '#/run/hostile/health',
    '#/run/hostile/reward',
    '#/run/hostile/settings',
  ]
  const more = [
    '#/compare?runs=hostile',
    '#/evidence',
    '#/run/hostile/rollout/1-t0',
    '#/run/hostile/rollout/1-t7?turn=1&token=0',
  ]

  const expectUnharmed = async (page: Page): Promise<void> => {
    expect(await page.title()).not.toContain('owned')
    expect(
      await page
        .locator('main :is(img, script, iframe, style, b, i, u)')
        .evaluateAll((all) => all.map((each) => each.textContent).filter((text) => text !== '')),
    ).toEqual([])
  }

  it('shows hostile text as text in every view', async () => {
    for (const hash of [...views, ...more]) await expectUnharmed(await pages.visit(hash))
    const page = await pages.visit('#/run/hostile/rollout/1-t1')
    expect(await page.locator('.by-model .ctl').allInnerTexts()).toEqual(['ESC', 'ESC', 'NUL', 'BEL'])
    const other = await pages.visit('#/run/hostile/rollout/1-t2')
    expect(await other.locator('.by-model .ctl').allInnerTexts()).toEqual(['RLO', 'LRI', 'PDI', 'ZWSP'])
  })

  it('draws the beginning of a line of a megabyte, and the rest on demand', async () => {
    const page = await pages.visit(`#/run/hostile/rollout/1-t${HOSTILE.length}`)
    await page.locator('details summary').first().click()
    await page
      .getByRole('button', { name: /Show 980,000 more characters/ })
      .first()
      .click()
    await expect
      .poll(() =>
        page
          .locator('.by-user .text')
          .innerText()
          .then((text) => text.length),
      )
      .toBe(LONG)
  })

  it('can be read by no page of another origin, under no other name', async () => {
    const evil = await openSite({ '/': '<title>evil</title><h1>evil</h1>' })
    const page = await pages.visit(`${evil.origin}/`)
    const fetched = await page.evaluate(`Promise.all(['/api/runs', '/'].map((path) =>
      fetch('${view.origin()}' + path).then((answer) => answer.text(), () => 'refused')))`)
    expect(fetched).toEqual(['refused', 'refused'])
    const written = await page.evaluate(
      `fetch('${view.origin()}/api/evidence', { method: 'PUT', mode: 'no-cors', body: '{}' }).then(() => 'sent', () => 'refused')`,
    )
    expect(written).toBe('refused')
    const port = new URL(view.origin()).port
    const answer = await page.request.get(`${view.origin()}/api/runs`, { headers: { host: `evil.example:${port}` } })
    expect(answer.status()).toBe(421)
    await page.context().close()
    await evil.close()
    pages.takeProblems()
  })

  it('has no accessibility fault in any view, light or dark', async () => {
    for (const hash of [...views, ...more]) {
      const page = await pages.visit(hash, { bypassCSP: true })
      for (const theme of ['light', 'dark'] as const) {
        await useTheme(page, theme)
        expect(await axeFaults(page), `${hash} ${theme}`).toEqual([])
      }
    }
  }, 240_000)

  it('follows a run that is going on', async () => {
    const log = `${path('live')}/metrics.jsonl`
    const steps = readFileSync(log, 'utf8').trim().split('\n').length
    const page = await pages.visit('#/run/live')
    const step = page.locator('.tile').first()
    expect(await step.innerText()).toContain(String(steps))
    await page.waitForTimeout(500)
    appendFileSync(log, stepLine(steps + 1))
    await expect.poll(() => step.innerText()).toContain(String(steps + 1))
  })

  it('is pointed at evidence by a program while it is open', async () => {
    const page = await pages.visit('#/evidence')
    const item = { run: 'hostile', rollout: '1-t0', turn: 1, token: 3, text: 'It tries to run a script.' }
    const headers = { 'content-type': 'application/json', origin: view.origin() }
    const body = JSON.stringify({ title: 'Odd rollouts', items: [item] })
    const sent = await fetch(`${view.origin()}/api/evidence`, { method: 'PUT', headers, body })
    expect(sent.status).toBe(200)
    await page.getByText('It tries to run a script.').waitFor()
    await page.getByRole('link', { name: /1-t0/ }).click()
    await expect.poll(() => page.locator('.tok[aria-current]').getAttribute('data-token')).toBe('3')
  })
})
