/** A policy that samples on a Tinker server, and the updater that gives it new weights. */
import { child, type Key, uniform } from '@tandem-rl/base'
import type { GenerationEvent, GenerationFailure, GenerationRequest, SamplingParams } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { WeightUpdater } from 'tandem-rl'
import type { NamedTensors } from 'tandem-rl/files'
import {
  DEFAULT_SAMPLING,
  type EnginePolicy,
  type EngineSampling,
  enginePolicy,
  type PolicyEngine,
} from 'tandem-rl/generation'
import type { TinkerFailure } from '../client/calls.js'
import type { TinkerSampler } from '../client/sampler.js'
import type { TinkerTrainer } from '../client/trainer.js'
import type { SampleResult } from '../protocol/values.js'

export interface TinkerPolicyOptions {
  /** The sampler of version 0. */
  readonly sampler: TinkerSampler
  /** Makes samplers of new weights. Absent for a policy whose weights do not change. */
  readonly trainer?: Pick<TinkerTrainer, 'sampler'>
  readonly model: { readonly vocabularySize: number; readonly maxLength: number; readonly endTokens: readonly number[] }
  readonly sampling?: EngineSampling
  readonly name?: string
}

/** A policy and its updater. */
export interface TinkerPolicy {
  readonly policy: EnginePolicy
  /** Samples with the trainer's weights of now, whatever weights are pushed. */
  readonly updater: WeightUpdater<NamedTensors>
}

/** Settings that the protocol does not have. */
const ABSENT = [
  'minTokens',
  'minP',
  'repetitionPenalty',
  'presencePenalty',
  'frequencyPenalty',
  'allowedTokens',
] as const

const problemOf = (sampling: SamplingParams): string | undefined => {
  const set = [
    ...ABSENT.filter((name) => sampling[name] !== DEFAULT_SAMPLING[name]),
    ...(sampling.logitBias.size > 0 ? ['logitBias'] : []),
  ]
  if (set.length > 0) return `the Tinker protocol has no ${set.join(', ')}`
  return sampling.stop.length > 0 && sampling.stopTokens.length > 0
    ? 'the Tinker protocol has either stop strings or stop tokens'
    : undefined
}

/** Requests of a policy at a time. */
const MOST_REQUESTS = 256

const SEEDS = 2 ** 31

/**
 * A seed for each request: requests that share a key differ by the number of their first
 * completion.
 */
const seedOf = (key: Key, first: number): number => Math.floor(uniform(child(key, first), 0) * SEEDS)

/**
 * The stop rule of a request: stop strings, else the model's end tokens with those of the request.
 * Without known end tokens, those of the server.
 */
const stopOf = (
  { stop, stopTokens, endTokens }: SamplingParams,
  ends: readonly number[],
): readonly string[] | readonly number[] | undefined => {
  if (stop.length > 0) return stop
  if (endTokens === 'ignore') return stopTokens
  const all = [...new Set([...stopTokens, ...ends])]
  return all.length === 0 ? undefined : all
}

const KINDS: Partial<Record<TinkerFailure['kind'], GenerationFailure['kind']>> = {
  refused: 'invalid',
  unreachable: 'unreachable',
  protocol: 'protocol',
  closed: 'closed',
}

/** The answer of a server as events of an engine. */
const eventsOf = (result: SampleResult, request: GenerationRequest, version: number): readonly GenerationEvent[] => {
  const { promptLogProbs, topPromptLogProbs, cachedTokens } = result
  const isRequested = request.sampling.promptLogProbs !== null
  const prompt = promptLogProbs?.map((logProb, i) =>
    logProb === null
      ? null
      : {
          id: request.prompt[i]!,
          logProb,
          rank: 0,
          top: topPromptLogProbs?.[i]?.map(([id, top], rank) => ({ id, logProb: top, rank: rank + 1 })) ?? [],
        },
  )
  const sampled = result.sequences.flatMap(({ tokens, logProbs, stopReason }, index): readonly GenerationEvent[] => [
    {
      _tag: 'Tokens',
      index,
      text: '',
      tokens: Array.from(tokens, (id, t) => {
        const logProb = Math.min(0, logProbs?.[t] ?? Number.NaN) // servers round some of them to above 0
        const known = { rawLogProb: logProb, temperedLogProb: logProb, processedLogProb: Number.NaN }
        return { id, ...known, rank: 0, top: [], version }
      }),
    },
    { _tag: 'Finished', index, finishReason: stopReason, stopReason: null },
  ])
  return [{ _tag: 'Started', cachedTokens, promptLogProbs: isRequested ? (prompt ?? null) : null }, ...sampled]
}

/** A sampler, the version of its weights, and the end tokens of the model. */
interface Served {
  readonly sampler: TinkerSampler
  readonly version: number
  readonly ends: readonly number[]
}

async function* generated(
  { sampler, version, ends }: Served,
  request: GenerationRequest,
  signal: AbortSignal | undefined,
): AsyncGenerator<GenerationEvent> {
  const { sampling, prompt, firstCompletion = 0 } = request
  const fail = (kind: GenerationFailure['kind'], reason: string): GenerationEvent => ({
    _tag: 'Failed',
    failure: { _tag: 'GenerationFailure', kind, reason },
  })
  const problem = problemOf(sampling)
  if (problem !== undefined) {
    yield fail('invalid', problem)
    return
  }
  const stop = stopOf(sampling, ends)
  const result = await sampler.sample(prompt, {
    n: sampling.n,
    seed: seedOf(sampling.key, firstCompletion),
    temperature: sampling.temperature,
    topP: sampling.topP,
    topK: sampling.topK === 0 ? -1 : sampling.topK,
    ...(sampling.maxTokens !== null && { maxTokens: sampling.maxTokens }),
    ...(stop !== undefined && { stop }),
    ...(sampling.promptLogProbs !== null && { promptLogProbs: { top: sampling.promptLogProbs } }),
    ...(signal && { signal }),
  })()
  if (E.isLeft(result)) yield fail(KINDS[result.left.kind] ?? 'internal', result.left.reason)
  else yield* eventsOf(result.right, request, version)
}

/**
 * Makes a policy of a Tinker server: token ids and log-probabilities are the server's, and every
 * token has the version of the weights that sampled it.
 *
 * Errors   requests with settings that the protocol lacks fail, as do temperatures other than 1 and
 *          0, because servers report log-probabilities at temperature 1.
 */
export const tinkerPolicy = ({
  sampler,
  trainer,
  model,
  sampling,
  name = 'tinker',
}: TinkerPolicyOptions): TinkerPolicy => {
  let current = { sampler, version: 0 }
  const engine: PolicyEngine = {
    name,
    connect: TE.right({
      maxModelLength: model.maxLength,
      vocabularySize: model.vocabularySize,
      endTokens: model.endTokens,
      maxConcurrent: MOST_REQUESTS,
      server: name,
      logProbs: 'raw',
      promptLogProbs: 'yes',
      stamps: 'no',
      updates: [],
      control: 'no',
    }),
    generate: (request, { signal } = {}) => generated({ ...current, ends: model.endTokens }, request, signal),
  }
  return {
    policy: enginePolicy({ engine, name, ...(sampling && { sampling }) }),
    updater: {
      push: (_, version) => async () => {
        if (trainer === undefined)
          return E.left({ _tag: 'WeightFailure', receiver: name, reason: 'this policy has no trainer' })
        const next = await trainer.sampler()()
        if (E.isLeft(next)) return E.left({ _tag: 'WeightFailure', receiver: name, reason: next.left.reason })
        current = { sampler: next.right, version }
        return E.right(version)
      },
    },
  }
}
