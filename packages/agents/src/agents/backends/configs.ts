/** The configurations of backends, under AgentFly's names. */

import { checkOptions } from '@tandem-rl/base'
import type { ModelText, Policy, TokenAction, TokenPrompt } from 'tandem-rl'
import type { PolicyEngine } from 'tandem-rl/generation'
import type { Capture, ChatDialect, EngineClient, VLLMEngineArguments, VLLMWorkerOptions } from 'tandem-rl/remote'
import { ASYNC_VERL_CONFIG_OPTIONS, ASYNC_VLLM_CONFIG_OPTIONS, CLIENT_CONFIG_OPTIONS } from '../../optionKinds.js'

/** Defaults of sampling, which a run may replace. */
interface SamplingDefaults {
  /** Default 1. */
  readonly temperature?: number
  /** Default 1024. */
  readonly maxNewTokens?: number
}

/** The address of a vLLM server, or the settings to start one. */
export interface AsyncVLLMOptions extends SamplingDefaults {
  /** The address of a running server, such as `http://127.0.0.1:8000`. Default: one is started. */
  readonly url?: string
  readonly apiKey?: string
  /** The name of the model on a running server. Default: the agent's model. */
  readonly servedModelName?: string
  /** Settings to start a server. */
  readonly worker?: VLLMWorkerOptions
  /** Clients of engines, instead of an address. */
  readonly clients?: readonly EngineClient[]
  /** Template and tokenizer. Default: those of the agent's model. */
  readonly text?: ModelText
}

export interface AsyncVLLMConfig extends AsyncVLLMOptions {
  readonly backend: 'async_vllm'
  readonly engine: Omit<VLLMEngineArguments, 'model'>
}

/**
 * Configures a vLLM engine: its arguments, such as `gpuMemoryUtilization`, and where it runs.
 * Without `url`, a server is started on this computer.
 *
 * Errors   throws RangeError for unknown options of the second argument. Engine arguments are
 *          checked when the server starts.
 * Source   AgentFly `AsyncVLLMConfig`.
 *
 * @example
 * AsyncVLLMConfig({ gpuMemoryUtilization: 0.8, maxModelLen: 8192 }).backend // 'async_vllm'
 */
export const AsyncVLLMConfig = (
  engine: Omit<VLLMEngineArguments, 'model'> = {},
  options: AsyncVLLMOptions = {},
): AsyncVLLMConfig => {
  checkOptions('AsyncVLLMConfig', options, ASYNC_VLLM_CONFIG_OPTIONS)
  return { backend: 'async_vllm', engine, ...options }
}

export interface ClientOptions extends SamplingDefaults {
  /** Default `http://localhost:8000/v1`. */
  readonly baseUrl?: string
  /** Default `EMPTY`, which local servers accept. */
  readonly apiKey?: string
  /** Default 100. */
  readonly maxRequestsPerMinute?: number
  /** Seconds for a request, retries included. Default 600. */
  readonly timeout?: number
  /**
   * `tokens` keeps ids and log-probabilities, which vLLM and `tandem serve` return. Default `text`.
   */
  readonly capture?: Capture
  readonly dialect?: ChatDialect
  /** The name of the model on the server. Default: the agent's model. */
  readonly model?: string
}

export interface ClientConfig extends ClientOptions {
  readonly backend: 'client'
}

/**
 * Configures a client of a server with OpenAI's chat protocol.
 *
 * Errors   throws RangeError for unknown options, an address that is not one, and a limit that is
 *          not above 0.
 * Source   AgentFly `ClientConfig`.
 *
 * @example
 * ClientConfig({ baseUrl: 'http://localhost:8000/v1', timeout: 300 }).timeout // 300
 */
export const ClientConfig = (options: ClientOptions = {}): ClientConfig => {
  checkOptions('ClientConfig', options, CLIENT_CONFIG_OPTIONS)
  const { baseUrl = 'http://localhost', maxRequestsPerMinute = 1, timeout = 1 } = options
  for (const [name, value] of Object.entries({ maxRequestsPerMinute, timeout }))
    if (!(value > 0)) throw new RangeError(`ClientConfig: ${name} must be above 0, got ${value}`)
  const { protocol } = URL.canParse(baseUrl) ? new URL(baseUrl) : { protocol: '' }
  if (protocol !== 'http:' && protocol !== 'https:')
    throw new RangeError(`ClientConfig: baseUrl must be an address such as http://localhost:8000/v1, got '${baseUrl}'`)
  return { backend: 'client', ...options }
}

/** A policy of token ids that can be sampled with other settings, such as `TransformersWrapper`. */
export interface TrainerPolicy extends Policy<TokenPrompt, TokenAction> {
  readonly withSampling?: (sampling: {
    readonly temperature?: number
    readonly maxNewTokens?: number
    readonly topP?: number
  }) => Policy<TokenPrompt, TokenAction>
}

export interface AsyncVerlOptions extends SamplingDefaults {
  /**
   * The trainer's engine: its policy of token ids, or a client of its engine. Default: none, for
   * agents that are only trained.
   */
  readonly engine?: TrainerPolicy | PolicyEngine
  /** Template and tokenizer. Default: those of the agent's model. */
  readonly text?: ModelText
}

export interface AsyncVerlConfig extends AsyncVerlOptions {
  readonly backend: 'async_verl'
}

/**
 * Configures the engine of a trainer, in this process or elsewhere. An agent whose environment is
 * trained (`agent.env`) needs no engine.
 *
 * Errors   throws RangeError for unknown options.
 * Source   AgentFly `AsyncVerlConfig`, whose engine is set later by `set_llm_engine`.
 *
 * @example
 * AsyncVerlConfig({ maxNewTokens: 512 }).backend // 'async_verl'
 */
export const AsyncVerlConfig = (options: AsyncVerlOptions = {}): AsyncVerlConfig => {
  checkOptions('AsyncVerlConfig', options, ASYNC_VERL_CONFIG_OPTIONS)
  return { backend: 'async_verl', ...options }
}

/** A configuration of any backend. */
export type BackendConfig = AsyncVLLMConfig | ClientConfig | AsyncVerlConfig

/** The default configuration of each backend. */
export const DEFAULT_CONFIGS = {
  async_vllm: () => AsyncVLLMConfig(),
  client: () => ClientConfig(),
  async_verl: () => AsyncVerlConfig(),
} as const
