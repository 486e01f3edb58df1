import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { left } from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { orThrow } from '../../src/core/failure.js'
import { liveFiles } from '../../src/live/files.js'
import { type EvaluationRecord, type StepRecord, summarize, type TrajectoryRecord } from '../../src/run/records.js'
import { type ReportInput, renderReport } from '../../src/run/report.js'
import { DEFAULT_SETTINGS } from '../../src/run/settings.js'

const step = (number: number, changes: Partial<StepRecord> = {}): StepRecord => ({
  type: 'step',
  step: number,
  reward: 0.5,
  accuracy: 0.4,
  worked: 0.3,
  answered: 1,
  truncated: 0,
  completionTokens: 12,
  groupsUsed: 4,
  groupsDropped: 0,
  groupsWithoutSignal: 1,
  learningRate: 1e-4,
  updates: [],
  policyVersion: number - 1,
  seconds: { generation: 1, environment: 0.25, training: 2, weightSync: 0.01 },
  loss: 0.1,
  clipFraction: 0.02,
  cutFraction: 0,
  klApprox: 0,
  klToRef: 0.01,
  ess: 1,
  entropy: 0.2,
  gradNorm: 0.7,
  tokens: 384,
  maxLogProbGap: 0,
  ...changes,
})

const evaluation = (number: number, accuracy: number): EvaluationRecord => ({
  type: 'evaluation',
  step: number,
  problems: 200,
  accuracy,
  worked: accuracy,
  completionTokens: 10,
  seconds: 1,
})

const trajectory = (number: number, changes: Partial<TrajectoryRecord> = {}): TrajectoryRecord => ({
  step: number,
  groupId: '0:task-0',
  query: 'How many?',
  answer: '#### 7',
  tokens: ['<answer>', '7', '</answer>'],
  logProbs: [0, -0.5, 0],
  reward: 1,
  advantage: 0.9,
  stopReason: 'stop',
  policyVersion: number - 1,
  ...changes,
})

const reportInput = (changes: Partial<ReportInput> = {}): ReportInput => {
  const metrics = changes.metrics ?? [evaluation(0, 0.1), step(1), step(2), evaluation(2, 0.9)]
  const summary = summarize(
    metrics.filter((record) => record.type === 'step'),
    metrics.filter((record) => record.type === 'evaluation'),
    {
      status: 'finished',
      seed: 7,
      completionsPerStep: 32,
      secondsTotal: 12,
      checkpointSeconds: 0.1,
      policyVersion: 2,
      parameters: 1000,
      engine: {
        backend: 'onnxruntime',
        version: '1',
        threads: 2,
        compiles: 3,
        graphs: 3,
        graphBytes: 0,
        fallbacks: {},
      },
    },
  )
  return {
    summary,
    settings: { model: 'model', ...DEFAULT_SETTINGS },
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

  it('says first what came out', async () => {
    const html = await render(reportInput())
    expect(html).toContain('Accuracy on 200 held-out problems rose from 10.0 % to 90.0 % in 2 steps (12 s).')
  })

  it('says when accuracy fell, and that a run was interrupted', async () => {
    const input = reportInput({ metrics: [evaluation(0, 0.5), step(1), evaluation(1, 0.25)] })
    const html = await render({ ...input, summary: { ...input.summary, status: 'interrupted' } })
    expect(html).toContain('fell from 50.0 % to 25.0 %')
    expect(html).toContain('The run was interrupted.')
  })

  it('lists alarms, if there were any and somebody wanted them', async () => {
    const cut = [1, 2, 3].map((number) => step(number, { truncated: 0.9 }))
    const input = reportInput({ metrics: [evaluation(0, 0.1), ...cut, evaluation(3, 0.9)] })
    expect(await render(input)).toContain('<li>Step 3: truncation: the share of completions')
    expect(await render({ ...input, settings: { ...input.settings, alarms: 'off' } })).not.toContain('Alarms')
    expect(await render(reportInput())).not.toContain('Alarms')
  })

  it('tells of sampling beside learning, if there was any', async () => {
    const overlap = { meanLag: 0.5, maxLag: 1, stale: 2, failed: 0, filtered: 1, samplingSeconds: 3, bothSeconds: 2 }
    const beside = [1, 2].map((number) => step(number, { overlap }))
    const input = reportInput({ metrics: [evaluation(0, 0.1), ...beside, evaluation(2, 0.9)] })
    const html = await render(input)
    expect(html).toContain('<h2>Sampling beside learning</h2>')
    expect(html).toContain('stale, failed, without a signal</th><td>4, 0, 2</td>')
    expect(input.summary.tokensPerSecond.generation).toBeCloseTo((2 * 12 * 32) / 6, 6)
    expect(await render(reportInput())).not.toContain('beside learning')
  })

  it('runs no text that a model, a dataset or a path brought along', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string(), async (noise) => {
        const attack = `</script><script>alert(1)</script><!--${noise}" onload='x'>`
        const input = reportInput({
          trajectories: [trajectory(1, { query: attack, tokens: [attack], logProbs: [-1] })],
        })
        const html = await render({ ...input, settings: { ...input.settings, model: attack } })
        expect(html).not.toContain('<script>alert')
        expect(html.match(/<script[ >]/g)).toHaveLength(3)
        expect(dataOf(html)).toMatchObject({ trajectories: [{ query: attack, tokens: [attack] }] })
      }),
      { numRuns: 20 },
    )
  })

  it('gives charts one value for each step, and unknown ones as null', async () => {
    const metrics = [evaluation(0, 0.1), step(1, { klToRef: null }), step(2, { reward: 0.75 })]
    expect(dataOf(await render(reportInput({ metrics })))).toMatchObject({
      charts: { step: [1, 2], reward: [0.5, 0.75], klToRef: [null, 0.01], stepSeconds: [3.26, 3.26] },
    })
  })

  it('shows the first and the last steps of a long run, and says how many completions it left out', async () => {
    const trajectories = Array.from({ length: 200 }, (_, i) => trajectory(i + 1))
    const html = await render(reportInput({ trajectories }))
    const shown = (dataOf(html) as { trajectories: readonly TrajectoryRecord[] }).trajectories // by renderReport
    expect([shown.length, shown[0]?.step, shown.at(-1)?.step]).toEqual([60, 1, 200])
    expect(html).toContain('140 more completions are in trajectories.jsonl')
  })

  it('is a page also for a run that made no step', async () => {
    const html = await render(reportInput({ metrics: [evaluation(0, 0.1)], trajectories: [] }))
    expect(html).toContain('stayed from 10.0 % to 10.0 % in 0 steps')
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
      expect(dom.match(/<canvas/g)).toHaveLength(10)
      expect(dom).toContain('How many?')
      expect(dom).toMatch(/<span tabindex="0"[^>]*>&lt;b&gt;<\/span>/)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})
