/** One rollout: a conversation that is played by itself from a state to its end, within its limits. */
import * as tf from '@tensorflow/tfjs'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { ABORTED, unlessAborted } from '../../core/cancellation.js'
import type { Clock } from '../../core/capabilities.js'
import { child, type Key } from '../../core/key.js'
import type { Policy, PolicyFailure, TokenAction } from '../../data/policy.js'
import { assign } from '../../data/tensorDict/merge.js'
import { take } from '../../data/tensorDict/selecting.js'
import type { TensorDict } from '../../data/tensorDict/tensorDict.js'
import { discard, type Owned, own, scope } from '../../engine/scope.js'
import type { Env, EnvFailure } from '../../envs/env.js'
import type { Stepped } from '../../envs/transforms/transform.js'
import { type CollectedBatch, isDone, joinTurns, responseLengths, turnRows } from './turnRows.js'

/** An episode did not end within the limit of turns. */
export interface EndlessEpisode {
  readonly _tag: 'EndlessEpisode'
  readonly maxTurns: number
  readonly reason: string
}

/** An episode could not be played. */
export type EpisodeFailure = EnvFailure | PolicyFailure | EndlessEpisode

/** A rollout was not over in its time. */
export interface LateRollout {
  readonly _tag: 'LateRollout'
  readonly deadlineMs: number
  readonly reason: string
}

/** The environment or the policy threw: there is an error in a program. */
export interface ThrownRollout {
  readonly _tag: 'ThrownRollout'
  readonly reason: string
  /** What was thrown. */
  readonly error: unknown
}

/** Why there is no trajectory. */
export type RolloutCause = EpisodeFailure | LateRollout | ThrownRollout

/** What a piece of work came to: a result, a failure, or nothing, because it was called off. */
export type Attempted<T> = E.Either<RolloutCause, T> | typeof ABORTED

/** How rollouts are played. */
export interface RolloutRules<O, P> {
  readonly policy: Policy<O, P>
  readonly maxTurns: number
  /** Tokens that the policy may sample in all turns of a conversation together. */
  readonly tokenBudget: number
  /** Which turns of a conversation are kept. */
  readonly turns: 'all' | 'last'
  readonly clock: Clock
}

/** Where a rollout begins. */
export interface RolloutStart<O, P = TokenAction> {
  readonly env: Env<O, P>
  /** The state of its group after the reset, and which element of it plays. */
  readonly group: TensorDict<O>
  readonly member: number
  /** The key that the group was reset with. */
  readonly origin: Key
  readonly key: Key
  /** Told of each turn that was played, in their order; what it keeps of it, it owns. */
  readonly onTurn?: (turn: PlayedTurn<O, P>) => void
}

/** A turn of a rollout, the moment it is over. */
export interface PlayedTurn<O, P = TokenAction> {
  readonly member: number
  /** Its place in the conversation. */
  readonly turn: number
  readonly rows: CollectedBatch<O, P>
  /** Whether the conversation ended with it, or was cut off because its tokens were used up. */
  readonly end: 'none' | 'done' | 'cut'
}

export interface PlayedRollout<O, P = TokenAction> {
  readonly rows: Owned<CollectedBatch<O, P>>
  /** Turns that were played, also if only the last one is kept. */
  readonly turns: number
  /** Whether it was cut off because its tokens were used up. */
  readonly isCut: boolean
}

/** Waits for work until the signal aborts; what comes after that is freed. */
export const unlessCalledOff = async <T>(
  work: TaskEither<RolloutCause, T>,
  signal: AbortSignal,
): Promise<Attempted<T>> => {
  if (signal.aborted) return ABORTED
  const running = work()
  const result = await unlessAborted(running, signal)
  if (result === ABORTED) {
    running.then(
      (late) => E.isRight(late) && discard(late.right),
      () => {}, // nobody waits for it any longer, and how it ends is its own affair
    )
  }
  return result
}

/** The state after a step as that of an episode that was cut off there. */
const cutOff = <O>(next: TensorDict<Stepped<O>>): TensorDict<Stepped<O>> =>
  scope(() => {
    const ended = { truncated: tf.ones([1], 'bool'), done: tf.ones([1], 'bool') }
    return assign(next as TensorDict, ended) as unknown as TensorDict<Stepped<O>> // the same entries
  })

/**
 * Plays one element of a group to its end. The tokens of a turn are counted when it is over: a budget may be passed by the last turn.
 *
 * Errors   `Left(RolloutCause)`, or `ABORTED` when the signal aborts; rejects as environment and policy do.
 */
export const playRollout = async <O, P>(
  { env, group, member, origin, key, onTurn }: RolloutStart<O, P>,
  { policy, maxTurns, tokenBudget, turns: kept, clock }: RolloutRules<O, P>,
  signal: AbortSignal,
): Promise<Attempted<PlayedRollout<O, P>>> => {
  // What the turn before and this one made: also the rows of all turns, if all are kept.
  const held: Owned<unknown>[][] = [[], []]
  const hold = <T>(value: T): T => {
    held.at(-1)!.push(own(value))
    return value
  }
  const release = (what: readonly Owned<unknown>[] | undefined): void => what?.forEach((owned) => owned.release())
  try {
    let state = hold(take(group, [member]))
    let tokens = 0 // none are counted of a policy that tells none
    let rows: readonly CollectedBatch<O, P>[] = []
    for (let turn = 0; turn < maxTurns; turn++) {
      const started = clock.now()
      const action = await unlessCalledOff(policy.act(state, child(key, turn), { signal }), signal)
      if (action === ABORTED || E.isLeft(action)) return action
      hold(action.right)
      const generationMs = clock.now() - started
      let read: TensorDict = action.right as TensorDict
      const onAction = (seen: TensorDict): void => {
        read = seen
      }
      const stepped = await unlessCalledOff(env.step(state, action.right, { signal, onAction }), signal)
      if (stepped === ABORTED || E.isLeft(stepped)) return stepped
      hold(stepped.right)
      tokens += responseLengths(action.right as TensorDict)[0] ?? 0 // of one element
      const isDoneBySelf = isDone(stepped.right)[0] === true
      const isCut = tokens >= tokenBudget && !isDoneBySelf
      const next = isCut ? hold(cutOff<O>(stepped.right)) : stepped.right
      const played = { env: env.name, state, action: action.right, read, next }
      const row = turnRows({ ...played, origin, rows: [member], turn, generationMs })
      rows = kept === 'all' ? [...rows, row] : [row]
      onTurn?.({ member, turn, rows: row, end: isCut ? 'cut' : isDoneBySelf ? 'done' : 'none' })
      if (isCut || isDoneBySelf) return E.right({ rows: own(scope(() => joinTurns(rows))), turns: turn + 1, isCut })
      state = next as unknown as TensorDict<O> // a stepped state is a state
      held.push([])
      if (kept === 'last') release(held.shift())
    }
    return E.left({ _tag: 'EndlessEpisode', maxTurns, reason: `an episode did not end within ${maxTurns} turns` })
  } finally {
    for (const each of held) release(each)
  }
}
