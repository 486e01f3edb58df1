/**
 * An `EngineClient` for an engine in this process or on a thread, so that policies, pools and
 * updaters treat all engines alike.
 */
import { errorMessage } from '@tandem-rl/base'
import type { GenerationEvent, LLMEngine } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { EngineClient, EngineFailure } from '../../data/engineClient.js'
import { makeRequestGate } from './requestGate.js'

/**
 * Stamps the tokens of an adapter with its version. The engine itself stamps those of its base
 * weights.
 */
async function* stamped(events: AsyncIterable<GenerationEvent>, version: number): AsyncGenerator<GenerationEvent> {
  for await (const event of events) {
    yield event._tag === 'Tokens' ? { ...event, tokens: event.tokens.map((token) => ({ ...token, version })) } : event
  }
}

/**
 * Makes the client of an in-process engine.
 *
 * Errors   `Left(EngineFailure)`: `refused` for weights and adapters that the engine rejects,
 *          `unreachable` if it is closed or has failed.
 * Effects  those of the engine; `close` closes it.
 */
export const localClient = (engine: LLMEngine, name: string): EngineClient => {
  const { pass, ...gate } = makeRequestGate()
  const failure = (kind: EngineFailure['kind'], reason: string): EngineFailure => ({
    _tag: 'EngineFailure',
    engine: name,
    kind,
    reason,
  })
  /** Converts the rejections of an engine that has ended. */
  const requested = <T>(call: () => Promise<T>): TE.TaskEither<EngineFailure, T> =>
    TE.tryCatch(call, (error) => failure('unreachable', errorMessage(error)))
  const given = <T>(task: TE.TaskEither<{ readonly reason: string }, T>): TE.TaskEither<EngineFailure, T> =>
    pipe(requested(task), TE.chainEitherK(E.mapLeft(({ reason }) => failure('refused', reason))))

  return {
    ...gate,
    name,
    connect: TE.right({
      ...engine.info,
      server: 'tandem in this process',
      logProbs: 'all',
      promptLogProbs: 'yes',
      stamps: 'yes',
      updates: ['adapter', 'full'],
      control: 'yes',
    }),
    generate: (request, options = {}) =>
      pass(request, options, (filled, version) => {
        const events = engine.generate(filled, options)
        const isServing = filled.adapter !== null && filled.adapter === gate.serving().adapter
        return isServing ? stamped(events, version) : events
      }),
    abort: (ids) => requested(() => engine.abort(ids)),
    health: requested(async () => void (await engine.version())),
    state: requested(async () => ({
      version: await engine.version(),
      isPaused: await engine.isPaused(),
      adapters: await engine.adapters(),
    })),
    pause: (options) => requested(() => engine.pause(options)),
    resume: requested(engine.resume),
    resetPrefixCache: requested(engine.resetPrefixCache),
    loadAdapter: (adapterName, adapter) => given(engine.loadAdapter(adapterName, adapter)),
    unloadAdapter: (adapterName) => given(engine.unloadAdapter(adapterName)),
    loadWeights: (weights, { version }) =>
      pipe(
        given(engine.loadWeights(weights, { version, running: 'recompute' })),
        TE.filterOrElse(
          (loaded) => loaded === version,
          (loaded) => failure('protocol', `it was given version ${version} and reports ${loaded}`),
        ),
        TE.map(() => undefined),
      ),
    close: engine.close,
  }
}
