/** Group queues as JSON, for checkpoints. */
import { type FormatFailure, type Json, problemList } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { Map as ImmutableMap, List } from 'immutable'
import { decodeValue, encodeValue } from 'tandem-rl/files'
import { z } from 'zod'
import {
  DROP_CAUSES,
  type GroupQueueState,
  openingOf,
  type PendingGroup,
  type Settled,
  settingProblems,
} from './queueState.js'

const FORMAT = 'tandem group queue 1'

const natural = z.int().min(0)
const value = z.unknown()
const place = z.discriminatedUnion('_tag', [
  z.object({ _tag: z.literal('Open'), attempts: natural }),
  z.object({ _tag: z.literal('Leased'), attempts: natural, lease: natural, worker: z.string(), expires: z.number() }),
  z.object({ _tag: z.literal('Filled'), rollout: value, policyVersion: natural }),
])
const group = z.object({ task: value, places: z.array(place), stage: z.enum(['filling', 'ready', 'training']) })
/** Why a group was dropped. */
export const storedCause = z.enum(['stale', 'failed', 'abandoned', 'filtered', 'cancelled'])
/** The end of a group. */
export const storedEnd = z.discriminatedUnion('_tag', [
  z.object({ _tag: z.literal('Trained'), step: z.number() }),
  z.object({ _tag: z.literal('Dropped'), cause: storedCause, reason: z.string() }),
])
/** The settings of a queue. `settingProblems` checks their values. */
export const storedQueueSettings = z.object({
  groupSize: z.number(),
  capacity: z.number(),
  leaseMs: z.number(),
  maxAttempts: z.number(),
  maxLag: z.number(),
  order: z.enum(['completion', 'task']),
})
const stored = z.object({
  format: z.literal(FORMAT),
  settings: storedQueueSettings,
  nextTicket: natural,
  nextLease: natural,
  pending: z.array(z.tuple([natural, group])),
  ready: z.array(natural),
  settled: z.array(z.tuple([natural, storedEnd])),
  counts: z.object({ trained: natural, dropped: z.record(storedCause, natural) }),
})

type StoredQueue = z.infer<typeof stored>

const byTicket = <V>(map: ImmutableMap<number, V>): readonly (readonly [number, V])[] =>
  [...map].sort(([a], [b]) => a - b)

/**
 * Converts the complete state of a queue to JSON. Tasks and rollouts may be any values that
 * `encodeValue` accepts.
 *
 * Errors   `Left(FormatFailure)` that lists all values in tasks and rollouts that cannot be
 *          encoded.
 * Effects  none.
 */
export const groupQueueToJson = <T, R>(queue: GroupQueueState<T, R>): E.Either<FormatFailure, Json> =>
  pipe(
    encodeValue({
      format: FORMAT,
      settings: queue.settings,
      nextTicket: queue.nextTicket,
      nextLease: queue.nextLease,
      pending: byTicket(queue.pending),
      ready: queue.ready.toArray(),
      settled: byTicket(queue.settled),
      counts: queue.counts,
    }),
    E.mapLeft(
      (values): FormatFailure => ({
        _tag: 'FormatFailure',
        format: FORMAT,
        reason: problemList(values.map(({ path, reason }) => `${path.join('.')}: ${reason}`)),
      }),
    ),
  )

const stageProblems = (ticket: number, { stage, places }: StoredQueue['pending'][number][1]): readonly string[] => {
  const isFilled = places.every(({ _tag }) => _tag === 'Filled')
  return isFilled === (stage !== 'filling') ? [] : [`task ${ticket} is ${stage} but its rollouts do not match`]
}

/** Returns the contradictions in a state that no queue can reach. */
const contradictions = (queue: StoredQueue): readonly string[] => {
  const { settings, nextTicket, nextLease, pending, ready, counts } = queue
  const tickets = [...pending, ...queue.settled].map(([ticket]) => ticket)
  const complete = pending.flatMap(([ticket, { stage }]) => (stage === 'ready' ? [ticket] : []))
  const leases = pending.flatMap(([, { places }]) =>
    places.flatMap((each) => (each._tag === 'Leased' ? each.lease : [])),
  )
  const ended = counts.trained + DROP_CAUSES.reduce((sum, each) => sum + counts.dropped[each], 0)
  return [
    ...settingProblems(settings),
    ...(new Set(tickets).size === tickets.length ? [] : ['duplicate task']),
    ...(tickets.every((ticket) => ticket < nextTicket) ? [] : [`a task is not below nextTicket, ${nextTicket}`]),
    ...(new Set(leases).size === leases.length ? [] : ['duplicate lease']),
    ...(leases.every((lease) => lease < nextLease) ? [] : [`a lease is not below nextLease, ${nextLease}`]),
    ...pending.flatMap(([ticket, { places }]) =>
      places.length === settings.groupSize ? [] : [`task ${ticket} has ${places.length} rollouts`],
    ),
    ...pending.flatMap(([ticket, each]) => stageProblems(ticket, each)),
    ...([...ready].sort().join() === complete.sort().join() ? [] : ['ready must be the tasks that are ready']),
    ...(pending.length + ended === nextTicket
      ? []
      : [`${pending.length} held and ${ended} ended are not ${nextTicket} drawn`]),
    ...(queue.settled.length <= ended ? [] : [`${queue.settled.length} tasks ended but ${ended} were counted`]),
  ]
}

const rebuilt = <T, R>({ format: _, ...queue }: StoredQueue): GroupQueueState<T, R> => {
  const pending = [...queue.pending].sort(([a], [b]) => a - b) as [number, PendingGroup<T, R>][] // as they were written
  return {
    _tag: 'GroupQueueState',
    ...queue,
    pending: ImmutableMap(pending),
    openings: List(
      pending.flatMap(([ticket, { places }]) =>
        places.flatMap(({ _tag }, i) => (_tag === 'Open' ? [openingOf({ ticket, place: i }, queue.settings)] : [])),
      ),
    ),
    ready: List(queue.ready),
    settled: ImmutableMap<number, Settled>(queue.settled),
  }
}

/**
 * Restores a queue from the JSON of `groupQueueToJson`. The caller's two functions check the tasks
 * and rollouts.
 *
 * Errors   `Left(FormatFailure)` with all problems: another format, invalid fields, or an
 *          impossible state such as a duplicate task or counts that do not add up. Never throws.
 * Effects  none.
 */
export const groupQueueFromJson = <T, R>(
  json: unknown,
  is: { readonly task: (value: unknown) => value is T; readonly rollout: (value: unknown) => value is R },
): E.Either<FormatFailure, GroupQueueState<T, R>> => {
  const fail = (reason: string) => E.left<FormatFailure>({ _tag: 'FormatFailure', format: FORMAT, reason })
  const decoded = decodeValue(json)
  if (E.isLeft(decoded)) return fail(decoded.left)
  const parsed = stored.safeParse(decoded.right)
  if (!parsed.success)
    return fail(problemList(parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)))
  const strange = parsed.data.pending.flatMap(([ticket, { task, places }]) => [
    ...(is.task(task) ? [] : [`the task of ticket ${ticket} is invalid`]),
    ...places.flatMap((each, i) =>
      each._tag === 'Filled' && !is.rollout(each.rollout) ? [`rollout ${i} of task ${ticket} is invalid`] : [],
    ),
  ])
  const problems = [...contradictions(parsed.data), ...strange]
  return problems.length > 0 ? fail(problemList(problems)) : E.right(rebuilt(parsed.data))
}
