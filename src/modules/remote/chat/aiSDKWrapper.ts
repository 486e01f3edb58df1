import {
  ABORTED,
  type Calendar,
  cancellation,
  checkOptions,
  child,
  type Key,
  limiter,
  pauseFor,
  problemList,
  type Timers,
} from '@tandem-rl/base'
import { liveCalendar, liveTimers } from '@tandem-rl/base/host'
import { pauseMs, retryAfterMs } from '@tandem-rl/host'
import type { History } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { ServingWeights } from '../../../data/engineClient.js'
import type { HistoryPrompt, Policy, PolicyFailure } from '../../../data/policy.js'
import { get, type TensorDict } from '../../../data/tensorDict/tensorDict.js'
import { AI_SDK_WRAPPER_OPTIONS } from '../../optionKinds.js'
import { type AIError, aiError, aiResult, aiTurn } from './aiAnswer.js'
import { type AIMessage, aiPrompt } from './aiPrompt.js'
import { allAnswers } from './allAnswers.js'
import { type Capture, type CapturedTurn, type ChatOutput, type ChatTurn, outputOf } from './chatAction.js'
import { type FailureKind, type FailureMaker, failureMaker, kindOfStatus, replyFailure } from './chatFailures.js'
import { chatReply, tokensOf } from './chatReply.js'
import { captureFields, seedOf } from './chatRequest.js'
import { type ChatOptions, type ChatSettings, chatSettings, type OpenAIWrapperOptions } from './clientConfig.js'

/** A call of a language model: the used part of the call options of the AI SDK's specification. */
interface LanguageModelCall {
  readonly prompt: readonly AIMessage[]
  readonly maxOutputTokens: number
  readonly temperature: number
  readonly topP?: number
  readonly stopSequences?: readonly string[]
  readonly seed?: number
  readonly tools?: readonly object[]
  readonly toolChoice?: object
  readonly headers?: Readonly<Record<string, string>>
  readonly providerOptions?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly abortSignal: AbortSignal
}

/**
 * A language model of the AI SDK, version 2 or 3 of its specification: what its provider packages
 * make.
 */
export interface LanguageModel {
  readonly specificationVersion: string
  readonly provider: string
  readonly modelId: string
  /** A method, as the SDK declares it: its options are lists that may be changed. */
  doGenerate(call: never): PromiseLike<unknown>
}

/** A language model, and how it is asked. */
export interface AISDKConfig<C extends Capture = Capture> extends ChatOptions {
  readonly model: LanguageModel
  /**
   * The captured data of responses. Default `text`. `tokens` needs a model of an OpenAI-compatible
   * provider that exposes the response body (as `@ai-sdk/openai-compatible` does), over vLLM or
   * `tandem serve`, whose log-probabilities must be raw, as they are by default.
   */
  readonly capture?: C
  readonly headers?: Readonly<Record<string, string>>
  /** By the provider's name, as the SDK has them. */
  readonly providerOptions?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  /** Default: a seed for each request, drawn from the key. */
  readonly seeds?: 'from-key' | 'omit'
  /** Default 4. Only what the SDK calls retryable is tried again. */
  readonly attempts?: number
  /** Requests at a time. Default 16. */
  readonly maxConcurrent?: number
  /** Values that are removed from all output: the provider's key. */
  readonly secrets?: readonly string[]
  /**
   * As of `OpenAIWrapperOptions`. Adapters are chosen with the model, so that only version and salt
   * are read.
   */
  readonly weights?: () => ServingWeights
  readonly world?: Partial<AIWorld>
}

/** The capabilities that retries use. */
export interface AIWorld {
  readonly timers: Timers
  readonly calendar: Calendar
}

const NAME = 'aiSDKWrapper'

const CALLED_OFF = 'the request was called off'

const RETRY = { attempts: 4, baseMs: 250, capMs: 20_000, share: 1, floor: 0 } as const

/** The name under which a provider looks for its options. */
const optionsName = ({ provider }: LanguageModel): string => provider.split('.')[0]!.trim()

/**
 * The settings that a chat server would be asked with: what makes captured log-probabilities wrong
 * there does so here.
 */
const asClient = (config: AISDKConfig): OpenAIWrapperOptions => {
  const { model, capture, seeds = 'from-key', providerOptions: given = {} } = config
  const fields = [
    'temperature',
    'maxNewTokens',
    'topP',
    'stop',
    'tools',
    'toolChoice',
    'timeoutSeconds',
    'weights',
  ] as const
  const same = Object.fromEntries(fields.flatMap((name) => (config[name] === undefined ? [] : [[name, config[name]]])))
  const own = capture === 'tokens' ? given[optionsName(model)] : undefined
  return {
    ...same,
    model: model.modelId,
    capture: capture ?? 'text',
    dialect: { seeds },
    extraBody: own ?? {},
  }
}

/** The data that the calls of a policy share. */
interface Client {
  readonly config: AISDKConfig
  readonly settings: ChatSettings
  readonly fail: FailureMaker
  readonly world: AIWorld
}

const toolFields = ({ tools, toolChoice }: ChatSettings): Pick<LanguageModelCall, 'tools' | 'toolChoice'> => {
  if (tools.length === 0) return {}
  const choice =
    typeof toolChoice === 'object' ? { type: 'tool', toolName: toolChoice.name } : { type: toolChoice ?? 'auto' }
  return {
    tools: tools.map(({ function: { name, description, parameters } }) => ({
      type: 'function',
      name,
      ...(description !== undefined && { description }),
      inputSchema: parameters ?? { type: 'object', properties: {} },
    })),
    toolChoice: choice,
  }
}

const providerOptions = (
  { model, capture, providerOptions: given = {} }: AISDKConfig,
  weights: ServingWeights,
): LanguageModelCall['providerOptions'] => {
  if (capture !== 'tokens') return given
  const name = optionsName(model)
  return { ...given, [name]: { ...given[name], ...captureFields(weights) } }
}

const callOf = (
  { config, settings }: Client,
  request: { readonly prompt: readonly AIMessage[]; readonly key: Key; readonly weights: ServingWeights },
  abortSignal: AbortSignal,
): LanguageModelCall => {
  const { headers } = config
  const { sampling, stop, capture, dialect } = settings
  return {
    prompt: request.prompt,
    maxOutputTokens: sampling.maxNewTokens,
    temperature: sampling.temperature,
    ...(sampling.topP !== null && (sampling.topP !== 1 || capture === 'tokens') && { topP: sampling.topP }),
    ...(stop.length > 0 && { stopSequences: stop }),
    ...(dialect.seeds === 'from-key' && { seed: seedOf(request.key) }),
    ...toolFields(settings),
    ...(headers !== undefined && { headers }),
    providerOptions: providerOptions(config, request.weights) ?? {},
    abortSignal,
  }
}

/** Converts a response to a turn, with its ids if they are captured. */
const readResult = (
  { config, settings, fail }: Client,
  value: unknown,
  version: number,
): E.Either<PolicyFailure, ChatTurn> => {
  const result = aiResult(value)
  if (E.isLeft(result)) return E.left(replyFailure(fail, result.left))
  const turn = aiTurn(result.right, config.model.modelId)
  if (E.isLeft(turn)) return E.left(replyFailure(fail, turn.left))
  if (settings.capture === 'text') return turn
  const body = result.right.response?.body
  if (body === undefined) {
    const reason = "the provider does not show the body of the server's answer, so that there are no ids"
    return E.left(replyFailure(fail, { kind: 'tokens-missing', reason }))
  }
  const reply = chatReply(body)
  if (E.isLeft(reply)) return E.left(replyFailure(fail, reply.left))
  const tokens = tokensOf(reply.right, 0)
  if (E.isLeft(tokens)) return E.left(replyFailure(fail, tokens.left))
  const captured: CapturedTurn = { ...turn.right, tokens: tokens.right, version, sampling: settings.sampling }
  return E.right(captured)
}

const kindOfError = ({ status, isRetryable }: AIError): FailureKind =>
  status === undefined ? (isRetryable === 'yes' ? 'infrastructure' : 'asked') : kindOfStatus(status)

/** One answer, by as many attempts as its time and number allow. */
const askOne = async (
  client: Client,
  { prompt, key }: { readonly prompt: readonly AIMessage[]; readonly key: Key },
  signal: AbortSignal,
): Promise<E.Either<PolicyFailure, ChatTurn>> => {
  const { config, settings, fail, world } = client
  const { attempts = RETRY.attempts, model } = config
  const work = cancellation({ signal, deadlineMs: settings.timeoutMs })
  const overdue = (): PolicyFailure =>
    work.why() === 'deadline'
      ? fail('infrastructure', `${model.modelId}: no answer within ${settings.timeoutMs / 1000} s`)
      : fail('cancelled', CALLED_OFF)
  try {
    for (let attempt = 1; ; attempt++) {
      if (work.signal.aborted) return E.left(overdue())
      const weights = settings.weights()
      try {
        const call = callOf(client, { prompt, key, weights }, work.signal)
        return readResult(client, await model.doGenerate(call as never), weights.version) // the SDK's own type of options
      } catch (thrown) {
        if (work.signal.aborted) return E.left(overdue())
        const error = aiError(thrown)
        if (error.isRetryable === 'no' || attempt >= attempts) {
          return E.left(fail(kindOfError(error), `${model.modelId}: ${error.reason}`))
        }
        const wanted = retryAfterMs(error.retryAfter, world.calendar.today().getTime()) ?? 0
        await pauseFor(wanted + pauseMs(attempt, RETRY, child(child(key, 'retry'), attempt)), world.timers, work.signal)
      }
    }
  } finally {
    work.release()
  }
}

/** The prompts of all conversations, or every problem of them. */
const promptsOf = (
  fail: FailureMaker,
  histories: readonly History[],
): E.Either<PolicyFailure, readonly (readonly AIMessage[])[]> => {
  const problems: string[] = []
  const prompts = histories.flatMap((history, i) => {
    const prompt = aiPrompt(history)
    if (E.isRight(prompt)) return [prompt.right]
    problems.push(`conversation ${i}: ${prompt.left.reason}`)
    return []
  })
  return problems.length === 0 ? E.right(prompts) : E.left(fail('asked', problemList(problems)))
}

/**
 * Any language model of the AI SDK as a policy: what its provider packages make, which cover the
 * providers that LiteLLM does. The package `ai` itself is not needed.
 *
 * Each row is one request, seeded with `child(key, i)`. Retries are the policy's own: models are
 * called as the SDK's specification has it, which tries nothing twice.
 *
 * Shapes   reads `history.prompt` `[B]`; gives entries `[B]`, with ragged rows of ids and
 *          log-probabilities where they are captured.
 * Errors   `Left(PolicyFailure)` as of `OpenAIWrapper`: by the status of the provider's error, or
 *          `asked` where the SDK refuses by itself. Throws RangeError for settings that cannot be.
 * Effects  what the provider does: requests over HTTP.
 *
 * @example
 * aiSDKWrapper({ model: { specificationVersion: 'v3', provider: 'me', modelId: 'x', doGenerate: async () => ({}) } }).name // 'aiSDKWrapper'
 */
export const aiSDKWrapper = <C extends Capture = 'text'>(
  config: AISDKConfig<C>,
): Policy<HistoryPrompt, ChatOutput<C>> => {
  checkOptions('aiSDKWrapper', config, AI_SDK_WRAPPER_OPTIONS)
  const settings = chatSettings(asClient(config))
  const fail = failureMaker(NAME, config.secrets)
  const world: AIWorld = { timers: liveTimers, calendar: liveCalendar, ...config.world }
  const client: Client = { config, settings, fail, world }
  const limit = limiter(config.maxConcurrent ?? 16)
  const toAction = (turns: readonly ChatTurn[]): TensorDict<ChatOutput<C>> => outputOf(settings.capture as C, turns) // as configured
  return {
    name: NAME,
    act: (td, key, options) => async () => {
      const prompts = promptsOf(fail, get(td, 'history', 'prompt').items.toArray())
      if (E.isLeft(prompts)) return prompts
      const ask = async (prompt: readonly AIMessage[], signal: AbortSignal, i: number) => {
        const answer = await limit.run(() => askOne(client, { prompt, key: child(key, i) }, signal), signal)
        return answer === ABORTED ? E.left(fail('cancelled', CALLED_OFF)) : answer
      }
      return E.map(toAction)(await allAnswers(prompts.right, ask, options?.signal))
    },
  }
}
