/**
 * The answers of both endpoints, whole or in pieces, in one format. Every answer is checked by a
 * schema.
 */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { SamplingEndpoint } from './wireRequest.js'

/** A token in an answer. */
export interface WireLogProb {
  readonly id: number
  readonly logProb: number
  /** `null` if the server reports none. */
  readonly rank: number | null
}

export interface WireToken extends WireLogProb {
  /** In the server's order, with or without the sampled token. */
  readonly top: readonly WireLogProb[]
}

/** The weights that sampled the tokens from `start` up to `end`. */
export interface WeightSpan {
  readonly label: string
  readonly start: number
  readonly end: number
}

/** The result of one completion: all of it, or the next piece. */
export interface WirePart {
  readonly index: number
  readonly tokens: readonly WireToken[]
  readonly text: string
  /** `null` until the completion ends. */
  readonly finishReason: string | null
  readonly stopReason: string | number | null
  /** `null` if the server does not report them, or not yet. */
  readonly spans: readonly WeightSpan[] | null
}

/** The log-probabilities at one position of a prompt, by token id. */
export type WirePromptPlace = ReadonlyMap<number, { readonly logProb: number; readonly rank: number | null }> | null

/** A whole answer, or a frame of a stream. */
export interface WireAnswer {
  readonly model: string | null
  readonly parts: readonly WirePart[]
  readonly usage: { readonly prompt: number; readonly completion: number; readonly cached: number } | null
  /** `null` if none were reported. */
  readonly promptLogProbs: readonly WirePromptPlace[] | null
  /** The prompt as the server read it, or null if not reported. */
  readonly promptIds: readonly number[] | null
}

const id = z.int().min(0)

const usage = z
  .object({
    prompt_tokens: z.int().min(0),
    completion_tokens: z.int().min(0).nullish(),
    prompt_tokens_details: z.object({ cached_tokens: z.int().min(0).nullish() }).nullish(),
  })
  .nullish()

const promptLogProbs = z
  .array(
    z.record(z.string().regex(/^\d{1,10}$/), z.object({ logprob: z.number(), rank: z.int().nullish() })).nullable(),
  )
  .nullish()

const finish = {
  finish_reason: z.string().nullish(),
  stop_reason: z.union([z.string(), z.int()]).nullish(),
} as const

/** A token by its id, or as `token_id:N` before 0.32. */
const named = z.object({
  token_id: id.nullish(),
  token: z.string().nullish(),
  logprob: z.number(),
  rank: z.int().nullish(),
})

const generateAnswer = z.object({
  model: z.string().nullish(),
  choices: z.array(
    z.object({
      index: id,
      token_ids: z.array(id).nullish(),
      logprobs: z
        .object({ content: z.array(named.extend({ top_logprobs: z.array(named).nullish() })).nullish() })
        .nullish(),
      ...finish,
      weight_versions: z.array(z.object({ version: z.string(), start: id, end: id })).nullish(),
    }),
  ),
  usage,
  prompt_logprobs: promptLogProbs,
  prompt_token_ids: z.array(id).nullish(),
})

const completionAnswer = z.object({
  model: z.string().nullish(),
  choices: z.array(
    z.object({
      index: id,
      text: z.string(),
      token_ids: z.array(id).nullish(),
      logprobs: z
        .object({
          tokens: z.array(z.string()),
          token_logprobs: z.array(z.number().nullable()),
          top_logprobs: z.array(z.record(z.string(), z.number().nullable()).nullable()).nullish(),
        })
        .nullish(),
      ...finish,
      prompt_logprobs: promptLogProbs,
      prompt_token_ids: z.array(id).nullish(),
    }),
  ),
  usage,
})

/** A result, or the problem with an answer. */
type Read<T> = E.Either<string, T>

const fromName = (name: string): number | null => {
  const found = /^token_id:(\d{1,10})$/.exec(name)
  return found === null ? null : Number(found[1])
}

const idOf = ({ token_id: reported, token }: z.infer<typeof named>): number | null =>
  reported ?? (token == null ? null : fromName(token))

/** Joins ids and log-probabilities, whose numbers and tokens must match. */
const sampledTokens = (
  ids: readonly number[],
  logProbs: readonly { readonly id: number | null; readonly token: Omit<WireToken, 'id'> }[],
): Read<readonly WireToken[]> => {
  if (ids.length !== logProbs.length) {
    return E.left(`it has ${ids.length} token ids and ${logProbs.length} log-probabilities`)
  }
  const other = logProbs.findIndex((reported, t) => reported.id !== null && reported.id !== ids[t])
  return other === -1
    ? E.right(ids.map((tokenId, t) => ({ id: tokenId, ...logProbs[t]!.token })))
    : E.left(`token ${other} has the id ${ids[other]}, and its log-probability is that of ${logProbs[other]!.id}`)
}

const topOf = (entries: readonly z.infer<typeof named>[]): readonly WireLogProb[] =>
  entries.flatMap((entry) => {
    const known = idOf(entry)
    return known === null ? [] : [{ id: known, logProb: entry.logprob, rank: entry.rank ?? null }]
  })

const promptPlaces = (reported: z.infer<typeof promptLogProbs>): readonly WirePromptPlace[] | null =>
  reported == null
    ? null
    : reported.map((place) =>
        place === null
          ? null
          : new Map(
              Object.entries(place).map(([name, { logprob, rank }]) => [
                Number(name),
                { logProb: logprob, rank: rank ?? null },
              ]),
            ),
      )

const usageOf = (reported: z.infer<typeof usage>): WireAnswer['usage'] =>
  reported == null
    ? null
    : {
        prompt: reported.prompt_tokens,
        completion: reported.completion_tokens ?? 0,
        cached: reported.prompt_tokens_details?.cached_tokens ?? 0,
      }

type GenerateChoice = z.infer<typeof generateAnswer>['choices'][number]
type CompletionChoice = z.infer<typeof completionAnswer>['choices'][number]

const generatePart = (choice: GenerateChoice): Read<WirePart> => {
  const content = choice.logprobs?.content ?? []
  const tokens = sampledTokens(
    choice.token_ids ?? [],
    content.map((entry) => ({
      id: idOf(entry),
      token: { logProb: entry.logprob, rank: entry.rank ?? null, top: topOf(entry.top_logprobs ?? []) },
    })),
  )
  return E.map((read: readonly WireToken[]) => ({
    index: choice.index,
    tokens: read,
    text: '',
    finishReason: choice.finish_reason ?? null,
    stopReason: choice.stop_reason ?? null,
    spans: choice.weight_versions?.map(({ version: label, start, end }) => ({ label, start, end })) ?? null,
  }))(tokens)
}

const completionPart = (choice: CompletionChoice): Read<WirePart> => {
  const { tokens: names = [], token_logprobs: logProbs = [], top_logprobs: top } = choice.logprobs ?? {}
  const ids = choice.token_ids
  if (ids == null && (names.length > 0 || choice.text !== '')) {
    return E.left('it has no token ids, although they were requested')
  }
  if (names.length !== logProbs.length) {
    return E.left(`it has ${names.length} tokens and ${logProbs.length} log-probabilities`)
  }
  const tokens = sampledTokens(
    ids ?? [],
    logProbs.map((logProb, t) => ({
      id: fromName(names[t]!),
      token: {
        logProb: logProb ?? Number.NaN,
        rank: null,
        top: Object.entries(top?.[t] ?? {}).flatMap(([name, value]) => {
          const known = fromName(name)
          return known === null || value === null ? [] : [{ id: known, logProb: value, rank: null }]
        }),
      },
    })),
  )
  return E.map((read: readonly WireToken[]) => ({
    index: choice.index,
    tokens: read,
    text: choice.text,
    finishReason: choice.finish_reason ?? null,
    stopReason: choice.stop_reason ?? null,
    spans: null,
  }))(tokens)
}

const parsed = <T>(schema: z.ZodType<T>, json: unknown): Read<T> => {
  const result = schema.safeParse(json)
  if (result.success) return E.right(result.data)
  const [issue] = result.error.issues
  return E.left(`${issue?.path.join('.') || 'it'}: ${issue?.message ?? 'is not what was expected'}`)
}

const allParts = <C>(choices: readonly C[], part: (choice: C) => Read<WirePart>): Read<readonly WirePart[]> => {
  const parts: WirePart[] = []
  for (const choice of choices) {
    const read = part(choice)
    if (E.isLeft(read)) return read
    parts.push(read.right)
  }
  return E.right(parts)
}

const readGenerate = (json: unknown): Read<WireAnswer> => {
  const answer = parsed(generateAnswer, json)
  if (E.isLeft(answer)) return answer
  const { model, choices, usage: reported, prompt_logprobs: prompt, prompt_token_ids: promptIds } = answer.right
  return E.map((parts: readonly WirePart[]) => ({
    model: model ?? null,
    parts,
    usage: usageOf(reported),
    promptLogProbs: promptPlaces(prompt),
    promptIds: promptIds ?? null,
  }))(allParts(choices, generatePart))
}

const readCompletion = (json: unknown): Read<WireAnswer> => {
  const answer = parsed(completionAnswer, json)
  if (E.isLeft(answer)) return answer
  const { model, choices, usage: reported } = answer.right
  return E.map((parts: readonly WirePart[]) => ({
    model: model ?? null,
    parts,
    usage: usageOf(reported),
    promptLogProbs: promptPlaces(choices[0]?.prompt_logprobs),
    promptIds: choices[0]?.prompt_token_ids ?? null,
  }))(allParts(choices, completionPart))
}

/**
 * Parses the JSON of an answer, or of a frame of a stream.
 *
 * Errors   `Left` with a message: a missing or ill-typed field, different numbers of token ids and
 *          log-probabilities, a log-probability of another token, or no token ids.
 * Cost     O(T) for T tokens and alternatives.
 */
export const readAnswer = (endpoint: SamplingEndpoint, json: unknown): Read<WireAnswer> =>
  endpoint === 'generate' ? readGenerate(json) : readCompletion(json)
