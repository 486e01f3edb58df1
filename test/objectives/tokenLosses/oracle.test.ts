/**
 * Every policy loss, with any aggregation, divergences, bonus, weights and threshold, against
 * float64 on plain arrays: values and gradients.
 */
import { valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, it } from 'vitest'
import { type KLTerm, type PolicyLossOptions, policyLoss } from '../../../src/objectives/policyLoss.js'
import { KL_FORMS, klTerm } from '../../../src/objectives/tokenLosses/klForms.js'
import { expectClose } from '../../kit/close.js'
import { useEngine, valuesOf } from '../../kit/engine.js'
import { type LossRows, lossNumbers } from '../../kit/policyLoss.js'
import {
  evenly,
  lossBatches,
  OBJECTIVE_CASES,
  type ObjectiveCase,
  oracleAggregation,
} from '../../kit/policyLossCases.js'
import { gradientOracle, klOracle, lossOracle, type OracleKL, type OracleSettings } from '../../kit/policyLossOracle.js'

useEngine()

const FLOAT32 = { absolute: 3e-6, relative: 1e-5 }

const kl = (to: 'reference' | 'behavior'): fc.Arbitrary<OracleKL & KLTerm> =>
  fc.record({
    to: fc.constant(to),
    form: fc.constantFrom(...KL_FORMS),
    coefficient: fc.constantFrom(0.3, 1),
    aggregation: fc.constantFrom('loss' as const, 'token-mean' as const),
    correction: fc.constantFrom('none' as const, 'ratio' as const),
  })

const extras = fc.record(
  {
    kl: fc.tuple(kl('reference'), kl('behavior')).chain((terms) => fc.subarray(terms)),
    entropyCoefficient: fc.constant(0.2),
    entropyAggregation: fc.constantFrom('loss' as const, 'token-mean' as const),
    klMaskThreshold: fc.constant(0.1),
  },
  { requiredKeys: [] },
)

const settings = ({ objective, spec, aggregations }: ObjectiveCase) =>
  fc
    .tuple(fc.constantFrom(...aggregations), extras)
    .map(([aggregation, more]): readonly [PolicyLossOptions, OracleSettings] => [
      { objective, aggregation, ...more },
      { objective: spec, aggregation: oracleAggregation(aggregation), ...more },
    ])

describe.each(OBJECTIVE_CASES)('$name against its equation', (given) => {
  it('has its value and its gradient, whatever is added to it', () => {
    fc.assert(
      fc.property(settings(given), lossBatches('either'), fc.boolean(), ([options, oracle], drawn, isWeighted) => {
        const { weights, ...rest } = drawn
        const rows: LossRows = isWeighted ? drawn : rest
        const { value, gradient } = lossNumbers(policyLoss(options), rows)
        expectClose([value], [lossOracle(oracle, rows, rows.logProbs)], FLOAT32)
        expectClose(gradient.flat(), gradientOracle(oracle, rows).flat(), FLOAT32)
      }),
      { numRuns: 6 },
    )
  })
})

describe('divergences of tokens', () => {
  it.each(KL_FORMS)('%s has the value and the gradient of its equation', (form) => {
    const away = evenly(-12, 12)
    fc.assert(
      fc.property(fc.array(away, { minLength: 1, maxLength: 8 }), (differences) => {
        const step = 1e-6
        const slope = (d: number): number => (klOracle(form, d + step, d) - klOracle(form, d - step, d)) / (2 * step)
        scope(() => {
          const { aux, grads } = valueAndGrad({ d: tf.tensor1d(differences) }, ({ d }) => {
            const each = klTerm(form, d)
            return { value: tf.sum(each), aux: { each } }
          })
          expectClose(
            valuesOf(aux.each),
            differences.map((d) => klOracle(form, d, d)),
            { absolute: 1e-5, relative: 1e-5 },
          )
          expectClose(valuesOf(grads.d!), differences.map(slope), { absolute: 1e-4, relative: 1e-4 })
          return []
        })
      }),
      { numRuns: 10 },
    )
  })
})
