/**
 * Models that clients sample from: the base model, adapters on it, and models with their own
 * weights.
 */
import type { EngineMetrics, GenerationFailure, GenerationRequest, LLMEngine } from '@tandem-rl/text'
import type { Owned } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import type { Pretrained } from 'tandem-rl'
import { type EngineLimits, type Generated, generateAll, modelEngine } from 'tandem-rl/generation'
import { adapterWeights, type Params, sharedParams } from 'tandem-rl/models'
import type { TrainedWeights } from 'tandem-rl/objectives'
import type { SampleResult, TopTokens } from '../protocol/values.js'

/** Something to sample with. */
export interface HostSampler {
  readonly generate: (
    request: Omit<GenerationRequest, 'adapter' | 'cacheSalt'>,
    signal: AbortSignal,
  ) => Promise<E.Either<GenerationFailure, Generated>>
  readonly release: () => Promise<void>
}

/** The metrics of the engine of a base model, and its adapters. */
export interface ReportedSampler {
  readonly metrics: EngineMetrics
  readonly model: string
  readonly adapters: readonly string[]
}

/** Makes samplers of one model. */
export interface Samplers {
  readonly base: HostSampler
  /** Errors: `Left` for an adapter that does not fit. The snapshot belongs to the sampler. */
  readonly open: (name: string, snapshot: TrainedWeights) => Promise<E.Either<string, HostSampler>>
  /** Reads the metrics of the engine of the base model and its adapters, which is started. */
  readonly metrics: () => Promise<Omit<ReportedSampler, 'model'>>
  readonly close: () => Promise<void>
}

const CLOSED = 'the server is closed'

/** One engine for the base model and its adapters, and one for each model with its own weights. */
export const makeSamplers = (model: Pretrained, limits: Partial<EngineLimits>): Samplers => {
  const engineOf = (params: Params): LLMEngine =>
    modelEngine({ config: model.config, params, tokenizer: model.text.tokenizer, limits })
  let shared: { readonly engine: LLMEngine; readonly params: Owned<Params> } | undefined
  let isClosed = false // then requests that were accepted before fail
  const baseEngine = (): LLMEngine => {
    if (shared === undefined) {
      const params = sharedParams(model)
      shared = { params, engine: engineOf(params.value) }
    }
    return shared.engine
  }
  const sampling = (engine: () => LLMEngine, adapter: string | null, release: HostSampler['release']): HostSampler => ({
    generate: async (request, signal) => {
      if (isClosed) return E.left({ _tag: 'GenerationFailure', kind: 'closed', reason: CLOSED })
      const [answer] = await generateAll(engine(), [{ ...request, adapter, cacheSalt: adapter ?? '' }], { signal })
      return answer!
    },
    release,
  })

  return {
    base: sampling(baseEngine, null, async () => undefined),
    open: async (name, snapshot) => {
      if (isClosed) {
        if (snapshot._tag === 'Weights') snapshot.params.release()
        return E.left(CLOSED)
      }
      if (snapshot._tag === 'Weights') {
        const engine = engineOf(snapshot.params.value)
        return E.right(
          sampling(
            () => engine,
            null,
            async () => {
              await engine.close()
              snapshot.params.release()
            },
          ),
        )
      }
      const loaded = await baseEngine().loadAdapter(name, adapterWeights(snapshot.adapter))()
      if (E.isLeft(loaded)) return E.left(loaded.left.reason)
      const unload = async (): Promise<void> => void (await baseEngine().unloadAdapter(name)())
      return E.right(sampling(baseEngine, name, unload))
    },
    metrics: async () => {
      const engine = baseEngine()
      return { metrics: await engine.metrics(), adapters: await engine.adapters() }
    },
    close: async () => {
      isClosed = true
      await shared?.engine.close()
      shared?.params.release()
      shared = undefined
    },
  }
}

/** The log-probabilities of its prompt that a sampling request asks for. */
export interface PromptWishes {
  readonly logProbs: 'none' | 'all'
  /** Only the last so many tokens; null for all. */
  readonly lastN: number | null
  /** Most probable tokens for each place; 0 for none. */
  readonly top: number
}

/**
 * The answer of an engine as the protocol's result. Errors: `Left` for a completion that was ended
 * early.
 */
export const sampleResultOf = (generated: Generated, wishes: PromptWishes): E.Either<string, SampleResult> => {
  const { completions, promptLogProbs, cachedTokens } = generated
  const ended = completions.find(({ finishReason }) => finishReason !== 'stop' && finishReason !== 'length')
  if (ended !== undefined) return E.left(`sampling was ended: ${ended.finishReason}`)
  const first = wishes.lastN === null || promptLogProbs === null ? 1 : promptLogProbs.length - wishes.lastN
  const shown = promptLogProbs?.map((place, i) => (i < first ? null : place)) ?? null
  return E.right({
    sequences: completions.map(({ tokens, finishReason }) => ({
      stopReason: finishReason === 'stop' ? ('stop' as const) : ('length' as const),
      tokens: Int32Array.from(tokens, ({ id }) => id),
      logProbs: Float32Array.from(tokens, ({ rawLogProb }) => rawLogProb),
    })),
    promptLogProbs: wishes.logProbs === 'none' ? null : (shown?.map((place) => place?.logProb ?? null) ?? null),
    topPromptLogProbs:
      wishes.top === 0
        ? null
        : (shown?.map((place): TopTokens | null =>
            place === null ? null : place.top.slice(0, wishes.top).map(({ id, logProb }) => [id, logProb] as const),
          ) ?? null),
    cachedTokens,
  })
}
