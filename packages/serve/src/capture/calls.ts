/**
 * One call of a session, answered in the server's protocol and recorded as the engine sampled it.
 */
import { type Clock, child, type Key } from '@tandem-rl/base'
import {
  type CapturedAnswer,
  type CapturedCall,
  type CapturedCompletion,
  completionStatus,
  type FinishReason,
  type LLMEngine,
  thoughtTagsOf,
} from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { serveApp } from '../app.js'
import { chatOfMessages } from '../requests/anthropic.js'
import { areTagsSpecial, type ChatRequest, type RequestedTools, readThoughts, textBefore } from '../requests/chat.js'
import { type ChatFields, conversation, type PromptText } from '../requests/messages.js'
import { chatOfResponses, type ResponsesBody } from '../requests/responses.js'
import type { RelaxedChoices, ServeOptions, ServeWorld } from '../requests/served.js'
import { readReply } from '../routes/reading.js'
import { type ContinuedConversation, continueConversation, rememberAnswer } from './continuation.js'
import { type RecordedCompletion, type RecordedGeneration, recordingEngine, samplingJson } from './recording.js'
import type { CaptureSessions, LiveSession, SamplingOverride } from './sessions.js'

/** The dependencies and options of calls. */
export interface CaptureCallOptions {
  readonly serve: ServeOptions
  readonly relaxed: RelaxedChoices
  readonly sessions: CaptureSessions
  readonly continuation: 'tokens' | 'render'
  readonly sampling: SamplingOverride
  readonly clock: Pick<Clock, 'now'>
  readonly world: Pick<ServeWorld, 'calendar' | 'ids'>
}

/** A call that came in. */
export interface IncomingCall {
  readonly live: LiveSession
  readonly path: string
  readonly body: unknown
  readonly request: Request
  /** Requests without a seed draw from it. */
  readonly key: Key
}

type Body = Readonly<Record<string, unknown>>

const isObject = (value: unknown): value is Body => typeof value === 'object' && value !== null && !Array.isArray(value)

const objectsOf = (value: unknown): readonly object[] | null => (Array.isArray(value) ? value.filter(isObject) : null)

/** The tools and thoughts with which the endpoint reads a completion. */
type Wanted = Pick<ChatRequest, 'tools' | 'thoughts'>

const answerOf = (text: string, wanted: Wanted, finish: FinishReason | null): CapturedAnswer => {
  const read = readReply(wanted, text, finish)
  return {
    text: read.text,
    ...(read.thoughts !== '' && { reasoning: read.thoughts }),
    calls: read.calls.map(({ name, arguments: args }) => ({ name, arguments: args })),
  }
}

/** Returns how the endpoint parses tool calls of a completion. */
const requestedTools = (
  body: Body,
  format: NonNullable<ServeOptions['features']>['toolCalls'],
): RequestedTools | null =>
  body.tools == null || body.tool_choice === 'none' || format === undefined || format === 'none'
    ? null
    : { format, calls: body.parallel_tool_calls === false ? 'first' : 'all', tools: objectsOf(body.tools) ?? [] }

/**
 * Returns the text to parse: the completion's text, or, if the tags of calls or thoughts are
 * special tokens, all of its tokens except the one that ended it.
 */
const readText = (
  { tokens, text }: RecordedCompletion,
  { tools, thoughts }: Wanted,
  { engine, text: { tokenizer } }: Pick<ServeOptions, 'engine' | 'text'>,
): string => {
  if (!areTagsSpecial(tools, thoughts, tokenizer)) return text
  const ids = tokens.flatMap(({ id }) => (engine.info.endTokens.includes(id) ? [] : [id]))
  return tokenizer.decode(ids, 'keep')
}

const completionOf = (
  completion: RecordedCompletion,
  failure: string | null,
  { request: wanted, serve }: { readonly request: Wanted; readonly serve: ServeOptions },
): CapturedCompletion => {
  const { tokens, finishReason, stopReason } = completion
  const ids = Int32Array.from(tokens, ({ id }) => id)
  const logProbs = Float32Array.from(tokens, ({ temperedLogProb }) => temperedLogProb)
  const answer = answerOf(readText(completion, wanted, serve), wanted, finishReason)
  const versions = Int32Array.from(tokens, ({ version }) => version)
  const lost = finishReason === null ? failure : null
  return {
    ids,
    logProbs,
    versions,
    finishReason,
    stopReason,
    answer,
    ...completionStatus({ ids, logProbs, finishReason, failure: lost }),
  }
}

/** Returns the smaller of two limits; `null` is no limit. */
const least = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? (a ?? b) : Math.min(a, b)

/** The fields in which the three APIs ask for a number of tokens. */
const LIMITS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'] as const

/**
 * Returns the body with a limit on its tokens. A request may ask for more tokens than the model can
 * give, as clients for large models do.
 */
const withLimit = (body: unknown, limit: number | null): unknown => {
  if (!isObject(body) || limit === null) return body
  const fields: Readonly<Record<string, unknown>> = body
  const lower = LIMITS.filter((name) => typeof fields[name] === 'number' && fields[name] > limit)
  return lower.length === 0 ? body : { ...fields, ...Object.fromEntries(lower.map((name) => [name, limit])) }
}

const isSame = (a: Int32Array, b: Int32Array): boolean => a.length === b.length && a.every((id, i) => id === b[i])

/** The parsed conversation of a call. */
interface Read {
  readonly fields: ChatFields
  readonly conversation: ContinuedConversation
}

/**
 * Answers a call and records every request that it makes to the engine.
 *
 * Errors   every failure is a response in vLLM's form.
 * Effects  those of the engine and of the session.
 */
export const answerCall = (
  { live, path, body, request, key }: IncomingCall,
  { serve, relaxed, sessions, continuation, sampling, clock, world }: CaptureCallOptions,
): Promise<Response> => {
  const callIds = new Set<string>()
  const fresh = (): string => {
    const id = world.ids.fresh()
    callIds.add(id)
    return id
  }
  const wanted = chatOf(path, body, live)
  const tools = requestedTools(wanted, serve.features?.toolCalls)
  const { engine, text } = serve
  let read: Read | null = null
  const setting = serve.features?.thoughts ?? thoughtTagsOf(text.template.source)
  const thoughts = (): Wanted['thoughts'] =>
    read === null ? 'searched' : readThoughts(setting, read.fields, textBefore(read.fields, read.conversation))

  const readConversation = (model: PromptText, fields: ChatFields): ReturnType<typeof conversation> => {
    const plain = conversation(model, fields)
    if (E.isLeft(plain)) return plain
    const { answers } = live
    const options = { conversation: plain.right, answers, endTokens: engine.info.endTokens }
    const made =
      continuation === 'tokens'
        ? continueConversation(model, fields, options)
        : { ...plain.right, from: 'render' as const }
    read = { fields, conversation: made }
    return E.right(made)
  }

  const remember = (known: Read, { prompt, completions }: CapturedCall): void => {
    if (!isSame(prompt, known.conversation.ids)) return // the client had it cut
    for (const { ids, stopReason, answer, status } of completions) {
      if (status === 'ok') rememberAnswer(live.answers, known, { ids, stopReason, callIds, answer: answer })
    }
  }

  const recordOf = (
    { request: made, completions, failure }: RecordedGeneration,
    at: Pick<CapturedCall, 'index' | 'startedAt' | 'durationMs'>,
  ): CapturedCall => ({
    session: live.session.id,
    ...at,
    path,
    messages: objectsOf(wanted.messages),
    tools: objectsOf(wanted.tools),
    prompt: made.prompt,
    promptFrom: read?.conversation.from ?? 'render',
    adapter: made.adapter,
    sampling: samplingJson(made.sampling),
    completions: completions.map((one) =>
      completionOf(one, failure, { request: { tools, thoughts: thoughts() }, serve }),
    ),
  })

  const { maxTokens = null, ...rest } = { ...sampling, ...live.sampling }
  let generated = 0
  const generate: LLMEngine['generate'] = (made, options) => {
    const index = sessions.begin(live)
    const [startedAt, started] = [world.calendar.today().getTime(), clock.now()]
    const reported = async (record: RecordedGeneration): Promise<void> => {
      const call = recordOf(record, { index, startedAt, durationMs: clock.now() - started })
      if (continuation === 'tokens' && read !== null) remember(read, call)
      await sessions.ended(live, call)
    }
    const own = live.key === null ? {} : { key: child(key, generated++) }
    const changed = { ...made.sampling, ...rest, ...own, maxTokens: least(made.sampling.maxTokens, maxTokens) }
    return recordingEngine(engine, reported).generate(
      { ...made, sampling: changed, conversation: live.session.id },
      options,
    )
  }

  const app = serveApp({
    ...serve,
    engine: { ...engine, generate },
    text: { ...text, conversation: readConversation },
    access: { ...serve.access, apiKeys: [] },
    features: { ...serve.features, control: 'off', readAdapter: null },
    responses: live.responses,
    relaxedChoices: {
      count: relaxed.count,
      add: () => {
        relaxed.add()
        sessions.relaxes(live)
      },
    },
    key,
    world: { ...serve.world, ids: { fresh } },
  })
  return app.fetch(
    new Request(new URL(path, request.url), {
      method: 'POST',
      headers: request.headers,
      body: JSON.stringify(withLimit(body, maxTokens)),
      signal: AbortSignal.any([request.signal, live.control.signal]),
    }),
  )
}

/**
 * Returns the body as a chat request: messages, tools and how tools are called. A body that its
 * endpoint refuses has none of them.
 */
const chatOf = (path: string, body: unknown, { responses }: LiveSession): Body => {
  const read =
    path === '/v1/messages'
      ? chatOfMessages(body)
      : path === '/v1/responses'
        ? E.map(({ chat }: ResponsesBody) => chat)(chatOfResponses(body, responses))
        : E.right(isObject(body) ? body : {})
  return E.isRight(read) ? read.right : {}
}
