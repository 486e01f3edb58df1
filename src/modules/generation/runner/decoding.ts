/** Decoding steps: one pass over the weights for the rows of all lanes. */
import type { HostArray } from '@tandem-rl/base'
import type { Hosted } from '@tandem-rl/tfjs-onnxruntime'
import type { DecoderConfig } from '../../transformer/config.js'
import { type Params, parameterCount } from '../../transformer/params.js'
import type { RotaryTables } from '../../transformer/rotaryTables.js'
import { compiledCalls } from './compiledCalls.js'
import { biasName, type RunnerGraphs, type StepLane } from './graphs.js'
import type { LaneCache, LaneModel } from './lane.js'
import type { Decoding, Lane, NextToken, StepRow, StepWeights } from './modelRunner.js'
import { nextTokens } from './nextTokens.js'

/** The model of a decoding, and its lanes. */
export interface DecodingModel extends LaneModel {
  readonly graphs: RunnerGraphs
  /** Makes tables for positions below `length`. */
  readonly rotary: (length: number) => Hosted<RotaryTables>
  /** Returns the cache of a lane. Throws for a lane of another runner. */
  readonly cacheOf: (lane: Lane) => LaneCache
}

/** Lists the arrays of any lane in one order, because prepared steps take them by place. */
const inOrder = (
  { biases, self, past }: Hosted<Omit<StepLane, 'rows'>>,
  rows: HostArray | undefined,
): Hosted<StepLane> => ({ ...(rows && { rows }), biases, self, past })

/** Maximum number of lanes in one pass over the weights. */
const MOST_LANES = 8

/** Weights from which graphs are fewer, in bytes. */
const LARGE_BYTES = 512 * 2 ** 20

/**
 * Returns the numbers of lanes for which graphs are compiled. Each graph holds the weights if they
 * are constants, so there are few.
 */
const laneCounts = (config: DecoderConfig): readonly number[] =>
  4 * parameterCount(config) > LARGE_BYTES ? [1, MOST_LANES] : [1, 4, MOST_LANES]

/** The rows of one lane in a pass. */
interface Part {
  readonly cache: LaneCache
  readonly given: readonly StepRow[]
  /** The rows of the lane, for each given one. */
  readonly rows: readonly number[]
  /** The place of the lane's first row among all rows of the pass. */
  readonly start: number
  /** Number of rows that the pass computes for the lane. */
  readonly count: number
}

/**
 * Makes decoding steps. Rows are computed together up to attention, which every lane computes with
 * its own cache.
 *
 * Effects  compiled graphs live until those of the runner are released, graphs with constant
 *          weights until `release` or other weights.
 */
export const makeDecoding = (model: DecodingModel, weights: StepWeights): Decoding => {
  const { config, graphs, rotary, windows, leastRows, cacheOf } = model
  const { keyValueHeads: heads, headSize: width } = config
  const compiled = compiledCalls(graphs.step, weights)
  const counts = laneCounts(config)

  /** Returns a lane of one row without cached positions, for graphs with more lanes than needed. */
  const emptyLane = (): Hosted<Omit<StepLane, 'rows'>> => {
    const zeros = (...shape: readonly number[]): HostArray => ({
      data: new Float32Array(shape.reduce((size, n) => size * n, 1)),
      shape,
    })
    return {
      biases: Object.fromEntries(windows.map((window) => [biasName(window), zeros(1, 1, 1, 1, 1)])),
      past: Array.from({ length: config.layers }, () => ({
        keys: zeros(1, heads, 1, 1, width),
        values: zeros(1, heads, 1, 1, width),
      })),
      self: { data: Float32Array.of(1), shape: [1, 1, 1, 1, 1] },
    }
  }
  const empty = emptyLane()

  const pass = (params: Params, work: Parameters<Decoding['step']>[1]): readonly NextToken[] => {
    const lanes = counts.find((count) => count >= work.length)!
    let rows = 0
    const parts = work.map(({ lane, rows: given }): Part => {
      const cache = cacheOf(lane)
      const count = lanes === 1 ? Math.max(leastRows, cache.lengths.length) : cache.lengths.length
      cache.extend(count)
      const start = rows
      rows += count
      return { cache, given, rows: given.map(({ slot }) => cache.rowAt(slot)), start, count }
    })
    const count = rows + lanes - parts.length
    const [ids, positions] = [new Int32Array(count), new Int32Array(count)]
    const inverse = new Float32Array(count).fill(1)
    for (const { cache, given, rows, start } of parts) {
      for (const [row, length] of cache.lengths.entries()) positions[start + row] = length
      for (const [i, row] of rows.entries()) {
        ids[start + row] = given[i]!.token
        inverse[start + row] = given[i]!.inverseTemperature
      }
    }
    const placesOf = (first: number, length: number): HostArray => ({
      data: Int32Array.from({ length }, (_, i) => first + i),
      shape: [length],
    })
    const isTempered = inverse.some((x) => x !== 1)
    const { scores, added } = compiled.run(`${lanes}${isTempered}`, params, {
      rotary: rotary(parts.reduce((most, { cache }) => Math.max(most, cache.places()), 1)),
      ids: { data: ids, shape: [count] },
      positions: { data: positions, shape: [count] },
      lanes: [
        ...parts.map(({ cache, start, count: own }) =>
          inOrder(cache.arrays(own), lanes > 1 ? placesOf(start, own) : undefined),
        ),
        ...Array.from({ length: lanes - parts.length }, (_, i) => inOrder(empty, placesOf(rows + i, 1))),
      ],
      ...(isTempered && { inverseTemperature: { data: inverse, shape: [count, 1] } }),
    })
    const next = nextTokens(scores, inverse)
    return parts.flatMap(({ cache, rows, start }) => {
      const places = rows.map((row) => start + row)
      cache.append(rows, places, added.data as Float32Array) // float32 by the graph
      return places.map((place): NextToken => next[place]!)
    })
  }

  return {
    step: (params, work) =>
      Array.from({ length: Math.ceil(work.length / MOST_LANES) }, (_, i) =>
        pass(params, work.slice(i * MOST_LANES, (i + 1) * MOST_LANES)),
      ).flat(),
    release: compiled.release,
  }
}
