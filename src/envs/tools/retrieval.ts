/** Retrieval: passages for a query, from a search engine over HTTP. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { ABORTED, cancellation, unlessAborted } from '../../core/cancellation.js'
import type { HttpFailure, HttpReply, HttpRequest, Transport } from '../../core/http.js'
import { aFunction, aRecord, aText, checkOptions, type OptionKinds } from '../../core/options.js'
import { sipHash } from '../../core/sipHash.js'
import { parseJsonAs } from '../../data/schemaJson.js'
import type { ToolFailure } from '../base/toolFailure.js'
import { clipped } from './clipped.js'
import type { PassageIndex } from './localIndex.js'
import { type Passage, type RetrievalCacheOptions, retrievalCache } from './retrievalCache.js'
import { type Tool, tool, toolFailure } from './tool.js'

/** A query, as the policy asked it. */
export interface Query {
  readonly query: string
  /** How many passages. */
  readonly count: number
}

export interface RetrievalOptions {
  /**
   * To the search engine: `liveTransport({ url })`, with its retries, limits and secrets. Either
   * this or `index`.
   */
  readonly transport?: Transport
  /** Passages of this process: `bm25Index` or `denseIndex`. Either this or `transport`. */
  readonly index?: PassageIndex
  /** The request for a query. Default: `POST /search` with `{ query, count }`. */
  readonly request?: (query: Query) => Pick<HttpRequest, 'method' | 'path' | 'json' | 'headers'>
  /**
   * What the engine answers. Default: `{ results: [{ text, title?, url?, score? }] }`; whatever
   * else it has is left out.
   */
  readonly response?: z.ZodType<readonly Passage[]>
  readonly cache?: RetrievalCacheOptions
  readonly limits?: Partial<RetrievalLimits>
  /** What goes wrong with the cache. */
  readonly onNote?: (note: string) => void
  /** Default `search`. */
  readonly name?: string
  readonly description?: string
}

export interface RetrievalLimits {
  /** Characters of a query. Default 1,000. */
  readonly maxQuery: number
  /** Most passages of an answer. Default 10; 3 are given if the policy says nothing. */
  readonly maxCount: number
  /** Characters of each passage. Default 2,000. */
  readonly maxText: number
  /** Longest time for the engine, all attempts together. Default 20,000. */
  readonly searchMs: number
}

const LIMITS: RetrievalLimits = { maxQuery: 1000, maxCount: 10, maxText: 2000, searchMs: 20_000 }

const USUAL_COUNT = 3

/** What engines answer that speak the default form. */
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
  ...{ method: 'POST', path: '/search' },
  json: { query, count },
})

/** Queries that differ in blanks and in how Unicode writes a character are one. */
const normal = (query: string): string =>
  query
    .replaceAll(/\p{Surrogate}/gu, '\ufffd')
    .normalize('NFC')
    .replaceAll(/\s+/g, ' ')
    .trim()

/** JSON in which the order of keys does not count. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([one], [other]) => (one < other ? -1 : 1)))
      : inner,
  ) ?? 'undefined'

/**
 * A key for the cache: equal for equal requests. Headers are no part of it, for they may be
 * secrets.
 */
const keyOf = (name: string, { method, path, json }: ReturnType<NonNullable<RetrievalOptions['request']>>): string => {
  const bytes = new TextEncoder().encode(canonical([method, path, json]))
  return `${name}:${sipHash(bytes)}${sipHash(bytes, SECOND_KEY)}`
}

/** Two hashes of 64 bits under different keys: as good as one of 128. */
const SECOND_KEY = Uint8Array.from({ length: 16 }, (_, i) => 255 - i)

/** Passages as a policy reads them: numbered, each with its title and address. */
const rendered = (passages: readonly Passage[], { maxCount, maxText }: RetrievalLimits): string =>
  passages.length === 0
    ? 'nothing was found'
    : passages
        .slice(0, maxCount)
        .map(({ text, title, url }, i) => {
          const head = [title, url].flatMap((part) => (part === undefined ? [] : [clipped(part, 300)])).join(' - ')
          return `[${i + 1}]${head === '' ? '' : ` ${head}`}\n${clipped(text, maxText)}`
        })
        .join('\n\n')

/** What an engine that answers without a result says about whom. */
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
    toolFailure(name, 'infrastructure', `the engine answered what it must not: ${clipped(reason, 500)}`)
  return E.mapLeft(wrong)(parseJsonAs(schema, reply.text))
}

type Found = E.Either<ToolFailure, readonly Passage[]>

/**
 * Work that several wait for: begun by the first, shared by those who come while it lasts, and
 * called off when the last one has left. Its failures are shared, and forgotten.
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

/** The whole options, checked. */
const settingsOf = (options: RetrievalOptions) => {
  const limits = { ...LIMITS, ...options.limits }
  const bad = Object.entries(limits).filter(([, value]) => !(value >= 1))
  if (bad.length > 0)
    throw new RangeError(
      `retrievalTool: ${bad.map(([name, value]) => `${name} must be at least 1, got ${value}`).join('; ')}`,
    )
  const { name = 'search', request = usualRequest, response = usualResponse, onNote = () => {} } = options
  return { ...options, limits, name, request, response, onNote }
}

const RETRIEVAL_TOOL_OPTIONS: OptionKinds<RetrievalOptions> = {
  transport: aRecord,
  index: aRecord,
  request: aFunction,
  response: aRecord,
  cache: aRecord,
  limits: aRecord,
  onNote: aFunction,
  name: aText,
  description: aText,
}

/**
 * Makes a tool that searches for passages, in an engine over HTTP or in an index of this process,
 * and returns them as numbered text.
 *
 * With a cache, equal requests are answered from it; without one too, equal requests at the same
 * time are sent once. Failures are not cached. A search is safe to repeat, and is repeated as the
 * transport does.
 *
 * Errors   throws RangeError for limits below 1. `call`: `arguments` for a query that is empty or
 *          too long; `failed` where the engine refuses the query (400, 422); `timeout`;
 *          `infrastructure` for an engine that is dead or answers in another form.
 * Effects  requests, and those of the cache's store. Both stay their owner's to close.
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
      query: z.string().min(1).max(limits.maxQuery).describe('what to look for'),
      count: z
        .number()
        .int()
        .min(1)
        .max(limits.maxCount)
        .default(Math.min(USUAL_COUNT, limits.maxCount))
        .describe('how many passages'),
    },
    initial: null,
    run:
      ({ query: text, count }, { signal }) =>
      async () => {
        const query = normal(text)
        if (query === '') return E.left(toolFailure(name, 'arguments', 'the query is empty'))
        const key = keyOf(name, request({ query, count }))
        const found = await once(key, (own) => search(key, { query, count }, own), signal)
        if (found === ABORTED) return E.left(toolFailure(name, 'timeout', 'the search was given up'))
        return E.map((passages: readonly Passage[]) => ({
          content: rendered(passages, { ...limits, maxCount: count }),
          state: null,
        }))(found)
      },
  })
}
