/** Logs of other programs, recorded numbers of tokens, alarms on curves, reports. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { liveFiles } from '@tandem-rl/host'
import { expect, it } from 'vitest'
import { reportOfRun } from '../../../../src/run/report/reportOfRun.js'
import { evaluationRecord, stepRecord, trajectoryRecord } from '../../../../test/kit/records.js'
import { rightOf } from '../../../../test/kit/results.js'
import { useTemporaryFolder } from '../../../../test/kit/runs.js'
import {
  axeFaults,
  describeInBrowsers,
  openRollout,
  PHONE,
  usePages,
  useTheme,
} from '../../../../test/kit/viewPages.js'
import { useView } from '../../../../test/kit/viewServer.js'

const GOLDEN = fileURLToPath(new URL('../golden/foreign', import.meta.url))

const linesOf = (records: readonly object[]): string => records.map((each) => `${JSON.stringify(each)}\n`).join('')

/** Writes a run with an alarm and a rollout with all recorded numbers and a failed tool call. */
const writeRun = (folder: string): void => {
  mkdirSync(folder)
  const start = {
    at: '2026-11-23T09:00:00.000Z',
    version: '0.1.0',
    command: 'tandem train'.padEnd(300, ' --set a=b'),
    processor: 'P',
    node: 'v20',
  }
  const config = { format: 2, recipe: { name: 'word problems', file: null }, settings: { model: 'm' }, run: {}, start }
  writeFileSync(`${folder}/config.json`, JSON.stringify(config))
  const steps = [1, 2, 3, 4].map((step) => stepRecord(step, { truncated: step > 1 ? 0.9 : 0 }))
  const samples = [{ query: 'How many?', completion: 'Seven.', score: 1 }]
  const evaluations = [evaluationRecord(0, 1 / 3), evaluationRecord(4, 12345.678, { measure: 'return', samples })]
  writeFileSync(`${folder}/metrics.jsonl`, linesOf([evaluations[0]!, ...steps, evaluations[1]!]))
  const turn = trajectoryRecord(1, {
    ...{ format: 2, trainerLogProbs: [-0.1, -0.5, 0], entropies: [0.01, 2, 0], ratios: [1, 1.5, 1], clipped: [1] },
    toolCalls: [{ name: 'add', arguments: '{"x":2}' }],
    ...{ toolUse: { calls: 1, errors: 1 }, replies: [{ role: 'tool', text: 'error: y is missing', isError: true }] },
  })
  writeFileSync(`${folder}/trajectories.jsonl`, linesOf([turn, trajectoryRecord(1, { trajectoryId: 'b:0' })]))
}

const TEAM = fileURLToPath(new URL('../golden/foreignTeam/team.eval', import.meta.url))

const path = useTemporaryFolder()
writeRun(path('recorded'))
const view = useView(() => [path('recorded'), GOLDEN, TEAM])

describeInBrowsers('logs and recorded numbers', (browser) => {
  const pages = usePages(() => view.origin(), browser)

  it('lists logs of TRL, verifiers and Inspect with their format, and shows a conversation of each', async () => {
    const list = await pages.visit('#/runs?q=tag%3AInspect')
    await expect
      .poll(async () => (await list.locator('.run-name a').allInnerTexts()).sort())
      .toEqual(['sums.eval', 'team.eval'])
    for (const [run, texts] of [
      ['sums.eval', ['Be brief.', 'The answer is 4.']],
      ['traces.jsonl', ['2 + 2?', 'Sure.']],
      ['trl', ['Two and two?']],
    ] as const) {
      const page = await pages.visit(`#/run/${run}/rollouts`, { bypassCSP: true })
      await openRollout(page, run === 'trl' ? 4 : 0)
      for (const text of texts) await page.locator('.transcript').getByText(text).first().waitFor()
      expect(await axeFaults(page), run).toEqual([])
    }
  })

  it('draws the agents of an episode as a tree in time', async () => {
    const page = await pages.visit('#/run/team.eval/rollouts', { bypassCSP: true })
    await openRollout(page, 0)
    const lanes = page.locator('.agents .gantt li')
    expect(await lanes.locator('.lane-name').allInnerTexts()).toEqual([
      'coordinator',
      '└ searcher',
      '└ checker',
      '└ reader',
    ])
    await page.getByText('4 agents, up to 2 at once').waitFor()
    expect(await lanes.nth(1).locator('.track').getAttribute('aria-label')).toContain('Done: Search <b>here</b>.')
    for (const theme of ['light', 'dark'] as const) {
      await useTheme(page, theme)
      expect(await axeFaults(page), theme).toEqual([])
    }
  })

  it('offers no annotation of a log of another program', async () => {
    const page = await pages.visit('#/run/trl')
    await page.locator('.chart canvas').first().waitFor()
    expect(await page.getByRole('button', { name: 'Edit' }).count()).toBe(0)
  })

  it('colors tokens by entropy, ratio and gap, and marks failed tool calls', async () => {
    const page = await pages.visit('#/run/recorded/rollouts?toolErrors=true')
    await expect.poll(() => page.locator('.head [role="status"]').innerText()).toContain('1 of 2')
    await openRollout(page, 0)
    for (const name of ['Entropy', 'Ratio', 'Sampler–trainer gap', 'Clipped'])
      await page.getByRole('button', { name, exact: true }).click()
    await page.locator('.tok[data-token]').nth(1).hover()
    const tip = page.locator('.tip')
    for (const text of ['2 nats', '1.5000', 'yes']) await expect.poll(() => tip.innerText()).toContain(text)
    await page.locator('.turn.is-error').getByText('y is missing').last().waitFor()
    await page.locator('.call summary').getByText('add').waitFor()
  })

  it('marks alarms on the curves, with a link to the alarm', async () => {
    const page = await pages.visit('#/run/recorded')
    const mark = page.getByRole('link', { name: /^Alarm truncation at step 4: / }).first()
    await mark.waitFor()
    await mark.click()
    await expect.poll(() => page.url()).toContain('health?alarm=4')
  })

  it('the report fits its cards and a phone, and names the run', async () => {
    writeFileSync(path('report.html'), await rightOf(reportOfRun(liveFiles, path('recorded'))))
    for (const options of [{}, PHONE]) {
      const page = await pages.visit(pathToFileURL(path('report.html')).href, options)
      const wide =
        "[...document.querySelectorAll('.card, .about dd, html')].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent)"
      expect(await page.evaluate(wide)).toEqual([])
      expect(await page.locator('.about').innerText()).toContain('recorded')
      await page.getByText('Seven.').waitFor()
    }
  })
})
