/** The options, variables and results of looking up policies by name. */
import type { Environment, Failure, Files, Hub, Packages } from '@tandem-rl/base'
import type { History } from '@tandem-rl/text'
import type * as TE from 'fp-ts/lib/TaskEither.js'
import type { HistoryAction, HistoryPrompt, Policy, PolicyFailure } from '../../../data/policy.js'
import type { FallbackFormat } from '../../pretrained/chatFormats.js'
import type { makeVLLMWorker } from '../vllmWorker/vllmWorker.js'
import type { LanguageModel } from './aiSDKWrapper.js'
import type { OpenAIWrapperOptions } from './clientConfig.js'
import { OpenAIWrapper } from './openAIWrapper.js'
import type { Variables } from './policyKeys.js'

/**
 * Scores whole replies to a conversation: the log-probability of each, in nats, its end of turn
 * included.
 */
export type ReplyScorer = (
  history: History,
  replies: readonly string[],
) => TE.TaskEither<PolicyFailure, readonly number[]>

/**
 * A policy that was made for a name. `close` frees what it holds: connections, a server that it
 * started, or a model in this process.
 */
export interface NamedPolicy extends Policy<HistoryPrompt, HistoryAction> {
  readonly close: () => Promise<void>
  /** Present for models in this process. */
  readonly scoreReplies?: ReplyScorer
}

/** A registry of models of the AI SDK, such as `createProviderRegistry` makes. */
export interface LanguageModelRegistry {
  readonly languageModel: (id: `${string}:${string}`) => LanguageModel
}

export interface RegistryOptions {
  /** Sampling parameters. */
  readonly sampling?: Pick<OpenAIWrapperOptions, 'temperature' | 'maxNewTokens' | 'topP'>
  /** Limits of requests to servers. */
  readonly limits?: Pick<OpenAIWrapperOptions, 'maxRequestsPerMinute' | 'timeoutSeconds'>
  /**
   * JSON or YAML file of `vllm_` names with entries `{ name, url, served_name?, description? }` for
   * servers that run, or `{ name, model_path, tokenizer_path?, description? }` for models that a
   * server is started for. `name` is one name or a list of names, with or without `vllm_`;
   * `served_name` defaults to the first. Default: VLLM_MODELS_PATH.
   */
  readonly vllmModels?: string
  /**
   * JSON or YAML file with a list of the `litellm_` names that may be used. Default:
   * LITELLM_MODELS_PATH, else all.
   */
  readonly litellmModels?: string
  /**
   * Finds the models of `litellm_PROVIDER/MODEL` as `PROVIDER:MODEL`. Default: the AI SDK's
   * packages.
   */
  readonly providers?: LanguageModelRegistry
  /** Policies and their other names, such as `{ openai_gpt-4.1-mini: ['judge', 'player_2'] }`. */
  readonly names?: Readonly<Record<string, readonly string[]>>
  /** The chat format of base models in this process, such as GPT-2. Default: they are refused. */
  readonly fallbackFormat?: FallbackFormat
  /** Default `.env`. */
  readonly envFile?: string
  readonly world?: Partial<RegistryWorld>
}

/** The effects that a look-up needs. */
export interface RegistryWorld {
  readonly files: Files
  readonly environment: Environment
  readonly packages: Packages
  readonly hub: () => Hub
  /** Starts a server for a `model_path`. */
  readonly startServer: typeof makeVLLMWorker
}

/** A look-up of one name. */
export interface Lookup {
  readonly sampling: NonNullable<RegistryOptions['sampling']>
  readonly limits: NonNullable<RegistryOptions['limits']>
  readonly options: RegistryOptions
  readonly envFile: string
  readonly world: RegistryWorld
  readonly variables: Variables
}

export type FoundPolicy = TE.TaskEither<Failure, NamedPolicy>

/** Makes a named policy. */
export const namedPolicy = (
  policy: Policy<HistoryPrompt, HistoryAction>,
  name: string,
  close: () => Promise<void>,
): NamedPolicy => ({
  name,
  act: policy.act,
  close,
})

/** Makes the policy of a server. */
export const serverPolicy = (
  name: string,
  config: OpenAIWrapperOptions<'text'>,
  { sampling, limits }: Pick<Lookup, 'sampling' | 'limits'>,
): NamedPolicy => {
  const policy = OpenAIWrapper({ ...sampling, ...limits, ...config })
  return namedPolicy(policy, name, policy.close)
}

/** Returns the name under which others list a name, or the name itself. */
export const listedAs = (names: Readonly<Record<string, readonly string[]>>, name: string): string =>
  Object.entries(names).find(([, others]) => others.includes(name))?.[0] ?? name
