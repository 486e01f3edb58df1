import type { Failure } from '@tandem-rl/base'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { ModelText, Policy, TokenAction, TokenPrompt } from 'tandem-rl'
import { enginePolicy } from 'tandem-rl/generation'
import { backendFailure, backendOf, type GenerationConfig, type LLMBackend } from './backend.js'
import type { AsyncVerlConfig } from './configs.js'
import { type BackendModel, modelText } from './modelTexts.js'

interface Opened {
  readonly text: ModelText
  readonly engine: NonNullable<AsyncVerlConfig['engine']>
}

/** The engine with these settings. A policy without `withSampling` keeps its own. */
const policyOf = (engine: Opened['engine'], settings: GenerationConfig): Policy<TokenPrompt, TokenAction> => {
  const { temperature, maxNewTokens, topP, stop } = settings
  const shared = { ...(temperature !== undefined && { temperature }), ...(topP !== undefined && { topP }) }
  if ('act' in engine)
    return engine.withSampling?.({ ...shared, ...(maxNewTokens !== undefined && { maxNewTokens }) }) ?? engine
  const rest = {
    ...(maxNewTokens !== undefined && { maxTokens: maxNewTokens }),
    ...(stop !== undefined && { stop, stopText: 'include' as const }),
  }
  return enginePolicy({ engine, sampling: { ...shared, ...rest } })
}

const NO_ENGINE =
  'it has no engine: give one with AsyncVerlConfig({ engine, text }), or train the environment agent.env(...)'

/**
 * Runs an agent on the engine of a trainer: a policy in this process, or a client of an engine. It
 * samples with the weights that the trainer has now. Replies have token ids and log-probabilities.
 * The backend does not close the engine.
 *
 * Errors   `prepare`: `Left` without an engine, or if the model has no template.
 * Source   AgentFly `AsyncVerlBackend`.
 *
 * @example
 * AsyncVerlBackend({ modelNameOrPath: 'embedded' }, AsyncVerlConfig()).name // 'async_verl'
 */
export const AsyncVerlBackend = (model: BackendModel, config: AsyncVerlConfig): LLMBackend =>
  backendOf<Opened>({
    name: 'async_verl',
    open: pipe(
      TE.fromNullable<Failure>(backendFailure('async_verl', NO_ENGINE))(config.engine),
      TE.chain((engine) =>
        pipe(
          modelText(model, config.text),
          TE.map((text) => ({ text, engine })),
        ),
      ),
    ),
    seat: ({ text, engine }, { tools: _, toolCalls: __, ...settings }) => {
      const { temperature, maxNewTokens = 1024 } = config
      const defaults = { maxNewTokens, ...(temperature !== undefined && { temperature }) }
      return { reads: 'tokens', policy: policyOf(engine, { ...defaults, ...settings }), text }
    },
    close: async () => {},
  })
