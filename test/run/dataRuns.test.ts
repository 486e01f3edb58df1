/** Runs on data sets: batch order, bit-exact resume, evaluation, records without rewards. */
import { readFileSync } from 'node:fs'
import { History, message } from '@tandem-rl/text'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import type { PreferencePair } from '../../src/doors/datasets.js'
import { sharedParams } from '../../src/doors/models.js'
import { pairRater } from '../../src/doors/run.js'
import { data, get, TensorDict } from '../../src/doors/tensordict.js'
import * as T from '../../src/index.js'
import { useEngine } from '../kit/engine.js'
import { smallModel } from '../kit/learners.js'
import { contentsOf, parseJsonLines, useTemporaryFolder, withoutSeconds } from '../kit/runs.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

const sum = (i: number): readonly [string, string] => [`${i} + 1 =`, String(i + 1)]
const chats = Array.from({ length: 10 }, (_, i) => {
  const [question, answer] = sum(i)
  return History([message('user', question), message('assistant', answer)])
})
const pairs = Array.from({ length: 10 }, (_, i): PreferencePair => {
  const [question, answer] = sum(i)
  return { prompt: History([message('user', question)]), chosen: answer, rejected: 'none' }
})

const train = chats.slice(0, 7)

const sft = async (rows: readonly History[] = train) => {
  const model = await smallModel()
  const batch = T.chatBatch(model.text)
  const data = T.rowBatches({ name: 'sums', rows, size: 3, key: T.keyFromSeed(3), batch })
  const optimizer = T.adamW({ learningRate: 1e-2 })
  const learner = T.localLearner({ model, loss: T.SFTLoss(), optimizer, key: T.keyFromSeed(1) })
  const heldOut = T.rowBatches({ name: 'held out', rows: chats.slice(7), size: 2, batch })
  return T.defineRun({ data, learner, evaluate: [T.lossEvaluator({ data: heldOut, learner, score: 'loss' })] })
}

const KINDS = {
  sft: () => sft(),
  dpo: async () => {
    const model = await smallModel()
    const batch = T.pairBatch(model.text)
    const data = T.rowBatches({ name: 'pairs', rows: pairs.slice(0, 7), size: 3, key: T.keyFromSeed(3), batch })
    const optimizer = T.adamW({ learningRate: 1e-2 })
    const learner = T.localLearner({ model, loss: T.dpoLoss(), optimizer, key: T.keyFromSeed(1) })
    using params = sharedParams(model)
    const rate = pairRater(T.TransformersWrapper({ config: model.config, params: params.value }))
    const heldOut = T.rowBatches({ name: 'held out', rows: pairs.slice(7), size: 2, batch })
    return T.defineRun({ data, rate, learner, evaluate: [T.lossEvaluator({ data: heldOut, learner, rate })] })
  },
  reward: async () => {
    const model = await smallModel()
    const batch = T.pairBatch(model.text)
    const data = T.rowBatches({ name: 'pairs', rows: pairs.slice(0, 7), size: 3, key: T.keyFromSeed(3), batch })
    const optimizer = T.adamW({ learningRate: 1e-2 })
    const learner = T.localLearner({ model, loss: T.rewardModelLoss(), optimizer, key: T.keyFromSeed(1) })
    const heldOut = T.rowBatches({ name: 'held out', rows: pairs.slice(7), size: 2, batch })
    return T.defineRun({ data, learner, evaluate: [T.lossEvaluator({ data: heldOut, learner })] })
  },
} as const

type Kind = keyof typeof KINDS

const follow = async (kind: Kind, folder: string, steps = 4): Promise<readonly T.RunEvent[]> => {
  const events: T.RunEvent[] = []
  const every = { evaluate: 2, checkpoint: 2 }
  for await (const event of T.train(await KINDS[kind](), { steps, store: T.runFolder(path(folder)), every }))
    events.push(event)
  return events
}

const remains = (folder: string) => {
  const { 'progress.json': _, 'manifest.json': __, ...files } = contentsOf(path(`${folder}/checkpoints/step-000004`))
  const metrics = parseJsonLines(readFileSync(path(`${folder}/metrics.jsonl`), 'utf8'))
  return {
    metrics: withoutSeconds(metrics),
    weights: Object.entries(files).filter(([name]) => /safetensors/.test(name)),
  }
}

describe.each(['sft', 'dpo', 'reward'] as const)('a run of %s', (kind) => {
  it('logs the loss and no rewards, evaluates on held-out rows, and raises no alarm that needs rewards', async () => {
    const events = await follow(kind, `${kind}-whole`)
    const steps = events.filter((event) => event.type === 'step')
    expect(steps).toHaveLength(4)
    for (const step of steps) {
      expect(step.trajectories).toBe(3)
      expect(step.update.loss).toBeGreaterThan(0)
      for (const name of ['reward', 'turns', 'toolCalls', 'truncated', 'groupsWithoutSignal', 'policyVersion'])
        expect(step).not.toHaveProperty(name)
    }
    expect(events.filter(({ type }) => type === 'alarm')).toEqual([])
    const evaluations = events.filter((event) => event.type === 'evaluation')
    expect(evaluations.map(({ step }) => step)).toEqual([0, 2, 4])
    expect(evaluations[0]?.scores).toMatchObject({ loss: expect.any(Number), accuracy: expect.any(Number) })
    const report = readFileSync(path(`${kind}-whole/report.html`), 'utf8')
    expect(report).not.toContain('Reward and its parts')
    expect(report).toContain(kind === 'sft' ? 'loss on 3 tasks (held out)' : 'accuracy on 3 tasks (held out)')
    const summary = events.at(-1)
    expect(summary).toMatchObject({ type: 'end', summary: { rewardCurve: [], best: { name: 'held out' } } })
  })

  it('resumes after two steps to the same end, bit for bit', async () => {
    await follow(kind, `${kind}-halves`, 2)
    await follow(kind, `${kind}-halves`)
    expect(remains(`${kind}-halves`)).toEqual(remains(`${kind}-whole`))
    expect(remains(`${kind}-whole`).weights.length).toBeGreaterThan(1)
  })

  it('learns: the loss falls', async () => {
    const events = await follow(kind, `${kind}-long`, 20)
    const losses = events.flatMap((event) => (event.type === 'step' ? [event.update.loss] : []))
    expect(losses.at(-1)!).toBeLessThan(losses[0]! * 0.9)
  })
})

describe('a run on rows that is taken up again', () => {
  /** Makes the same rows again. */
  const madeAgain = () => train.map(({ messages }) => History([...messages]))
  const steps = async (rows: readonly History[], last: number): Promise<void> => {
    for await (const _ of T.train(await sft(rows), { steps: last, store: T.runFolder(path('rows')) })); // to its end
  }

  it('goes on with equal rows, and refuses as many other rows or another order of them, naming the rows', async () => {
    await steps(train, 1)
    const other = History([message('user', '3 + 1 ='), message('assistant', '5')])
    const refused = /with other parts: data\.rowsDigest was "[0-9a-f]{64}" and is "[0-9a-f]{64}"\. Resume/
    await expect(steps([...train.slice(0, 6), other], 2)).rejects.toThrow(refused)
    await expect(steps(train.toReversed(), 2)).rejects.toThrow(refused)
    await expect(steps(train.slice(1), 2)).rejects.toThrow('data.rows was 7 and is 6; data.rowsDigest was')
    await steps(madeAgain(), 2)
  })
})

describe('rowBatches', () => {
  const numbers = (count: number, size: number, seed?: number) =>
    T.rowBatches({
      ...{ name: 'numbers', rows: Array.from({ length: count }, (_, i) => i), size },
      ...(seed !== undefined && { key: T.keyFromSeed(seed) }),
      batch: (rows: readonly number[]) => E.right(TensorDict({ n: data(rows) }, [rows.length])),
    })

  const drawn = async (source: ReturnType<typeof numbers>, batches: number, from: number | null): Promise<number[]> => {
    const start = { step: 0, lastStep: 9, push: (version: number) => async () => E.right(version) }
    const open = await source.open({ ...start, position: from === null ? null : { row: from } })
    const found: number[] = []
    let { position } = open
    for (let i = 0; i < batches; i++) {
      const collected = T.orThrow(await open.collect({ position, klCoefficient: 0 })())
      found.push(...get(collected.batch.value, 'n').items)
      position = collected.position
      collected.batch.release()
    }
    return found
  }

  it('has every row once in each epoch, in another order, and goes on from any position', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: 1, max: 5 }),
        fc.nat(99),
        async (n, size, seed) => {
          const source = numbers(n, size, seed)
          const all = await drawn(source, 3 * n, null)
          for (let epoch = 0; epoch < 3 * size; epoch++)
            expect(all.slice(epoch * n, (epoch + 1) * n).toSorted((a, b) => a - b)).toEqual([...Array(n).keys()])
          expect(await drawn(source, 3 * n - 1, size)).toEqual(all.slice(size))
        },
      ),
      { numRuns: 30 },
    )
  })

  it('gives rows in order without a key, and every row once', () => {
    const batches = [...numbers(5, 2).once()].map((batch) => {
      const found = [...get(batch.value, 'n').items]
      batch.release()
      return found
    })
    expect(batches).toEqual([[0, 1], [2, 3], [4]])
  })

  it('refuses options that it does not have, as learners and evaluators do', async () => {
    const made = { name: 'numbers', rows: [1], size: 1, batch: () => E.right(TensorDict({}, [1])), shufle: 1 }
    expect(() => T.rowBatches(made)).toThrow("rowBatches: unknown option 'shufle'")
    const data = numbers(1, 1)
    const given = { data, learner: { measure: () => ({}) }, scores: 'loss' }
    expect(() => T.lossEvaluator(given)).toThrow("unknown option 'scores': did you mean 'score'?")
    const optimizer = T.adamW({ learningRate: 1e-2 })
    const parts = { model: await smallModel(), loss: T.SFTLoss(), optimizer, key: T.keyFromSeed(1) }
    const passes = { epochs: 1, epoch: 2 }
    expect(() => T.localLearner({ ...parts, passes })).toThrow("localLearner, passes: unknown option 'epoch'")
    const more = { ...parts, optimiser: optimizer }
    expect(() => T.localLearner(more)).toThrow("unknown option 'optimiser': did you mean 'optimizer'?")
  })

  it('refuses no rows, sizes that make no sense, and the position of another source', async () => {
    expect(() => numbers(0, 0)).toThrow('numbers has no rows; size must be a positive integer, got 0')
    await expect(
      numbers(2, 1).open({ step: 0, lastStep: 1, position: { batch: 1 }, push: (n) => async () => E.right(n) }),
    ).rejects.toThrow('not that of rows')
  })
})
