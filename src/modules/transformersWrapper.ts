/** A policy that runs a model in this process. */
import { type Clock, checkOptions, child, errorMessage } from '@tandem-rl/base'
import { liveClock } from '@tandem-rl/base/host'
import { own } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { distinctPrompts, sharedRows } from '../data/completions.js'
import type { LogProbModel, Policy, PolicyFailure, SamplingRecord, TokenAction, TokenPrompt } from '../data/policy.js'
import { data, type Ragged, ragged, raggedLength, raggedRow } from '../data/tensorDict/leaf.js'
import { get, TensorDict } from '../data/tensorDict/tensorDict.js'
import type { WeightReceiver } from '../data/weights.js'
import {
  type Completion,
  type CompletionGenerator,
  type GenerationOptions,
  makeGenerator,
} from './generation/generator.js'
import { adapterMismatch } from './lora/adapter.js'
import { TRANSFORMERS_WRAPPER_OPTIONS, TRANSFORMERS_WRAPPER_SAMPLING_OPTIONS } from './optionKinds.js'
import { moduleOfLora } from './transformer/applyLora.js'
import type { DecoderConfig } from './transformer/config.js'
import { type Params, parameterShapes } from './transformer/params.js'
import { type CompletionScorer, makeScorer, type Scorer } from './transformer/scorer.js'
import { checkWrapper } from './wrapperNames.js'

export interface TransformersWrapperOptions {
  readonly config: DecoderConfig
  /**
   * The initial weights, version 0, with or without an adapter (`withLora`). They are kept until
   * other weights are loaded.
   */
  readonly params: Params
  readonly sampling?: Partial<Omit<GenerationOptions, 'stopTokens'>>
  /** Default: the model's end tokens. */
  readonly stopTokens?: readonly number[]
  /** The generator, which the policy releases. Default: `makeGenerator`, in this thread. */
  readonly generator?: CompletionGenerator
  /** The scorer, which the policy releases. Default: `makeScorer`, in this thread. */
  readonly scorer?: CompletionScorer
  readonly clock?: Clock
}

/** A model in this process, which samples, scores, and receives new weights. */
export interface TransformersPolicy extends Policy<TokenPrompt, TokenAction>, LogProbModel, WeightReceiver<Params> {
  readonly name: string
  /** The same model with other sampling settings; weights and compiled graphs are shared. */
  readonly withSampling: (sampling: Partial<Omit<GenerationOptions, 'stopTokens'>>) => Policy<TokenPrompt, TokenAction>
  /** Frees weights and compiled graphs. */
  readonly release: () => void
}

const NAME = 'TransformersWrapper'

const policyFailure = (error: unknown): PolicyFailure => ({
  _tag: 'PolicyFailure',
  policy: NAME,
  reason: errorMessage(error),
})

const rowsOf = (rows: Ragged<'int32'>): readonly Int32Array[] =>
  Array.from({ length: raggedLength(rows) }, (_, i) => raggedRow(rows, i))

const toAction = (
  completions: readonly Completion[],
  stamp: { readonly version: number; readonly sampling: SamplingRecord },
): TensorDict<TokenAction> => {
  const each = <T>(value: T) => data(completions.map(() => value))
  return TensorDict(
    {
      tokens: {
        response: ragged(
          'int32',
          completions.map((c) => c.ids),
        ),
      },
      logProbs: {
        response: ragged(
          'float32',
          completions.map((c) => c.logProbs),
        ),
      },
      stopReason: data(completions.map((c) => c.stopReason)),
      policyVersion: each(stamp.version),
      sampling: each(stamp.sampling),
    },
    [completions.length],
  )
}

/** Returns the first parameter that does not match the architecture, or `undefined`. */
const mismatch = (config: DecoderConfig, params: Params): string | undefined => {
  const shapes = parameterShapes(config)
  const wrong = [...shapes].find(([name, shape]) => params[name]?.shape.join() !== shape.join())
  if (wrong !== undefined)
    return `parameter '${wrong[0]}' must be [${wrong[1].join()}], got [${params[wrong[0]]?.shape.join() ?? 'none'}]`
  const extra = Object.keys(params).filter((name) => !shapes.has(name))
  const unknown = extra.find((name) => moduleOfLora(name) === undefined)
  if (unknown !== undefined) return `'${unknown}' is not a parameter of this architecture`
  return adapterMismatch(config, Object.fromEntries(extra.map((name) => [name, params[name]!])))
}

const inThisThread = ({ score, release }: Scorer): CompletionScorer => ({
  score: async (...given) => score(...given),
  release,
})

/**
 * Makes a policy of a decoder-only transformer in this process.
 *
 * It reads `tokens.prompt` and samples `tokens.response` with `logProbs.response`:
 * log-probabilities at the sampling temperature, before the top-k and top-p cuts. Neighboring rows
 * with equal prompts share the prompt's computation. Row i draws from `child(key, i)`, independent
 * of the rest of the batch. Every action is stamped with the version of the weights that sampled
 * it.
 *
 * Defaults temperature 1, no truncation, 128 new tokens.
 * Errors   `Left(PolicyFailure)` for an empty prompt or one that is too long for the model. `load`
 *          returns `Left(WeightFailure)` for weights of another architecture and keeps the old
 *          ones.
 * Effects  keeps the weights alive until `release` or the next `load`.
 * Source   TorchRL `TransformersWrapper` in tokens mode. Text and history are views that
 *          environments make.
 */
export const TransformersWrapper = (options: TransformersWrapperOptions): TransformersPolicy => {
  checkWrapper(NAME, options, TRANSFORMERS_WRAPPER_OPTIONS)
  const { config, stopTokens = config.endTokens, clock = liveClock } = options
  const generator = options.generator ?? makeGenerator(config)
  const scorer = options.scorer ?? inThisThread(makeScorer(config))
  const problem = mismatch(config, options.params)
  if (problem !== undefined) throw new Error(`TransformersWrapper: ${problem}`)
  let weights = { version: 0, owned: own(options.params) }

  const sampler = (sampling: Partial<Omit<GenerationOptions, 'stopTokens'>>): Policy<TokenPrompt, TokenAction> => {
    checkOptions(`${NAME}, sampling`, sampling, TRANSFORMERS_WRAPPER_SAMPLING_OPTIONS)
    const settings: GenerationOptions = { temperature: 1, maxNewTokens: 128, ...sampling, stopTokens }
    const record: SamplingRecord = {
      temperature: settings.temperature,
      topK: settings.topK ?? null,
      topP: settings.topP ?? null,
      maxNewTokens: settings.maxNewTokens,
      minNewTokens: settings.minNewTokens ?? 0,
    }
    return {
      name: NAME,
      act: (td, key) =>
        TE.tryCatch(async () => {
          const { version, owned } = weights // a load during the call does not affect this call
          using held = own(owned.value)
          const rows = rowsOf(get(td, 'tokens', 'prompt'))
          const group = sharedRows(rows)
          const keys = rows.map((_, i) => child(key, i))
          const completions = await generator.generate(
            held.value,
            { prompts: distinctPrompts(rows, group), group, keys, options: settings },
            clock.breathe,
          )
          return toAction(completions, { version, sampling: record })
        }, policyFailure),
    }
  }

  return {
    ...sampler(options.sampling ?? {}),
    withSampling: (sampling) => sampler({ ...options.sampling, ...sampling }),
    score: (prompts, completions, temperature) =>
      TE.tryCatch(async () => {
        using held = own(weights.owned.value) // a load during the call does not affect this call
        const request = { prompts: rowsOf(prompts), completions: rowsOf(completions), temperature }
        return ragged('float32', await scorer.score(held.value, request))
      }, policyFailure),
    version: () => weights.version,
    load: (params, version) => async () => {
      const wrong = mismatch(config, params)
      if (wrong !== undefined) return E.left({ _tag: 'WeightFailure', receiver: NAME, reason: wrong } as const)
      const old = weights.owned
      weights = { version, owned: own(params) }
      old.release()
      return E.right(version)
    },
    release: () => {
      weights.owned.release()
      generator.release()
      scorer.release()
    },
  }
}
