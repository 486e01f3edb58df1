/** A decoder as a `ModelRunner`: prompts packed into one run, decoding steps of all lanes. */
import type { HostArray } from '@tandem-rl/base'
import type { Hosted } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import type * as tf from '@tensorflow/tfjs-core'
import type { DecoderConfig } from '../../transformer/config.js'
import { parameterCount } from '../../transformer/params.js'
import { type RotaryTables, rotaryTables } from '../../transformer/rotaryTables.js'
import { makeDecoding } from './decoding.js'
import { runnerGraphs } from './graphs.js'
import { type LaneCache, makeLane } from './lane.js'
import type { Lane, ModelRunner, Rounding, StepWeights } from './modelRunner.js'
import { makePrefill } from './prefill.js'

const hostTables = (config: DecoderConfig, length: number, sequenceLength: number): Hosted<RotaryTables> =>
  scope(() =>
    Object.fromEntries(
      Object.entries(rotaryTables(config, length, { sequenceLength })).map(([name, { cos, sin }]) => {
        const read = (x: tf.Tensor): HostArray => ({ data: Float32Array.from(x.dataSync()), shape: x.shape })
        return [name, { cos: read(cos), sin: read(sin) }]
      }),
    ),
  )

export interface RunnerOptions {
  /** Default `alike`. */
  readonly rounding?: Rounding
  /**
   * Longest row in tokens, prompt and completion together. Default: the model's number of
   * positions.
   */
  readonly maxLength?: number
}

/**
 * Largest weights to compile into graphs, in bytes. A graph takes 1.4 times their memory. Steps of
 * one row are bound by memory, and gain most.
 */
const CONSTANT_BYTES = { steps: 2.5 * 2 ** 30, prompts: 512 * 2 ** 20 } as const

/** Returns `constant` for weights that are small enough to be compiled into graphs. */
export const constantWeights = (config: DecoderConfig, graphs: 'steps' | 'prompts'): StepWeights =>
  4 * parameterCount(config) <= CONSTANT_BYTES[graphs] ? 'constant' : 'fed'

/**
 * Makes a runner for one architecture.
 *
 * If the angles of positions depend on the length of the sequence (dynamic and long RoPE), every
 * row uses those of `maxLength`, as in vLLM, because cached keys must match all later ones.
 *
 * Effects  compiled graphs live until `release`.
 * Cost     one graph for steps and two for prompts, with a past and without, for all sizes.
 */
export const makeRunner = (config: DecoderConfig, options: RunnerOptions = {}): ModelRunner => {
  const { rounding = 'alike', maxLength = config.maxPositions } = options
  const leastRows = rounding === 'alike' ? 2 : 1 // a product with one row is computed by another kernel
  const graphs = runnerGraphs(config)
  const { keyValueHeads: heads, headSize: width } = config
  const windows = [...new Set(config.layerKinds.map(({ window }) => window))]
  const laneModel = { config, windows, leastRows }
  const caches = new WeakMap<Lane, LaneCache>()
  const cacheOf = (lane: Lane): LaneCache => {
    const cache = caches.get(lane)
    if (cache === undefined) throw new Error('a decoding step has a lane of another runner')
    return cache
  }
  let tables: { readonly length: number; readonly byName: Hosted<RotaryTables> } | undefined

  const tablesFor = (length: number): Hosted<RotaryTables> => {
    if (tables === undefined || tables.length < length) {
      const enough = Math.max(256, 2 ** Math.ceil(Math.log2(length)))
      tables = { length: enough, byName: hostTables(config, enough, maxLength) }
    }
    return tables.byName
  }
  const prefill = makePrefill({ config, graphs, rotary: tablesFor, windows, leastRows }, rounding)

  return {
    vocabularySize: config.vocabularySize,
    maxLength,
    bytesPerToken: 2 * 4 * config.layers * heads * width,
    prefill: prefill.compute,
    makeLane: (keptBytes) => {
      const { lane, cache } = makeLane(laneModel, keptBytes)
      caches.set(lane, cache)
      return lane
    },
    makeDecoding: (weights) => makeDecoding({ ...laneModel, graphs, rotary: tablesFor, cacheOf }, weights),
    servedWeights: { steps: constantWeights(config, 'steps'), prompts: constantWeights(config, 'prompts') },
    release: () => {
      prefill.release()
      graphs.prefill.release()
      graphs.batch.release()
      graphs.step.release()
    },
  }
}
