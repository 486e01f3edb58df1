/** Plays one rollout from a state to its end, within its limits. */
import { ABORTED, type Clock, child, type Key, unlessAborted } from '@tandem-rl/base'
import { discard, type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Policy, PolicyFailure, TokenAction } from '../../data/policy.js'
import { assign } from '../../data/tensorDict/merge.js'
import { take } from '../../data/tensorDict/selecting.js'
import type { TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { Env, EnvFailure } from '../../envs/base/env.js'
import type { Stepped } from '../../envs/transforms/transform.js'
import { type CollectedBatch, isDone, joinTurns, responseLengths, turnRows } from './turnRows.js'

/** An episode exceeded the limit of turns. */
export interface EndlessEpisode {
  readonly _tag: 'EndlessEpisode'
  readonly maxTurns: number
  readonly reason: string
}

/** An episode could not be played. */
export type EpisodeFailure = EnvFailure | PolicyFailure | EndlessEpisode

/** A rollout exceeded its time limit. */
export interface LateRollout {
  readonly _tag: 'LateRollout'
  readonly deadlineMs: number
  readonly reason: string
}

/** The environment or the policy threw an exception, which indicates a bug. */
export interface ThrownRollout {
  readonly _tag: 'ThrownRollout'
  readonly reason: string
  /** The exception. */
  readonly error: unknown
}

/** The cause of a failed rollout. */
export type RolloutCause = EpisodeFailure | LateRollout | ThrownRollout

/** The outcome of an attempt: a result, a failure, or `ABORTED`. */
export type Attempted<T> = E.Either<RolloutCause, T> | typeof ABORTED

/** The rules for playing rollouts. */
export interface RolloutRules<O, P> {
  readonly policy: Policy<O, P>
  readonly maxTurns: number
  /** Maximum number of tokens that the policy may sample in all turns of a conversation. */
  readonly tokenBudget: number
  /** The turns of a conversation to keep. */
  readonly turns: 'all' | 'last'
  readonly clock: Clock
}

/** The start of a rollout. */
export interface RolloutStart<O, P = TokenAction> {
  readonly env: Env<O, P>
  /** The state of the group after the reset, and the element to play. */
  readonly group: TensorDict<O>
  readonly member: number
  /** The key of the group's reset. */
  readonly origin: Key
  readonly key: Key
  /** Called after each turn, in order. It must own the values that it keeps. */
  readonly onTurn?: (turn: PlayedTurn<O, P>) => void
}

/** A finished turn of a rollout. */
export interface PlayedTurn<O, P = TokenAction> {
  readonly member: number
  /** Index of the turn in the conversation. */
  readonly turn: number
  readonly rows: CollectedBatch<O, P>
  /** `done` if the conversation ended with this turn, `cut` if its token budget was exhausted. */
  readonly end: 'none' | 'done' | 'cut'
}

export interface PlayedRollout<O, P = TokenAction> {
  readonly rows: Owned<CollectedBatch<O, P>>
  /** Number of played turns, including those that are not kept. */
  readonly turns: number
  /** `true` if the token budget was exhausted. */
  readonly isCut: boolean
}

/** Waits for work until the signal aborts. A result that arrives later is freed. */
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
      () => {}, // the result is no longer needed, so a failure is ignored
    )
  }
  return result
}

/** Marks the state after a step as truncated. */
const cutOff = <O>(next: TensorDict<Stepped<O>>): TensorDict<Stepped<O>> =>
  scope(() => {
    const ended = { truncated: tf.ones([1], 'bool'), done: tf.ones([1], 'bool') }
    return assign(next as TensorDict, ended) as unknown as TensorDict<Stepped<O>> // the same entries
  })

/**
 * Plays one element of a group to its end. Tokens are counted after each turn, so the last turn may
 * exceed the budget.
 *
 * Errors   `Left(RolloutCause)`, or `ABORTED` when the signal aborts. Rejects if environment or
 *          policy reject.
 */
export const playRollout = async <O, P>(
  { env, group, member, origin, key, onTurn }: RolloutStart<O, P>,
  { policy, maxTurns, tokenBudget, turns: kept, clock }: RolloutRules<O, P>,
  signal: AbortSignal,
): Promise<Attempted<PlayedRollout<O, P>>> => {
  // Values of the previous and the current turn; of all turns, if all are kept.
  const held: Owned<unknown>[][] = [[], []]
  const hold = <T>(value: T): T => {
    held.at(-1)!.push(own(value))
    return value
  }
  const release = (what: readonly Owned<unknown>[] | undefined): void => what?.forEach((owned) => owned.release())
  const start = hold(take(group, [member]))
  try {
    let state = start
    let tokens = 0 // stays 0 for policies without tokens
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
    env.release?.(start as TensorDict)
    for (const each of held) release(each)
  }
}
