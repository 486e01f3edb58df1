/** The engine of a small decoder as `engineSuite` asks for it. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import type { PlainArray, WeightSource } from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { type ModelEngineOptions, modelEngine } from '../../src/modules/generation/modelEngine.js'
import { initialLora, withLora } from '../../src/modules/lora/adapter.js'
import { loraConfig } from '../../src/modules/lora/config.js'
import { adapterWeights } from '../../src/modules/lora/weights.js'
import { hostArrays, makeParams } from '../../src/modules/pretrained/pretrained.js'
import { forwardSegment, logitsOf } from '../../src/modules/transformer/forward.js'
import { initialParams, type Params } from '../../src/modules/transformer/params.js'
import { rotaryTables } from '../../src/modules/transformer/rotaryTables.js'
import { causalBias } from '../../src/modules/transformer/score.js'
import type { SuiteEngine, SuiteModel } from './engineSuiteParts.js'
import { tinyConfig } from './models.js'
import { byteTokenizer, TOY_VOCABULARY } from './scriptedEngine.js'

const config = tinyConfig({ vocabularySize: TOY_VOCABULARY, maxPositions: 160, endTokens: [3] })

type Arrays = ReadonlyMap<string, PlainArray>

/** Weights of a seed. Needs a backend. */
const arraysOf = (seed: number): Arrays => scope(() => hostArrays(initialParams(config, keyFromSeed(seed), 0.3)))

const sourceOf = (arrays: Arrays): WeightSource => ({ _tag: 'Arrays', arrays })

/** An adapter whose `B` is not zero, so that it changes something. */
const loraOf = (seed: number) => {
  const lora = loraConfig({ rank: 2, alpha: 4, targetModules: ['q_proj', 'down_proj'] })
  const adapter = orThrow(initialLora(config, lora, keyFromSeed(seed)))
  const arrays = new Map(
    [...adapter.arrays].map(([name, { shape, data }]) => [
      name,
      { shape, data: data.map((x, i) => (name.includes('lora_B') ? 0.3 * Math.sin(i + 1) : x)) },
    ]),
  )
  return { ...adapter, arrays }
}

/** Scores after the last of some tokens: one pass over all, without any cache. */
const lastLogits = (params: Params, tokens: readonly number[]): Float32Array => {
  const length = tokens.length
  const { hidden } = forwardSegment(params, config, {
    ids: tf.tensor3d([...tokens], [1, 1, length], 'int32'),
    positions: tf.reshape(tf.range(0, length, 1, 'int32'), [1, 1, length]),
    ownBias: causalBias(length),
    past: [],
    rotary: rotaryTables(config, length),
  })
  return Float32Array.from(
    logitsOf(params, config, tf.slice(hidden, [length - 1, 0], [1, -1])).dataSync() as Float32Array, // float32
  )
}

/** The engine and its model. Needs a backend. */
export const decoderSuite = (options: Partial<ModelEngineOptions> = {}): SuiteEngine => {
  const [first, second, lora] = [arraysOf(1), arraysOf(2), loraOf(3)]
  const broken = new Map(
    [...first].map(([name, { shape, data }]) => [name, { shape, data: data.map(() => Number.NaN) }]),
  )
  const model: SuiteModel = {
    logits: (tokens, { base, adapter }) =>
      scope(() => {
        const params = makeParams(base === 'first' ? first : second)
        const adapted =
          adapter === 'none' ? params : withLora(params, { config: lora.config, tensors: makeParams(lora.arrays) })
        return lastLogits(adapted, tokens)
      }),
    second: sourceOf(second),
    broken: sourceOf(broken),
    adapter: adapterWeights(lora),
    tolerance: 1e-5,
    decode: (ids) => byteTokenizer.decode([...ids], 'skip'),
    cacheBlock: 16,
  }
  const engine = scope(() =>
    modelEngine({ config, params: makeParams(first), version: 1, tokenizer: byteTokenizer, ...options }),
  )
  return { engine, model }
}
