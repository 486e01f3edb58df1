/** Plays episodes in lockstep: one policy call per turn for all unfinished episodes. */
import { type Clock, child, type Key } from '@tandem-rl/base'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import type * as E from 'fp-ts/lib/Either.js'
import { isLeft, right } from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Policy } from '../../data/policy.js'
import { concat } from '../../data/tensorDict/joining.js'
import { meta } from '../../data/tensorDict/leaf.js'
import { take } from '../../data/tensorDict/selecting.js'
import { find, isTensorDict, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { type Env, nextRequest, REMEMBERED } from '../../envs/base/env.js'
import { rowsByTrajectory } from './identity.js'
import type { EpisodeFailure } from './rollout.js'
import type { RolloutPosition } from './rolloutBatch.js'
import { type CollectedBatch, isDone, joinTurns, turnRows } from './turnRows.js'

/** The position of a collector, as plain JSON for a checkpoint. */
export interface CollectorPosition {
  /** Number of resets played so far. By default this is the number of batches. */
  readonly batch: number
  /** The persistent state of the environment's transforms, by their places. */
  readonly remembered: Readonly<Record<string, unknown>>
  /** The position of concurrent rollouts. */
  readonly rollouts?: RolloutPosition
}

/** A played batch, and the position after it. */
export interface Played<B> {
  readonly batch: Owned<B>
  readonly position: CollectorPosition
  /** Number of played turns, including those that are not kept. */
  readonly turns: number
}

export interface LockstepRules<O, P> {
  readonly env: Env<O, P>
  readonly policy: () => Policy<O, P>
  readonly key: Key
  readonly maxTurns: number
  /** Resets are played until the batch has at least this many turns. */
  readonly dialogTurnsPerBatch: number
  readonly turns: 'all' | 'last'
  readonly clock: Clock
}

const rememberedOf = (state: TensorDict): Readonly<Record<string, unknown>> => {
  const node = find(state, [REMEMBERED])
  if (!isTensorDict(node)) return {}
  return Object.fromEntries(
    node.entries
      .entrySeq()
      .toArray()
      .flatMap(([place, entry]) => ('_tag' in entry && entry._tag === 'Meta' ? [[place, entry.value]] : [])),
  )
}

const requestOf = (remembered: Readonly<Record<string, unknown>>, batchSize: number): TensorDict =>
  nextRequest(
    TensorDict(
      { [REMEMBERED]: Object.fromEntries(Object.entries(remembered).map(([place, state]) => [place, meta(state)])) },
      [batchSize],
    ),
  )

/** The turns of one reset. */
interface PlayedReset<O, P> {
  readonly batch: CollectedBatch<O, P>
  readonly position: CollectorPosition
}

type Hold = <T>(value: T) => T

/** Plays one reset until all of its episodes are done. `hold` keeps values alive. */
const playReset = async <O, P>(
  rules: LockstepRules<O, P>,
  position: CollectorPosition,
  hold: Hold,
): Promise<E.Either<EpisodeFailure, PlayedReset<O, P>>> => {
  const { env, key } = rules
  const batchKey = child(key, position.batch)
  const origin = child(batchKey, 'reset')
  const reset = await env.reset(requestOf(position.remembered, env.batchSize), origin)()
  if (isLeft(reset)) return reset
  const start = hold(reset.right)
  try {
    return await playTurns(rules, { start, origin, batchKey, position }, hold)
  } finally {
    env.release?.(start as TensorDict)
  }
}

/** The start of the episodes of a reset. */
interface ResetStart<O> {
  readonly start: TensorDict<O>
  readonly origin: Key
  readonly batchKey: Key
  readonly position: CollectorPosition
}

/** Plays episodes from their start until all are done. */
const playTurns = async <O, P>(
  { env, policy, maxTurns, clock }: LockstepRules<O, P>,
  { start, origin, batchKey, position }: ResetStart<O>,
  hold: Hold,
): Promise<E.Either<EpisodeFailure, PlayedReset<O, P>>> => {
  let state = start
  let rows: readonly number[] = Array.from({ length: env.batchSize }, (_, i) => i)
  const turns: CollectedBatch<O, P>[] = []
  for (let turn = 0; turn < maxTurns; turn++) {
    const started = clock.now()
    const action = await policy().act(state, child(batchKey, turn))()
    if (isLeft(action)) return action
    hold(action.right)
    const generationMs = clock.now() - started
    let read = action.right as TensorDict
    const onAction = (seen: TensorDict): void => {
      read = seen
    }
    const next = await env.step(state, action.right, { onAction })()
    if (isLeft(next)) return next
    hold(next.right)
    const played = { env: env.name, state, action: action.right, read, next: next.right }
    turns.push(turnRows({ ...played, origin, rows, turn, generationMs }))
    const open = isDone(next.right as TensorDict).flatMap((done, i) => (done ? [] : [i]))
    if (open.length === 0) {
      const after = { batch: position.batch + 1, remembered: rememberedOf(next.right as TensorDict) }
      return right({ batch: hold(scope(() => joinTurns(turns))), position: after })
    }
    state = hold(take(next.right as unknown as TensorDict<O>, open)) // a stepped state is a state
    rows = open.map((i) => rows[i]!)
  }
  const reason = `an episode did not end within ${maxTurns} turns`
  return { _tag: 'Left', left: { _tag: 'EndlessEpisode', maxTurns, reason } }
}

/** Returns the last row of each trajectory. */
const lastRows = <O, P>(batch: CollectedBatch<O, P>): CollectedBatch<O, P> =>
  take(
    batch,
    [...rowsByTrajectory(batch as TensorDict).values()].map((rows) => rows.at(-1)!), // each has a row
  )

/**
 * Plays whole resets from a position, until the batch has enough turns.
 *
 * Errors   `Left(EpisodeFailure)`. Turns played before the failure are freed.
 */
export const playLockstep =
  <O, P>(
    rules: LockstepRules<O, P>,
    start: CollectorPosition,
  ): TaskEither<EpisodeFailure, Played<CollectedBatch<O, P>>> =>
  async () => {
    const held: Owned<unknown>[] = []
    const hold: Hold = (value) => {
      held.push(own(value))
      return value
    }
    const batches: CollectedBatch<O, P>[] = []
    let [turns, position] = [0, start]
    try {
      while (turns < rules.dialogTurnsPerBatch) {
        const played = await playReset(rules, position, hold)
        if (isLeft(played)) return played
        const { batch } = played.right
        position = played.right.position
        turns += batch.batchShape[0]! // one row for each turn
        batches.push(rules.turns === 'last' ? hold(scope(() => lastRows(batch))) : batch)
      }
      const joined = scope(() => concat(batches as readonly TensorDict[]) as unknown as CollectedBatch<O, P>) // the same entries
      return right({ batch: own(joined), position, turns })
    } finally {
      for (const owned of held) owned.release()
    }
  }
