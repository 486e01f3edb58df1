import type { Failure } from '@tandem-rl/base'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { ModelText } from 'tandem-rl'
import { type EngineClient, makeVLLMWorker, type VLLMWorker, vLLMClient, vLLMWrapper } from 'tandem-rl/remote'
import { backendOf, type GenerationConfig, type LLMBackend } from './backend.js'
import type { AsyncVLLMConfig } from './configs.js'
import { type BackendModel, modelText } from './modelTexts.js'

interface Opened {
  readonly text: ModelText
  readonly clients: readonly EngineClient[]
  readonly worker: VLLMWorker | null
}

/** The clients of a configuration; `null` if a server has to be started. */
const clientsOf = ({ modelNameOrPath }: BackendModel, config: AsyncVLLMConfig): readonly EngineClient[] | null => {
  const { clients, url, apiKey, servedModelName = modelNameOrPath } = config
  if (clients !== undefined) return clients
  if (url === undefined) return null
  return [vLLMClient({ url, model: servedModelName, ...(apiKey !== undefined && { apiKey }) })]
}

const started = (
  { modelNameOrPath: model }: BackendModel,
  config: AsyncVLLMConfig,
): TE.TaskEither<Failure, VLLMWorker> =>
  pipe(
    makeVLLMWorker({ ...config.engine, model }, { ...config.worker, ...(config.apiKey && { apiKey: config.apiKey }) }),
    TE.mapLeft((failure): Failure => failure),
  )

/** The names of settings that a vLLM policy has. */
const samplingOf = ({ temperature, maxNewTokens, topP, stop }: GenerationConfig) => ({
  ...(temperature !== undefined && { temperature }),
  ...(maxNewTokens !== undefined && { maxTokens: maxNewTokens }),
  ...(topP !== undefined && { topP }),
  ...(stop !== undefined && { stop, stopText: 'include' as const }),
})

/**
 * Runs a model on a vLLM server, or on `tandem serve`: `vLLMWrapper` with the template of the
 * model. `prepare` starts a server unless the configuration has an address. Replies have token ids
 * and log-probabilities.
 *
 * Errors   `prepare`: `Left` if the model has no template or the server does not start. Otherwise
 *          as `vLLMWrapper`.
 * Effects  a server process until `close`, if one was started.
 * Source   AgentFly `AsyncVLLMBackend`, which keeps neither ids nor log-probabilities.
 *
 * @example
 * AsyncVLLMBackend({ modelNameOrPath: 'Qwen/Qwen2.5-3B-Instruct' }, AsyncVLLMConfig({ maxModelLen: 8192 })).name // 'async_vllm'
 */
export const AsyncVLLMBackend = (model: BackendModel, config: AsyncVLLMConfig): LLMBackend =>
  backendOf<Opened>({
    name: 'async_vllm',
    open: pipe(
      modelText(model, config.text),
      TE.chain((text): TE.TaskEither<Failure, Opened> => {
        const clients = clientsOf(model, config)
        if (clients !== null) return TE.right({ text, clients, worker: null })
        return pipe(
          started(model, config),
          TE.map((worker) => ({ text, clients: [worker.client], worker })),
        )
      }),
    ),
    seat: ({ text, clients }, settings) => {
      const { temperature, maxNewTokens = 1024 } = config
      const defaults = { maxNewTokens, ...(temperature !== undefined && { temperature }) }
      const policy = vLLMWrapper({ clients, sampling: samplingOf({ ...defaults, ...settings }) })
      return { reads: 'tokens', policy, text }
    },
    close: async (opened) => {
      await Promise.all((opened?.clients ?? []).map((client) => client.close()))
      await opened?.worker?.stop()
    },
  })
