/** Several engines as one, with routing, failover, and withdrawal of failing members. */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { ABORTED, cancellation, unlessAborted, untilAborted } from '../../core/cancellation.js'
import { errorMessage } from '../../core/failure.js'
import { checkOptions } from '../../core/options.js'
import type { EngineClient, EngineFailure } from '../../data/engineClient.js'
import type { GenerationEvent, GenerationFailure, GenerationRequest } from '../../data/generation.js'
import type { PolicyEngine } from '../generation/policy/enginePolicy.js'
import { ENGINE_POOL_OPTIONS } from '../optionKinds.js'
import { type NamedAbilities, sharedAbilities } from './poolAbilities.js'
import { route, startRouting } from './routing.js'

/** The reason for withdrawing a member: its own failure, or an order. */
type Withdrawal = { readonly by: 'failure' | 'order'; readonly reason: string }

/** The current state of a member. */
export interface PoolMember {
  readonly name: string
  /** `null` while the member gets requests. */
  readonly withdrawn: Withdrawal | null
  /**
   * Result of the last health check; `unknown` before the first one and after the member returns.
   */
  readonly health: 'unknown' | 'up' | 'down'
  /** Number of this pool's requests in progress at the member. */
  readonly inFlight: number
  /** Number of requests sent to it, and how many of them failed. */
  readonly requests: number
  readonly failures: number
}

/**
 * Decides about the return of a withdrawn member that passes health checks. `Left`: the reason why
 * it cannot return yet.
 */
export type Readmission = (client: EngineClient, by: Withdrawal['by']) => TaskEither<{ readonly reason: string }, void>

export interface EnginePoolOptions {
  /** Default: the names of the clients. */
  readonly name?: string
  /**
   * Consecutive failures after which a member is withdrawn. Default 3. An engine that is closed or
   * lost an adapter is withdrawn at once.
   */
  readonly patience?: number
  /**
   * Longest time in milliseconds without an event of a request. Then another member retries it, or
   * it fails if events were already delivered. Default: no limit.
   */
  readonly silenceMs?: number
  /** Pause between health checks of a withdrawn member in milliseconds. Default 5,000. */
  readonly healthMs?: number
  /**
   * Time limit in milliseconds of a health check, of readmission, and of the first call to a
   * member. Default 10,000.
   */
  readonly deadlineMs?: number
  /**
   * Default: a member that failed returns when it reports the weights that it should serve. One
   * that was withdrawn by order does not.
   */
  readonly readmit?: Readmission
}

/** A pool of engines with a common `generate`. */
export interface EnginePool extends PolicyEngine {
  readonly members: () => readonly PoolMember[]
  /**
   * Sends no more requests to the member until `restore`. Running ones continue. Throws RangeError
   * for an unknown name.
   */
  readonly withdraw: (name: string, reason: string) => void
  readonly restore: (name: string) => void
  /** Ends health checks. The owner of the clients closes them. */
  readonly close: () => void
}

interface Member {
  readonly client: EngineClient
  withdrawn: Withdrawal | null
  health: PoolMember['health']
  inFlight: number
  requests: number
  failures: number
  /** Consecutive failures. */
  strikes: number
  timer: ReturnType<typeof setTimeout> | undefined
}

const failed = (kind: GenerationFailure['kind'], reason: string): GenerationFailure => ({
  _tag: 'GenerationFailure',
  kind,
  reason,
})

/** Classifies a member by a failure: healthy, possibly failing, or unable to serve. */
const verdict = ({ kind }: GenerationFailure): 'well' | 'ill' | 'gone' => {
  switch (kind) {
    case 'invalid':
    case 'overloaded':
      return 'well'
    case 'closed':
    case 'unknown-adapter':
      return 'gone'
    case 'unauthorized':
    case 'internal':
    case 'unreachable':
    case 'timeout':
    case 'protocol':
      return 'ill'
  }
}

/** Readmits a member that reports its expected weights, unless it was withdrawn by order. */
const reportsItsWeights: Readmission = (client, by) => async () => {
  if (by === 'order') return E.left({ reason: 'withdrawn by order' })
  const state = await client.state()
  if (E.isLeft(state)) return state
  const { version, adapter } = client.serving()
  if (adapter !== null) {
    return state.right.adapters.includes(adapter)
      ? E.right(undefined)
      : E.left({ reason: `it has no adapter ${adapter}` })
  }
  return (state.right.version ?? 0) === version
    ? E.right(undefined)
    : E.left({ reason: `it reports version ${state.right.version} instead of ${version}` })
}

/** Runs a task with a time limit. Converts errors of a member that throws against its type. */
const inTime = async <F extends { readonly reason: string }, T>(
  task: TaskEither<F, T>,
  deadlineMs: number,
): Promise<E.Either<F | { readonly reason: string }, T>> => {
  const wait = cancellation({ deadlineMs })
  try {
    const result = await unlessAborted(task(), wait.signal)
    return result === ABORTED ? E.left({ reason: `no answer within ${deadlineMs} ms` }) : result
  } catch (error) {
    return E.left({ reason: errorMessage(error) })
  } finally {
    wait.release()
  }
}

/**
 * Yields the events of one member, with a time limit between them. A thrown error becomes a
 * failure.
 */
async function* eventsOf(
  client: EngineClient,
  request: GenerationRequest,
  options: { readonly signal?: AbortSignal; readonly silenceMs?: number },
): AsyncGenerator<GenerationEvent> {
  const { silenceMs } = options
  const work = cancellation({ signal: options.signal })
  const end = (): void => work.stop()
  let timer = silenceMs === undefined ? undefined : setTimeout(end, silenceMs)
  try {
    for await (const event of untilAborted(client.generate(request, { signal: work.signal }), work.signal)) {
      clearTimeout(timer)
      yield event
      if (silenceMs !== undefined) timer = setTimeout(end, silenceMs)
    }
    if (work.why() === 'stopped') {
      yield { _tag: 'Failed', failure: failed('timeout', `${client.name} was silent for ${silenceMs} ms`) }
    }
  } catch (error) {
    const reason = `${client.name} broke its contract: ${errorMessage(error)}`
    yield { _tag: 'Failed', failure: failed('internal', reason) }
  } finally {
    clearTimeout(timer)
    work.stop() // cancels the request if the reader leaves
    work.release()
  }
}

/**
 * Combines several engines of one model into one.
 *
 * A request is sent to the member that has its conversation or the longest prefix of its prompt
 * cached, otherwise to the least loaded one. If a member fails before the first token, another one
 * retries the request. After the first token the request fails, because another member would draw
 * other tokens. A member with `patience` consecutive failures is withdrawn. While it is, health
 * checks run, and `readmit` decides about its return.
 *
 * Errors   `connect`: `Left(EngineFailure)` if no member responds, or if they serve different
 *          models. `generate`: the failure of the last member, or `unreachable` with every reason
 *          if no member is available. Throws RangeError without clients or for duplicate names.
 * Effects  counts requests, and runs background health checks until `close`, which do not keep the
 *          process alive.
 */
export const enginePool = (clients: readonly EngineClient[], options: EnginePoolOptions = {}): EnginePool => {
  checkOptions('enginePool', options, ENGINE_POOL_OPTIONS)
  const { patience = 3, silenceMs, healthMs = 5000, deadlineMs = 10_000, readmit = reportsItsWeights } = options
  const names = clients.map(({ name }) => name)
  if (clients.length === 0 || new Set(names).size !== names.length) {
    throw new RangeError(`enginePool: clients must be at least one, with unique names, got [${names.join(', ')}]`)
  }
  const name = options.name ?? names.join(' | ')
  const members = clients.map(
    (client): Member => ({
      ...{ client, withdrawn: null, health: 'unknown', inFlight: 0, requests: 0, failures: 0, strikes: 0 },
      timer: undefined,
    }),
  )
  let routing = startRouting()
  let isClosed = false

  const comeBack = (member: Member): void => {
    clearTimeout(member.timer)
    Object.assign(member, { withdrawn: null, health: 'unknown', strikes: 0, timer: undefined })
  }

  const check = async (member: Member, by: Withdrawal['by']): Promise<void> => {
    const health = await inTime(member.client.health, deadlineMs)
    const isKnown = E.isRight(health) && E.isRight(await inTime(member.client.connect, deadlineMs))
    const isBack = isKnown && E.isRight(await inTime(readmit(member.client, by), deadlineMs))
    if (member.withdrawn?.by !== by || isClosed) return
    member.health = E.isRight(health) ? 'up' : 'down'
    if (isBack) comeBack(member)
    else watch(member, by)
  }

  const watch = (member: Member, by: Withdrawal['by']): void => {
    clearTimeout(member.timer)
    if (isClosed) return
    member.timer = setTimeout(() => void check(member, by), healthMs)
    member.timer.unref()
  }

  const take = (member: Member, withdrawn: Withdrawal): void => {
    if (member.withdrawn?.by === 'order') return
    member.withdrawn = withdrawn
    watch(member, withdrawn.by)
  }

  const named = (wanted: string): Member => {
    const member = members.find(({ client }) => client.name === wanted)
    if (member === undefined)
      throw new RangeError(`enginePool: there is no member '${wanted}' (members: ${names.join(', ')})`)
    return member
  }

  const note = (member: Member, failure: GenerationFailure): void => {
    const said = verdict(failure)
    if (said === 'well') return
    member.failures++
    member.strikes += said === 'gone' ? patience : 1
    if (member.strikes >= patience) take(member, { by: 'failure', reason: failure.reason })
  }

  const choose = ({ prompt, conversation }: GenerationRequest, tried: ReadonlySet<Member>): Member | undefined => {
    const replicas = members.map((member) => ({
      load: member.inFlight,
      takes: member.withdrawn === null && !tried.has(member) ? ('yes' as const) : ('no' as const),
    }))
    const chosen = route(routing, replicas, { prompt, ...(conversation !== undefined && { conversation }) })
    if (chosen === undefined) return undefined
    routing = chosen.routing
    return members[chosen.replica]
  }

  const noneLeft = (reasons: readonly string[]): GenerationFailure => {
    const away = members.flatMap(({ client, withdrawn }) =>
      withdrawn === null ? [] : [`${client.name} is withdrawn: ${withdrawn.reason}`],
    )
    return failed('unreachable', `no engine of ${name} is available: ${[...new Set([...reasons, ...away])].join('; ')}`)
  }

  /**
   * Yields the events of one member. Returns its failure if another member may retry, because no
   * event was delivered.
   */
  async function* attempt(
    member: Member,
    request: GenerationRequest,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<GenerationEvent, GenerationFailure | null> {
    let start: GenerationEvent | null = null // delivered with the first token, because another member can retry until then
    let hasTold = false
    member.inFlight++
    member.requests++
    try {
      const how = { ...(signal && { signal }), ...(silenceMs !== undefined && { silenceMs }) }
      for await (const event of eventsOf(member.client, request, how)) {
        if (event._tag === 'Failed') {
          note(member, event.failure)
          if (!hasTold && event.failure.kind !== 'invalid') return event.failure
        }
        if (event._tag === 'Started') start = event
        else {
          if (start !== null) yield start
          start = null
          hasTold = true
          yield event
        }
        if (event._tag === 'Failed') return null
      }
      if (!hasTold && signal?.aborted !== true) {
        const failure = failed('internal', `${member.client.name} ended a request without a final event`)
        note(member, failure)
        return failure
      }
      member.strikes = 0
      return null
    } finally {
      member.inFlight--
    }
  }

  async function* generate(
    request: GenerationRequest,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<GenerationEvent> {
    const tried = new Set<Member>()
    const reasons: string[] = []
    for (;;) {
      const member = choose(request, tried)
      if (member === undefined) return yield { _tag: 'Failed', failure: noneLeft(reasons) }
      tried.add(member)
      const failure = yield* attempt(member, request, signal)
      if (failure === null || signal?.aborted === true) return
      if (tried.size === members.length) return yield { _tag: 'Failed', failure }
      reasons.push(failure.reason)
    }
  }

  const connect: EnginePool['connect'] = async () => {
    const asked = members.filter(({ withdrawn }) => withdrawn === null)
    const found: NamedAbilities[] = []
    let refusals = 0
    const answers = await Promise.all(asked.map(({ client }) => inTime(client.connect, deadlineMs)))
    for (const [i, answer] of answers.entries()) {
      const member = asked[i]!
      if (E.isRight(answer)) found.push([member.client.name, answer.right])
      else {
        take(member, { by: 'failure', reason: answer.left.reason })
        if ('kind' in answer.left && answer.left.kind === 'refused') refusals++
      }
    }
    const refuse = (kind: EngineFailure['kind'], reason: string) =>
      E.left({ _tag: 'EngineFailure', engine: name, kind, reason } as const)
    if (found.length === 0) {
      return refuse(refusals === members.length ? 'refused' : 'unreachable', noneLeft([]).reason)
    }
    const shared = sharedAbilities(found)
    return E.isLeft(shared) ? refuse('refused', shared.left) : shared
  }

  return {
    name,
    connect,
    generate,
    members: () =>
      members.map(({ client, withdrawn, health, inFlight, requests, failures }) => ({
        ...{ name: client.name, withdrawn, health, inFlight, requests, failures },
      })),
    withdraw: (wanted, reason) => {
      const member = named(wanted)
      member.withdrawn = { by: 'order', reason }
      watch(member, 'order')
    },
    restore: (wanted) => comeBack(named(wanted)),
    close: () => {
      isClosed = true
      for (const { timer } of members) clearTimeout(timer)
    },
  }
}
