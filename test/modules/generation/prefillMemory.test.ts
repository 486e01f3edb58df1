/** Memory of weights after prompts were computed with them. */
import { keyFromSeed } from '@tandem-rl/base'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { expect, it } from 'vitest'
import { makeRunner } from '../../../src/modules/generation/runner/runner.js'
import { initialParams } from '../../../src/modules/transformer/params.js'
import { useOnnxRuntime } from '../../kit/engine.js'
import { collectGarbage } from '../../kit/memory.js'
import { tinyConfig } from '../../kit/models.js'

useOnnxRuntime()

it('fed weights are free after a prompt, as soon as their owner frees them', async () => {
  const runner = makeRunner(tinyConfig())
  const compute = (): readonly WeakRef<object>[] => {
    using params = own(scope(() => initialParams(tinyConfig(), keyFromSeed(1))))
    const arrays = Object.values(params.value).map((x) => new WeakRef<object>(x.dataSync()))
    const item = { tokens: Int32Array.of(1, 2, 3), past: [], inverseTemperature: 1, scores: 'last' } as const
    runner.prefill(params.value, [item], 'fed')
    return arrays
  }
  const arrays = compute()
  await collectGarbage()
  expect(arrays.filter((array) => array.deref() !== undefined)).toEqual([])
  runner.release()
})
