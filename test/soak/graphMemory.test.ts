import { keyFromSeed } from '@tandem-rl/base'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { describe, expect, it } from 'vitest'
import { initialParams } from '../../src/modules/transformer/params.js'
import { adamW } from '../../src/objectives/updates/adamW.js'
import { useOnnxRuntime } from '../kit/engine.js'
import { collectGarbage } from '../kit/memory.js'
import { tinyConfig } from '../kit/models.js'
import { policyStep } from '../kit/stepsOf.js'

useOnnxRuntime()

const GROUP = 8
const MEBIBYTE = 2 ** 20
const SHAPES = 12

const config = tinyConfig({
  ...{ layers: 4, hiddenSize: 128, intermediateSize: 384, heads: 4, keyValueHeads: 2, headSize: 32 },
})

const rowsOf = (prompts: number, length: number) => {
  const each = <T>(f: (i: number) => T): readonly T[] => Array.from({ length: prompts * GROUP }, (_, i) => f(i))
  return {
    prompts: each((i) => Int32Array.from({ length: 16 }, (_, t) => 4 + ((t + Math.floor(i / GROUP)) % 8))),
    completions: each((i) => Int32Array.from({ length }, (_, t) => 4 + ((t + i) % 8))),
    oldLogProbs: each(() => new Float32Array(length).fill(-2)),
    advantages: each((i) => (i % 2 === 0 ? 1 : -1)),
    temperature: 1,
  }
}

/** Resident memory of the process after garbage collection. */
const resident = async (): Promise<number> => {
  await collectGarbage()
  return process.memoryUsage.rss() / MEBIBYTE
}

describe(`training steps of ${SHAPES} combinations of sizes`, () => {
  it('hold less than 40 MiB each, however much a step needs', async () => {
    const step = policyStep({ config, optimizer: adamW(), microBatchTokens: 1e9 })
    let state = own(scope(() => step.init(initialParams(config, keyFromSeed(1)))))
    const seen: number[] = []
    for (let n = 0; n < SHAPES; n++) {
      const { state: next } = step.update(state.value, rowsOf(8 - (n % 4), 16 * (3 - Math.floor(n / 4))), 1e-4)
      state.release()
      state = next
      seen.push(await resident())
    }
    // The first step is the largest: its values take about 190 MiB, which each graph would
    // otherwise keep once or twice.
    expect(seen.at(-1)! - seen[0]!, seen.map(Math.round).join()).toBeLessThan(40 * (SHAPES - 1))
    state.release()
    step.release()
  })
})
