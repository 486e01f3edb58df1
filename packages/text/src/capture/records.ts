/** Captured sessions as JSON Lines: one line for each event, so that a file is append-only. */
import { type ByteSource, type FileFailure, type FormatFailure, readJsonLines } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { CapturedCall, CapturedCompletion, CapturedReward, CapturedSession, SessionEnd } from './session.js'

/** An event of a session. */
export type CaptureRecord =
  | { readonly type: 'session'; readonly session: Omit<CapturedSession, 'calls' | 'reward' | 'end'> }
  | { readonly type: 'call'; readonly call: CapturedCall }
  | { readonly type: 'reward'; readonly session: string; readonly reward: CapturedReward }
  | { readonly type: 'end'; readonly session: string; readonly end: SessionEnd }
  /** The session is no longer needed. */
  | { readonly type: 'dropped'; readonly session: string }

const int32 = z.array(z.int()).transform((ids) => Int32Array.from(ids))

/** Reads null as NaN, which JSON does not have. */
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
      reasoning: z.string().optional(),
      calls: z.array(z.object({ name: z.string(), arguments: z.string() })),
    }),
    status: z.enum(['ok', 'aborted', 'failed', 'unusable']),
    reason: z.string().nullable(),
  })
  .refine(
    ({ ids, logProbs, versions }) => ids.length === logProbs.length && ids.length === versions.length,
    'expected one log-probability and one version for each token',
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

/** The schema of the reward of a run. */
const rewardSchema = z.object({ total: z.number(), parts: z.record(z.string(), z.number()) })

/** The schema of the end of a session. */
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

/** Converts a completion to JSON. */
const completionJson = (one: CapturedCompletion): object => ({
  ...one,
  ids: Array.from(one.ids),
  logProbs: Array.from(one.logProbs),
  versions: Array.from(one.versions),
})

/** Converts a call to JSON. */
export const callJson = (one: CapturedCall): object => ({
  ...one,
  prompt: Array.from(one.prompt),
  completions: one.completions.map(completionJson),
})

/**
 * Formats a record as a line of JSON with its line feed. `readCapture` reads it back equal.
 *
 * @example
 * recordLine({ type: 'dropped', session: 'a' }) // '{"type":"dropped","session":"a"}\n'
 */
export const recordLine = (one: CaptureRecord): string =>
  `${JSON.stringify(one.type === 'call' ? { ...one, call: callJson(one.call) } : one)}\n`

/** Sessions by id. */
type Sessions = Map<string, CapturedSession>

const sessionOf = (one: CaptureRecord): string => {
  if (one.type === 'session') return one.session.id
  return one.type === 'call' ? one.call.session : one.session
}

/** Applies a record to the sessions. Returns the problem if the record is not valid. */
const take = (sessions: Sessions, one: CaptureRecord): string | undefined => {
  const id = sessionOf(one)
  const session = sessions.get(id)
  if (one.type === 'session') {
    if (session !== undefined) return `the session '${id}' begins again`
    sessions.set(id, { ...one.session, calls: [], reward: null, end: null })
    return undefined
  }
  if (session === undefined) return `no session '${id}' was started before`
  if (one.type === 'dropped') sessions.delete(id)
  else if (one.type === 'call') sessions.set(id, { ...session, calls: [...session.calls, one.call] })
  else if (one.type === 'reward') sessions.set(id, { ...session, reward: one.reward })
  else sessions.set(id, { ...session, end: one.end })
  return undefined
}

/** The contents of a file of records. */
export interface ReadCapture {
  /** Sessions in the order of their start, with their calls by index. */
  readonly sessions: readonly CapturedSession[]
  /** The number of bytes of whole records. A file truncated to it can be appended to. */
  readonly wholeBytes: number
  /** `missing` if the last record lacks its line feed, which is required before the next one. */
  readonly lineFeed: 'there' | 'missing'
}

/**
 * Reads the sessions in a file of records. An incomplete last line, as after a crash during a
 * write, is skipped and not counted in `wholeBytes`.
 *
 * Errors   `Left(FormatFailure)` for a malformed line before the last, or one without its session;
 *          `Left(FileFailure)`.
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

/** Returns true if the last byte is a line feed, so that the last line is complete. */
const endsLine = async (source: ByteSource): Promise<boolean> => {
  const last = await source.read(source.size - 1, source.size)()
  return E.isRight(last) && last.right[0] === 0x0a
}
