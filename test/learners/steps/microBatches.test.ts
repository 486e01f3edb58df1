/** The division of a mini-batch, and updates with groups whose gradient is known to be zero. */
import { keyFromSeed } from '@tandem-rl/base'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { NamedTensors } from '../../../src/data/weights.js'
import { parallelStep } from '../../../src/learners/parallel/parallelStep.js'
import { startReplicas } from '../../../src/learners/parallel/replicas.js'
import type { LossStepOptions } from '../../../src/learners/steps/lossStep.js'
import { microBatches } from '../../../src/learners/steps/microBatches.js'
import { initialParams } from '../../../src/modules/transformer/params.js'
import { type PolicyLoss, policyLoss } from '../../../src/objectives/policyLoss.js'
import { clippedSurrogate } from '../../../src/objectives/tokenLosses/clippedSurrogate.js'
import { expectClose } from '../../kit/close.js'
import { useOnnxRuntime, valuesOf } from '../../kit/engine.js'
import { SMALL_DECODER, undividedMetrics, useParams } from '../../kit/lossSteps.js'
import { tinyConfig } from '../../kit/models.js'
import { rightOf } from '../../kit/results.js'
import { sameThread } from '../../kit/sameThread.js'
import { policyStep } from '../../kit/stepsOf.js'
import { descent, lossRows, rowsOf, type TrainingRows } from '../../kit/trainingRows.js'

useOnnxRuntime()

describe('micro-batches', () => {
  const cases = fc.record({
    isZero: fc.array(fc.boolean(), { minLength: 1, maxLength: 9 }),
    group: fc.integer({ min: 1, max: 3 }),
    tokens: fc.constantFrom(1, 20, 60, 4096),
    multipleOf: fc.integer({ min: 1, max: 3 }),
  })

  it('law: have every row once, with its lists, and groups without a gradient last', () => {
    fc.assert(
      fc.property(cases, ({ isZero, group, tokens, multipleOf }) => {
        const rows = isZero.flatMap((_, i) => Array.from({ length: group }, (_, j) => 10 * i + j))
        const micros = microBatches(
          {
            prompts: isZero.flatMap((_, i) => Array.from({ length: group }, () => [i, i])),
            shared: group,
            completions: rows.map((row) => [row, row, row]),
            masks: rows.map((row) => [row % 2, 1, 0]),
            temperature: 1,
            lists: { value: rows },
          },
          { tokens, multipleOf },
          isZero,
        )
        const places = micros.flatMap((micro) => micro.places)
        expect([...places].sort((a, b) => a - b)).toEqual([...rows.keys()])
        expect(micros.flatMap((micro): readonly unknown[] => micro.rows.lists.value!)).toEqual(
          places.map((place) => rows[place]),
        )
        expect(micros.flatMap((micro) => micro.rows.masks)).toEqual(places.map((place) => [rows[place]! % 2, 1, 0]))
        expect(micros.flatMap((micro) => micro.rows.prompts.map((prompt) => prompt[0]))).toEqual(
          places.map((place) => Math.floor(place / group)),
        )
        const zeros = micros.flatMap((micro) => micro.places.map((place) => isZero[Math.floor(place / group)]))
        expect(zeros).toEqual([...zeros].sort((a, b) => Number(a) - Number(b)))
        for (const { gradient, places } of micros)
          expect(gradient === 'zero').toBe(places.every((place) => isZero[Math.floor(place / group)]))
        if (tokens === 4096 && isZero.length >= 2 * multipleOf) expect(micros.length % multipleOf).toBe(0)
        if (!isZero.includes(true)) expect(places).toEqual([...rows.keys()])
      }),
    )
  })
})

const config = tinyConfig(SMALL_DECODER)
const params = useParams(() => initialParams(config, keyFromSeed(1), 0.5))
const MARKED = policyLoss()
/** The same loss, without the knowledge that gradients are zero. */
const UNMARKED = ((): PolicyLoss => {
  const objective = clippedSurrogate()
  return policyLoss({ objective: { ...objective, apply: (terms) => objective.apply(terms) } })
})()

type Options = Partial<LossStepOptions<object>>

const numbersOf = (tensors: NamedTensors): ReadonlyMap<string, readonly number[]> =>
  new Map(Object.entries(tensors).map(([name, tensor]) => [name, [...valuesOf(tensor)]]))

const updated = (rows: TrainingRows, loss: PolicyLoss, options: Options = {}) => {
  const step = policyStep({ config, optimizer: descent, loss, ...options } as Parameters<typeof policyStep>[0])
  const { state, metrics, tokens } = step.update({ params: params(), optimizer: {} }, rows, 1)
  using after = state
  const numbers = numbersOf(after.value.params)
  step.release()
  return { params: numbers, metrics, tokens: tokens! }
}
type Updated = ReturnType<typeof updated>

const updatedOnWorkers = async (rows: TrainingRows, workers: number): Promise<Updated> => {
  const replicas = await rightOf(startReplicas({ config, loss: MARKED, workers, threads: sameThread }))
  const step = parallelStep(MARKED, { config, optimizer: descent }, replicas)
  const { state, metrics, tokens } = await rightOf(step.update({ params: params(), optimizer: {} }, lossRows(rows), 1))
  using after = state
  const numbers = numbersOf(after.value.params)
  step.release()
  await replicas.close()
  return { params: numbers, metrics, tokens: tokens! }
}

const expectSame = (got: Updated, expected: Updated): void => {
  for (const [name, values] of expected.params)
    expectClose(got.params.get(name)!, [...values], { absolute: 3e-6, relative: 3e-6 })
  for (const [name, value] of undividedMetrics(expected.metrics))
    expectClose([got.metrics[name] ?? 0], [value], { absolute: 3e-6, relative: 1e-5 })
  for (const name of ['logProbs', 'entropies', 'ratios', 'clipped'] as const)
    for (const [i, row] of expected.tokens[name].entries())
      expectClose([...Array.from(got.tokens[name][i]!)], Array.from(row), { absolute: 3e-6, relative: 1e-5 })
}

/** Groups of three rows; those of `isZero` have no advantage, in one of the two forms. */
const rowsWith = (isZero: readonly boolean[], seed: number): TrainingRows => {
  const rows = rowsOf(
    config.vocabularySize,
    isZero.map(() => 3),
    seed,
  )
  const advantages = rows.advantages.map((x, row) => (isZero[Math.floor(row / 3)] ? 0 : (x as number)))
  if (seed % 2 === 0) return { ...rows, advantages }
  return {
    ...rows,
    advantages: rows.completions.map((completion, row) => Array.from(completion, () => advantages[row]!)),
  }
}

describe('an update with groups without advantages', () => {
  const patterns = fc.array(fc.boolean(), { minLength: 1, maxLength: 6 })

  it('law: equals one that computes their gradients, but for rounding, with tokens in order', () => {
    fc.assert(
      fc.property(patterns, fc.constantFrom(1, 60, 4096), fc.nat(50), (isZero, microBatchTokens, seed) => {
        const rows = rowsWith(isZero, seed)
        expectSame(updated(rows, MARKED, { microBatchTokens }), updated(rows, UNMARKED))
      }),
      { numRuns: 6 },
    )
  })

  it('law: on several workers, too', async () => {
    await fc.assert(
      fc.asyncProperty(patterns, fc.constantFrom(2, 3), fc.nat(50), async (isZero, workers, seed) => {
        const rows = rowsWith(isZero, seed)
        expectSame(await updatedOnWorkers(rows, workers), updated(rows, UNMARKED))
      }),
      { numRuns: 4 },
    )
  })

  it('also with recomputed layers, and where masks hide all advantages of a group', () => {
    const rows = rowsWith([false, true, false, true], 2)
    const masks = rows.completions.map((completion, row) => Array.from(completion, () => (row < 3 ? 0 : 1)))
    for (const each of [rows, { ...rows, masks }])
      expectSame(updated(each, MARKED, { recompute: 'layers', microBatchTokens: 1 }), updated(each, UNMARKED))
  })

  it('leaves the parameters as they are if no group has any', () => {
    const { params: after, metrics } = updated(rowsWith([true, true], 3), MARKED, { microBatchTokens: 1 })
    expect(metrics.gradNorm).toBe(0)
    expect(after).toEqual(numbersOf(params()))
  })

  it('still refuses log-probabilities that are not finite', () => {
    const rows = rowsWith([true, false], 2)
    const oldLogProbs = rows.oldLogProbs.map((row, i) => (i === 0 ? Array.from(row, () => Number.NaN) : row))
    expect(() => updated({ ...rows, oldLogProbs }, MARKED, { microBatchTokens: 1 })).toThrow('the loss is NaN')
  })
})
