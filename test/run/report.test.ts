import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { orThrow } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import fc from 'fast-check'
import { left } from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { summarizeRun, type TrajectoryRecord } from '../../src/run/metrics/records.js'
import type { chartData } from '../../src/run/report/charts.js'
import { type ReportInput, renderReport } from '../../src/run/report/report.js'
import {
  evaluationRecord as evaluation,
  stepRecord as step,
  summaryContext,
  trajectoryRecord as trajectory,
} from '../kit/records.js'

const reportInput = (changes: Partial<ReportInput> = {}): ReportInput => {
  const metrics = changes.metrics ?? [evaluation(0, 0.1), step(1), step(2), evaluation(2, 0.9)]
  const summary = summarizeRun(
    metrics.filter((record) => record.type === 'step'),
    metrics.filter((record) => record.type === 'evaluation'),
    summaryContext,
  )
  return {
    folder: 'runs/first',
    summary: { ...summary, engine: { ...summary.engine } },
    config: { format: 2, recipe: { name: 'word problems', file: null }, settings: { model: 'model' }, run: {} },
    alarms: {},
    metrics,
    trajectories: [trajectory(1), trajectory(2)],
    ...changes,
  }
}

const render = async (input: ReportInput): Promise<string> => orThrow(await renderReport(input)())

/** The data that the page's script reads. */
const dataOf = (html: string): unknown => {
  const start = html.indexOf('id="run-data">') + 'id="run-data">'.length
  return JSON.parse(html.slice(start, html.indexOf('</script>', start)))
}

describe('renderReport', () => {
  it('gives one page that refers to nothing outside itself', async () => {
    const html = await render(reportInput())
    const withoutScripts = html.replace(/<script>[\s\S]*?<\/script>/g, '')
    expect(withoutScripts).not.toMatch(/\b(src|href)=/)
    expect(html).not.toMatch(/@import|url\(/)
    expect(html).toMatch(/^<!doctype html>/)
  })

  it('allows the code of the page only, by its hash, and no request', async () => {
    const html = await render(reportInput())
    const [, policy = ''] = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(html) ?? []
    const scripts = [...html.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(([, text]) => text!)
    const hashes = scripts.map((text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`)
    expect(scripts).toHaveLength(2)
    expect(policy).toContain(`default-src 'none'; script-src ${hashes.join(' ')};`)
    expect(policy).not.toMatch(/https?:|\*/)
  })

  it('makes characters visible that reorder, hide or control others, wherever text of the run is', async () => {
    const hostile = 'a\u202eb\u0007\u200bc\u{e0041}'
    const record = { ...trajectory(1), query: hostile, tokens: [hostile], completion: hostile }
    const sample = { query: hostile, completion: hostile, score: 1 }
    const html = await render(
      reportInput({
        folder: hostile,
        config: { format: 2, recipe: { name: hostile, file: null }, settings: { model: hostile }, run: {} },
        metrics: [{ ...evaluation(0, 0.1), samples: [sample] }, step(1)],
        trajectories: [record],
      }),
    )
    expect(html).not.toMatch(/\p{Cf}/u)
    expect(JSON.stringify(dataOf(html))).not.toMatch(/\p{Cf}/u)
    for (const text of [html, JSON.stringify(dataOf(html))]) expect(text).toContain('u202eb\\')
  })

  it('names the run, its start, model, data set, command and machine, and leaves out what is unknown', async () => {
    const start = {
      at: '2026-11-23T09:30:00.000Z',
      version: '0.1.0',
      command: 'tandem train <b>',
      processor: 'P',
      node: 'v20',
    }
    const settings = { model: 'qwen', dataset: 'gsm8k' }
    const config = { format: 2 as const, recipe: { name: 'gsm8k', file: null }, settings, run: {} }
    const html = await render(reportInput({ config: { ...config, start } }))
    for (const [name, value] of [
      ...[
        ['Run', 'first'],
        ['Started', '2026-11-23 09:30 UTC'],
        ['Version', 'tandem-rl 0.1.0'],
        ['Model', 'qwen'],
      ],
      ...[
        ['Data set', 'gsm8k'],
        ['Command', 'tandem train &lt;b&gt;'],
        ['Machine', 'P, 2 threads, Node v20'],
      ],
    ])
      expect(html).toContain(`<dt>${name}</dt><dd>${value}</dd>`)
    expect(await render(reportInput({ config }))).not.toContain('<dt>Command</dt>')
  })

  it.each([
    ['1', 'P, 1 thread, Node v20'],
    ['2', 'P, 2 threads, Node v20'],
    ['unknown', 'P, Node v20'],
  ])('counts %s threads of the machine', async (threads, machine) => {
    const { summary, config } = reportInput()
    const start = { at: '2026-11-23T09:30:00.000Z', version: '0.1.0', command: 'c', processor: 'P', node: 'v20' }
    const input = reportInput({
      summary: { ...summary, engine: { ...summary.engine, threads } },
      config: { ...config, start },
    })
    expect(await render(input)).toContain(`<dt>Machine</dt><dd>${machine}</dd>`)
  })

  it('shows samples of the first and the last evaluation of each evaluator', async () => {
    const samples = (completion: string) => [{ query: '<i>q</i>', completion, score: 0.5 }]
    const sampled = [1, 2, 3].map((at) => ({ ...evaluation(at, 0.5), samples: samples(`answer ${at}`) }))
    const html = await render(reportInput({ metrics: [step(1), ...sampled, step(2)] }))
    expect([1, 2, 3].map((at) => html.includes(`answer ${at}`))).toEqual([true, false, true])
    expect(html).toContain('&lt;i&gt;q&lt;/i&gt;')
    expect(await render(reportInput())).not.toContain('Samples of evaluations')
  })

  it('says first what came out', async () => {
    const html = await render(reportInput())
    expect(html).toContain('In 2 steps (12 s), accuracy on 200 tasks (held out) rose from 10.0 % to 90.0 %.')
  })

  it('reports a fall in accuracy, and an interrupted run', async () => {
    const input = reportInput({ metrics: [evaluation(0, 0.5), step(1), evaluation(1, 0.25)] })
    const html = await render({ ...input, summary: { ...input.summary, status: 'interrupted' } })
    expect(html).toContain('fell from 50.0 % to 25.0 %')
    expect(html).toContain('The run did not reach its last step.')
  })

  it('lists alarms, if there were any and somebody wanted them', async () => {
    const cut = [1, 2, 3].map((number) => step(number, { truncated: 0.9 }))
    const input = reportInput({ metrics: [evaluation(0, 0.1), ...cut, evaluation(3, 0.9)] })
    expect(await render(input)).toContain('<li>Step 3: truncation: the share of completions')
    expect(await render({ ...input, alarms: { mode: 'off' } })).not.toContain('Alarms')
    expect(await render(reportInput())).not.toContain('Alarms')
  })

  it('reports overlapped sampling, if there was any', async () => {
    const overlap = { meanLag: 0.5, maxLag: 1, stale: 2, failed: 0, filtered: 1, samplingSeconds: 3, bothSeconds: 2 }
    const beside = [1, 2].map((number) => step(number, { overlap }))
    const input = reportInput({ metrics: [evaluation(0, 0.1), ...beside, evaluation(2, 0.9)] })
    const html = await render(input)
    expect(html).toContain('<h2>Sampling beside learning</h2>')
    expect(html).toContain('stale, failed, without a signal</th><td>4, 0, 2</td>')
    expect(input.summary.tokensPerSecond.generation).toBeCloseTo((2 * 384) / 6, 6)
    expect(await render(reportInput())).not.toContain('beside learning')
  })

  it('runs no text that a model, a dataset or a path brought along', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string(), async (noise) => {
        const attack = `</script><script>alert(1)</script><!--${noise}" onload='x'>`
        const input = reportInput({
          trajectories: [trajectory(1, { query: attack, tokens: [attack], logProbs: [-1] })],
        })
        const html = await render({ ...input, config: { ...input.config, settings: { model: attack } } })
        expect(html).not.toContain('<script>alert')
        expect(html.match(/<script[ >]/g)).toHaveLength(3)
        expect(dataOf(html)).toMatchObject({ trajectories: [{ query: attack, tokens: [attack] }] })
      }),
      { numRuns: 20 },
    )
  })

  it('gives charts one value for each step and evaluation, and unknown ones as null', async () => {
    const metrics = [evaluation(0, 0.1), step(1, { update: { klToRef: null } }), step(2, { reward: 0.75 })]
    const { charts } = dataOf(await render(reportInput({ metrics }))) as {
      readonly charts: ReturnType<typeof chartData>
    } // by renderReport
    const lines = [charts.learning, ...charts.grid].flatMap(({ title, steps, lines: all }) =>
      all.map(({ label, values }) => ({ title, label, steps, values })),
    )
    expect(lines.find(({ label }) => label === 'held out: accuracy')).toMatchObject({
      steps: [0, 1, 2],
      values: [0.1, null, null],
    })
    expect(lines.filter(({ values }) => values.length !== 2 && values.length !== 3)).toEqual([])
    expect(lines.some(({ values }) => values[0] === null && values[1] === 0.01)).toBe(true) // the divergence
  })

  it('shows the first and last steps of a long run, and counts the omitted completions', async () => {
    const trajectories = Array.from({ length: 200 }, (_, i) => trajectory(i + 1))
    const html = await render(reportInput({ trajectories }))
    const shown = (dataOf(html) as { trajectories: readonly TrajectoryRecord[] }).trajectories // by renderReport
    expect([shown.length, shown[0]?.step, shown.at(-1)?.step]).toEqual([60, 1, 200])
    expect(html).toContain('140 more completions are in trajectories.jsonl')
  })

  it('is a page also for a run that made no step', async () => {
    const html = await render(reportInput({ metrics: [evaluation(0, 0.1)], trajectories: [] }))
    expect(html).toContain('In 0 steps (12 s), accuracy on 200 tasks (held out) stayed from 10.0 % to 10.0 %.')
  })

  it('names the file when an asset of the page cannot be read', async () => {
    const result = await renderReport(reportInput(), {
      ...liveFiles,
      readText: (path) => liveFiles.readText(path.endsWith('page.js') ? `${path}.gone` : path),
    })()
    expect(result).toMatchObject(left({ _tag: 'FileFailure', code: 'ENOENT' }))
  })
})

const chromium = ['/usr/bin/chromium', '/usr/bin/google-chrome'].find((path) => existsSync(path))

describe('the page in a browser', () => {
  it.skipIf(chromium === undefined)('draws its charts and completions (needs chromium)', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tandem-report-'))
    try {
      const file = join(folder, 'report.html')
      writeFileSync(
        file,
        await render(reportInput({ trajectories: [trajectory(1, { tokens: ['<b>', '7'], logProbs: [0, -2] })] })),
      )
      const dom = execFileSync(
        chromium!,
        [
          '--headless=new',
          '--no-sandbox',
          '--disable-gpu',
          '--virtual-time-budget=3000',
          '--dump-dom',
          `file://${file}`,
        ],
        { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], timeout: 300_000 },
      )
      expect(dom.match(/<canvas/g)).toHaveLength(11)
      expect(dom).toContain('How many?')
      expect(dom).toMatch(/<span tabindex="0"[^>]*>&lt;b&gt;<\/span>/)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})
