/**
 * Places that `tandem train` is followed at: which there are for which options, what is refused
 * before a run begins, and how it ends.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { trace } from '@opentelemetry/api'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type FollowedRun, openTracking, type TrackingFlags } from '../../src/cli/tracking.js'
import type { RunEvent } from '../../src/run/train/events.js'
import { boardSteps } from '../kit/boardFiles.js'
import { type MlflowServer, mlflowServer } from '../kit/mlflowServer.js'
import { seriesOf } from '../kit/prometheusText.js'
import { stepRecord } from '../kit/records.js'
import { parseJsonLines, SMALL_FLAGS, tandem, useTemporaryFolder, writeAnsweringModel } from '../kit/runs.js'
import { trackioServer } from '../kit/trackioServer.js'
import { wandbServer } from '../kit/wandbServer.js'

const path = useTemporaryFolder()
const cwd = path('.')

let server: MlflowServer

beforeAll(async () => {
  server = await mlflowServer()
})
afterAll(() => server.close())

let made = 0

/** A run in a folder of its own. */
const newRun = (): FollowedRun => {
  const folder = path(`run ${made++}`)
  mkdirSync(folder)
  return { folder, isResumed: false }
}

/** A step with one phase. */
const step = (n: number): RunEvent => ({ ...stepRecord(n, { reward: n }), seconds: { generation: 1 } as never })
const EVENTS: readonly RunEvent[] = [
  { type: 'start', firstStep: 1, steps: 2, settings: { seed: 1 } },
  step(1),
  step(2),
  { type: 'end', summary: { steps: 2, status: 'finished' } } as RunEvent, // all that is looked at
]

async function* told(events: readonly (RunEvent | Error)[]): AsyncGenerator<RunEvent> {
  for (const event of events) {
    if (event instanceof Error) throw event
    yield event
  }
}

/**
 * Follows a run at the places of the flags. Between the last event and the end, `look` receives
 * the address of the metrics.
 */
const follow = async (
  flags: TrackingFlags,
  events: readonly (RunEvent | Error)[],
  look: (metrics: string | undefined) => Promise<void> = async () => undefined,
  run = newRun(),
) => {
  const said: string[] = []
  const tracking = await openTracking(flags, (text) => said.push(text))
  const seen: RunEvent[] = []
  let error: unknown
  try {
    for await (const event of tracking.follow(run, told(events))) seen.push(event)
  } catch (caught) {
    error = caught
  }
  const url = /metrics at (\S+)/.exec(said.join(''))?.[1]
  await look(url)
  await tracking.close()
  await tracking.close()
  return { said: said.join(''), seen, error, url, folder: run.folder }
}

describe('openTracking', () => {
  it('follows a run at exactly the places that were asked for, whatever they are', async () => {
    const flags = fc.record({
      tensorboard: fc.constantFrom(undefined, true as const, 'elsewhere'),
      mlflow: fc.boolean(),
      metrics: fc.boolean(),
    })
    await fc.assert(
      fc.asyncProperty(flags, async ({ tensorboard, mlflow, metrics }) => {
        const board = tensorboard === 'elsewhere' ? path(`board ${made}`) : tensorboard
        const runs = server.runs.length
        const { seen, error, url, folder } = await follow(
          {
            ...(board !== undefined && { tensorboard: board }),
            ...(mlflow && { mlflow: server.url }),
            ...(metrics && { metricsPort: 0 }),
          },
          EVENTS,
          async (address) => {
            if (address === undefined) return
            const scraped = expect.poll(async () => seriesOf(await (await fetch(address)).text()))
            await scraped.toMatchObject({ tandem_rollout_reward: 2, tandem_steps_total: 2, tandem_run_running: 0 })
          },
        )
        expect(error).toBeUndefined()
        expect(seen).toEqual(EVENTS)
        expect(readdirSync(folder)).toEqual([
          ...(board === true ? ['tensorboard'] : []),
          ...(mlflow ? ['tracking-id'] : []),
        ])
        if (board !== undefined) expect(readdirSync(board === true ? `${folder}/tensorboard` : board)).toHaveLength(1)
        expect(server.runs.length - runs).toBe(mlflow ? 1 : 0)
        if (mlflow) {
          expect(server.runs.at(-1)).toMatchObject({ marker: readFileSync(`${folder}/tracking-id`, 'utf8') })
          expect(server.runs.at(-1)!.states).toEqual(['RUNNING', 'FINISHED'])
        }
        expect(url === undefined).toBe(!metrics)
        if (url !== undefined) await expect(fetch(url)).rejects.toThrow('fetch failed')
      }),
      { numRuns: 12 },
    )
  })

  it('logs to Trackio and to Weights & Biases under the id of the run, authorized by variables', async () => {
    const [boards, wandb] = await Promise.all([trackioServer(), wandbServer()])
    vi.stubEnv('TRACKIO_WRITE_TOKEN', 'token')
    vi.stubEnv('WANDB_API_KEY', 'key')
    vi.stubEnv('WANDB_BASE_URL', wandb.url)
    const run = newRun()
    writeFileSync(`${run.folder}/tracking-id`, 'abc')
    const { said, seen, folder } = await follow({ trackio: boards.url, wandb: 'tandem' }, EVENTS, undefined, run)
    vi.unstubAllEnvs()
    expect([said, seen]).toEqual(['', EVENTS])
    expect(boards.logs().map(({ run, run_id, step }) => [run, run_id, step])).toEqual([
      [folder, 'abc', 1],
      [folder, 'abc', 2],
    ])
    expect(wandb.rows).toHaveLength(2)
    expect(wandb.last()).toMatchObject({ config: { seed: { value: 1 } }, exit: 0 })
    await Promise.all([boards.close(), wandb.close()])
  })

  it('rethrows the error of a run, and reports its failure', async () => {
    const { error } = await follow({ mlflow: server.url }, [...EVENTS.slice(0, 2), new Error('no memory')])
    expect(error).toMatchObject({ message: 'no memory' })
    expect(server.runs.at(-1)!.states).toEqual(['RUNNING', 'FAILED'])
  })

  it('records to the OpenTelemetry that is set up in the process', async () => {
    const spans = new InMemorySpanExporter()
    trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }))
    await follow({ otel: true }, EVENTS)
    trace.disable()
    expect(spans.getFinishedSpans().map(({ name }) => name)).toEqual(['generation', 'step', 'generation', 'step'])
  })

  it('warns once about a place that does not answer, reports what it lacks at the end, and continues', async () => {
    const { said, seen } = await follow({ mlflow: 'http://127.0.0.1:1', tensorboard: true }, EVENTS)
    expect(seen).toEqual(EVENTS)
    expect(said.match(/mlflow has not taken events/g)).toHaveLength(2)
    expect(said).toMatch(/mlflow lacks 4 events/)
    expect(said).not.toContain('tensorboard')
  })

  it('closes its port, too, when no run came of it', async () => {
    const said: string[] = []
    const tracking = await openTracking({ metricsPort: 0 }, (text) => said.push(text))
    const url = said.join('').trim().split(' ').at(-1)!
    expect((await fetch(url)).status).toBe(200)
    await tracking.close()
    await expect(fetch(url)).rejects.toThrow('fetch failed')
  })
})

describe('openTracking refuses', () => {
  const refused = (flags: TrackingFlags): Promise<unknown> =>
    openTracking(flags, () => undefined).then(
      () => undefined,
      (error: unknown) => error,
    )

  it('an address without a port, a server that is no address, a missing token, and OpenTelemetry without an SDK', async () => {
    expect(await refused({ metricsHost: '127.0.0.1' })).toMatchObject({
      ...{ name: 'CommandError', message: '--metrics-host requires --metrics-port' },
    })
    expect(await refused({ mlflow: 'nowhere' })).toMatchObject({
      ...{ name: 'CommandError', message: expect.stringMatching(/^--mlflow: /) },
    })
    vi.stubEnv('TRACKIO_WRITE_TOKEN', '')
    vi.stubEnv('WANDB_API_KEY', '')
    expect(await refused({ trackio: 'http://127.0.0.1:1' })).toMatchObject({
      ...{ name: 'CommandError', message: expect.stringMatching(/^--trackio: TRACKIO_WRITE_TOKEN is not set/) },
    })
    expect(await refused({ wandb: 'tandem' })).toMatchObject({
      ...{ name: 'CommandError', message: '--wandb: WANDB_API_KEY is not set' },
    })
    vi.unstubAllEnvs()
    expect(await refused({ otel: true })).toMatchObject({
      ...{ name: 'CommandError', message: expect.stringContaining('no OpenTelemetry SDK is set up') },
    })
  })
})

describe('tandem train', () => {
  beforeAll(async () => {
    await writeAnsweringModel(path('model'))
  })

  const train = (...args: readonly string[]): readonly string[] => [
    'train',
    '--model',
    'model',
    ...SMALL_FLAGS,
    ...args,
  ]

  it('is scraped while it runs, and after Ctrl-C reports the end to all trackers and exits with 130', async () => {
    const runs = server.runs.length
    let scraped: Readonly<Record<string, number>> = {}
    const scrape = async (url: string): Promise<void> => {
      while (!((scraped.tandem_steps_total ?? 0) >= 2)) scraped = seriesOf(await (await fetch(url)).text())
    }
    let scraping: Promise<void> | undefined
    let isStopped = false
    const { code, stdout, stderr } = await tandem(
      [
        ...train('--steps', '100000', '--out', 'followed', '--json', '--tensorboard', '--mlflow', server.url),
        ...['--metrics-port', '0', '--track-samples', '1'],
      ],
      {
        cwd,
        onSaid: (said) => {
          const url = /metrics at (\S+)\n/.exec(said)?.[1]
          if (url !== undefined) scraping ??= scrape(url)
        },
        onLine: (line) => {
          if (isStopped || !line.startsWith('{"type":"step"') || !((scraped.tandem_steps_total ?? 0) >= 2))
            return undefined
          isStopped = true
          return 'SIGINT'
        },
      },
    )
    expect(code, stderr).toBe(130)
    await scraping
    const last = parseJsonLines(stdout).at(-1)!
    expect(last).toMatchObject({ type: 'end', summary: { status: 'interrupted' } })
    expect(scraped).toMatchObject({ [`tandem_run_info{run="${path('followed')}"}`]: 1, tandem_run_running: 1 })
    expect(scraped['tandem_phase_seconds_count{phase="generation"}']).toBe(scraped.tandem_steps_total)
    const [board] = readdirSync(path('followed/tensorboard'))
    const rows = boardSteps([[board!, readFileSync(path(`followed/tensorboard/${board}`))]])
    expect(rows.filter(([at, tag]) => at === 1 && tag.startsWith('samples/'))).toHaveLength(1)
    expect(server.runs).toHaveLength(runs + 1)
    expect(server.runs.at(-1)!.states).toEqual(['RUNNING', 'KILLED'])
    const rewards = server.runs.at(-1)!.metrics.filter(({ key }) => key === 'rollout/reward')
    expect(rewards.map((each) => each.step)).toEqual(
      Array.from({ length: (last.summary as { steps: number }).steps }, (_, i) => i + 1), // as the match above says
    )
  })

  it('refuses a port that is in use, before there is a run folder', async () => {
    const taken = createServer()
    const port = await new Promise<number>((listening) => {
      taken.listen(0, '127.0.0.1', () => listening((taken.address() as { port: number }).port)) // a TCP server
    })
    const { code, stdout, stderr } = await tandem(train('--out', 'never', '--metrics-port', String(port)), { cwd })
    await new Promise((done) => taken.close(done))
    expect({ code, stdout, made: existsSync(path('never')) }).toEqual({ code: 1, stdout: '', made: false })
    expect(stderr).toMatch(new RegExp(`^tandem: cannot listen on 127.0.0.1:${port}: the port is in use`, 'm'))
  })
})
