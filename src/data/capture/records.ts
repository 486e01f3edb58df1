/** Captured sessions as lines of JSON: one line for each thing that happened, so that a file of them only ever grows. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { ByteSource } from '../../core/byteSource.js'
import type { FileFailure, FormatFailure } from '../../core/failure.js'
import { readJsonLines } from '../codecs/jsonl.js'
import type { CapturedCall, CapturedCompletion, CapturedReward, CapturedSession, SessionEnd } from './session.js'

/** Something that happened to a session. */
export type CaptureRecord =
  | { readonly type: 'session'; readonly session: Omit<CapturedSession, 'calls' | 'reward' | 'end'> }
  | { readonly type: 'call'; readonly call: CapturedCall }
  | { readonly type: 'reward'; readonly session: string; readonly reward: CapturedReward }
  | { readonly type: 'end'; readonly session: string; readonly end: SessionEnd }
  /** Nobody wants the session any more. */
  | { readonly type: 'dropped'; readonly session: string }

const int32 = z.array(z.int()).transform((ids) => Int32Array.from(ids))

/** JSON has no NaN: null stands for it. */
const float32 = z.array(z.number().nullable()).transform((xs) => Float32Array.from(xs, (x) => x ?? Number.NaN))

const completion = z
  .object({
    ids: int32,
    logProbs: float32,
    versions: int32,
    finishReason: z.enum(['stop', 'length', 'abort', 'error']).nullable(),
    stopReason: z.union([z.string(), z.number()]).nullable(),
    answer: z.object({
      text: z.string(),
      calls: z.array(z.object({ name: z.string(), arguments: z.string() })),
    }),
    status: z.enum(['ok', 'aborted', 'failed', 'unusable']),
    reason: z.string().nullable(),
  })
  .refine(
    ({ ids, logProbs, versions }) => ids.length === logProbs.length && ids.length === versions.length,
    'there are not as many log-probabilities and versions as tokens',
  )

const sampling = z.object({
  maxTokens: z.number().nullable(),
  minTokens: z.number(),
  temperature: z.number(),
  topK: z.number(),
  topP: z.number(),
  minP: z.number(),
  repetitionPenalty: z.number(),
  presencePenalty: z.number(),
  frequencyPenalty: z.number(),
  allowedTokens: z.array(z.int()).nullable(),
  stop: z.array(z.string()),
  stopTokens: z.array(z.int()),
  endTokens: z.enum(['stop', 'ignore']),
  key: z.string(),
  logitBias: z.array(z.tuple([z.int(), z.number()])),
})

const anyObject = z.record(z.string(), z.unknown())

const call = z.object({
  session: z.string(),
  index: z.int().nonnegative(),
  startedAt: z.number(),
  durationMs: z.number(),
  path: z.string(),
  messages: z.array(anyObject).nullable(),
  tools: z.array(anyObject).nullable(),
  prompt: int32,
  promptFrom: z.enum(['tokens', 'render']),
  adapter: z.string().nullable(),
  sampling,
  completions: z.array(completion),
})

/** What a run was worth, as a file tells it. */
const rewardSchema = z.object({ total: z.number(), parts: z.record(z.string(), z.number()) })

/** How a session ended, as a file tells it. */
const endSchema = z.object({ status: z.enum(['ok', 'failed']), reason: z.string().nullable() })

const record: z.ZodType<CaptureRecord> = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('session'),
    session: z.object({ id: z.string(), group: z.string(), metadata: anyObject, createdAt: z.number() }),
  }),
  z.object({ type: z.literal('call'), call }),
  z.object({ type: z.literal('reward'), session: z.string(), reward: rewardSchema }),
  z.object({ type: z.literal('end'), session: z.string(), end: endSchema }),
  z.object({ type: z.literal('dropped'), session: z.string() }),
])

/** A completion as JSON writes it. */
const completionJson = (one: CapturedCompletion): object => ({
  ...one,
  ids: Array.from(one.ids),
  logProbs: Array.from(one.logProbs),
  versions: Array.from(one.versions),
})

/** A call as JSON writes it. */
export const callJson = (one: CapturedCall): object => ({
  ...one,
  prompt: Array.from(one.prompt),
  completions: one.completions.map(completionJson),
})

/**
 * A record as a line of JSON with its line feed: `readCapture` reads it back equal.
 *
 * @example
 * recordLine({ type: 'dropped', session: 'a' }) // '{"type":"dropped","session":"a"}\n'
 */
export const recordLine = (one: CaptureRecord): string =>
  `${JSON.stringify(one.type === 'call' ? { ...one, call: callJson(one.call) } : one)}\n`

/** Sessions by id, and what is said of those that there are not. */
type Sessions = Map<string, CapturedSession>

const sessionOf = (one: CaptureRecord): string => {
  if (one.type === 'session') return one.session.id
  return one.type === 'call' ? one.call.session : one.session
}

/** What a record makes of the sessions before it. Answers with what is wrong with it. */
const take = (sessions: Sessions, one: CaptureRecord): string | undefined => {
  const id = sessionOf(one)
  const session = sessions.get(id)
  if (one.type === 'session') {
    if (session !== undefined) return `the session '${id}' begins again`
    sessions.set(id, { ...one.session, calls: [], reward: null, end: null })
    return undefined
  }
  if (session === undefined) return `there is no session '${id}' before`
  if (one.type === 'dropped') sessions.delete(id)
  else if (one.type === 'call') sessions.set(id, { ...session, calls: [...session.calls, one.call] })
  else if (one.type === 'reward') sessions.set(id, { ...session, reward: one.reward })
  else sessions.set(id, { ...session, end: one.end })
  return undefined
}

/** What a file of records holds. */
export interface ReadCapture {
  /** In the order in which they began, with their calls by index. */
  readonly sessions: readonly CapturedSession[]
  /** Bytes of whole records: a file that is cut to them can be appended to. */
  readonly wholeBytes: number
  /** Whether the last record lacks its line feed, which has to be there before another one. */
  readonly lineFeed: 'there' | 'missing'
}

/**
 * The sessions in a file of records. A last line that is cut off, as by a crash in the middle of a write, is left out: it is what `wholeBytes`
 * does not count.
 *
 * Errors   `Left(FormatFailure)` for a bad line before the last, or one that speaks of no session; `Left(FileFailure)`.
 * Effects  reads the source.
 */
export const readCapture = async (source: ByteSource): Promise<E.Either<FormatFailure | FileFailure, ReadCapture>> => {
  const sessions: Sessions = new Map()
  let wholeBytes = 0
  let bad: string | undefined
  const fail = (reason: string) =>
    E.left({ _tag: 'FormatFailure', format: 'captured sessions', where: source.name, reason } as const)
  for await (const row of readJsonLines(source, { schema: record })) {
    if (bad !== undefined) return fail(bad)
    if (E.isLeft(row)) {
      if (row.left._tag === 'FileFailure') return E.left(row.left)
      bad = `line ${row.left.row}: ${row.left.reason}`
      continue
    }
    const wrong = take(sessions, row.right.value)
    if (wrong !== undefined) return fail(`line ${row.right.line}: ${wrong}`)
    wholeBytes = row.right.end
  }
  const ends = source.size === 0 || (await endsLine(source))
  if (bad !== undefined && ends) return fail(bad)
  const sorted = [...sessions.values()].map((session) => ({
    ...session,
    calls: session.calls.toSorted((a, b) => a.index - b.index),
  }))
  const lineFeed = bad === undefined && !ends ? 'missing' : 'there'
  return E.right({ sessions: sorted, wholeBytes, lineFeed })
}

/** Whether the last byte is a line feed: then the last line is not one that was cut off. */
const endsLine = async (source: ByteSource): Promise<boolean> => {
  const last = await source.read(source.size - 1, source.size)()
  return E.isRight(last) && last.right[0] === 0x0a
}
