import { child, type Key, keyFromSeed, uniformInteger } from '@tandem-rl/base'
import { liveTensors, type Owned, own, ownedCount, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { completionKeys, makeGenerator } from '../../src/modules/generation/generator.js'
import { initialParams, type Params } from '../../src/modules/transformer/params.js'
import { adamW } from '../../src/objectives/updates/adamW.js'
import { useOnnxRuntime } from '../kit/engine.js'
import { collectGarbage } from '../kit/memory.js'
import { tinyConfig } from '../kit/models.js'
import { policyStep } from '../kit/stepsOf.js'
import type { TrainingRows } from '../kit/trainingRows.js'

const { backend } = useOnnxRuntime()

const STEPS = 10_000
/** Steps after which every bucket of lengths has been seen. */
const WARM_UP = 500
/** Steps after which the garbage collector has found its pace: from then on memory is flat. */
const SETTLED = 5_000
const PROMPTS = 2
const GROUP = 2

const config = tinyConfig({ layers: 1, hiddenSize: 8, intermediateSize: 8, heads: 2, keyValueHeads: 1, headSize: 4 })

const idsOf = (key: Key, length: number): Int32Array =>
  Int32Array.from({ length }, (_, i) => 4 + uniformInteger(key, config.vocabularySize - 4, i))

/** Rows of 1 to `longest` ids; the first has them all, so that the bucket is known. */
const drawRows = (key: Key, count: number, longest: number): readonly Int32Array[] =>
  Array.from({ length: count }, (_, i) => {
    const own = child(key, i)
    return idsOf(own, i === 0 ? longest : 1 + uniformInteger(child(own, 'length'), longest))
  })

/**
 * Prompts of up to 16 or 32 and completions of up to 16, 32 or 48 tokens: six combinations of
 * buckets, equally often.
 */
const rowsOf = (key: Key): TrainingRows => {
  const bucket = uniformInteger(child(key, 'bucket'), 6)
  const prompts = drawRows(child(key, 'prompts'), PROMPTS, 16 * (1 + (bucket % 2)))
  const completions = drawRows(child(key, 'completions'), PROMPTS * GROUP, 16 * (1 + Math.floor(bucket / 2)))
  return {
    prompts: completions.map((_, i) => prompts[Math.floor(i / GROUP)]!),
    completions,
    oldLogProbs: completions.map((row) => Float32Array.from(row, () => -3)),
    advantages: completions.map((_, i) => (i % 2 === 0 ? 1 : -1)),
    temperature: 1,
  }
}

interface Reading {
  readonly tensors: number
  readonly bytes: number
  readonly owned: number
  readonly dataIds: number
  readonly sessions: number
}

const read = (): Reading => ({
  tensors: liveTensors().count,
  bytes: liveTensors().bytes,
  owned: ownedCount(),
  dataIds: backend().kernelBackend.numDataIds(),
  sessions: backend().stats().cachedSessions,
})

const MEGABYTE = 2 ** 20

/**
 * The memory in use after a garbage collection: JavaScript's own to the byte, that of the process
 * with the slack of allocators.
 */
const memoryInUse = async (): Promise<{ readonly javascript: number; readonly resident: number }> => {
  await collectGarbage()
  const { heapUsed, external, rss } = process.memoryUsage()
  return { javascript: (heapUsed + external) / MEGABYTE, resident: rss / MEGABYTE }
}

describe(`${STEPS} steps of training and sampling at changing lengths`, () => {
  it('compile nothing after the warm-up, fall back never, and keep tensors, data, sessions and memory flat', async () => {
    const root = keyFromSeed(1)
    const step = policyStep({ config, optimizer: adamW() })
    const generator = makeGenerator(config)
    let state = own(scope(() => step.init(initialParams(config, root))))
    let warm: { readonly reading: Reading; readonly compiles: number } | undefined
    let settled = { javascript: 0, resident: 0 }
    const sample = async (params: Params, key: Key): Promise<void> => {
      const { prompts } = rowsOf(key)
      await generator.generate(
        params,
        {
          prompts: [prompts[0]!, prompts[GROUP]!],
          group: GROUP,
          keys: completionKeys(key, PROMPTS, GROUP),
          options: { temperature: 1, maxNewTokens: 16, stopTokens: [] },
        },
        async () => undefined,
      )
    }
    for (let i = 0; i < STEPS; i++) {
      const key = child(root, i)
      const update: { readonly state: Owned<typeof state.value> } = step.update(state.value, rowsOf(key), 1e-4)
      state.release()
      state = update.state
      if (i % 10 === 0) await sample(state.value.params, key)
      if (i === WARM_UP) warm = { reading: read(), compiles: backend().stats().compiles }
      if (i === SETTLED) settled = await memoryInUse()
    }
    expect(read()).toEqual(warm?.reading)
    expect(backend().stats().compiles - warm!.compiles).toBe(0)
    expect(backend().stats().fallbacks).toEqual({})
    const end = await memoryInUse()
    expect(end.javascript - settled.javascript).toBeLessThan(2)
    expect(end.resident - settled.resident).toBeLessThan(256) // allocators keep up to 80 MB of freed pages on a busy machine
    state.release()
    step.release()
    generator.release()
    expect(tf.memory().numTensors).toBe(0)
  })
})
