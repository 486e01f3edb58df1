/** Losses and advantages of users: in recipes, on threads, through kill and resume, on a server. */
import { readFileSync, writeFileSync } from 'node:fs'
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { liveHttpServer } from '@tandem-rl/host'
import { tinkerApp } from '@tandem-rl/tinker/server'
import { beforeAll, describe, expect, it } from 'vitest'
import { useEngine } from '../kit/engine.js'
import {
  answeringModel,
  contentsOf,
  parseJsonLines,
  SMALL_FLAGS,
  tandem,
  tandemOk,
  useTemporaryFolder,
  writeAnsweringModel,
} from '../kit/runs.js'

useEngine()

const path = useTemporaryFolder()
const cwd = path('.')
const program = (name: string): string => readFileSync(`examples/${name}.ts`, 'utf8')

beforeAll(async () => {
  await writeAnsweringModel(path('model'))
  for (const name of ['ownLoss', 'ownAdvantage', 'singleTurn', 'ownTool'])
    writeFileSync(path(`${name}.ts`), program(name))
})

const train = (name: string, out: string, ...more: readonly string[]): readonly string[] => [
  ...['train', `./${name}.ts`, '--model', 'model', ...SMALL_FLAGS, '--out', out, '--json', ...more],
]

const losses = (run: string): readonly number[] =>
  parseJsonLines(readFileSync(path(`${run}/metrics.jsonl`), 'utf8'))
    .filter(({ type }) => type === 'step')
    .map(({ update }) => (update as { readonly loss: number }).loss) // a record of a step

const codeLines = (name: string): number =>
  program(name)
    .split('\n')
    .filter((line) => line.trim() !== '' && !/^\s*(\/\*\*|\*|\/\/)/.test(line)).length

describe('the programs of examples', () => {
  it.each([
    ['singleTurn', 10],
    ['ownTool', 25],
    ['ownLoss', 12],
    ['ownAdvantage', 6],
  ])('%s has at most %d lines of code, and trains', async (name, most) => {
    expect(codeLines(name)).toBeLessThanOrEqual(most)
    await tandemOk(train(name, `${name}-run`, '--steps', '1'), { cwd })
    expect(losses(`${name}-run`)).toHaveLength(1)
  })
})

describe('a loss of a user', () => {
  it('trains on two threads as on one', async () => {
    await tandemOk(train('ownLoss', 'one', '--workers', '1'), { cwd })
    await tandemOk(train('ownLoss', 'two', '--workers', '2'), { cwd })
    const [one, two] = [losses('one'), losses('two')]
    expect(one).toHaveLength(4)
    for (const [step, loss] of two.entries()) expect(loss, `step ${step + 1}`).toBeCloseTo(one[step]!, 4)
    expect(one.some((loss) => loss !== 0)).toBe(true)
  })

  it('resumes a killed run with the parameters of one that was not interrupted, bit for bit', async () => {
    await tandemOk(train('ownLoss', 'whole'), { cwd })
    const killed = await tandem(train('ownLoss', 'killed'), {
      cwd,
      onLine: (line) => (line.startsWith('{"type":"step","step":3,') ? 'SIGKILL' : undefined),
    })
    expect(killed.signal).toBe('SIGKILL')
    await tandemOk(['train', '--resume', 'killed', '--json', '--threads', '1'], { cwd })
    const [whole, resumed] = ['whole', 'killed'].map((run) => contentsOf(path(`${run}/checkpoints/step-000004`)))
    for (const file of ['model.safetensors', 'optimizer.safetensors']) expect(resumed![file], file).toBe(whole![file])
  })

  it('with another formula under the same name is refused on resume, and so is an advantage', async () => {
    for (const [name, was, is] of [
      ['ownLoss', 'T.tf.neg(T.tf.mul(logProbs, advantages))', 'T.tf.mul(logProbs, advantages)'],
      ['ownAdvantage', 'r - Math.max', 'r - Math.min'],
    ] as const) {
      const changed = path(`${name}Changed.ts`)
      writeFileSync(changed, program(name))
      await tandemOk(train(`${name}Changed`, `${name}-changed`, '--steps', '2'), { cwd })
      writeFileSync(changed, program(name).replace(was, is))
      const resumed = await tandem(
        [
          ...['train', '--resume', `${name}-changed`, '--steps', '3', '--threads', '1'],
          ...['--accept-changes', '--trust-recipe'], // of rows and files, not of formulas
        ],
        { cwd },
      )
      expect(resumed).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('fingerprint: the formula has changed'),
      })
    }
  })

  it('trains on a Tinker server', async () => {
    const app = tinkerApp({
      models: { answering: await answeringModel() },
      checkpoints: path('checkpoints'),
      key: keyFromSeed(1),
    })
    const server = orThrow(await liveHttpServer(app.fetch, { port: 0, refusal: (_, reason) => reason })())
    try {
      const remote = ['--learner', 'tinker', '--url', server.url, '--base-model', 'answering', '--lora-rank', '4']
      await tandemOk(train('ownLoss', 'served', '--prompts', '4', '--group', '4', ...remote), { cwd })
      expect(losses('served')).toHaveLength(4)
      expect(losses('served').some((loss) => loss !== 0)).toBe(true)
    } finally {
      await server.close({ graceMs: 0, atLimit: async () => {} })
      await app.close()
    }
  })
})
