/** The mutable scheduler of an engine, which decides when requests are computed. */
import { errorMessage } from '@tandem-rl/base'
import type { GenerationFailure } from '@tandem-rl/text'
import { type Either, isLeft, tryCatch } from 'fp-ts/lib/Either.js'
import type { MetricsRecorder } from './engineMetrics.js'
import { BASE_GROUP, type EngineWeights } from './engineWeights.js'
import { type Arriving, makeLaneSet } from './laneSet.js'
import { byAge, planAdmission, planChunks } from './plan.js'
import {
  computePieces,
  isSameNeed,
  makePrefillJob,
  type Piece,
  type PrefillJob,
  type PrefillNeed,
  prefillNeed,
  stepInput,
} from './prefillJob.js'
import { BLOCK_SIZE, makePrefixCache } from './prefixCache.js'
import type { ModelRunner, NextToken } from './runner/modelRunner.js'
import type { Row, SampledTicket, Ticket } from './ticket.js'

/** Limits of the scheduler. */
export interface SchedulerLimits {
  /** Maximum number of rows that are decoded or computed at the same time. */
  readonly maxConcurrent: number
  /** Maximum bytes of keys and values in lanes, in prompts being computed and in the cache. */
  readonly memoryBytes: number
  /** Maximum number of prompt tokens computed between two decoding steps. */
  readonly prefillTokens: number
  readonly prefixCache: 'on' | 'off'
}

export interface SchedulerParts {
  readonly runner: ModelRunner
  readonly weights: EngineWeights
  readonly metrics: MetricsRecorder
  readonly limits: SchedulerLimits
}

/** A mutable scheduler. */
export interface Scheduler {
  readonly submit: (ticket: Ticket) => void
  /** Returns true if a step would do anything for requests that arrived before `barrier`. */
  readonly hasWork: (barrier: number) => boolean
  /** Computes some prompt tokens, and a token of each row. Starts no requests from `barrier` on. */
  readonly step: (barrier: number) => void
  /** Aborts the unfinished requests for which `which` is true. Returns their number. */
  readonly abort: (which: (ticket: Ticket) => boolean) => number
  readonly fail: (failure: GenerationFailure) => void
  /** Frees the memory of a finished request. */
  readonly forget: (ticket: Ticket) => void
  /** Drops keys and values of running requests, which are then computed again. */
  readonly recompute: () => void
  /** Keeps keys and values of running requests although they are stale, and stops sharing them. */
  readonly keepStale: () => void
  readonly clearCache: () => void
  readonly tickets: () => readonly Ticket[]
  /** Number of waiting requests and preempted rows. */
  readonly inLine: () => number
  /** Number of requests that have not started. */
  readonly waiting: () => number
  readonly bytes: () => { readonly lanes: number; readonly prompts: number; readonly prefixCache: number }
  /** Returns the reason why a request can never be computed, or `null`. */
  readonly problem: (request: {
    readonly rows: number
    readonly tokens: number
    readonly longest: number
  }) => string | null
  readonly release: () => void
}

/** Rows that wait for the same tokens. */
interface Task {
  readonly rows: readonly Row[]
}

/** Free tokens that admission leaves in each lane, so that new rows are not preempted at once. */
const HEADROOM = 64

const taskAge = ({ rows }: Task): Row => rows[0]!

const broken = (operation: string, error: unknown): GenerationFailure => ({
  _tag: 'GenerationFailure',
  kind: 'internal',
  reason: `the model failed in ${operation}: ${errorMessage(error)}`,
})

/** The token sampled for a row. */
interface Choice {
  readonly row: Row
  readonly sampled: Either<GenerationFailure, SampledTicket>
}

/** Returns a thrown error as a value. */
const attempt = <T>(f: () => T): Either<unknown, T> => tryCatch(f, (error) => error)

const oldest = (rows: readonly Row[]): Row => rows.reduce((a, b) => (byAge(a, b) <= 0 ? a : b))

/** Makes a scheduler without requests. */
export const makeScheduler = ({ runner, weights, metrics, limits }: SchedulerParts): Scheduler => {
  const tickets = new Set<Ticket>()
  const lanes = makeLaneSet<Row>(runner, BASE_GROUP)
  const cache = limits.prefixCache === 'on' ? makePrefixCache() : null
  // Computed, at least in part, with weights that are no longer served.
  const stale = new WeakSet<Row>()
  const staleJobs = new WeakSet<PrefillJob>()
  let line: readonly Task[] = []
  let jobs: readonly PrefillJob[] = []

  const spaceOf = ({ use, request }: Ticket): string => JSON.stringify([use.group, weights.epoch(), request.cacheSalt])

  const needOf = (task: Task): PrefillNeed => prefillNeed(taskAge(task), spaceOf(taskAge(task).ticket))

  /** Puts rows back into the queue. Rows of one request that only have the prompt stay together. */
  const enqueue = (rows: readonly Row[]): void => {
    const fresh = new Map<Ticket, Row[]>()
    const tasks: Task[] = []
    for (const row of rows) {
      stale.delete(row)
      const together = fresh.get(row.ticket)
      if (row.ticket.hasBegun()) tasks.push({ rows: [row] })
      else if (together !== undefined) together.push(row)
      else fresh.set(row.ticket, [row])
    }
    for (const together of fresh.values()) tasks.push({ rows: together.sort(byAge) })
    line = [...line, ...tasks].sort((a, b) => byAge(taskAge(a), taskAge(b))) // fast where most is in order
  }

  const promptBytes = (): number => runner.bytesPerToken * jobs.reduce((sum, job) => sum + job.need.tokens.length, 0)

  /**
   * Returns the bytes needed once all current work and `more` are computed and `growth` tokens
   * longer. The cache is not counted, because it can be evicted.
   */
  const bytesNeeded = (more: readonly Arriving[], growth: number): number => {
    const arriving = jobs.map(({ need, rows }) => ({
      group: need.group,
      rows: rows().length,
      length: need.tokens.length,
    }))
    const tokens = more.reduce((sum, { length }) => sum + length, 0)
    return lanes.bytesWith([...arriving, ...more], growth) + promptBytes() + runner.bytesPerToken * tokens
  }

  /** Returns the bytes left for the cache once every row is one token longer. */
  const cacheRoom = (): number => Math.max(0, limits.memoryBytes - bytesNeeded([], 1))

  /** Caches keys and values of a row for other requests with the same prefix. */
  const remember = (row: Row): void => {
    if (cache === null || stale.has(row) || !lanes.has(row)) return
    cache.put(spaceOf(row.ticket), row.tokens.view().subarray(0, lanes.length(row)), {
      read: (from, to) => lanes.keyValues(row, from, to),
      bytes: cacheRoom(),
    })
  }

  const forget = (ticket: Ticket): void => {
    tickets.delete(ticket)
    for (const row of ticket.rows) if (lanes.has(row)) lanes.remove(row)
    if (line.some((task) => taskAge(task).ticket === ticket)) {
      line = line.filter((task) => taskAge(task).ticket !== ticket)
    }
    for (const job of jobs) job.prune()
    jobs = jobs.filter((job) => job.rows().length > 0)
  }

  const failAll = (rows: readonly Row[], failure: GenerationFailure): void => {
    for (const { ticket } of rows) if (ticket.isOpen()) ticket.fail(failure)
  }

  const preemptYoungest = (): void => {
    const job = jobs.reduce<PrefillJob | null>(
      (a, b) => (a !== null && byAge(oldest(a.rows()), oldest(b.rows())) > 0 ? a : b),
      null,
    )
    const row = lanes.rows().reduce<Row | null>((a, b) => (a !== null && byAge(a, b) > 0 ? a : b), null)
    metrics.add('preemptions', 1)
    if (job !== null && (row === null || byAge(oldest(job.rows()), row) > 0)) {
      jobs = jobs.filter((other) => other !== job)
      enqueue(job.rows())
    } else if (row !== null) {
      lanes.remove(row)
      enqueue([row])
    }
  }

  /**
   * Frees memory for one more token of each row: evicts the cache, then unused slots, then the
   * youngest rows.
   */
  const relieve = (): void => {
    lanes.promote()
    if (bytesNeeded([], 1) > limits.memoryBytes) lanes.compact()
    while (bytesNeeded([], 1) > limits.memoryBytes && lanes.rows().length + jobs.length > 1) {
      preemptYoungest()
      lanes.compact()
    }
  }

  const admit = (barrier: number): void => {
    const inUse = lanes.rows().length + jobs.reduce((sum, job) => sum + job.rows().length, 0)
    const rows = limits.maxConcurrent - inUse
    const asking = line.slice(0, Math.max(0, rows)).filter((task) => taskAge(task).arrival < barrier)
    const needs = asking.map(needOf)
    const begun = jobs.map(({ need }) => need)
    const arriving = asking.map((task, i) => ({
      group: needs[i]!.group,
      rows: task.rows.length,
      length: needs[i]!.tokens.length,
    }))
    const isKnown = (need: PrefillNeed, i: number): boolean =>
      [...begun, ...needs.slice(0, i)].some((other) => isSameNeed(need, other))
    const count = planAdmission(
      asking.map((task, i) => ({
        rows: task.rows.length,
        tokens: isKnown(needs[i]!, i) ? 0 : needs[i]!.tokens.length,
      })),
      {
        rows,
        tokens: limits.prefillTokens - jobs.reduce((sum, job) => sum + job.computing.remaining, 0),
        isIdle: inUse === 0,
        fits: (first) => bytesNeeded(arriving.slice(0, first), HEADROOM) <= limits.memoryBytes,
      },
    )
    line = line.slice(count)
    for (const [i, task] of asking.slice(0, count).entries()) {
      const need = needs[i]!
      const same = jobs.find((job) => isSameNeed(job.need, need))
      if (same !== undefined) same.join(task.rows)
      else jobs = [...jobs, makePrefillJob(need, task.rows, { cache, vocabularySize: runner.vocabularySize })]
      for (const row of task.rows) row.ticket.schedule()
    }
    cache?.trim(cacheRoom())
  }

  /** Samples a token. All rows are sampled first: the runner's next call discards the scores. */
  const choose = (row: Row, scores: NextToken): Choice => ({ row, sampled: row.choose(scores, weights.version()) })

  const deliver = ({ row, sampled }: Choice): void => {
    if (!row.isOpen()) return
    if (isLeft(sampled)) {
      row.ticket.fail(sampled.left)
      return
    }
    if (sampled.right.finish !== null) remember(row)
    row.deliver(sampled.right)
    if (!row.isOpen() && lanes.has(row)) lanes.remove(row)
  }

  /** Caches keys and values of a prompt for other requests, even after all completions ended. */
  const rememberPrompt = (job: PrefillJob): void => {
    const { space, tokens } = job.need
    if (cache === null || staleJobs.has(job) || tokens.length < job.cachedTokens() + BLOCK_SIZE) return
    const row = job.rows().find(lanes.has)
    if (row !== undefined) {
      cache.put(space, tokens, { read: (from, to) => lanes.keyValues(row, from, to), bytes: cacheRoom() })
      return
    }
    const lane = runner.makeLane()
    const slot = lane.insert(job.past())
    cache.put(space, tokens, { read: (from, to) => lane.keyValues(slot, from, to), bytes: cacheRoom() })
    lane.release()
  }

  const begin = (job: PrefillJob, ticket: Ticket): void => {
    if (ticket.hasBegun()) return
    if (cache !== null) {
      metrics.add('prefixQueries', job.need.tokens.length)
      metrics.add('prefixHits', job.cachedTokens())
    }
    ticket.begin(job.cachedTokens(), job.promptLogProbs())
  }

  const complete = (job: PrefillJob, choices: readonly Choice[]): void => {
    jobs = jobs.filter((other) => other !== job)
    for (const { row, sampled } of choices) {
      if (isLeft(sampled) || sampled.right.finish !== null) continue
      lanes.place(row, job.need.group, job.past())
      if (staleJobs.has(job)) stale.add(row)
    }
    rememberPrompt(job)
    for (const choice of choices) {
      if (choice.row.isOpen()) begin(job, choice.row.ticket)
      deliver(choice)
    }
  }

  /** Computes pieces of prompts that use the same weights in one call. */
  const compute = (pieces: readonly Piece[]): void => {
    const completed: { readonly job: PrefillJob; readonly choices: readonly Choice[] }[] = []
    const results = attempt(() => computePieces(runner, pieces))
    if (isLeft(results)) {
      for (const { job } of pieces) failAll(job.rows(), broken('a prompt', results.left))
      return
    }
    for (const [i, { job }] of pieces.entries()) {
      const next = job.take(results.right[i]!)
      if (isLeft(next)) failAll(job.rows(), next.left)
      else if (next.right !== null) {
        const scores = next.right
        completed.push({ job, choices: job.rows().map((row) => choose(row, scores)) })
      }
    }
    for (const { job, choices } of completed) {
      const done = attempt(() => complete(job, choices))
      if (isLeft(done)) failAll(job.rows(), broken('a prompt', done.left))
    }
  }

  const prefill = (): void => {
    const chunks = planChunks(
      jobs.map(({ computing }) => computing),
      limits.prefillTokens,
    )
    const pieces = new Map<string, Piece[]>()
    for (const [i, job] of jobs.entries()) {
      if (chunks[i]! === 0) continue
      const { group } = job.need
      pieces.set(group, [...(pieces.get(group) ?? []), { job, count: chunks[i]! }])
    }
    for (const together of pieces.values()) compute(together)
  }

  const decode = (): void => {
    for (const [group, all] of lanes.groups()) {
      const rows = all.filter((row) => row.isOpen())
      if (rows.length === 0) continue
      const params = rows[0]!.ticket.use.params()
      const scores = attempt(() => lanes.step(rows, { group, params, input: stepInput }))
      if (isLeft(scores)) failAll(rows, broken('a decoding step', scores.left))
      else for (const choice of rows.map((row, i) => choose(row, scores.right[i]!))) deliver(choice)
    }
  }

  return {
    submit: (ticket) => {
      tickets.add(ticket)
      enqueue(ticket.rows)
    },
    hasWork: (barrier) =>
      jobs.length > 0 || lanes.rows().length > 0 || line.some((task) => taskAge(task).arrival < barrier),
    step: (barrier) => {
      relieve()
      admit(barrier)
      prefill()
      decode()
    },
    abort: (which) => {
      const ended = [...tickets].filter(which)
      for (const { rows } of ended) {
        for (const row of rows.filter((each) => each.isOpen())) {
          remember(row)
          row.abort()
        }
      }
      return ended.length
    },
    fail: (failure) => {
      // The lanes may already be broken. Only the first error is reported.
      for (const ticket of [...tickets]) attempt(() => ticket.fail(failure))
    },
    forget,
    recompute: () => {
      const rows = [...lanes.rows(), ...jobs.flatMap((job) => job.rows())]
      for (const row of lanes.rows()) lanes.remove(row)
      jobs = []
      enqueue(rows)
    },
    keepStale: () => {
      for (const row of lanes.rows()) stale.add(row)
      for (const job of jobs) staleJobs.add(job)
    },
    clearCache: () => cache?.trim(0),
    tickets: () => [...tickets],
    inLine: () => line.length,
    waiting: () => {
      const computed = new Set([...lanes.rows(), ...jobs.flatMap((job) => job.rows())].map((row) => row.ticket))
      return [...tickets].filter((ticket) => !computed.has(ticket)).length
    },
    bytes: () => ({ lanes: lanes.bytes(), prompts: promptBytes(), prefixCache: cache?.bytes() ?? 0 }),
    problem: ({ rows, tokens, longest }) => {
      if (rows > limits.maxConcurrent) {
        return `n must be at most ${limits.maxConcurrent}, the rows that are decoded together, got ${rows}`
      }
      const need = Math.max(
        lanes.bytesOfNew(rows, tokens + 1) + runner.bytesPerToken * tokens,
        lanes.bytesOfNew(1, longest) + runner.bytesPerToken * longest,
      )
      return need <= limits.memoryBytes
        ? null
        : `${rows} completions of ${tokens} tokens with ${longest - tokens} more need ${need} bytes, the engine has ${limits.memoryBytes}`
    },
    release: lanes.release,
  }
}
