/** Exported pages: opened from a file, without a server. */
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { liveTimers } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import { beforeAll, expect, it } from 'vitest'
import { useTemporaryFolder } from '../../../../test/kit/runs.js'
import { describeInBrowsers, openRollout, usePages } from '../../../../test/kit/viewPages.js'
import { writeRun } from '../../../../test/kit/writtenRun.js'
import { exportedPage } from '../../src/server.js'

const HOSTILE = '</script><script>document.title="owned"</script><!--<script>\u202e'

const path = useTemporaryFolder()
writeRun(path('first'), { learningRate: 0.1, reward: 0.25, query: HOSTILE })
writeRun(path('second'), { learningRate: 0.2, reward: 0.75 })
const rollout = (id: string, tokens: readonly string[], stopReason: string): string =>
  `${JSON.stringify({
    ...{ step: 1, trajectoryId: id, turn: 0, groupId: 'g0', query: HOSTILE, answer: null, tokens },
    ...{ logProbs: tokens.map(() => -1), reward: 1, advantage: 1, stopReason, policyVersion: 0 },
  })}\n`
appendFileSync(`${path('first')}/trajectories.jsonl`, rollout('t1', ['a', HOSTILE], 'length'))

const policyOf = (page: string): string => /Content-Security-Policy" content="([^"]*)"/.exec(page)?.[1] ?? ''

beforeAll(async () => {
  const folders = [path('first'), path('second')]
  const page = await exportedPage({ files: liveFiles, timers: liveTimers, folders })
  writeFileSync(path('page.html'), page)
})

it('a policy of an exported page names its scripts and styles by their hash', () => {
  const policy = policyOf(readFileSync(path('page.html'), 'utf8'))
  expect(policy).toMatch(/^default-src 'none'; script-src 'sha256-\S+=' 'sha256-\S+='; style-src 'sha256-\S+=';/)
  expect(policy).not.toContain('unsafe')
  expect(policy).not.toMatch(/(script|default)-src[^;]*data:/)
})

describeInBrowsers('exported pages', (browser) => {
  const pages = usePages(() => `file://${path('page.html')}`, browser)
  const visit = (hash: string) => pages.visit(`file://${path('page.html')}${hash}`)

  it('filter and show rollouts, draw hostile text as text, and request nothing', async () => {
    const page = await visit('#/run/first/rollouts?truncated=true')
    const asked: string[] = []
    page.on('request', (request) => asked.push(request.url()))
    await expect.poll(() => page.locator('.virtual a.row').count()).toBe(1)
    expect(await page.locator('.head [role="status"]').innerText()).toMatch(/^1 of 2/)
    await openRollout(page, 0)
    expect(await page.locator('.tok[data-token]').count()).toBe(2)
    await page.locator('.members').waitFor()
    expect(await page.title()).not.toContain('owned')
    expect(await page.locator('main script').count()).toBe(0)
    expect(asked).toEqual([])
  })

  it('compare runs: curves, and the settings that differ', async () => {
    const page = await visit('#/runs')
    for (const name of ['first', 'second']) await page.getByLabel(`Select ${name} to compare`).check()
    await page.getByRole('button', { name: 'Compare 2 runs' }).click()
    await expect
      .poll(() => page.locator('tr', { hasText: 'learner.learningRate' }).innerText())
      .toMatch(/0\.1.*0\.2|0\.2.*0\.1/s)
    expect(await page.locator('tr', { hasText: 'steps' }).count()).toBe(0)
    await page.locator('.chart canvas').first().waitFor()
    expect(await page.locator('.chart').first().locator('.reading > span').count()).toBe(2)
  })

  it('run no script that was added to them', async () => {
    const page = await visit('#/runs')
    await page.evaluate(`(() => {
      const script = document.createElement('script')
      script.textContent = 'document.title = "owned"'
      document.body.append(script)
    })()`)
    expect(await page.title()).not.toContain('owned')
    expect(pages.takeProblems().join()).toContain('Content')
  })
})
