/**
 * Samples a whole batch in lockstep on the engine's runner, lanes and token sampler, without its
 * scheduler. For requests that arrive over time, use `makeLLMEngine`.
 */
import { child, type Key } from '@tandem-rl/base'
import type { SamplingParams } from '@tandem-rl/text'
import { isLeft } from 'fp-ts/lib/Either.js'
import type { StopReason } from '../../data/policy.js'
import type { DecoderConfig } from '../transformer/config.js'
import { type Params, parameterCount } from '../transformer/params.js'
import { checkPrompts } from '../transformer/tokenIds.js'
import type { Decoding, Lane, NextToken, StepWeights } from './runner/modelRunner.js'
import { constantWeights, makeRunner } from './runner/runner.js'
import { samplingParams } from './sampling/params.js'
import { sampleToken } from './sampling/sampleToken.js'

/** The sampling of tokens. Default: no truncation. */
export interface TokenChoice {
  /** Divisor of the logits. 0 selects the most probable token. */
  readonly temperature: number
  /** Keeps the k most probable tokens. */
  readonly topK?: number
  /** Keeps the smallest set of most probable tokens whose total probability reaches p. */
  readonly topP?: number
}

export interface GenerationOptions extends TokenChoice {
  readonly maxNewTokens: number
  /** Minimum number of tokens of a completion. Stop tokens cannot be sampled before. */
  readonly minNewTokens?: number
  readonly stopTokens: readonly number[]
}

/** The completion of one row. It includes the stop token. */
export interface Completion {
  readonly ids: Int32Array
  /**
   * Log-probability of each id at the sampling temperature (at 1 for temperature 0), before top-k
   * and top-p, in nats.
   */
  readonly logProbs: Float32Array
  readonly stopReason: StopReason
}

export interface CompletionRequest {
  /** Token ids of each distinct prompt. Prompts must not be empty. */
  readonly prompts: readonly ArrayLike<number>[]
  /** Number of completions per prompt. */
  readonly group: number
  /** One key for each completion, prompt by prompt. */
  readonly keys: readonly Key[]
  readonly options: GenerationOptions
}

/** Compiled generation for one architecture. */
export interface CompletionGenerator {
  /**
   * Samples `group` completions of each prompt.
   *
   * Errors   throws RangeError for an empty prompt, an id outside the vocabulary, a group below 1,
   *          a wrong number of keys, a prompt that leaves no room below the model's last position,
   *          or an invalid temperature or cut. Throws Error if the model's logits are NaN or
   *          infinite.
   * Effects  none except compiling; equal arguments give equal completions. A row's
   *          log-probabilities depend on the rest of the batch by rounding only. The exceptions are
   *          `dynamic` and `longrope` scaling beyond the trained length, where the longest row sets
   *          the frequencies. For results without any such dependence, use an engine
   *          (`modelEngine`).
   * Cost     one pass over each prompt, then one decoding step for each token of the longest
   *          completion.
   */
  readonly generate: (
    params: Params,
    request: CompletionRequest,
    pause: () => Promise<void>,
  ) => Promise<readonly Completion[]>
  readonly release: () => void
}

const checkRequest = (config: DecoderConfig, { prompts, group, keys, options }: CompletionRequest): void => {
  if (!Number.isInteger(group) || group < 1) throw new RangeError(`generate: group must be at least 1, got ${group}`)
  if (keys.length !== prompts.length * group) {
    throw new RangeError(
      `generate: ${prompts.length} prompts x ${group} completions need as many keys, got ${keys.length}`,
    )
  }
  checkPrompts('generate', prompts, config.vocabularySize)
  for (const [i, prompt] of prompts.entries()) {
    if (prompt.length + options.maxNewTokens > config.maxPositions) {
      throw new RangeError(
        `generate: prompt ${i} has ${prompt.length} tokens; with ${options.maxNewTokens} new ones it passes the model's limit of ${config.maxPositions}`,
      )
    }
  }
}

/** A completion in progress. */
interface Row {
  readonly key: Key
  readonly ids: number[]
  readonly logProbs: number[]
  stopReason: StopReason | null
  /** Slot in the lane; -1 before it has one. */
  slot: number
}

const samplingOf = ({ temperature, topK = 0, topP = 1 }: GenerationOptions): SamplingParams => {
  const checked = samplingParams({ temperature, topK, topP })
  if (isLeft(checked)) throw new RangeError(`generate: ${checked.left.reason}`)
  return { ...checked.right, temperature } // recorded and scored with the given temperature
}

/** Returns the factor of the logits. */
const inverseOf = ({ temperature }: SamplingParams): number => (temperature === 0 ? 1 : 1 / temperature)

const NOTHING: readonly number[] = []
const NO_COUNTS: ReadonlyMap<number, number> = new Map()

/** Samples one token of a row, and ends the row if it is the last one. */
const advance = (row: Row, next: NextToken, options: GenerationOptions, sampling: SamplingParams): void => {
  const step = row.ids.length
  const mayStop = step >= (options.minNewTokens ?? 0)
  const sampled = sampleToken(next, sampling, {
    key: row.key,
    step,
    banned: mayStop ? NOTHING : options.stopTokens,
    promptCounts: NO_COUNTS,
    outputCounts: NO_COUNTS,
  })
  if (isLeft(sampled)) throw new Error(`generate: ${sampled.left.reason}`)
  const { id, temperedLogProb } = sampled.right
  row.ids.push(id)
  row.logProbs.push(temperedLogProb)
  if (mayStop && options.stopTokens.includes(id)) row.stopReason = 'stop'
  else if (row.ids.length >= options.maxNewTokens) row.stopReason = 'length'
}

/** Number of prompts computed between two pauses. */
const PROMPTS_AT_A_TIME = 64

/**
 * Number of steps from which compiling the weights into the step pays, allowing for completions
 * that end early.
 */
const STEPS_THAT_PAY = 128

/**
 * Chooses between compiled-in and fed weights by the request alone, so that equal requests are
 * computed alike.
 */
export const stepWeights = (config: DecoderConfig, maxNewTokens: number): StepWeights =>
  maxNewTokens >= STEPS_THAT_PAY ? constantWeights(config, 'steps') : 'fed'

/**
 * Bytes that a generator keeps from call to call: of weights that are compiled into the step, which
 * take twice their memory until others are used, and of keys and values.
 */
const KEPT_BYTES = { weights: 32 * 2 ** 20, keyValues: 64 * 2 ** 20 }

/** The parts of a call that may serve the next one. */
interface Tools {
  readonly weights: StepWeights
  readonly decoding: Decoding
  readonly lane: Lane
}

/** Makes a generator. Graphs are compiled on first use and kept. */
export const makeGenerator = (config: DecoderConfig): CompletionGenerator => {
  const runner = makeRunner(config, { rounding: 'free' })
  const keepsSteps = 4 * parameterCount(config) <= KEPT_BYTES.weights
  let kept: Tools | undefined

  const releaseTools = ({ decoding, lane }: Tools): void => {
    decoding.release()
    lane.release()
  }
  const takeTools = (weights: StepWeights): Tools => {
    const taken = kept
    kept = undefined // another call may run meanwhile
    if (taken?.weights === weights) return taken
    taken?.decoding.release()
    return {
      weights,
      decoding: runner.makeDecoding(weights),
      lane: taken?.lane ?? runner.makeLane(KEPT_BYTES.keyValues),
    }
  }
  const giveBack = (tools: Tools): void => {
    tools.lane.clear()
    if (!keepsSteps) tools.decoding.release() // it compiles again when it is used
    if (kept !== undefined) releaseTools(kept)
    kept = tools
  }

  /** Computes the prompts, samples each row's first token, and assigns slots to unfinished rows. */
  const start = async (
    lane: Lane,
    rows: readonly Row[],
    { params, request, pause }: { params: Params; request: CompletionRequest; pause: () => Promise<void> },
  ): Promise<void> => {
    const { prompts, group, options } = request
    const sampling = samplingOf(options)
    const inverseTemperature = inverseOf(sampling)
    const longest = prompts.reduce((n, prompt) => Math.max(n, prompt.length), 0)
    lane.reserve({ rows: rows.length, start: longest, length: longest + options.maxNewTokens })
    for (let first = 0; first < prompts.length; first += PROMPTS_AT_A_TIME) {
      await pause()
      const items = prompts
        .slice(first, first + PROMPTS_AT_A_TIME)
        .map((prompt) => ({ tokens: Int32Array.from(prompt), past: [], inverseTemperature, scores: 'last' as const }))
      for (const [i, { next, keyValues }] of runner.prefill(params, items, 'fed').entries()) {
        for (const row of rows.slice((first + i) * group, (first + i + 1) * group)) {
          advance(row, next, options, sampling)
          if (row.stopReason === null) row.slot = lane.insert([keyValues])
        }
      }
    }
  }

  const generate: CompletionGenerator['generate'] = async (params, request, pause) => {
    checkRequest(config, request)
    const { options } = request
    const sampling = samplingOf(options)
    const inverseTemperature = inverseOf(sampling)
    const rows = request.keys.map((key): Row => ({ key, ids: [], logProbs: [], stopReason: null, slot: -1 }))
    const tools = takeTools(stepWeights(config, options.maxNewTokens))
    const { lane, decoding } = tools
    try {
      await start(lane, rows, { params, request, pause })
      let open = rows.filter(({ stopReason }) => stopReason === null)
      while (open.length > 0) {
        await pause()
        const given = open.map(({ slot, ids }) => ({ slot, token: ids[ids.length - 1]!, inverseTemperature }))
        const next = decoding.step(params, [{ lane, rows: given }])
        for (const [i, row] of open.entries()) advance(row, next[i]!, options, sampling)
        for (const { slot } of open.filter(({ stopReason }) => stopReason !== null)) lane.remove(slot)
        open = open.filter(({ stopReason }) => stopReason === null)
      }
    } catch (error) {
      releaseTools(tools) // keys and values may be NaN
      throw error
    }
    giveBack(tools)
    return rows.map(({ ids, logProbs, stopReason }) => ({
      ids: Int32Array.from(ids),
      logProbs: Float32Array.from(logProbs),
      stopReason: stopReason!, // the loop ends when every row has one
    }))
  }

  return {
    generate,
    release: () => {
      if (kept !== undefined) releaseTools(kept)
      kept = undefined
      runner.release()
    },
  }
}

/** Makes one key per completion: `child(child(key, prompt), completion)`. */
export const completionKeys = (key: Key, prompts: number, group: number): readonly Key[] =>
  Array.from({ length: prompts * group }, (_, i) => child(child(key, Math.floor(i / group)), i % group))
