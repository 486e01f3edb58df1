/** Decoding steps: one pass over the weights for the rows of all lanes. */
import { adoptTensor, type Bound } from '../../../engine/jit.js'
import { scope } from '../../../engine/scope.js'
import type { Params } from '../../transformer/params.js'
import type { RotaryTables } from '../../transformer/rotaryTables.js'
import { biasName, type GraphStepInput, type RunnerGraphs, type StepLane, type StepOutput } from './graphs.js'
import type { LaneCache, LaneModel } from './lane.js'
import type { Decoding, Lane, NextToken, StepRow, StepWeights } from './modelRunner.js'
import { nextTokens } from './nextTokens.js'

/** The model of a decoding, and its lanes. */
export interface DecodingModel extends LaneModel {
  readonly graphs: RunnerGraphs
  /** Makes tables for positions below `length`. They belong to the enclosing scope. */
  readonly rotary: (length: number) => RotaryTables
  /** Returns the cache of a lane. Throws for a lane of another runner. */
  readonly cacheOf: (lane: Lane) => LaneCache
}

/** A compiled step, with the weights as arguments or as constants. */
interface CompiledStep {
  readonly run: (input: GraphStepInput) => StepOutput
  readonly release: () => void
}

const compiledStep = (graphs: RunnerGraphs, weights: StepWeights): CompiledStep => {
  if (weights === 'fed') return { run: graphs.step, release: () => {} }
  let bound: { readonly params: Params; readonly run: Bound<GraphStepInput, StepOutput> } | undefined
  const release = (): void => {
    bound?.run.release()
    bound = undefined
  }
  const boundTo = (params: Params): Bound<GraphStepInput, StepOutput> => {
    if (bound?.params === params) return bound.run
    release()
    bound = { params, run: graphs.step.bind(Object.values(params)) }
    return bound.run
  }
  return { run: (input) => boundTo(input.params)(input), release }
}

/**
 * Numbers of lanes for which graphs are compiled. Each graph holds the weights if they are
 * constants, so there are few.
 */
const LANE_COUNTS = [1, 4, 8] as const

/** Maximum number of lanes in one pass over the weights. */
const MOST_LANES = 8

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
  const compiled = compiledStep(graphs, weights)
  const nothing = new Float32Array(heads * width)

  /** Returns a lane of one row without cached positions, for graphs with more lanes than needed. */
  const emptyLane = (): Omit<StepLane, 'rows'> => {
    const zeros = (...shape: readonly number[]) =>
      adoptTensor(
        nothing.subarray(
          0,
          shape.reduce((size, n) => size * n, 1),
        ),
        shape,
        'float32',
      )
    return {
      biases: Object.fromEntries(windows.map((window) => [biasName(window), zeros(1, 1, 1, 1, 1)])),
      self: adoptTensor(Float32Array.of(1), [1, 1, 1, 1, 1], 'float32'),
      past: Array.from({ length: config.layers }, () => ({
        keys: zeros(1, heads, 1, 1, width),
        values: zeros(1, heads, 1, 1, width),
      })),
    }
  }

  const pass = (params: Params, work: Parameters<Decoding['step']>[1]): readonly NextToken[] => {
    const lanes = LANE_COUNTS.find((count) => count >= work.length)!
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
    const placesOf = (first: number, length: number) =>
      adoptTensor(
        Int32Array.from({ length }, (_, i) => first + i),
        [length],
        'int32',
      )
    const { scores, added } = scope(() => {
      const result = compiled.run({
        params,
        rotary: rotary(parts.reduce((most, { cache }) => Math.max(most, cache.places()), 1)),
        ids: adoptTensor(ids, [count], 'int32'),
        positions: adoptTensor(positions, [count], 'int32'),
        lanes: [
          ...parts.map(({ cache, start, count: own }) => ({
            ...(lanes > 1 && { rows: placesOf(start, own) }),
            ...cache.tensors(own),
          })),
          ...Array.from({ length: lanes - parts.length }, (_, i) => ({ rows: placesOf(rows + i, 1), ...emptyLane() })),
        ],
        ...(inverse.some((x) => x !== 1) && { inverseTemperature: adoptTensor(inverse, [count, 1], 'float32') }),
      })
      return {
        scores: nextTokens(result.scores, inverse),
        added: result.added.dataSync() as Float32Array, // a float32 tensor
      }
    })
    return parts.flatMap(({ cache, rows, start }) => {
      const places = rows.map((row) => start + row)
      cache.append(rows, places, added)
      return places.map((place): NextToken => scores[place]!)
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
