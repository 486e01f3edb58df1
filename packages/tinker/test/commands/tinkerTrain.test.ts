/** `tandem train --learner tinker` on our own server: kill and resume, and overlapped sampling. */
import { readFileSync } from 'node:fs'
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { liveHttpServer } from '@tandem-rl/host'
import { beforeAll, describe, expect, it } from 'vitest'
import { useEngine } from '../../../../test/kit/engine.js'
import {
  answeringModel,
  parseJsonLines,
  SMALL_FLAGS,
  tandem,
  tandemOk,
  useTemporaryFolder,
  writeAnsweringModel,
} from '../../../../test/kit/runs.js'
import { tinkerApp } from '../../src/server/app.js'

useEngine()

const path = useTemporaryFolder()
const cwd = path('.')

beforeAll(() => writeAnsweringModel(path('model')))

/** Arguments of a run on the server. */
type Train = (out: string, ...more: readonly string[]) => readonly string[]

/** Runs a test with a server of the model. */
const served = async (test: (train: Train, remote: readonly string[]) => Promise<void>): Promise<void> => {
  const app = tinkerApp({
    models: { answering: await answeringModel() },
    checkpoints: path('checkpoints'),
    key: keyFromSeed(1),
    limits: { samplers: 3 }, // fewer than the steps of a run
  })
  const server = orThrow(await liveHttpServer(app.fetch, { port: 0, refusal: (_, reason) => reason })())
  const remote = ['--learner', 'tinker', '--url', server.url, '--base-model', 'answering']
  const train: Train = (out, ...more) => [
    ...['train', '--model', 'model', ...SMALL_FLAGS, '--lora-rank', '4', '--steps', '6'],
    ...['--out', out, '--json', ...remote, ...more],
  ]
  try {
    await test(train, remote)
  } finally {
    await server.close({ graceMs: 0, atLimit: async () => {} })
    await app.close()
  }
}

interface Step {
  readonly type: string
  readonly step: number
  readonly reward: number
  readonly update: { readonly loss: number; readonly gradNorm: number; readonly maxLogProbGap: number }
  readonly overlap?: { readonly meanLag: number; readonly maxLag: number }
}

const stepsOf = (name: string): readonly Step[] =>
  parseJsonLines(readFileSync(path(`${name}/metrics.jsonl`), 'utf8')).filter(
    ({ type }) => type === 'step',
  ) as unknown as readonly Step[] // records of a run

describe('tandem train --learner tinker', () => {
  it(
    'resumes a killed run to the rewards and gradients of a run that was not interrupted',
    () =>
      served(async (train, remote) => {
        await tandemOk(train('whole'), { cwd })
        let sent = false
        const killed = await tandem(train('killed'), {
          cwd,
          onLine: (line) => {
            if (sent || !line.startsWith('{"type":"step","step":3,')) return undefined
            sent = true
            return 'SIGKILL'
          },
        })
        expect(killed.signal).toBe('SIGKILL')
        await tandemOk(['train', '--resume', 'killed', '--json', ...remote], { cwd })
        const [whole, resumed] = [stepsOf('whole'), stepsOf('killed')]
        expect(whole.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6])
        expect(resumed.map(({ step, reward }) => [step, reward])).toEqual(
          whole.map(({ step, reward }) => [step, reward]),
        )
        for (const [i, { update }] of resumed.entries()) {
          expect(update.gradNorm).toBeCloseTo(whole[i]!.update.gradNorm, 4)
          expect(update.maxLogProbGap).toBeLessThan(1e-4)
        }
      }),
    240_000,
  )

  it(
    'samples while it trains, within a bound on staleness, and corrects stale tokens',
    () =>
      served(async (train) => {
        const ahead = ['--set', 'sampling.maxLag=1', '--set', 'sampling.stale=correct']
        await tandemOk(train('ahead', ...ahead), { cwd })
        const lags = stepsOf('ahead').map(({ overlap }) => overlap!.maxLag)
        expect(lags).toHaveLength(6)
        expect(Math.max(...lags)).toBe(1)
      }),
    240_000,
  )
})
