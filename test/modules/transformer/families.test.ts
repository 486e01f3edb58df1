import { keyFromSeed } from '@tandem-rl/base'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { completionKeys, makeGenerator } from '../../../src/modules/generation/generator.js'
import { ARCHITECTURES, type Architecture, type DecoderConfig } from '../../../src/modules/transformer/config.js'
import {
  type Attend,
  forwardSegment,
  forwardTokens,
  type HeadProjections,
} from '../../../src/modules/transformer/forward.js'
import { initialParams, type Params } from '../../../src/modules/transformer/params.js'
import { rotaryTables } from '../../../src/modules/transformer/rotaryTables.js'
import { causalBias, promptBias } from '../../../src/modules/transformer/score.js'
import { makeScorer } from '../../../src/modules/transformer/scorer.js'
import { onBackend } from '../../kit/backends.js'
import { expectClose } from '../../kit/close.js'
import { anyConfigJsonOf } from '../../kit/configs.js'
import { useEngine, valuesOf } from '../../kit/engine.js'
import { configOf } from '../../kit/models.js'
import { repeated } from '../../kit/repeated.js'

useEngine()

/** Drawn models run on `cpu`, where nothing is compiled. */
const onCpu = <A>(f: () => A): A => onBackend('cpu', f)

const freshParams = (config: DecoderConfig, seed: number) =>
  own(scope(() => initialParams(config, keyFromSeed(seed), 0.5)))

const idsOf = (config: DecoderConfig, length: number, seed: number): number[] =>
  Array.from({ length }, (_, i) => (7 * i * i + 3 * i + seed) % config.vocabularySize)

/** Hidden states of a text without padding, `[T, D]`, position by position. */
const hiddenOf = (params: Params, config: DecoderConfig, ids: readonly number[]): number[][] =>
  scope(() => {
    const { hidden } = forwardSegment(params, config, {
      ids: tf.tensor3d([...ids], [1, 1, ids.length], 'int32'),
      positions: tf.reshape(tf.range(0, ids.length, 1, 'int32'), [1, 1, ids.length]),
      ownBias: causalBias(ids.length),
      past: [],
      rotary: rotaryTables(config, ids.length),
    })
    return tf.unstack(hidden).map(valuesOf)
  })

const models = (architecture: Architecture) =>
  fc.record({
    config: anyConfigJsonOf(architecture).map(configOf),
    seed: fc.nat(1000),
    split: fc.integer({ min: 1, max: 8 }),
  })

describe.each(ARCHITECTURES)('%s', (architecture) => {
  it('computes a text in two parts as it computes the whole, windows that reach across included', () => {
    const law = fc.property(models(architecture), ({ config, seed, split }) => {
      onCpu(() => {
        using params = freshParams(config, seed)
        const ids = idsOf(config, 9, seed)
        const part = (from: number, to: number) => ({
          ids: tf.tensor3d(ids.slice(from, to), [1, 1, to - from], 'int32'),
          positions: tf.reshape(tf.range(from, to, 1, 'int32'), [1, 1, to - from]),
          ownBias: causalBias(to - from),
          rotary: rotaryTables(config, 9),
        })
        const rows = scope(() => {
          const first = part(0, split)
          const earlier = forwardSegment(params.value, config, { ...first, past: [] })
          const past = [{ layers: earlier.layers, positions: first.positions }]
          const later = forwardSegment(params.value, config, { ...part(split, 9), past })
          return tf.unstack(tf.concat([earlier.hidden, later.hidden])).map(valuesOf)
        })
        expectClose(rows.flat(), hiddenOf(params.value, config, ids).flat(), { absolute: 2e-4 })
      })
    })
    fc.assert(law, { numRuns: 6 })
  })

  it('does not see later tokens, and sees padding nowhere', () => {
    const law = fc.property(models(architecture), ({ config, seed, split }) => {
      onCpu(() => {
        using params = freshParams(config, seed)
        const ids = idsOf(config, 9, seed)
        const alone = hiddenOf(params.value, config, ids.slice(0, split))
        const whole = hiddenOf(params.value, config, ids)
        expectClose(whole.slice(0, split).flat(), alone.flat(), { absolute: 2e-4 })
        const padded = scope(() => {
          const mask = tf.tensor2d([0, 0, 0, ...ids.map(() => 1)], [1, 12])
          const { hidden } = forwardSegment(params.value, config, {
            ids: tf.tensor3d([0, 0, 0, ...ids], [1, 1, 12], 'int32'),
            positions: tf.tensor3d([0, 0, 0, ...ids.keys()], [1, 1, 12], 'int32'),
            ownBias: promptBias(mask),
            past: [],
            rotary: rotaryTables(config, 12, { sequenceLength: 9 }),
          })
          return tf.unstack(hidden).slice(3).map(valuesOf)
        })
        expectClose(padded.flat(), whole.flat(), { absolute: 2e-4 })
      })
    })
    fc.assert(law, { numRuns: 6 })
  })

  it('records while sampling what scoring finds, for prompts of several lengths with two completions each', async () => {
    const [json] = fc.sample(anyConfigJsonOf(architecture), { numRuns: 1, seed: 11 })
    const config = configOf({ ...json, vocab_size: 12 })
    using params = freshParams(config, 5)
    const prompts = [idsOf(config, 7, 1), idsOf(config, 3, 2)]
    const generator = makeGenerator(config)
    const sampled = await generator.generate(
      params.value,
      {
        prompts,
        group: 2,
        keys: completionKeys(keyFromSeed(3), 2, 2),
        options: { temperature: 0.7, maxNewTokens: 10, stopTokens: [] },
      },
      async () => undefined,
    )
    const scorer = makeScorer(config)
    const scores = scorer.score(params.value, {
      prompts: repeated(prompts, 2),
      completions: sampled.map(({ ids }) => ids),
      temperature: 0.7,
    })
    for (const [i, { ids, logProbs }] of sampled.entries()) {
      expect(ids).toHaveLength(10)
      expectClose(Array.from(scores[i]!), Array.from(logProbs), { absolute: 2e-5 })
    }
    generator.release()
    scorer.release()
  })
})

describe('what attention is told of each layer', () => {
  /** The settings that `attend` gets, layer by layer. */
  const settingsOf = (json: object): readonly Omit<HeadProjections, 'queries' | 'keys' | 'values'>[] => {
    const config = configOf(json)
    const seen: Omit<HeadProjections, 'queries' | 'keys' | 'values'>[] = []
    const attend: Attend = ({ queries, keys: _, values: __, ...settings }) => {
      seen.push(settings)
      return tf.zerosLike(queries)
    }
    onCpu(() => {
      using params = freshParams(config, 1)
      scope(() => {
        const positions = tf.range(0, 3, 1, 'int32')
        forwardTokens(params.value, config, { ids: positions, positions, rotary: rotaryTables(config, 3), attend })
        return []
      })
    })
    return seen
  }
  const sizes = {
    ...{ vocab_size: 8, hidden_size: 8, intermediate_size: 4, num_hidden_layers: 3, head_dim: 4 },
    ...{ num_attention_heads: 2, num_key_value_heads: 1 },
  }

  it('is a window on every other layer, a soft cap and a scale of its own for Gemma 2', () => {
    const settings = settingsOf({ ...sizes, model_type: 'gemma2', sliding_window: 5, query_pre_attn_scalar: 16 })
    const common = { softCap: 50, scale: 0.25 }
    expect(settings).toEqual([
      { layer: 0, window: 5, ...common },
      { layer: 1, window: null, ...common },
      { layer: 2, window: 5, ...common },
    ])
  })

  it('is a window from max_window_layers on for Qwen2, if windows are in use', () => {
    const qwen = { ...sizes, model_type: 'qwen2', sliding_window: 5, max_window_layers: 2 }
    expect(settingsOf({ ...qwen, use_sliding_window: true }).map(({ window }) => window)).toEqual([null, null, 5])
    expect(settingsOf({ ...qwen, use_sliding_window: false }).map(({ window }) => window)).toEqual([null, null, null])
  })

  it('is a scale that shrinks with the layer for GPT-2 where its file says so, and none for GPT-Neo', () => {
    const gpt2 = { model_type: 'gpt2', vocab_size: 8, n_embd: 8, n_head: 2, n_layer: 2 }
    const scales = settingsOf({ ...gpt2, scale_attn_by_inverse_layer_idx: true }).map(({ scale }) => scale)
    expect(scales).toEqual([0.5, 0.25])
    const neo = { model_type: 'gpt_neo', vocab_size: 8, hidden_size: 8, num_heads: 2, num_layers: 2, window_size: 3 }
    expect(settingsOf({ ...neo, attention_types: [[['global', 'local'], 1]] })).toEqual([
      { layer: 0, window: null, softCap: null, scale: 1 },
      { layer: 1, window: 3, softCap: null, scale: 1 },
    ])
  })
})

describe('a window', () => {
  it('hides exactly the tokens that are as far away as it is wide', () => {
    const json = {
      ...{ model_type: 'mistral', vocab_size: 8, hidden_size: 4, intermediate_size: 4 },
      num_hidden_layers: 1,
    }
    const law = fc.property(fc.integer({ min: 1, max: 6 }), fc.nat(8), fc.nat(100), (width, place, seed) => {
      onCpu(() => {
        const config = configOf({ ...json, num_attention_heads: 1, num_key_value_heads: 1, sliding_window: width })
        using params = freshParams(config, seed)
        const ids = idsOf(config, 9, seed)
        const changed = ids.map((id, i) => (i === place ? (id + 1) % 8 : id))
        const [a, b] = [hiddenOf(params.value, config, ids), hiddenOf(params.value, config, changed)]
        for (const [i, row] of a.entries()) {
          const differs = row.some((x, j) => Math.abs(x - b[i]![j]!) > 1e-6)
          if (i < place || i - place >= width) expect(differs, `position ${i}`).toBe(false)
          else if (i === place) expect(differs).toBe(true)
        }
      })
    })
    fc.assert(law, { numRuns: 30 })
  })
})
