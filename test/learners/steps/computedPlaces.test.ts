/** Computed places and learned tokens of a policy step. */
import { child, keyFromSeed, uniformInteger } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { isLeft } from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { distinctPrompts } from '../../../src/data/completions.js'
import { parallelStep } from '../../../src/learners/parallel/parallelStep.js'
import { startReplicas } from '../../../src/learners/parallel/replicas.js'
import { microBatches } from '../../../src/learners/steps/microBatches.js'
import { learnedTokens, stepRows, tensorsOfRows } from '../../../src/learners/steps/tokenRows.js'
import { initialParams } from '../../../src/modules/transformer/params.js'
import { completionStates, computedPlaces } from '../../../src/modules/transformer/score.js'
import { GRPOLoss } from '../../../src/objectives/grpoLoss.js'
import type { StepMetrics } from '../../../src/objectives/policyMetrics.js'
import { useEngine } from '../../kit/engine.js'
import { SMALL_DECODER, useParams } from '../../kit/lossSteps.js'
import { tinyConfig } from '../../kit/models.js'
import { rightOf } from '../../kit/results.js'
import { sameThread } from '../../kit/sameThread.js'
import { policyStep } from '../../kit/stepsOf.js'
import { descent, lossRows, type TrainingRows } from '../../kit/trainingRows.js'

useEngine()

/** A width that no other tensor of a forward pass has. */
const FEED_FORWARD = 11
const config = tinyConfig({ ...SMALL_DECODER, intermediateSize: FEED_FORWARD })
const params = useParams(() => initialParams(config, keyFromSeed(1), 0.5))

/** A prompt and its completions, by their lengths. */
interface Group {
  readonly prompt: number
  readonly completions: readonly number[]
}

const groupOf = (size: number, length: fc.Arbitrary<number>): fc.Arbitrary<Group> =>
  fc.record({ prompt: length, completions: fc.array(length, { minLength: size, maxLength: size }) })

/** Groups of one size, so that their rows share prompts, or of several sizes. */
const groups = (length: fc.Arbitrary<number>): fc.Arbitrary<readonly Group[]> => {
  const size = fc.integer({ min: 1, max: 4 })
  const all = (group: fc.Arbitrary<Group>) => fc.array(group, { minLength: 1, maxLength: 4 })
  return fc.oneof(
    size.chain((n) => all(groupOf(n, length))),
    all(size.chain((n) => groupOf(n, length))),
  )
}

const lengths = fc.integer({ min: 1, max: 40 })
/** Lengths that are not padded. */
const wholeLength = fc.constantFrom(16, 32)

/** Rows with different prompts for different groups, and a mask of about three of four tokens. */
const rowsOf = (given: readonly Group[]): TrainingRows => {
  const ids = (length: number, first: number): readonly number[] =>
    Array.from({ length }, (_, t) => (t === 0 ? first : t % config.vocabularySize))
  const rows = given.flatMap(({ prompt, completions }, i) =>
    completions.map((length) => ({ prompt: ids(prompt, i), completion: ids(length, 1) })),
  )
  const each = (f: (length: number, row: number) => readonly number[]) =>
    rows.map(({ completion: { length } }, row) => f(length, row))
  return {
    prompts: rows.map(({ prompt }) => prompt),
    completions: rows.map(({ completion }) => completion),
    masks: each((length, row) =>
      Array.from({ length }, (_, t) => Math.min(1, uniformInteger(child(keyFromSeed(7), row), 4, t))),
    ),
    oldLogProbs: each((length) => Array<number>(length).fill(-3)),
    advantages: rows.map((_, i) => (i % 2) - 0.5),
    temperature: 1,
  }
}

const tokenRowsOf = ({ prompts, completions, masks }: TrainingRows) =>
  stepRows({ prompts, completions, temperature: 1, lists: {}, ...(masks && { masks }) })

const placesOf = (rows: TrainingRows): number =>
  scope(() => computedPlaces(tensorsOfRows(tokenRowsOf(rows), config).batch))

/** The rows of the outputs of the feed-forward layer's first product, in a pass without a graph. */
const measuredPlaces = async (rows: TrainingRows): Promise<number> => {
  const profile = await tf.profile(() => {
    scope(() => completionStates(params(), config, tensorsOfRows(tokenRowsOf(rows), config).batch).size)
    return []
  })
  const products = profile.kernels.filter(
    ({ name, outputShapes: [shape] }) => /MatMul/.test(name) && shape?.at(-1) === FEED_FORWARD,
  )
  const computed = products.map(({ outputShapes: [shape] }) => shape!.slice(0, -1).reduce((n, size) => n * size, 1))
  return computed.reduce((sum, n) => sum + n, 0) / 2 // the gate and the values
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)
const tokensOf = (rows: readonly ArrayLike<number>[]): number => sum(rows.map(({ length }) => length))

type Options = Partial<Pick<Parameters<typeof policyStep>[0], 'microBatchTokens' | 'recompute'>>

const metricsOf = (rows: TrainingRows, options: Options = {}): StepMetrics => {
  const step = policyStep({ config, optimizer: descent, ...options })
  const { state, metrics } = step.update({ params: params(), optimizer: {} }, rows, 1)
  state.release()
  step.release()
  return metrics
}

const metricsOnWorkers = async (rows: TrainingRows, workers: number, options: Options): Promise<StepMetrics> => {
  const { recompute } = options
  const loss = GRPOLoss()
  const replicas = await rightOf(
    startReplicas({ config, loss, workers, threads: sameThread, ...(recompute && { recompute }) }),
  )
  const step = parallelStep(loss, { config, optimizer: descent, ...options }, replicas)
  const update = await step.update({ params: params(), optimizer: {} }, lossRows(rows), 1)()
  if (isLeft(update)) throw new Error(update.left.reason)
  update.right.state.release()
  step.release()
  await replicas.close()
  return update.right.metrics
}

describe('the number of computed places', () => {
  it('is at least that of the tokens given, each prompt once for its group, and of the tokens learned from', () => {
    fc.assert(
      fc.property(groups(lengths), (given) => {
        const rows = rowsOf(given)
        const { prompts, shared, completions } = tokenRowsOf(rows)
        expect(placesOf(rows)).toBeGreaterThanOrEqual(
          tokensOf(distinctPrompts(prompts, shared)) + tokensOf(completions),
        )
        expect(placesOf(rows)).toBeGreaterThanOrEqual(learnedTokens(rows))
      }),
      { numRuns: 100 },
    )
  })

  it('is that of all tokens given, without padding and shared prompts', () => {
    fc.assert(
      fc.property(
        ...([fc.integer({ min: 1, max: 4 }), wholeLength, wholeLength] as const),
        (count, prompt, completion) => {
          const rows = rowsOf(Array.from({ length: count }, () => ({ prompt, completions: [completion] })))
          expect(placesOf(rows)).toBe(tokensOf(rows.prompts) + tokensOf(rows.completions))
        },
      ),
    )
  })

  it('is less by (n - 1) times the length of a prompt if n rows share it', () => {
    fc.assert(
      fc.property(
        ...([fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 5 }), wholeLength, wholeLength] as const),
        (prompts, n, prompt, completion) => {
          const groupsOf = (count: number, size: number): readonly Group[] =>
            Array.from({ length: count }, () => ({ prompt, completions: Array<number>(size).fill(completion) }))
          const [shared, apart] = [rowsOf(groupsOf(prompts, n)), rowsOf(groupsOf(prompts * n, 1))]
          expect(placesOf(apart) - placesOf(shared)).toBe(prompts * (n - 1) * prompt)
        },
      ),
    )
  })

  it('is the number of rows of the products that are computed', async () => {
    await fc.assert(
      fc.asyncProperty(groups(lengths), async (given) => {
        const rows = rowsOf(given)
        expect(placesOf(rows)).toBe(await measuredPlaces(rows))
      }),
      { numRuns: 8 },
    )
  })
})

describe('the metrics of a policy step', () => {
  it('add up the places of the micro-batches, in one thread and on several workers', async () => {
    await fc.assert(
      fc.asyncProperty(
        ...([groups(lengths), fc.constantFrom(1, 100, 4096), fc.constantFrom(1, 2)] as const),
        async (given, microBatchTokens, workers) => {
          const rows = rowsOf(given)
          const micros = microBatches(tokenRowsOf(rows), { tokens: microBatchTokens, multipleOf: workers })
          const places = micros.map((micro) => scope(() => computedPlaces(tensorsOfRows(micro.rows, config).batch)))
          const metrics =
            workers === 1
              ? metricsOf(rows, { microBatchTokens })
              : await metricsOnWorkers(rows, workers, { microBatchTokens })
          expect(metrics.tokens).toBe(learnedTokens(rows))
          expect(metrics.computedPlaces).toBe(sum(places))
          expect(metrics.learnedFraction).toBe(metrics.tokens / sum(places))
        },
      ),
      { numRuns: 4 },
    )
  })

  it('count all padding if layers are recomputed', async () => {
    const rows = rowsOf([
      { prompt: 20, completions: [1, 30] },
      { prompt: 3, completions: [2, 2] },
    ])
    const places = 2 * 32 + 4 * 32
    expect(metricsOf(rows).computedPlaces).toBe(placesOf(rows))
    expect(placesOf(rows)).toBe(32 + 48)
    expect(metricsOf(rows, { recompute: 'layers' }).computedPlaces).toBe(places)
    const onWorkers = await metricsOnWorkers(rows, 2, { recompute: 'layers' })
    expect(onWorkers.computedPlaces).toBe(32 + 2 * 32 + (16 + 2 * 16)) // each micro-batch has one prompt
  })
})
