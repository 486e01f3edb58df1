import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { weightAverage } from '../../../src/objectives/updates/weightAverage.js'
import { useEngine, valuesOf } from '../../kit/engine.js'

useEngine()

const averaged = (
  kind: Parameters<typeof weightAverage>[0],
  from: readonly number[],
  to: readonly number[],
  steps: number,
): number[] => {
  const { init, update } = weightAverage(kind)
  return scope(() => {
    const params = { w: tf.tensor1d([...to]) }
    let average = init({ w: tf.tensor1d([...from]) })
    for (let step = 0; step < steps; step++) average = update(average, params, step)
    return valuesOf(average.w!)
  })
}

describe('weightAverage', () => {
  it.each([{ decay: 0.9 }, { decay: 0.999 }, { decay: 0.9999 }, { decay: 0.99999 }, 'uniform'] as const)(
    'leaves weights that do not change as they are: %j',
    (kind) => {
      const weights = [1, -0.3, 1e-5, 12_345.678].map(Math.fround)
      expect(averaged(kind, weights, weights, 300)).toEqual(weights)
    },
  )

  it('takes over the new weights where the old ones count little', () => {
    expect(averaged({ decay: 0 }, [1e8], [1], 1)).toEqual([1])
    expect(averaged({ decay: 0.25 }, [4], [8], 1)).toEqual([7])
    expect(averaged('uniform', [4], [8], 3)).toEqual([7])
  })
})
