/** Laws of the training step of any loss. */
import { liveTensors, type Owned, own, ownedCount, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type LossStepOptions, NonFiniteLoss } from '../../src/learners/steps/lossStep.js'
import type { Params } from '../../src/modules/transformer/params.js'
import type { LossMetrics } from '../../src/objectives/loss.js'
import { mapNamed } from '../../src/objectives/updates/optimizer.js'
import { expectClose } from './close.js'
import { valuesOf } from './engine.js'
import type { RowStep } from './stepsOf.js'
import { descent } from './trainingRows.js'

type Descent = ReturnType<typeof descent.init>

/** One layer of eight numbers: enough for the law of a step. */
export const SMALL_DECODER = {
  layers: 1,
  hiddenSize: 8,
  intermediateSize: 8,
  heads: 2,
  keyValueHeads: 1,
  headSize: 4,
} as const

/** Weights that are made before the tests of a file, and freed after them. */
export const useParams = (make: () => Params): (() => Params) => {
  let params: Owned<Params>
  beforeAll(() => {
    params = own(scope(make))
  })
  afterAll(() => params.release())
  return () => params.value
}

/** The metrics that do not depend on micro-batches: all but those of computed places. */
export const undividedMetrics = <M extends object>(metrics: M): readonly (readonly [keyof M, number])[] =>
  Object.entries(metrics)
    .filter(([name]) => name !== 'computedPlaces' && name !== 'learnedFraction')
    .map(([name, value]) => [name as keyof M, value ?? 0]) // its own keys

/** Settings of a step that a law changes. */
export type StepChanges = Partial<Omit<LossStepOptions<Descent>, 'config' | 'optimizer'>>

/** A step of plain descent under test. */
export interface StepSubject<R, M> {
  readonly step: (changes: StepChanges & { readonly optimizer: typeof descent }) => RowStep<Descent, R, M>
  readonly params: () => Params
  /** Different ones for each seed: at least three groups or pairs. */
  readonly rows: (seed: number) => R
  /** The same rows with NaN for a number that counts. */
  readonly broken: (rows: R) => R
}

/**
 * One step of plain descent with rate 1: how far each parameter went, which is minus its gradient,
 * and the metrics.
 */
export const gradientOf = <R, M>({ step, params }: StepSubject<R, M>, rows: R, changes: StepChanges = {}) => {
  const made = step({ optimizer: descent, maxGradNorm: 1e9, ...changes })
  const { state, metrics } = made.update({ params: params(), optimizer: {} }, rows, 1)
  using after = state
  const gradients = scope(() =>
    Object.entries(params()).map(([name, p]) => [name, valuesOf(tf.sub(p, after.value.params[name]!))] as const),
  )
  made.release()
  return { gradients: Object.fromEntries(gradients), metrics }
}

/** The laws of a training step, as tests. */
export const describeStep = <R, M extends LossMetrics>(subject: StepSubject<R, M>): void => {
  describe('as any step of a loss', () => {
    it('gives the gradients and metrics of one batch in micro-batches of any size, with layers computed again or not', () => {
      fc.assert(
        fc.property(
          fc.constantFrom(1, 60),
          fc.constantFrom('none' as const, 'layers' as const),
          fc.nat(50),
          (microBatchTokens, recompute, seed) => {
            const rows = subject.rows(seed)
            const [whole, parts] = [
              gradientOf(subject, rows),
              gradientOf(subject, rows, { microBatchTokens, recompute }),
            ]
            for (const [name, values] of Object.entries(whole.gradients))
              expectClose(parts.gradients[name]!, values, { absolute: 3e-6, relative: 3e-6 })
            for (const [name, value] of undividedMetrics(whole.metrics))
              expectClose([(parts.metrics[name] as number | null) ?? 0], [value], { absolute: 3e-6, relative: 1e-5 }) // numbers or null
          },
        ),
        { numRuns: 2 },
      )
    })

    it('goes down the slope of its loss', () => {
      const rows = subject.rows(3)
      const { gradients, metrics } = gradientOf(subject, rows)
      const square = Object.values(gradients).reduce((sum, xs) => sum + xs.reduce((a, x) => a + x * x, 0), 0)
      expectClose([metrics.gradNorm], [Math.sqrt(square)], { relative: 1e-4 })
      const step = subject.step({ optimizer: descent })
      const size = 2e-3 / Math.sqrt(square)
      const lossAt = (shift: number): number =>
        scope(() => {
          const params = mapNamed(
            subject.params(),
            (p, g) => tf.add(p!, tf.mul(g!, shift)),
            Object.fromEntries(
              Object.entries(subject.params()).map(([n, p]) => [n, tf.tensor(gradients[n]!, p.shape)]),
            ),
          )
          const { state, metrics: there } = step.update({ params, optimizer: {} }, rows, 0)
          state.release()
          return there.loss
        })
      expectClose([(lossAt(size) - lossAt(-size)) / (2 * size)], [square], { relative: 5e-3 })
      step.release()
    })

    it('refuses numbers that are NaN, keeps nothing of them, and frees what it made on release', () => {
      const step = subject.step({ optimizer: descent })
      const before = [liveTensors().count, ownedCount()]
      const state = { params: subject.params(), optimizer: {} }
      const bad = subject.broken(subject.rows(1))
      expect(() => step.update(state, bad, 1)).toThrow(NonFiniteLoss)
      expect([liveTensors().count, ownedCount()]).toEqual(before)
      step.release()
    })
  })
}
