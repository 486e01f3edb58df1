import { entropy, gatherLogProbs, jit, valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { isLeft } from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { loadWeights, makeParams } from '../../../src/modules/pretrained/pretrained.js'
import { packCompletions, packedBatch } from '../../../src/modules/transformer/pack.js'
import type { Params } from '../../../src/modules/transformer/params.js'
import { type CompletionBatch, completionLogits } from '../../../src/modules/transformer/score.js'
import { onBackend } from '../../kit/backends.js'
import { expectClose } from '../../kit/close.js'
import { testedBackend, useEngine } from '../../kit/engine.js'
import { compareWithReference, normGap, readExpected } from '../../kit/reference.js'

useEngine()

const folderOf = (family: string): string => `test/golden/models/${family}`

/** A family each, and variants of some: see the generator for what they vary. */
const MODELS = [
  ...['qwen2', 'llama', 'gpt2', 'gpt2_variant', 'gpt_neo', 'llama_biases', 'llama_linear', 'llama_dynamic'],
  ...['llama_llama3', 'llama_yarn', 'llama_yarn_exact', 'mistral', 'qwen2_window', 'qwen3', 'gemma2', 'gemma3'],
  ...['phi3', 'phi3_partial', 'phi3_longrope', 'olmo2', 'smollm3', 'smollm3_window'],
]

describe.each(MODELS)('%s against Hugging Face Transformers', (family) => {
  it.each([...new Set([testedBackend(), 'cpu' as const])])(
    'computes the same logits, loss, gradients and greedy tokens on %s, the left-padded row included',
    async (backend) => {
      const before = tf.getBackend()
      tf.setBackend(backend)
      try {
        const gap = await compareWithReference(folderOf(family))
        expect(gap.logits).toBeLessThanOrEqual(2e-5)
        expect(gap.loss).toBeLessThanOrEqual(1e-6)
        expect(gap.gradNorm, gap.worstGradient).toBeLessThanOrEqual(1e-5)
        expect(gap.greedyTokensDiffering ?? 0).toBe(0)
      } finally {
        tf.setBackend(before)
      }
    },
  )

  it('scores a completion after its prompt as the reference scores the whole text', async () => {
    const loaded = await loadWeights(folderOf(family))()
    if (isLeft(loaded)) throw new Error(loaded.left.reason)
    const { config, arrays } = loaded.right
    const { input_ids, attention_mask, completion } = readExpected(folderOf(family))
    const rows = input_ids.map((row, i) => row.filter((_, t) => attention_mask[i]![t] === 1))
    const count = completion!.log_probs[0]!.length
    const packed = packCompletions({
      prompts: rows.map((row) => row.slice(0, -count)),
      completions: rows.map((row) => row.slice(-count)),
      shared: 1,
    })
    const compiled = jit(({ params, batch }: { readonly params: Params; readonly batch: CompletionBatch }) => {
      const mask = tf.tensor1d(packed.completionMask)
      return valueAndGrad(params, (given) => {
        const logits = completionLogits(given, config, batch)
        const logProbs = gatherLogProbs(logits, tf.reshape(batch.completionIds, [-1]))
        return { value: tf.sum(tf.mul(logProbs, mask)), aux: { logProbs, entropy: entropy(logits) } }
      })
    })
    using params = own(scope(() => makeParams(arrays)))
    scope(() => {
      const { aux, grads } = compiled({ params: params.value, batch: packedBatch(packed, config) })
      const width = packed.completionLength
      const real = (x: tf.Tensor): number[] =>
        rows.flatMap((_, i) => Array.from(x.dataSync().slice(i * width, i * width + count)))
      expectClose(real(aux.logProbs), completion!.log_probs.flat(), { absolute: 3e-6, relative: 1e-6 })
      expectClose(real(aux.entropy), completion!.entropy.flat(), { absolute: 3e-6, relative: 1e-6 })
      for (const [name, norm] of Object.entries(completion!.grad_norms)) {
        expect(normGap(tf.norm(grads[name]!).dataSync()[0]!, norm), name).toBeLessThan(1e-5)
      }
      return []
    })
    compiled.release()
  })
})

describe('backends', () => {
  it('leaves the backend of the other tests alone', () => {
    expect(onBackend('cpu', () => tf.getBackend())).toBe('cpu')
    expect(tf.getBackend()).toBe(testedBackend())
  })
})
