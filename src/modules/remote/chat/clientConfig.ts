/** Options of requests to a chat server: those of AgentFly's `ClientConfig`, and others. */
import type { Transport } from '@tandem-rl/base'
import type { ServingWeights } from '../../../data/engineClient.js'
import type { SamplingRecord } from '../../../data/policy.js'
import type { Capture } from './chatAction.js'
import type { CallReading } from './chatReply.js'

/** A tool as OpenAI's format describes it. */
export interface ChatTool {
  readonly type: 'function'
  readonly function: {
    readonly name: string
    readonly description?: string
    /** JSON schema of the arguments. */
    readonly parameters?: object
  }
}

/** The tools that the model may call: its choice, none, at least one, or this one. */
export type ToolChoice = 'auto' | 'none' | 'required' | { readonly name: string }

/** Differences between servers. */
export interface ChatDialect {
  /**
   * The field with the limit of new tokens; OpenAI's reasoning models know only the second. Default
   * `max_tokens`.
   */
  readonly limitField?: 'max_tokens' | 'max_completion_tokens'
  /** Default: a seed for each request, drawn from the key. Some providers refuse the field. */
  readonly seeds?: 'from-key' | 'omit'
  /**
   * `together`: neighbouring conversations that are equal are one request with `n`, whose prompt is
   * computed once; a server that refuses is asked one by one from then on. `apart`: one request
   * each, so that no answer depends on what else is in the batch. Default `together`.
   */
  readonly equalPrompts?: 'together' | 'apart'
  /**
   * The source of tool calls. `native`: the server. A format: they are parsed from the text here,
   * for servers that show tools to the model but do not parse its calls; the request then has
   * `tool_choice: none`. Default `native`.
   */
  readonly toolCalls?: CallReading
  /**
   * The source of the server's log-probabilities: vLLM's `--logprobs-mode`. `raw`: the model's
   * logits, so the temperature must be 1 or 0 if tokens are captured. `processed`: the distribution
   * that tokens are drawn from (at temperature 0, the one at 1), so nothing may be cut. Default
   * `raw`, as in vLLM.
   */
  readonly logProbs?: 'raw' | 'processed'
}

/** Options of chat models, for any server. */
export interface ChatOptions {
  /** For a request, its retries included. Default 600. */
  readonly timeoutSeconds?: number
  /** Default 1. */
  readonly temperature?: number
  /** Default 1024. */
  readonly maxNewTokens?: number
  /** Default 1: nothing is cut. */
  readonly topP?: number
  /** Texts that end an answer. */
  readonly stop?: readonly string[]
  readonly tools?: readonly ChatTool[]
  readonly toolChoice?: ToolChoice
}

/** A chat server, and how it is asked. The defaults are AgentFly's. */
export interface OpenAIWrapperOptions<C extends Capture = Capture> extends ChatOptions {
  readonly model: string
  /** The captured data of responses. Default `text`. */
  readonly capture?: C
  /** Default `http://localhost:8000/v1`. */
  readonly baseUrl?: string
  /** Default `EMPTY`, which local servers take. */
  readonly apiKey?: string
  /** Default 100. */
  readonly maxRequestsPerMinute?: number
  /** Further fields of the request, as they are. */
  readonly extraBody?: Readonly<Record<string, unknown>>
  readonly dialect?: ChatDialect
  /**
   * Returns the weights that the server samples with, from an updater: adapter, cache salt and
   * version. Default: the base weights, version 0.
   */
  readonly weights?: () => ServingWeights
  /** Default: its own transport, which `close` closes. A given transport keeps its own limits. */
  readonly transport?: Transport
}

/** A configuration with nothing left out but the key and the limits, which are the transport's. */
export interface ChatSettings {
  readonly model: string
  readonly capture: Capture
  /** In front of `/chat/completions`. */
  readonly pathPrefix: string
  readonly timeoutMs: number
  readonly sampling: SamplingRecord
  readonly stop: readonly string[]
  readonly tools: readonly ChatTool[]
  readonly toolChoice: ToolChoice | undefined
  readonly extraBody: Readonly<Record<string, unknown>>
  readonly dialect: Required<ChatDialect>
  readonly weights: () => ServingWeights
}

const BASE_WEIGHTS: ServingWeights = { version: 0, adapter: null, cacheSalt: '' }

export const DEFAULT_BASE_URL = 'http://localhost:8000/v1'
export const DEFAULT_REQUESTS_PER_MINUTE = 100

/** Fields that a policy writes itself. */
const OWN_FIELDS: readonly string[] = [
  ...['model', 'messages', 'n', 'seed', 'stream', 'temperature', 'top_p', 'max_tokens', 'max_completion_tokens'],
  ...['stop', 'tools', 'tool_choice', 'logprobs', 'return_token_ids', 'cache_salt'],
]

/**
 * Fields that make the server sample from another distribution than the one of the
 * log-probabilities and the sampling record.
 */
const UNTOLD_FIELDS: readonly string[] = [
  ...['top_k', 'min_p', 'repetition_penalty', 'presence_penalty', 'frequency_penalty', 'logit_bias', 'bad_words'],
  ...['allowed_token_ids', 'use_beam_search', 'min_tokens', 'ignore_eos', 'prompt_logprobs', 'echo'],
]

const isPositive = (value: number): boolean => Number.isFinite(value) && value > 0

/** Returns the settings that would make captured log-probabilities wrong. */
const captureProblems = ({ capture, sampling, dialect, extraBody }: ChatSettings): readonly string[] => {
  if (capture === 'text') return []
  const { temperature, topP } = sampling
  const unreported = Object.keys(extraBody).filter((name) => UNTOLD_FIELDS.includes(name))
  return [
    ...unreported.map(
      (name) => `extraBody.${name} changes how tokens are drawn, which the captured log-probabilities would not tell`,
    ),
    ...(dialect.logProbs === 'raw' && temperature !== 1 && temperature !== 0
      ? [
          `temperature must be 1 or 0, got ${temperature}: raw log-probabilities are those of temperature 1; start the server with processed ones, and say so in dialect.logProbs`,
        ]
      : []),
    ...(dialect.logProbs === 'processed' && topP !== 1
      ? [`topP must be 1 where log-probabilities are processed, got ${topP}`]
      : []),
  ]
}

const problemsOf = (settings: ChatSettings): readonly string[] => {
  const { sampling, timeoutMs, tools, toolChoice, extraBody } = settings
  const { temperature, topP, maxNewTokens } = sampling
  const own = Object.keys(extraBody).filter((name) => OWN_FIELDS.includes(name))
  const isKnown = typeof toolChoice !== 'object' || tools.some((tool) => tool.function.name === toolChoice.name)
  return [
    ...(Number.isFinite(temperature) && temperature >= 0 ? [] : [`temperature must be at least 0, got ${temperature}`]),
    ...(topP === null || (topP > 0 && topP <= 1) ? [] : [`topP must be above 0 and at most 1, got ${topP}`]),
    ...(Number.isInteger(maxNewTokens) && maxNewTokens > 0
      ? []
      : [`maxNewTokens must be an integer of at least 1, got ${maxNewTokens}`]),
    ...(isPositive(timeoutMs) ? [] : [`timeoutSeconds must be above 0, got ${timeoutMs / 1000}`]),
    ...(toolChoice !== undefined && tools.length === 0 ? ['toolChoice needs tools'] : []),
    ...(tools.length > 0 && !isKnown ? ['toolChoice names none of the tools'] : []),
    ...own.map((name) => `extraBody.${name} is written by the policy itself`),
    ...captureProblems(settings),
  ]
}

/**
 * A configuration with its defaults, checked.
 *
 * Errors   throws RangeError with every setting that cannot be, or under which captured
 *          log-probabilities would not be those of the samples.
 */
export const chatSettings = (config: OpenAIWrapperOptions): ChatSettings => {
  const { temperature = 1, topP = 1, maxNewTokens = 1024, timeoutSeconds = 600, dialect = {} } = config
  const settings: ChatSettings = {
    model: config.model,
    capture: config.capture ?? 'text',
    pathPrefix: new URL(config.baseUrl ?? DEFAULT_BASE_URL).pathname.replace(/(?<!\/)\/+$/, ''),
    timeoutMs: timeoutSeconds * 1000,
    sampling: { temperature, topK: null, topP, maxNewTokens, minNewTokens: 0 },
    stop: config.stop ?? [],
    tools: config.tools ?? [],
    toolChoice: config.toolChoice,
    extraBody: config.extraBody ?? {},
    dialect: {
      limitField: 'max_tokens',
      seeds: 'from-key',
      equalPrompts: 'together',
      toolCalls: 'native',
      logProbs: 'raw',
      ...dialect,
    },
    weights: config.weights ?? (() => BASE_WEIGHTS),
  }
  const problems = problemsOf(settings)
  if (problems.length > 0) throw new RangeError(`OpenAIWrapperOptions: ${problems.join('; ')}`)
  return settings
}
