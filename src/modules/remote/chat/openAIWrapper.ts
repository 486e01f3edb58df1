/** Chat APIs in the form of OpenAI as policies. */
import {
  type Cancellation,
  cancellation,
  checkOptions,
  child,
  type HttpFailure,
  type HttpReply,
  type HttpRequest,
  type Key,
  parseJson,
  problemList,
  type Transport,
} from '@tandem-rl/base'
import { liveTransport } from '@tandem-rl/host'
import { callIds, type History, type OpenAiMessage, sameHistory, writtenArguments } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { ActOptions, HistoryPrompt, Policy, PolicyFailure } from '../../../data/policy.js'
import { get, type TensorDict } from '../../../data/tensorDict/tensorDict.js'
import { OPENAI_WRAPPER_OPTIONS } from '../../optionKinds.js'
import { reportedStatus } from '../failures.js'
import { type Capture, type CapturedTurn, type ChatOutput, type ChatTurn, outputOf } from './chatAction.js'
import { type FailureMaker, failureMaker, httpPolicyFailure, replyFailure } from './chatFailures.js'
import { type ChatReply, chatReply, tokensOf, turnsOf } from './chatReply.js'
import { chatBody, promptMessages } from './chatRequest.js'
import { streamedAnswer } from './chatStream.js'
import {
  type ChatSettings,
  chatSettings,
  DEFAULT_BASE_URL,
  DEFAULT_REQUESTS_PER_MINUTE,
  type OpenAIWrapperOptions,
} from './clientConfig.js'

/** A chat server as a policy. */
export interface ChatPolicy<C extends Capture> extends Policy<HistoryPrompt, ChatOutput<C>> {
  /** Ends what is underway and closes connections that are the policy's own. */
  readonly close: () => Promise<void>
  /** The connection. Further policies of the server that get it share its limit of requests. */
  readonly transport: Transport
}

const NAME = 'OpenAIWrapper'

/** The data that the calls of a policy share. */
interface Client {
  readonly settings: ChatSettings
  readonly transport: Transport
  readonly fail: FailureMaker
  /**
   * `taken` until the server rejects a request for several completions that it accepts for a single
   * one.
   */
  severalAnswers: 'taken' | 'refused'
}

/** Neighbouring rows with one conversation. */
interface Rows {
  readonly history: History
  readonly messages: readonly OpenAiMessage[]
  /** Index of the first row. */
  readonly first: number
  readonly count: number
}

type Turns = E.Either<PolicyFailure, readonly ChatTurn[]>

/**
 * Rows that are asked for together, or every problem of every conversation that cannot be asked
 * for.
 */
const rowsOf = (client: Client, histories: readonly History[]): E.Either<PolicyFailure, readonly Rows[]> => {
  const problems: string[] = []
  const rows: Rows[] = []
  for (const [i, history] of histories.entries()) {
    const last = rows.at(-1)
    const isSame = client.settings.dialect.equalPrompts === 'together' && last !== undefined
    if (isSame && sameHistory(last.history, history)) {
      rows[rows.length - 1] = { ...last, count: last.count + 1 }
      continue
    }
    const messages = promptMessages(history)
    if (E.isLeft(messages)) problems.push(`conversation ${i}: ${messages.left.reason}`)
    else rows.push({ history, messages: messages.right, first: i, count: 1 })
  }
  return problems.length === 0 ? E.right(rows) : E.left(client.fail('asked', problemList(problems)))
}

/** Characters of a token, about: for limits of tokens in a minute. */
const TOKEN_CHARACTERS = 4

const textLength = (messages: readonly OpenAiMessage[]): number => JSON.stringify(messages).length

/** The turns of a server's answer, with their ids where they are captured. */
const readReply = (
  { settings, fail }: Client,
  reply: ChatReply,
  { history, version }: { readonly history: History; readonly version: number },
): Turns => {
  const turns = turnsOf(reply, {
    calls: settings.dialect.toolCalls,
    index: history.messages.size,
    taken: callIds(history),
    tools: settings.tools,
  })
  if (E.isLeft(turns)) return E.left(replyFailure(fail, turns.left))
  if (settings.capture === 'text') return turns
  const captured: CapturedTurn[] = []
  for (const [i, each] of turns.right.entries()) {
    const tokens = tokensOf(reply, i)
    if (E.isLeft(tokens)) return E.left(replyFailure(fail, tokens.left))
    captured.push({ ...each, tokens: tokens.right, version, sampling: settings.sampling })
  }
  return E.right(captured)
}

const checked = (client: Client, json: unknown): E.Either<PolicyFailure, ChatReply> => {
  const reply = chatReply(json)
  return E.isLeft(reply) ? E.left(replyFailure(client.fail, reply.left)) : reply
}

const parsed = (client: Client, { text, server }: HttpReply): E.Either<PolicyFailure, ChatReply> => {
  const json = parseJson(writtenArguments(text))
  if (E.isLeft(json))
    return E.left(client.fail('infrastructure', `${server} answered with something else: ${json.left}`))
  return checked(client, json.right)
}

/** The answer to a request, at once or piece by piece. `Left` of a failure of the transport. */
const answered = async (
  client: Client,
  request: HttpRequest & { readonly json: object },
  onText: ((text: string) => void) | undefined,
): Promise<E.Either<HttpFailure, E.Either<PolicyFailure, ChatReply>>> => {
  if (onText === undefined)
    return E.map((reply: HttpReply) => parsed(client, reply))(await client.transport.send(request)())
  const json = { ...request.json, stream: true, stream_options: { include_usage: true } }
  const opened = await client.transport.events({ ...request, json })()
  if (E.isLeft(opened)) return opened
  const answer = await streamedAnswer(opened.right, onText)
  if (E.isRight(answer)) return E.right(checked(client, answer.right))
  const problem = answer.left
  return '_tag' in problem ? E.left(problem) : E.right(E.left(replyFailure(client.fail, problem)))
}

/** One request. `Left` of a failure of the transport, `Right` of what came of the answer. */
const send = async (client: Client, rows: Rows, asking: Asking): Promise<E.Either<HttpFailure, Turns>> => {
  const { key, part, onText } = asking
  const { settings } = client
  const { history, messages, count, first } = rows
  const weights = settings.weights()
  const body = chatBody(settings, { messages, count, key: child(key, first), weights })
  const { signal, release } = part()
  const request = {
    method: 'POST' as const,
    path: `${settings.pathPrefix}/chat/completions`,
    json: body,
    repeat: 'fresh' as const,
    statusIn: reportedStatus,
    deadlineMs: settings.timeoutMs,
    signal,
    tokens: Math.ceil(textLength(messages) / TOKEN_CHARACTERS) + count * settings.sampling.maxNewTokens,
  }
  const reply = await answered(client, request, onText && ((text) => onText(first, text)))
  release()
  if (E.isLeft(reply)) return reply
  const read = reply.right
  return E.right(E.isLeft(read) ? read : readReply(client, read.right, { history, version: weights.version }))
}

/** The data that all requests of one call share. */
interface Asking {
  readonly key: Key
  /** A signal for one of them. */
  readonly part: Cancellation['part']
  /** Receives the text of a row as it arrives. Answers are streamed if it is there. */
  readonly onText: ActOptions['onText']
}

const failedTurns = (client: Client, failure: HttpFailure): Turns => E.left(httpPolicyFailure(client.fail, failure))

/** Exactly one turn, whatever else the server adds. */
const askOne = async (client: Client, rows: Rows, asking: Asking): Promise<Turns> => {
  const sent = await send(client, { ...rows, count: 1 }, asking)
  if (E.isLeft(sent)) return failedTurns(client, sent.left)
  return E.map((turns: readonly ChatTurn[]) => turns.slice(0, 1))(sent.right)
}

const askEach = async (client: Client, rows: Rows, asking: Asking): Promise<Turns> => {
  const singles = Array.from({ length: rows.count }, (_, i) => ({ ...rows, first: rows.first + i, count: 1 }))
  const all = await Promise.all(singles.map((single) => askOne(client, single, asking)))
  return E.map((turns: readonly (readonly ChatTurn[])[]) => turns.flat())(E.sequenceArray(all))
}

/**
 * All turns of rows with one conversation: by one request, or, where the server refuses it or
 * answers with fewer, by one for each that lacks.
 */
const askRows = async (client: Client, rows: Rows, asking: Asking): Promise<Turns> => {
  const isSingle = rows.count === 1 || asking.onText !== undefined
  if (isSingle || client.severalAnswers === 'refused') return askEach(client, rows, asking)
  const sent = await send(client, rows, asking)
  if (E.isLeft(sent)) {
    const { status } = sent.left
    if (status !== 400 && status !== 422) return failedTurns(client, sent.left)
    const turns = await askEach(client, rows, asking)
    if (E.isRight(turns)) client.severalAnswers = 'refused'
    return turns
  }
  if (E.isLeft(sent.right)) return sent.right
  const got = sent.right.right.slice(0, rows.count)
  if (got.length === rows.count) return E.right(got)
  client.severalAnswers = 'refused'
  const rest = { ...rows, first: rows.first + got.length, count: rows.count - got.length }
  return E.map((turns: readonly ChatTurn[]) => [...got, ...turns])(await askEach(client, rest, asking))
}

/** All answers, or the first failure, which ends the other requests. */
const askAll = async (
  client: Client,
  rows: readonly Rows[],
  { key, signal, onText }: { readonly key: Key; readonly signal: AbortSignal | undefined } & Pick<Asking, 'onText'>,
): Promise<Turns> => {
  const work = cancellation({ signal })
  let first: PolicyFailure | undefined
  const ask = async (each: Rows): Promise<Turns> => {
    const turns = await askRows(client, each, { key, part: work.part, onText })
    if (E.isLeft(turns)) {
      first ??= turns.left
      work.stop()
    }
    return turns
  }
  const all = await Promise.all(rows.map(ask))
  work.release()
  if (first !== undefined) return E.left(first)
  return E.map((turns: readonly (readonly ChatTurn[])[]) => turns.flat())(E.sequenceArray(all))
}

/**
 * Makes a transport to a chat server. A key that is not the default is a secret, and so is a
 * password in the address.
 */
export const chatTransport = (
  config: Pick<OpenAIWrapperOptions, 'baseUrl' | 'apiKey' | 'maxRequestsPerMinute'>,
): Transport => {
  const { baseUrl = DEFAULT_BASE_URL, apiKey, maxRequestsPerMinute = DEFAULT_REQUESTS_PER_MINUTE } = config
  const server = new URL(baseUrl)
  server.pathname = ''
  const hasLogin = server.username !== '' || server.password !== ''
  return liveTransport({
    url: server.href,
    headers: apiKey === undefined && hasLogin ? {} : { authorization: `Bearer ${apiKey ?? 'EMPTY'}` },
    rate: { requestsPerMinute: maxRequestsPerMinute },
  })
}

/**
 * Any server with OpenAI's chat endpoint as a policy: OpenAI, vLLM, SGLang, `tandem serve`,
 * LiteLLM, OpenRouter.
 *
 * With `capture: 'text'` an answer is a message, with calls of tools, thoughts and refusals, which
 * agents and games need and every provider gives. With `capture: 'tokens'` (vLLM, `tandem serve`)
 * it has ids and log-probabilities besides, and is what a loss learns from.
 *
 * Row i is seeded with `child(key, i)`. Neighbouring rows with equal conversations are one request
 * for several answers where the server takes it, seeded with the first one's;
 * `dialect.equalPrompts` asks for one request each.
 *
 * Shapes   reads `history.prompt` `[B]`; gives entries `[B]`, with ragged rows of ids and
 *          log-probabilities where they are captured.
 * Errors   `Left(PolicyFailure)`: `asked` for conversations that the format cannot say and requests
 *          that the server refuses; `infrastructure` for everything that a server or the way to it
 *          did; `cancelled` by the signal. One failure ends the other requests of the call. Throws
 *          RangeError for settings that cannot be.
 * Effects  requests over HTTP; connections of its own, which `close` closes, unless a transport was
 *          given.
 * Source   AgentFly `ClientBackend` and `ClientConfig`.
 *
 * @example
 * OpenAIWrapper({ model: 'policy', baseUrl: 'http://127.0.0.1:8000/v1' }).name // 'OpenAIWrapper'
 */
export const OpenAIWrapper = <C extends Capture = 'text'>(config: OpenAIWrapperOptions<C>): ChatPolicy<C> => {
  checkOptions('OpenAIWrapper', config, OPENAI_WRAPPER_OPTIONS)
  const settings = chatSettings(config)
  const transport = config.transport ?? chatTransport(config)
  const fail = failureMaker(NAME, config.apiKey === undefined ? [] : [config.apiKey])
  const client: Client = { settings, transport, fail, severalAnswers: 'taken' }
  const toAction = (turns: readonly ChatTurn[]): TensorDict<ChatOutput<C>> => outputOf(settings.capture as C, turns) // as configured
  return {
    name: NAME,
    act: (td, key, options) => async () => {
      const rows = rowsOf(client, get(td, 'history', 'prompt').items.toArray())
      if (E.isLeft(rows)) return rows
      return E.map(toAction)(
        await askAll(client, rows.right, { key, signal: options?.signal, onText: options?.onText }),
      )
    },
    transport,
    close: config.transport === undefined ? transport.close : async () => {},
  }
}
