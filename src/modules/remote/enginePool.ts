/** Several engines as one, with routing, failover, and withdrawal of failing members. */
import { cancellation, checkOptions, errorMessage, untilAborted } from '@tandem-rl/base'
import type { GenerationEvent, GenerationFailure, GenerationRequest } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { EngineClient, EngineFailure } from '../../data/engineClient.js'
import type { PolicyEngine } from '../generation/policy/enginePolicy.js'
import { ENGINE_POOL_OPTIONS } from '../optionKinds.js'
import { type NamedAbilities, sharedAbilities } from './poolAbilities.js'
import { inTime, type PoolEntry, type PoolMember, poolMembers, type Readmission } from './poolMembers.js'
import { route, startRouting } from './routing.js'

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
  readonly idleMs?: number
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

const failed = (kind: GenerationFailure['kind'], reason: string): GenerationFailure => ({
  _tag: 'GenerationFailure',
  kind,
  reason,
})

/**
 * Yields the events of one member, with a time limit between them. A thrown error becomes a
 * failure.
 */
async function* eventsOf(
  client: EngineClient,
  request: GenerationRequest,
  options: { readonly signal?: AbortSignal; readonly idleMs?: number },
): AsyncGenerator<GenerationEvent> {
  const { idleMs } = options
  const work = cancellation({ signal: options.signal })
  const end = (): void => work.stop()
  let timer = idleMs === undefined ? undefined : setTimeout(end, idleMs)
  try {
    for await (const event of untilAborted(client.generate(request, { signal: work.signal }), work.signal)) {
      clearTimeout(timer)
      yield event
      if (idleMs !== undefined) timer = setTimeout(end, idleMs)
    }
    if (work.why() === 'stopped') {
      yield { _tag: 'Failed', failure: failed('timeout', `${client.name} was silent for ${idleMs} ms`) }
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
  const { patience = 3, idleMs, healthMs = 5000, deadlineMs = 10_000, readmit } = options
  const names = clients.map(({ name }) => name)
  if (clients.length === 0 || new Set(names).size !== names.length) {
    throw new RangeError(`enginePool: clients must be at least one, with unique names, got [${names.join(', ')}]`)
  }
  const name = options.name ?? names.join(' | ')
  const members = poolMembers(clients, { patience, healthMs, deadlineMs, ...(readmit && { readmit }) })
  let routing = startRouting()

  const choose = (
    { prompt, conversation }: GenerationRequest,
    tried: ReadonlySet<PoolEntry>,
  ): PoolEntry | undefined => {
    const replicas = members.all.map((member) => ({
      load: member.inFlight,
      takes: member.withdrawn === null && !tried.has(member) ? ('yes' as const) : ('no' as const),
    }))
    const chosen = route(routing, replicas, { prompt, ...(conversation !== undefined && { conversation }) })
    if (chosen === undefined) return undefined
    routing = chosen.routing
    return members.all[chosen.replica]
  }

  const noneLeft = (reasons: readonly string[]): GenerationFailure => {
    const away = members.all.flatMap(({ client, withdrawn }) =>
      withdrawn === null ? [] : [`${client.name} is withdrawn: ${withdrawn.reason}`],
    )
    return failed('unreachable', `no engine of ${name} is available: ${[...new Set([...reasons, ...away])].join('; ')}`)
  }

  /**
   * Yields the events of one member. Returns its failure if another member may retry, because no
   * event was delivered.
   */
  async function* attempt(
    member: PoolEntry,
    request: GenerationRequest,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<GenerationEvent, GenerationFailure | null> {
    let start: GenerationEvent | null = null // delivered with the first token, because another member can retry until then
    let hasBegun = false
    const end = members.begin(member)
    try {
      const how = { ...(signal && { signal }), ...(idleMs !== undefined && { idleMs }) }
      for await (const event of eventsOf(member.client, request, how)) {
        if (event._tag === 'Failed') {
          members.onFailure(member, event.failure)
          if (!hasBegun && event.failure.kind !== 'invalid') return event.failure
        }
        if (event._tag === 'Started') start = event
        else {
          if (start !== null) yield start
          start = null
          hasBegun = true
          yield event
        }
        if (event._tag === 'Failed') return null
      }
      if (!hasBegun && signal?.aborted !== true) {
        const failure = failed('internal', `${member.client.name} ended a request without a final event`)
        members.onFailure(member, failure)
        return failure
      }
      members.onSuccess(member)
      return null
    } finally {
      end()
    }
  }

  async function* generate(
    request: GenerationRequest,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<GenerationEvent> {
    const tried = new Set<PoolEntry>()
    const reasons: string[] = []
    for (;;) {
      const member = choose(request, tried)
      if (member === undefined) return yield { _tag: 'Failed', failure: noneLeft(reasons) }
      tried.add(member)
      const failure = yield* attempt(member, request, signal)
      if (failure === null || signal?.aborted === true) return
      if (tried.size === members.all.length) return yield { _tag: 'Failed', failure }
      reasons.push(failure.reason)
    }
  }

  const connect: EnginePool['connect'] = async () => {
    const called = members.all.filter(({ withdrawn }) => withdrawn === null)
    const found: NamedAbilities[] = []
    let refusals = 0
    const answers = await Promise.all(called.map(({ client }) => inTime(client.connect, deadlineMs)))
    for (const [i, answer] of answers.entries()) {
      const member = called[i]!
      if (E.isRight(answer)) found.push([member.client.name, answer.right])
      else {
        members.onNoResponse(member, answer.left.reason)
        if ('kind' in answer.left && answer.left.kind === 'refused') refusals++
      }
    }
    const refuse = (kind: EngineFailure['kind'], reason: string) =>
      E.left({ _tag: 'EngineFailure', engine: name, kind, reason } as const)
    if (found.length === 0) {
      return refuse(refusals === members.all.length ? 'refused' : 'unreachable', noneLeft([]).reason)
    }
    const shared = sharedAbilities(found)
    return E.isLeft(shared) ? refuse('refused', shared.left) : shared
  }

  return {
    name,
    connect,
    generate,
    members: () =>
      members.all.map(({ client, withdrawn, health, inFlight, requests, failures }) => ({
        name: client.name,
        withdrawn,
        health,
        inFlight,
        requests,
        failures,
      })),
    withdraw: members.withdraw,
    restore: members.restore,
    close: members.close,
  }
}
