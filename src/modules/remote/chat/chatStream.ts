/**
 * Streamed answers of `POST /v1/chat/completions`, joined to what the endpoint answers without
 * streaming.
 */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { errorMessage } from '../../../core/failure.js'
import type { HttpEvents, HttpFailure } from '../../../core/http.js'
import { parseJson } from '../../../core/json.js'

const callPart = z.looseObject({
  index: z.int().nullish(),
  id: z.string().nullish(),
  function: z.looseObject({ name: z.string().nullish(), arguments: z.string().nullish() }).nullish(),
})

const frameSchema = z.looseObject({
  model: z.string().nullish(),
  prompt_token_ids: z.array(z.int()).nullish(),
  usage: z.looseObject({}).nullish(),
  choices: z
    .array(
      z.looseObject({
        delta: z
          .looseObject({
            content: z.string().nullish(),
            reasoning: z.string().nullish(),
            reasoning_content: z.string().nullish(),
            refusal: z.string().nullish(),
            tool_calls: z.array(callPart).nullish(),
          })
          .nullish(),
        finish_reason: z.string().nullish(),
        prompt_token_ids: z.array(z.int()).nullish(),
        token_ids: z.array(z.int()).nullish(),
        logprobs: z.looseObject({ content: z.array(z.unknown()).nullish() }).nullish(),
      }),
    )
    .nullish(),
})

type Frame = z.infer<typeof frameSchema>

/** The parts of an answer so far. */
interface Parts {
  model: string | null
  promptIds: readonly number[] | null
  ids: number[] | null
  logProbs: unknown[] | null
  content: string
  reasoning: string
  refusal: string
  readonly calls: Map<number, { id: string; name: string; arguments: string }>
  finish: string | null
  usage: unknown
}

const START = (): Parts => ({
  ...{ model: null, promptIds: null, ids: null, logProbs: null, content: '', reasoning: '', refusal: '' },
  ...{ calls: new Map(), finish: null, usage: null },
})

const addCalls = ({ calls }: Parts, parts: readonly z.infer<typeof callPart>[]): void => {
  for (const [i, part] of parts.entries()) {
    const place = part.index ?? i
    const call = calls.get(place) ?? { id: '', name: '', arguments: '' }
    calls.set(place, {
      id: part.id ?? call.id,
      name: call.name + (part.function?.name ?? ''),
      arguments: call.arguments + (part.function?.arguments ?? ''),
    })
  }
}

/** Adds a frame, and returns its text. */
const add = (parts: Parts, frame: Frame): string => {
  const [choice] = frame.choices ?? []
  const { delta, token_ids: ids, logprobs } = choice ?? {}
  parts.model ??= frame.model ?? null
  parts.promptIds ??= frame.prompt_token_ids ?? choice?.prompt_token_ids ?? null
  parts.usage = frame.usage ?? parts.usage
  parts.finish = choice?.finish_reason ?? parts.finish
  if (ids != null) parts.ids = [...(parts.ids ?? []), ...ids]
  if (logprobs?.content != null) parts.logProbs = [...(parts.logProbs ?? []), ...logprobs.content]
  const content = delta?.content ?? ''
  parts.content += content
  parts.reasoning += delta?.reasoning ?? delta?.reasoning_content ?? ''
  parts.refusal += delta?.refusal ?? ''
  addCalls(parts, delta?.tool_calls ?? [])
  return content
}

const answerOf = (parts: Parts): object => {
  const { content, reasoning, refusal, finish, ids, logProbs, promptIds, model, usage } = parts
  const calls = [...parts.calls.entries()].sort(([a], [b]) => a - b)
  return {
    ...{ model, usage, prompt_token_ids: promptIds },
    choices: [
      {
        message: {
          content,
          ...(reasoning !== '' && { reasoning }),
          ...(refusal !== '' && { refusal }),
          tool_calls: calls.map(([, { id, name, arguments: args }]) => ({ id, function: { name, arguments: args } })),
        },
        ...{ finish_reason: finish, token_ids: ids },
        logprobs: logProbs === null ? null : { content: logProbs },
      },
    ],
  }
}

const frameOf = (data: string): E.Either<string, Frame> => {
  const json = parseJson(data)
  if (E.isLeft(json)) return json
  const parsed = frameSchema.safeParse(json.right)
  return parsed.success ? E.right(parsed.data) : E.left(errorMessage(parsed.error))
}

/**
 * Reads a stream to its end and returns the answer as the endpoint writes it without streaming.
 *
 * Errors   `Left` with the failure that broke the stream, or with a reason for frames that are not
 *          of the protocol and for a stream that ends without a finish reason.
 */
export const streamedAnswer = async (
  { events }: Pick<HttpEvents, 'events'>,
  onText: (text: string) => void,
): Promise<E.Either<HttpFailure | string, object>> => {
  const parts = START()
  for await (const item of events) {
    if (item._tag === 'HttpFailure') return E.left(item)
    const { data } = item.event
    if (data === '[DONE]') break
    const frame = frameOf(data)
    if (E.isLeft(frame)) return E.left(`a frame of the stream is not of the protocol: ${frame.left}`)
    const text = add(parts, frame.right)
    if (text !== '') onText(text)
  }
  return parts.finish === null ? E.left('the stream ended without a finish reason') : E.right(answerOf(parts))
}
