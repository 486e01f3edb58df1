/** Which requests are computed when: the mutable middle of the engine. Every function runs to its end without waiting. */
import { type Either, isLeft, tryCatch } from 'fp-ts/lib/Either.js'
import { errorMessage } from '../../core/failure.js'
import type { GenerationFailure } from '../../data/generation.js'
import type { MetricsRecorder } from './engineMetrics.js'
import type { EngineWeights } from './engineWeights.js'
import { type Arriving, makeLaneSet } from './laneSet.js'
import { byAge, planAdmission, planChunks } from './plan.js'
import { isSameNeed, makePrefillJob, type PrefillJob, type PrefillNeed, prefillNeed, stepInput } from './prefillJob.js'
import { BLOCK_SIZE, makePrefixCache } from './prefixCache.js'
import type { ModelRunner, NextToken } from './runner/modelRunner.js'
import type { Row, SampledTicket, Ticket } from './ticket.js'

/** Limits of the scheduler. */
export interface SchedulerLimits {
  /** Rows decoded or computed at the same time. */
  readonly maxConcurrent: number
  /** Bytes for keys and values: lanes, prompts that are being computed, and the prefix cache with what is left. */
  readonly memoryBytes: number
  /** Prompt tokens computed between two decoding steps. */
  readonly prefillTokens: number
  readonly prefixCache: 'on' | 'off'
}

export interface SchedulerParts {
  readonly runner: ModelRunner
  readonly weights: EngineWeights
  readonly metrics: MetricsRecorder
  readonly limits: SchedulerLimits
}

/** A mutable value, for the edge of the engine. */
export interface Scheduler {
  readonly submit: (ticket: Ticket) => void
  /** Whether a step would do anything; of requests that arrived before `barrier` only. */
  readonly hasWork: (barrier: number) => boolean
  /** Computes some of the prompts, and one more token of each row. Requests from `barrier` on are not begun. */
  readonly step: (barrier: number) => void
  /** Ends unfinished requests that `which` holds for. */
  readonly abort: (which: (ticket: Ticket) => boolean) => number
  readonly fail: (failure: GenerationFailure) => void
  /** Frees what a request that ended holds. */
  readonly forget: (ticket: Ticket) => void
  /** Forgets keys and values of running requests, which are computed again. */
  readonly recompute: () => void
  /** Keys and values of running requests stay, but are those of other weights: they are not shared any more. */
  readonly keepStale: () => void
  readonly clearCache: () => void
  readonly tickets: () => readonly Ticket[]
  /** How many wait in line: requests, and rows that were thrown out. */
  readonly inLine: () => number
  /** Requests of which nothing is computed. */
  readonly waiting: () => number
  readonly bytes: () => { readonly lanes: number; readonly prompts: number; readonly prefixCache: number }
  /** Why a request can never be computed, or null. */
  readonly problem: (request: {
    readonly rows: number
    readonly tokens: number
    readonly longest: number
  }) => string | null
  readonly release: () => void
}

/** Rows that wait for the same tokens to be computed. */
interface Task {
  readonly rows: readonly Row[]
}

/** New rows leave so many tokens of room for each lane, so that they are not thrown out again at once. */
const HEADROOM = 64

const taskAge = ({ rows }: Task): Row => rows[0]!

const broken = (operation: string, error: unknown): GenerationFailure => ({
  _tag: 'GenerationFailure',
  kind: 'internal',
  reason: `the model failed in ${operation}: ${errorMessage(error)}`,
})

/** What was chosen for a row. */
interface Choice {
  readonly row: Row
  readonly sampled: Either<GenerationFailure, SampledTicket>
}

/** A part of a prompt that is computed in this step. */
interface Piece {
  readonly job: PrefillJob
  readonly count: number
}

/** What a runner throws, as a value. */
const attempt = <T>(f: () => T): Either<unknown, T> => tryCatch(f, (error) => error)

const oldest = (rows: readonly Row[]): Row => rows.reduce((a, b) => (byAge(a, b) <= 0 ? a : b))

/** Makes a scheduler without requests. */
export const makeScheduler = ({ runner, weights, metrics, limits }: SchedulerParts): Scheduler => {
  const tickets = new Set<Ticket>()
  const lanes = makeLaneSet<Row>(runner)
  const cache = limits.prefixCache === 'on' ? makePrefixCache() : null
  // Computed with weights that are not served any more, in part at least.
  const stale = new WeakSet<Row>()
  const staleJobs = new WeakSet<PrefillJob>()
  let line: readonly Task[] = []
  let jobs: readonly PrefillJob[] = []

  const spaceOf = ({ use, request }: Ticket): string => JSON.stringify([use.group, weights.epoch(), request.cacheSalt])

  const needOf = (task: Task): PrefillNeed => prefillNeed(taskAge(task), spaceOf(taskAge(task).ticket))

  /** Puts rows back into the line: those of one request that have the prompt only stay together. */
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

  /** Bytes once all that is being computed, and `needs` too, has been, and is `growth` tokens longer. The cache does not count: it gives way. */
  const bytesNeeded = (more: readonly Arriving[], growth: number): number => {
    const arriving = jobs.map(({ need, rows }) => ({
      group: need.group,
      rows: rows().length,
      length: need.tokens.length,
    }))
    const tokens = more.reduce((sum, { length }) => sum + length, 0)
    return lanes.bytesWith([...arriving, ...more], growth) + promptBytes() + runner.bytesPerToken * tokens
  }

  /** What is left for the cache once every row is one token longer. */
  const cacheRoom = (): number => Math.max(0, limits.memoryBytes - bytesNeeded([], 1))

  /** Keeps keys and values of a row for others who begin with the same tokens. */
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

  /** Makes room for one more token of each row: the cache gives way first, then unused places, then the youngest rows. */
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

  /** A row with what was chosen for it. Chosen for all first: the scores are gone with the runner's next call. */
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

  /** Keeps keys and values of a prompt for others, even if no completion goes on. */
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

  /** One call for pieces of prompts that are computed with the same weights. */
  const compute = (pieces: readonly Piece[]): void => {
    const completed: { readonly job: PrefillJob; readonly choices: readonly Choice[] }[] = []
    const items = pieces.map(({ job, count }) => job.item(count))
    const results = attempt(() => runner.prefill(pieces[0]!.job.need.params(), items))
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
    for (const all of lanes.lanes()) {
      const rows = all.filter((row) => row.isOpen())
      if (rows.length === 0) continue
      const params = rows[0]!.ticket.use.params()
      const scores = attempt(() => lanes.step(rows, params, stepInput))
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
      // The lanes may be broken already; the first error is the one that is told.
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
