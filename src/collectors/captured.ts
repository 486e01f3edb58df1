/** Converts captured sessions to a batch in the format of `LLMCollector`. */
import { checkOptions } from '@tandem-rl/base'
import {
  type CapturedSession,
  type CapturedTrajectory,
  type ChainSplit,
  sessionTrajectories,
  type TokenSpan,
  type TrajectoryOptions,
  type TrajectoryTurn,
} from '@tandem-rl/text'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import type { SamplingRecord, TokenPrompt } from '../data/policy.js'
import { type Data, data, type Ragged, type RaggedArray, ragged } from '../data/tensorDict/leaf.js'
import { TensorDict } from '../data/tensorDict/tensorDict.js'
import { CAPTURED_BATCH_OPTIONS } from './optionKinds.js'
import type { CollectedBatch } from './rollouts/turnRows.js'

/** The additional entries of rows from captured sessions. */
export type CapturedEntries = TokenPrompt & {
  /**
   * The session's group (attempts at one task), prefixed with the id of the group's first session.
   */
  readonly groupId: Data<string>
  readonly session: Data<string>
  /**
   * The version of the weights that sampled each token of `tokens.response`; -1 for other tokens.
   */
  readonly versions: TensorDict<{ readonly response: Ragged<'int32'> }>
}

/** A session or conversation that was left out of a batch. */
export interface OmittedSession {
  readonly session: string
  /** Index of the conversation in the session, or `null` for the whole session. */
  readonly conversation: number | null
  readonly reason: string
}

export interface CapturedBatch {
  readonly batch: CollectedBatch<CapturedEntries>
  readonly left: readonly OmittedSession[]
  /** Places at which conversations of the batch's sessions were split. */
  readonly splits: readonly (ChainSplit & { readonly session: string })[]
}

/** Sessions that cannot be trained on in one step. */
export interface CapturedBatchFailure {
  readonly _tag: 'CapturedBatchFailure'
  readonly reason: string
}

export interface CapturedBatchOptions extends TrajectoryOptions {
  /**
   * `conversations`: one row per conversation, so each token is computed once; tokens between turns
   * are in `tokens.response` with `masks.assistant` 0. `turns`: one row per turn, as in
   * `LLMCollector`, with everything before it as the prompt. Both train on the same tokens. Default
   * `conversations`.
   */
  readonly rows?: 'conversations' | 'turns'
  /**
   * Groups with another number of usable sessions are left out. Default: every size is accepted.
   */
  readonly groupSize?: number
}

/** The part of a trajectory that becomes a row. Tokens before `promptLength` are the prompt. */
interface Piece {
  readonly trajectory: CapturedTrajectory
  readonly turns: readonly TrajectoryTurn[]
  readonly promptLength: number
  readonly end: number
  /** End of the next row's prompt. */
  readonly nextEnd: number
}

/** A session that can be trained on. */
interface Learned {
  readonly session: CapturedSession
  readonly total: number
  readonly pieces: readonly Piece[]
  readonly splits: readonly ChainSplit[]
}

const piecesOf = (trajectory: CapturedTrajectory, rows: 'conversations' | 'turns'): readonly Piece[] => {
  const { turns } = trajectory
  const end = turns.at(-1)!.end
  if (rows === 'conversations') return [{ trajectory, turns, promptLength: turns[0]!.start, end, nextEnd: end }]
  return turns.map((turn, i) => ({
    trajectory,
    turns: [turn],
    promptLength: turn.start,
    end: turn.end,
    nextEnd: turns[i + 1]?.start ?? turn.end,
  }))
}

/** Returns the reason why a session cannot be trained on, or `null`. */
const refusal = ({ reward, end }: CapturedSession): string | null => {
  if (end === null) return 'the session is not finished'
  if (end.status === 'failed') return `the session failed: ${end.reason ?? 'no reason given'}`
  return reward === null ? 'the session has no reward' : null
}

const whole = (session: CapturedSession, reason: string): OmittedSession => ({
  session: session.id,
  conversation: null,
  reason,
})

const learnedOf = (
  session: CapturedSession,
  { rows = 'conversations', ...options }: CapturedBatchOptions,
): { readonly learned: readonly Learned[]; readonly left: readonly OmittedSession[] } => {
  const refused = refusal(session)
  if (refused !== null) return { learned: [], left: [whole(session, refused)] }
  const { trajectories, splits } = sessionTrajectories(session, options)
  const left = trajectories.flatMap(({ status, reason }, conversation): readonly OmittedSession[] =>
    status === 'ok' ? [] : [{ session: session.id, conversation, reason: reason ?? status }],
  )
  const pieces = trajectories
    .filter(({ status }) => status === 'ok')
    .flatMap((trajectory) => piecesOf(trajectory, rows))
  return pieces.length === 0
    ? { learned: [], left: [...left, whole(session, 'the session has no conversation to train on')] }
    : { learned: [{ session, total: session.reward!.total, pieces, splits }], left } // refused without one
}

/** Orders sessions by group, in order of first appearance. Groups of another size are left out. */
const grouped = (all: readonly Learned[], groupSize: number | undefined) => {
  const groups = new Map<string, Learned[]>()
  for (const one of all) {
    const group = groups.get(one.session.group)
    if (group === undefined) groups.set(one.session.group, [one])
    else group.push(one)
  }
  const isKept = (group: readonly Learned[]): boolean => groupSize === undefined || group.length === groupSize
  const lists = [...groups.values()]
  return {
    kept: lists.filter(isKept).flat(),
    left: lists
      .filter((group) => !isKept(group))
      .flatMap((group) =>
        group.map(({ session }) =>
          whole(session, `its group has ${group.length} usable sessions, and groupSize is ${groupSize}`),
        ),
      ),
  }
}

const samplingOf = ({ sampling, start, end }: TrajectoryTurn): SamplingRecord => ({
  temperature: sampling.temperature,
  topK: sampling.topK === 0 ? null : sampling.topK,
  topP: sampling.topP === 1 ? null : sampling.topP,
  maxNewTokens: sampling.maxTokens ?? end - start,
  minNewTokens: sampling.minTokens,
})

/**
 * Returns the sampled and rendered spans of the first `length` tokens of a conversation. Sampled
 * spans include those that other trajectories train on.
 */
const spansTo = ({ turns, shared }: CapturedTrajectory, length: number): readonly TokenSpan[] => {
  const spans: TokenSpan[] = []
  const add = (end: number, role: string, origin: TokenSpan['origin']): void => {
    const start = spans.at(-1)?.end ?? 0
    if (end > start) spans.push({ start, end, message: -1, role, origin })
  }
  for (const { start, end } of [...shared, ...turns]) {
    if (end > length) break
    add(start, 'mixed', 'rendered')
    add(end, 'assistant', 'sampled')
  }
  add(length, 'mixed', 'rendered')
  return spans
}

/** Returns the oldest weight version that sampled a token of the piece. */
const versionOf = ({ trajectory, promptLength, end }: Piece): number => {
  const sampled = trajectory.versions.slice(promptLength, end).filter((version) => version >= 0)
  return sampled.reduce((a, b) => Math.min(a, b), sampled[0] ?? 0)
}

const unsampled = (row: Float32Array, from: number): Float32Array => row.slice().fill(Number.NaN, 0, from)

/** Clears the mask before `from`. */
const learnedFrom = (mask: Uint8Array, from: number): Uint8Array => mask.slice().fill(0, 0, from)

const batchOf = (sessions: readonly Learned[]): TensorDict => {
  const rows = sessions.flatMap(({ session, total, pieces }) =>
    pieces.map((piece, turn) => ({ session, total, piece, turn, isLast: turn === pieces.length - 1 })),
  )
  const each = <T>(f: (piece: Piece) => T): readonly T[] => rows.map(({ piece }) => f(piece))
  const numbers = <T extends 'int32' | 'float32' | 'bool'>(type: T, f: (piece: Piece) => RaggedArray<T>): Ragged<T> =>
    ragged(type, each(f))
  const bools = (f: (row: (typeof rows)[number]) => number): tf.Tensor => tf.tensor1d(rows.map(f), 'bool')
  const callMs = ({ calls }: CapturedSession): number => calls.reduce((sum, { durationMs }) => sum + durationMs, 0)
  const sizes = new Map(sessions.map(({ session, pieces }) => [session.id, pieces.length]))
  const firsts = new Map([...sessions].reverse().map(({ session }) => [session.group, session.id]))
  return TensorDict(
    {
      tokens: {
        prompt: numbers('int32', ({ trajectory, promptLength }) => trajectory.ids.slice(0, promptLength)),
        spans: data(each(({ trajectory, promptLength }) => spansTo(trajectory, promptLength))),
        response: numbers('int32', ({ trajectory, promptLength, end }) => trajectory.ids.slice(promptLength, end)),
        full: numbers('int32', ({ trajectory, end }) => trajectory.ids.slice(0, end)),
      },
      logProbs: {
        response: numbers('float32', ({ trajectory, promptLength, end }) =>
          trajectory.logProbs.slice(promptLength, end),
        ),
        full: numbers('float32', ({ trajectory, promptLength, end }) =>
          unsampled(trajectory.logProbs.slice(0, end), promptLength),
        ),
      },
      versions: {
        response: numbers('int32', ({ trajectory, promptLength, end }) => trajectory.versions.slice(promptLength, end)),
      },
      masks: {
        attention: numbers('bool', ({ end }) => new Uint8Array(end).fill(1)),
        assistant: numbers('bool', ({ trajectory, promptLength, end }) =>
          learnedFrom(trajectory.mask.slice(0, end), promptLength),
        ),
      },
      stopReason: data(each(({ turns }) => turns.at(-1)!.finishReason)),
      policyVersion: data(each(versionOf)),
      sampling: data(each(({ turns }) => samplingOf(turns[0]!))),
      trajectoryId: data(rows.map(({ session }) => session.id)),
      turn: data(rows.map(({ turn }) => turn)),
      status: data(rows.map(() => 'ok' as const)),
      groupId: data(rows.map(({ session }) => `${firsts.get(session.group)}:${session.group}`)),
      session: data(rows.map(({ session }) => session.id)),
      generationMs: data(rows.map(({ session }) => callMs(session) / sizes.get(session.id)!)), // each row is of a session
      next: {
        tokens: {
          prompt: numbers('int32', ({ trajectory, nextEnd }) => trajectory.ids.slice(0, nextEnd)),
          spans: data(each(({ trajectory, nextEnd }) => spansTo(trajectory, nextEnd))),
        },
        reward: tf.tensor1d(
          rows.map(({ total, isLast }) => (isLast ? total : 0)),
          'float32',
        ),
        terminated: bools(({ isLast }) => (isLast ? 1 : 0)),
        truncated: bools(() => 0),
        done: bools(({ isLast }) => (isLast ? 1 : 0)),
      },
    },
    [rows.length],
  )
}

const temperaturesOf = (sessions: readonly Learned[]): readonly number[] => [
  ...new Set(
    sessions.flatMap(({ pieces }) => pieces.flatMap(({ turns }) => turns.map(({ sampling }) => sampling.temperature))),
  ),
]

/**
 * Makes a batch of finished sessions in the format of `LLMCollector`, for advantages and learners.
 *
 * All conversations of a session form one trajectory, with the session's reward at its last row, so
 * attempts at a task are compared by session. Unfinished and failed sessions and sessions without a
 * reward are left out and reported. So are conversations that a failed call interrupted, because an
 * infrastructure failure is not a reward of 0. `policyVersion` is the oldest version that sampled a
 * token of the row.
 *
 * Shapes   `[B]` rows with sessions of a group adjacent; `tokens.*` etc. as in `LLMCollector`.
 * Errors   `Left(CapturedBatchFailure)` if turns were sampled at different temperatures, because
 *          their log-probabilities then belong to no single policy.
 * Effects  makes four tensors that belong to the enclosing scope.
 * Cost     `conversations` store every token once; `turns` store it again for every later turn.
 */
export const capturedBatch = (
  sessions: readonly CapturedSession[],
  options: CapturedBatchOptions = {},
): E.Either<CapturedBatchFailure, CapturedBatch> => {
  checkOptions('capturedBatch', options, CAPTURED_BATCH_OPTIONS)
  const found = sessions.map((session) => learnedOf(session, options))
  const { kept, left } = grouped(
    found.flatMap(({ learned }) => learned),
    options.groupSize,
  )
  const temperatures = temperaturesOf(kept)
  if (temperatures.length > 1) {
    const reason = `turns were sampled at different temperatures (${temperatures.join(', ')}): make a batch of each, or set --temperature of the proxy`
    return E.left({ _tag: 'CapturedBatchFailure', reason })
  }
  return E.right({
    batch: batchOf(kept) as unknown as CollectedBatch<CapturedEntries>, // its entries, written out in `batchOf`
    left: [...found.flatMap((one) => one.left), ...left],
    splits: kept.flatMap(({ session, splits }) => splits.map((split) => ({ ...split, session: session.id }))),
  })
}
