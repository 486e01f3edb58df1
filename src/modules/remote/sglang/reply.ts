/**
 * SGLang's answers to `POST /generate`, whole or as a stream. Every answer is checked by a schema.
 */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { GenerationFailure, GenerationRequest } from '../../../data/generation.js'
import { generationFailure } from '../failures.js'
import type { WeightSpan, WireAnswer, WireLogProb, WirePart, WirePromptPlace, WireToken } from '../vllm/wireAnswer.js'

const count = z.int().min(0)

/**
 * Log-probability, token id, text. Numbers that JSON does not have, such as NaN and -Infinity, are
 * null.
 */
const place = z.tuple([z.number().nullable(), count]).rest(z.unknown())

const top = z.array(z.array(place).nullish()).nullish()

const finishReason = z.object({
  type: z.string(),
  matched: z.unknown().optional(),
  message: z.string().nullish(),
  status_code: z.int().nullish(),
})

const item = z.object({
  text: z.string().nullish(),
  output_ids: z.array(count),
  index: count.nullish(),
  meta_info: z.object({
    finish_reason: finishReason.nullish(),
    prompt_tokens: count.nullish(),
    completion_tokens: count.nullish(),
    cached_tokens: count.nullish(),
    weight_version: z.string().nullish(),
    weight_versions: z.array(z.object({ version: z.string(), start: count, end: count })).nullish(),
    input_token_logprobs: z.array(place).nullish(),
    input_top_logprobs: top,
    output_token_logprobs: z.array(place).nullish(),
    output_top_logprobs: top,
  }),
})

type Item = z.infer<typeof item>
type Place = z.infer<typeof place>

const streamError = z.object({
  error: z.object({ message: z.string(), code: z.union([z.int(), z.string()]).nullish() }),
})

const protocol = (reason: string): E.Either<GenerationFailure, never> =>
  E.left(generationFailure('protocol', `the answer cannot be used: ${reason}`))

/** Returns the failure of an aborted completion, or of an error in a stream, by its status. */
const failureOf = (status: number, message: string, adapter: string | null): GenerationFailure => {
  const words = `the server stopped with an error: ${message.slice(0, 400)}`
  if (status === 429 || status === 503) return generationFailure('overloaded', words)
  if (status >= 500) return generationFailure('internal', words)
  return generationFailure(adapter !== null && /lora/i.test(message) ? 'unknown-adapter' : 'invalid', words)
}

const logProbOf = ([logProb, id]: Place): WireLogProb => ({ id, logProb: logProb ?? Number.NaN, rank: null })

/** Returns the alternatives with a nonzero probability. */
const topOf = (places: readonly Place[] | null | undefined): readonly WireLogProb[] =>
  (places ?? []).filter(([logProb]) => logProb !== null).map(logProbOf)

const promptPlaces = ({ input_token_logprobs: own, input_top_logprobs: tops }: Item['meta_info']): WirePromptPlace[] =>
  (own ?? []).map((reported, t) => {
    const [logProb, id] = reported
    if (logProb === null && t === 0) return null
    const entries = [...topOf(tops?.[t]), { id, logProb: logProb ?? Number.NaN, rank: null }]
    return new Map(entries.map(({ id: other, ...rest }) => [other, rest]))
  })

/** The state of one completion after the answers so far. */
interface Reported {
  readonly tokens: number
  readonly text: string
  /** Number of characters delivered. */
  readonly given: number
}

const NOTHING: Reported = { tokens: 0, text: '', given: 0 }

/** Returns the format of an answer, and the index of its first new id. */
const freshOf = (ids: readonly number[], total: number | null | undefined, before: Reported) => {
  const counted = total ?? (ids.length >= before.tokens ? ids.length : before.tokens + ids.length)
  if (ids.length === counted && counted >= before.tokens) return { form: 'cumulative', from: before.tokens } as const
  return before.tokens + ids.length === counted ? ({ form: 'incremental', from: 0 } as const) : null
}

const tokensOf = (ids: readonly number[], meta: Item['meta_info'], from: number): E.Either<string, WireToken[]> => {
  const logProbs = meta.output_token_logprobs ?? []
  if (logProbs.length !== ids.length) {
    return E.left(`it has ${ids.length} token ids and ${logProbs.length} log-probabilities`)
  }
  const other = logProbs.findIndex(([, id], t) => id !== ids[t])
  if (other !== -1) {
    return E.left(`token ${other} has the id ${ids[other]}, and its log-probability is that of ${logProbs[other]![1]}`)
  }
  return E.right(
    logProbs
      .slice(from)
      .map((reported, t) => ({ ...logProbOf(reported), top: topOf(meta.output_top_logprobs?.[from + t]) })),
  )
}

export interface ReplyOptions {
  readonly request: GenerationRequest
  /**
   * Returns true if the label of an answer without spans holds for all of its tokens, because no
   * weights changed meanwhile. Called at its end.
   */
  readonly labelHolds: () => boolean
}

/** Reads the answers of one request in order. Mutable; lives as long as the request. */
export interface ReplyReader {
  /**
   * Reads the next answer: an object, or a list of one per completion. In a stream, an answer
   * repeats earlier content or has only new content, depending on the server's start options. The
   * result has only new content.
   */
  readonly read: (json: unknown) => E.Either<GenerationFailure, WireAnswer>
}

/**
 * Makes a reader for the answers to a request.
 *
 * Text is held back while it may be the start of a stop string, which the server removes at the
 * end.
 *
 * Errors   `Left(GenerationFailure)`: `protocol` for an answer of another format, with inconsistent
 *          counts of ids and log-probabilities, or with a log-probability of another token. For a
 *          completion that the server aborted with a status, and for an error in a stream, the kind
 *          follows from the status.
 * Source   SGLang 0.5.10 to 0.5.23, `TokenizerManager`.
 */
export const replyReader = ({ request, labelHolds }: ReplyOptions): ReplyReader => {
  const { sampling, adapter } = request
  const completions: Reported[] = Array.from({ length: sampling.n }, () => NOTHING)
  const heldBack = sampling.stopText === 'include' ? 0 : Math.max(0, ...sampling.stop.map((stop) => stop.length - 1))

  const spansOf = (meta: Item['meta_info'], total: number): readonly WeightSpan[] | null => {
    if (meta.weight_versions != null) {
      return meta.weight_versions
        .map(({ version: label, start, end }) => ({ label, start, end }))
        .filter(({ start, end }) => end > start)
    }
    return meta.weight_version == null || !labelHolds()
      ? null
      : [{ label: meta.weight_version, start: 0, end: total }].filter(({ end }) => end > 0)
  }

  const stopReasonOf = (matched: unknown): string | number | null => {
    if (typeof matched === 'string') return matched
    return typeof matched === 'number' && sampling.stopTokens.includes(matched) ? matched : null
  }

  const partOf = (reported: Item, index: number): E.Either<GenerationFailure, WirePart> => {
    const { meta_info: meta, output_ids: ids } = reported
    const before = completions[index] ?? NOTHING
    const end = meta.finish_reason ?? null
    if (end?.type === 'abort' && (end.status_code ?? 0) >= 400) {
      return E.left(failureOf(end.status_code ?? 0, end.message ?? 'no reason was given', adapter))
    }
    const fresh = freshOf(ids, meta.completion_tokens, before)
    if (fresh === null) {
      return protocol(`it counts ${meta.completion_tokens} tokens, and has ${ids.length} ids after ${before.tokens}`)
    }
    const tokens = tokensOf(ids, meta, fresh.from)
    if (E.isLeft(tokens)) return protocol(tokens.left)
    const text = fresh.form === 'incremental' ? before.text + (reported.text ?? '') : (reported.text ?? before.text)
    const given = Math.max(before.given, end === null ? text.length - heldBack : text.length)
    const total = before.tokens + tokens.right.length
    completions[index] = { tokens: total, text, given }
    return E.right({
      index,
      tokens: tokens.right,
      text: text.slice(before.given, given),
      finishReason: end?.type ?? null,
      stopReason: stopReasonOf(end?.matched),
      spans: spansOf(meta, total),
    })
  }

  const answerOf = (items: readonly (readonly [Item, number])[]): E.Either<GenerationFailure, WireAnswer> => {
    const parts: WirePart[] = []
    for (const [reported, index] of items) {
      const part = partOf(reported, index)
      if (E.isLeft(part)) return part
      parts.push(part.right)
    }
    const metas = items.map(([{ meta_info: meta }]) => meta)
    const [prompts, counted] = [metas.flatMap(({ prompt_tokens: n }) => n ?? []), metas[0]]
    const other = prompts.find((length) => length !== request.prompt.length)
    const prompt = other ?? prompts[0]
    const places = counted === undefined ? [] : promptPlaces(counted)
    return E.right({
      model: null,
      parts,
      usage:
        prompt === undefined
          ? null
          : {
              prompt,
              completion: completions.reduce((sum, { tokens }) => sum + tokens, 0),
              cached: counted?.cached_tokens ?? 0,
            },
      promptLogProbs: places.length === 0 ? null : places,
      promptIds: null,
    })
  }

  return {
    read: (json) => {
      const error = streamError.safeParse(json)
      if (error.success) {
        const { message, code } = error.data.error
        return E.left(failureOf(Number(code ?? 400), message, adapter))
      }
      const list = Array.isArray(json) ? json : [json]
      const items: (readonly [Item, number])[] = []
      for (const [i, each] of list.entries()) {
        const parsed = item.safeParse(each)
        if (!parsed.success) {
          const [issue] = parsed.error.issues
          return protocol(`${issue?.path.join('.') || 'it'}: ${issue?.message ?? 'is not what was expected'}`)
        }
        items.push([parsed.data, parsed.data.index ?? i])
      }
      return answerOf(items)
    },
  }
}
