/** The members of an engine pool: who fails is withdrawn, checked, and readmitted. */
import { ABORTED, type Changing, cancellation, errorMessage, unlessAborted } from '@tandem-rl/base'
import type { GenerationFailure } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { EngineClient } from '../../data/engineClient.js'

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

/** A member with its client. */
export interface PoolEntry extends Omit<PoolMember, 'name'> {
  readonly client: EngineClient
}

/** A member, and what its withdrawal depends on. */
type Kept = Changing<PoolEntry> & {
  /** Consecutive failures. */
  strikes: number
  timer: ReturnType<typeof setTimeout> | undefined
}

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
export const inTime = async <F extends { readonly reason: string }, T>(
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

/** The rules of withdrawing and readmitting members, in milliseconds. */
export interface MemberRules {
  /** Consecutive failures after which a member is withdrawn. */
  readonly patience: number
  readonly healthMs: number
  readonly deadlineMs: number
  readonly readmit: Readmission
}

/** The members of a pool. */
export interface PoolMembers {
  readonly all: readonly PoolEntry[]
  /** Counts a request that begins. Returns the function that counts its end. */
  readonly begin: (member: PoolEntry) => () => void
  /** Ends the row of consecutive failures. */
  readonly onSuccess: (member: PoolEntry) => void
  /** Counts a failure of a request, and withdraws the member after too many. */
  readonly onFailure: (member: PoolEntry, failure: GenerationFailure) => void
  /** Withdraws a member that does not respond, and checks its health from now on. */
  readonly onNoResponse: (member: PoolEntry, reason: string) => void
  /** Throws RangeError for an unknown name. */
  readonly withdraw: (name: string, reason: string) => void
  /** Throws RangeError for an unknown name. */
  readonly restore: (name: string) => void
  readonly close: () => void
}

/**
 * Makes the members of a pool.
 *
 * Effects  background health checks of withdrawn members until `close`, which do not keep the
 *          process alive.
 */
export const poolMembers = (
  clients: readonly EngineClient[],
  { patience, healthMs, deadlineMs, readmit = reportsItsWeights }: Omit<MemberRules, 'readmit'> & Partial<MemberRules>,
): PoolMembers => {
  const all = clients.map(
    (client): Kept => ({
      client,
      withdrawn: null,
      health: 'unknown',
      inFlight: 0,
      requests: 0,
      failures: 0,
      strikes: 0,
      timer: undefined,
    }),
  )
  const own = (member: PoolEntry): Kept => all.find((each) => each === member)!
  let isClosed = false

  const named = (wanted: string): Kept => {
    const member = all.find(({ client }) => client.name === wanted)
    if (member !== undefined) return member
    const names = all.map(({ client }) => client.name).join(', ')
    throw new RangeError(`enginePool: there is no member '${wanted}' (members: ${names})`)
  }

  const restore = (member: Kept): void => {
    clearTimeout(member.timer)
    Object.assign(member, { withdrawn: null, health: 'unknown', strikes: 0, timer: undefined })
  }

  const check = async (member: Kept, by: Withdrawal['by']): Promise<void> => {
    const health = await inTime(member.client.health, deadlineMs)
    const isKnown = E.isRight(health) && E.isRight(await inTime(member.client.connect, deadlineMs))
    const isBack = isKnown && E.isRight(await inTime(readmit(member.client, by), deadlineMs))
    if (member.withdrawn?.by !== by || isClosed) return
    member.health = E.isRight(health) ? 'up' : 'down'
    if (isBack) restore(member)
    else watch(member, by)
  }

  const watch = (member: Kept, by: Withdrawal['by']): void => {
    clearTimeout(member.timer)
    if (isClosed) return
    member.timer = setTimeout(() => void check(member, by), healthMs)
    member.timer.unref()
  }

  const withdraw = (member: Kept, withdrawal: Withdrawal): void => {
    if (member.withdrawn?.by === 'order' && withdrawal.by === 'failure') return
    member.withdrawn = withdrawal
    watch(member, withdrawal.by)
  }

  return {
    all,
    begin: (member) => {
      const kept = own(member)
      kept.inFlight++
      kept.requests++
      return () => {
        kept.inFlight--
      }
    },
    onSuccess: (member) => {
      own(member).strikes = 0
    },
    onFailure: (member, failure) => {
      const health = verdict(failure)
      if (health === 'well') return
      const kept = own(member)
      kept.failures++
      kept.strikes += health === 'gone' ? patience : 1
      if (kept.strikes >= patience) withdraw(kept, { by: 'failure', reason: failure.reason })
    },
    onNoResponse: (member, reason) => withdraw(own(member), { by: 'failure', reason }),
    withdraw: (name, reason) => withdraw(named(name), { by: 'order', reason }),
    restore: (name) => restore(named(name)),
    close: () => {
      isClosed = true
      for (const { timer } of all) clearTimeout(timer)
    },
  }
}
