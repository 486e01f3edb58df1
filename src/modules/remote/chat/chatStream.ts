/**
 * Streamed answers of `POST /v1/chat/completions`, joined to what the endpoint answers without
 * streaming.
 */
import { errorMessage, type HttpEvents, type HttpFailure, parseJson } from '@tandem-rl/base'
import { writtenArguments } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { calledFunction, type ReplyProblem, sentError, wireMessage, wireReasoning, wireText } from './chatReply.js'

const callPart = z.looseObject({
  index: z.int().nullish(),
  id: z.string().nullish(),
  function: calledFunction.nullish(),
})

/** The place of the call of a message with `function_call`, after all indices. */
const ONLY_CALL = Number.MAX_SAFE_INTEGER

type CallPart = z.infer<typeof callPart>

const piece = wireMessage.extend({ tool_calls: z.array(callPart).nullish() })

const frameSchema = z.looseObject({
  model: z.string().nullish(),
  prompt_token_ids: z.array(z.int()).nullish(),
  usage: z.looseObject({}).nullish(),
  error: z.unknown().optional(),
  choices: z
    .array(
      z.looseObject({
        delta: piece.nullish(),
        /** The message of a whole answer: some servers send one although a stream was requested. */
        message: piece.nullish(),
        finish_reason: z.string().nullish(),
        prompt_token_ids: z.array(z.int()).nullish(),
        token_ids: z.array(z.int()).nullish(),
        logprobs: z.looseObject({ content: z.array(z.unknown()).nullish() }).nullish(),
      }),
    )
    .nullish(),
})

type Frame = z.infer<typeof frameSchema>

interface OpenCall {
  readonly place: number
  id: string
  name: string
  arguments: string
}

/** The parts of an answer so far. */
interface Parts {
  model: string | null
  promptIds: readonly number[] | null
  ids: number[] | null
  logProbs: unknown[] | null
  content: string
  reasoning: string
  refusal: string
  /** In the order in which they began. */
  readonly calls: OpenCall[]
  /** The last call that began at each index. */
  readonly open: Map<number, OpenCall>
  finish: string | null
  usage: unknown
}

const START = (): Parts => ({
  model: null,
  promptIds: null,
  ids: null,
  logProbs: null,
  content: '',
  reasoning: '',
  refusal: '',
  calls: [],
  open: new Map(),
  finish: null,
  usage: null,
})

/**
 * Returns true if a part belongs to another call than the one that is open at its index, as servers
 * have it that send no indices, or the same for all calls. A new id begins a new call; without ids,
 * another name does after arguments.
 */
const isNewCall = (open: OpenCall, id: string, name: string): boolean =>
  id !== '' && open.id !== '' ? id !== open.id : name !== '' && name !== open.name && open.arguments !== ''

const addCall = ({ calls, open }: Parts, place: number, part: CallPart): void => {
  const { name, arguments: args } = part.function ?? {}
  const id = part.id ?? ''
  let call = open.get(place)
  if (call === undefined || isNewCall(call, id, name ?? '')) {
    call = { place, id: '', name: '', arguments: '' }
    calls.push(call)
    open.set(place, call)
  }
  if (id !== '') call.id = id
  if (name != null && name !== call.name) call.name += name // some servers repeat the name in every part
  call.arguments += typeof args === 'object' && args !== null ? JSON.stringify(args) : (args ?? '')
}

/** Adds the items of a list that is not there until its first item. */
const added = <T>(list: T[] | null, items: readonly T[] | null | undefined): T[] | null => {
  if (items == null) return list
  const all = list ?? []
  for (const item of items) all.push(item)
  return all
}

/** Adds a frame, and returns its text. */
const add = (parts: Parts, frame: Frame): string => {
  const [choice] = frame.choices ?? []
  const delta = choice?.delta ?? choice?.message ?? {}
  parts.model ??= frame.model ?? null
  parts.promptIds ??= frame.prompt_token_ids ?? choice?.prompt_token_ids ?? null
  parts.usage = frame.usage ?? parts.usage
  parts.finish = choice?.finish_reason || parts.finish
  parts.ids = added(parts.ids, choice?.token_ids)
  parts.logProbs = added(parts.logProbs, choice?.logprobs?.content)
  const text = wireText(delta)
  parts.content += text
  parts.reasoning += wireReasoning(delta)
  parts.refusal += delta.refusal ?? ''
  for (const [i, part] of (delta.tool_calls ?? []).entries()) addCall(parts, part.index ?? i, part)
  if (delta.function_call != null) addCall(parts, ONLY_CALL, { function: delta.function_call })
  return text
}

const answerOf = (parts: Parts): object => {
  const { content, reasoning, refusal, finish, ids, logProbs, promptIds, model, usage } = parts
  // Some servers send the only call in both fields.
  const several = parts.calls.filter(({ place }) => place !== ONLY_CALL).sort((a, b) => a.place - b.place)
  const calls = several.length === 0 ? parts.calls : several
  return {
    model,
    usage,
    prompt_token_ids: promptIds,
    choices: [
      {
        message: {
          content,
          ...(reasoning !== '' && { reasoning }),
          ...(refusal !== '' && { refusal }),
          tool_calls: calls.map(({ id, name, arguments: args }) => ({ id, function: { name, arguments: args } })),
        },
        finish_reason: finish,
        token_ids: ids,
        logprobs: logProbs === null ? null : { content: logProbs },
      },
    ],
  }
}

const frameOf = (data: string): E.Either<ReplyProblem, Frame> => {
  const refuse = (reason: string): E.Either<ReplyProblem, never> =>
    E.left({ kind: 'protocol', reason: `a frame of the stream is not of the protocol: ${reason}` })
  const json = parseJson(writtenArguments(data))
  if (E.isLeft(json)) return refuse(json.left)
  const parsed = frameSchema.safeParse(json.right)
  const hasError = !parsed.success || parsed.data.choices == null || parsed.data.error != null
  const error = hasError ? sentError(json.right) : null
  if (error !== null) return E.left(error)
  return parsed.success ? E.right(parsed.data) : refuse(errorMessage(parsed.error))
}

/**
 * Reads a stream to its end and returns the answer as the endpoint writes it without streaming.
 * After the finish reason the answer is whole, however the connection ends.
 *
 * Errors   `Left` with the failure that broke the stream, or with a problem: an error that the
 *          server sent, frames that are not of the protocol, an end without a finish reason.
 */
export const streamedAnswer = async (
  { events }: Pick<HttpEvents, 'events'>,
  onText: (text: string) => void,
): Promise<E.Either<HttpFailure | ReplyProblem, object>> => {
  const parts = START()
  for await (const item of events) {
    if (item._tag === 'HttpFailure') {
      const isWhole = parts.finish !== null && (item.kind === 'malformed' || item.kind === 'reset')
      return isWhole ? E.right(answerOf(parts)) : E.left(item)
    }
    const { data } = item.event
    if (data === '[DONE]') break
    const frame = frameOf(data)
    if (E.isRight(frame)) {
      const text = add(parts, frame.right)
      if (text !== '') onText(text)
    } else if (item._tag === 'Event') return frame // the failure after an unfinished event has the reason
  }
  return parts.finish === null
    ? E.left({ kind: 'protocol', reason: 'the stream ended without a finish reason' })
    : E.right(answerOf(parts))
}
