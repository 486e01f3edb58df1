/** Retrieval: finds passages for a query, with a search engine over HTTP or an index. */

import {
  ABORTED,
  cancellation,
  checkOptions,
  type HttpFailure,
  type HttpReply,
  type HttpRequest,
  parseJsonAs,
  sipHash,
  type Transport,
  unlessAborted,
} from '@tandem-rl/base'
import { harmless } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import type { ToolFailure } from 'tandem-rl/envs'
import { z } from 'zod'
import { RETRIEVAL_TOOL_OPTIONS } from '../optionKinds.js'
import { clipped, truncated } from './clipped.js'
import type { PassageIndex } from './localIndex.js'
import { type Passage, type RetrievalCacheOptions, retrievalCache } from './retrievalCache.js'
import { type Tool, tool, toolFailure } from './tool.js'

/** A query of the policy. */
export interface Query {
  readonly query: string
  /** Number of passages. */
  readonly count: number
}

export interface RetrievalOptions {
  /**
   * The connection to the search engine: `liveTransport({ url })`, with its retries, limits and
   * secrets. Set either this or `index`.
   */
  readonly transport?: Transport
  /** An index in this process: `bm25Index` or `denseIndex`. Set either this or `transport`. */
  readonly index?: PassageIndex
  /** Builds the request of a query. Default: `POST /search` with `{ query, count }`. */
  readonly request?: (query: Query) => Pick<HttpRequest, 'method' | 'path' | 'json' | 'headers'>
  /**
   * The schema of the engine's response. Default: `{ results: [{ text, title?, url?, score? }] }`;
   * other fields are ignored.
   */
  readonly response?: z.ZodType<readonly Passage[]>
  readonly cache?: RetrievalCacheOptions
  readonly limits?: Partial<RetrievalLimits>
  /** Called with problems of the cache. */
  readonly onNote?: (note: string) => void
  /** Default `search`. */
  readonly name?: string
  readonly description?: string
}

export interface RetrievalLimits {
  /** Maximum characters of a query. Default 1,000. */
  readonly maxQuery: number
  /** Maximum passages of a result. Default 10; a policy that sets no count gets 3. */
  readonly maxCount: number
  /** Maximum characters of each passage. Default 2,000. */
  readonly maxText: number
  /** Time limit for the engine in milliseconds, including retries. Default 20,000. */
  readonly searchMs: number
}

const LIMITS: RetrievalLimits = { maxQuery: 1000, maxCount: 10, maxText: 2000, searchMs: 20_000 }

const USUAL_COUNT = 3

/** The default form of a response. */
const usualResponse: z.ZodType<readonly Passage[]> = z
  .object({
    results: z.array(
      z.object({
        text: z.string(),
        title: z.string().nullish(),
        url: z.string().nullish(),
        score: z.number().nullish(),
      }),
    ),
  })
  .transform(({ results }) =>
    results.map(({ text, title, url, score }) => ({
      text,
      ...(title != null && { title }),
      ...(url != null && { url }),
      ...(score != null && { score }),
    })),
  )

const usualRequest = ({ query, count }: Query): Pick<HttpRequest, 'method' | 'path' | 'json'> => ({
  method: 'POST',
  path: '/search',
  json: { query, count },
})

/** Normalizes blanks and Unicode, so that queries that differ only in these are equal. */
const normal = (query: string): string =>
  query
    .replaceAll(/\p{Surrogate}/gu, '\ufffd')
    .normalize('NFC')
    .replaceAll(/\s+/g, ' ')
    .trim()

/** Serializes JSON with sorted keys. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([one], [other]) => (one < other ? -1 : 1)))
      : inner,
  ) ?? 'undefined'

/**
 * Returns the cache key of a request. Equal requests have equal keys. Headers are left out, because
 * they may contain secrets.
 */
const keyOf = (name: string, { method, path, json }: ReturnType<NonNullable<RetrievalOptions['request']>>): string => {
  const bytes = new TextEncoder().encode(canonical([method, path, json]))
  return `${name}:${sipHash(bytes)}${sipHash(bytes, SECOND_KEY)}`
}

/** The key of the second hash: two 64-bit hashes act as one of 128 bits. */
const SECOND_KEY = Uint8Array.from({ length: 16 }, (_, i) => 255 - i)

/** Formats passages for the policy: numbered, with title and address. */
const rendered = (passages: readonly Passage[], { maxCount, maxText }: RetrievalLimits): string =>
  passages.length === 0
    ? 'no passages found'
    : passages
        .slice(0, maxCount)
        .map(({ text, title, url }, i) => {
          const head = [title, url].flatMap((part) => (part === undefined ? [] : [clipped(part, 300)])).join(' - ')
          return `[${i + 1}]${head === '' ? '' : ` ${head}`}\n${truncated(text, maxText)}`
        })
        .join('\n\n')

/**
 * Converts a failed request: to an error of the policy's query, or to an `infrastructure` failure.
 */
const failureOf = (name: string, failure: HttpFailure): ToolFailure => {
  if (failure.kind === 'timeout') return toolFailure(name, 'timeout', failure.reason)
  const isRefused = failure.kind === 'status' && (failure.status === 400 || failure.status === 422)
  return toolFailure(name, isRefused ? 'failed' : 'infrastructure', failure.reason)
}

const read = (
  name: string,
  reply: HttpReply,
  schema: z.ZodType<readonly Passage[]>,
): E.Either<ToolFailure, readonly Passage[]> => {
  const wrong = (reason: string): ToolFailure =>
    toolFailure(name, 'infrastructure', `the engine sent an invalid response: ${clipped(reason, 500)}`)
  return E.mapLeft(wrong)(parseJsonAs(schema, reply.text))
}

type Found = E.Either<ToolFailure, readonly Passage[]>

/**
 * Shares work between callers: the first starts it, later ones join it, and it is cancelled when
 * the last one has left. Failures are shared too, but not kept.
 */
const shared = () => {
  const underway = new Map<string, { waiters: number; readonly work: Promise<Found>; readonly stop: () => void }>()
  return async (
    key: string,
    begin: (signal: AbortSignal) => Promise<Found>,
    signal: AbortSignal,
  ): Promise<Found | typeof ABORTED> => {
    let mine = underway.get(key)
    if (mine === undefined) {
      const life = cancellation()
      const work = begin(life.signal).finally(() => {
        if (underway.get(key)?.work === work) underway.delete(key)
      })
      mine = { waiters: 0, work, stop: life.stop }
      underway.set(key, mine)
    }
    mine.waiters++
    const found = await unlessAborted(mine.work, signal)
    mine.waiters--
    if (mine.waiters === 0 && found === ABORTED) {
      mine.stop()
      if (underway.get(key) === mine) underway.delete(key)
    }
    return found
  }
}

/** Checks the options and adds the defaults. */
const settingsOf = (options: RetrievalOptions) => {
  const limits = { ...LIMITS, ...options.limits }
  const bad = Object.entries(limits).filter(([, value]) => !(value >= 1))
  if (bad.length > 0)
    throw new RangeError(
      `retrievalTool: ${bad.map(([name, value]) => `${name} must be at least 1, got ${value}`).join('; ')}`,
    )
  const { name = 'search', request = usualRequest, response = usualResponse, onNote = () => {} } = options
  return { ...options, limits, name, request, response, onNote: harmless('onNote', onNote) }
}

/**
 * Makes a tool that searches for passages, in an engine over HTTP or in an index of this process,
 * and returns them as numbered text.
 *
 * With a cache, equal requests are answered from it. Equal requests at the same time are always
 * sent once. Failures are not cached. Searches are safe to repeat, and the transport retries them.
 *
 * Errors   throws RangeError for limits below 1. `call`: `arguments` for a query that is empty or
 *          too long; `failed` if the engine rejects the query (400, 422); `timeout`;
 *          `infrastructure` if the engine is down or sends an invalid response.
 * Effects  requests, and those of the cache's store. Their owners close both.
 */
export const retrievalTool = (options: RetrievalOptions): Tool => {
  checkOptions('retrievalTool', options, RETRIEVAL_TOOL_OPTIONS)
  const { name, limits, transport, index, request, response, onNote, ...settings } = settingsOf(options)
  if ((transport === undefined) === (index === undefined))
    throw new RangeError('retrievalTool: set either transport or index')
  const cache = settings.cache === undefined ? undefined : retrievalCache(settings.cache, onNote)
  const once = shared()
  const ask = async (query: Query, signal: AbortSignal): Promise<Found> => {
    if (index !== undefined) {
      const found = await index.search(query.query, query.count, signal)()
      return E.mapLeft((reason: string) => toolFailure(name, 'infrastructure', reason))(found)
    }
    const sent = await transport!.send({ ...request(query), repeat: 'safe', deadlineMs: limits.searchMs, signal })() // one of the two is set
    return E.isLeft(sent) ? E.left(failureOf(name, sent.left)) : read(name, sent.right, response)
  }
  const search = async (key: string, query: Query, signal: AbortSignal): Promise<Found> => {
    const known = await cache?.get(key)
    if (known !== undefined) return E.right(known)
    const found = await ask(query, signal)
    if (E.isRight(found)) await cache?.set(key, found.right)
    return found
  }
  return tool({
    name,
    description: settings.description ?? 'Searches for passages of text.',
    parameters: {
      query: z.string().min(1).max(limits.maxQuery).describe('the text to search for'),
      count: z
        .number()
        .int()
        .min(1)
        .max(limits.maxCount)
        .default(Math.min(USUAL_COUNT, limits.maxCount))
        .describe('the number of passages'),
    },
    initial: null,
    run:
      ({ query: text, count }, { signal }) =>
      async () => {
        const query = normal(text)
        if (query === '') return E.left(toolFailure(name, 'arguments', 'the query is empty'))
        const key = keyOf(name, request({ query, count }))
        const found = await once(key, (own) => search(key, { query, count }, own), signal)
        if (found === ABORTED) return E.left(toolFailure(name, 'timeout', 'the search was cancelled'))
        return E.map((passages: readonly Passage[]) => ({
          content: rendered(passages, { ...limits, maxCount: count }),
          state: null,
        }))(found)
      },
  })
}
