/** From captured sessions to a batch that learning takes as if an `LLMCollector` had collected it. */
import * as tf from '@tensorflow/tfjs'
import * as E from 'fp-ts/lib/Either.js'
import { aFunction, aNumber, checkOptions, oneOf } from '../core/options.js'
import type { CapturedSession } from '../data/capture/session.js'
import type { ChainSplit } from '../data/capture/splits.js'
import {
  type CapturedTrajectory,
  sessionTrajectories,
  type TrajectoryOptions,
  type TrajectoryTurn,
} from '../data/capture/trajectories.js'
import type { SamplingRecord, TokenPrompt } from '../data/policy.js'
import { type Data, data, type Ragged, type RaggedArray, ragged } from '../data/tensorDict/leaf.js'
import { TensorDict } from '../data/tensorDict/tensorDict.js'
import type { TokenSpan } from '../data/textTokenizer.js'
import type { CollectedBatch } from './rollouts/turnRows.js'

/** What a row has besides what every collected row has. */
export type CapturedEntries = TokenPrompt & {
  /** The group of the session, attempts at one task, with the id of the group's first session in front. */
  readonly groupId: Data<string>
  readonly session: Data<string>
  /** The weights that sampled each token of `tokens.response`; -1 for tokens that nobody sampled. */
  readonly versions: TensorDict<{ readonly response: Ragged<'int32'> }>
}

/** Sessions or conversations that are not in a batch. */
export interface LeftOut {
  readonly session: string
  /** Its number in the session; null for the whole session. */
  readonly conversation: number | null
  readonly reason: string
}

export interface CapturedBatch {
  readonly batch: CollectedBatch<CapturedEntries>
  readonly left: readonly LeftOut[]
  /** Where conversations broke, in sessions that are in the batch. */
  readonly splits: readonly (ChainSplit & { readonly session: string })[]
}

/** Sessions that cannot be learned from in one step. */
export interface CapturedBatchFailure {
  readonly _tag: 'CapturedBatchFailure'
  readonly reason: string
}

export interface CapturedBatchOptions extends TrajectoryOptions {
  /**
   * `conversations`: one row for each, which is computed once; tokens between the turns are in `tokens.response` with `masks.assistant` 0.
   * `turns`: one row for each turn, as `LLMCollector` has them; all that came before is prompt. Both learn the same. Default `conversations`.
   */
  readonly rows?: 'conversations' | 'turns'
  /** Groups with fewer sessions to learn from are left out, as are those with more. Default: groups are not looked at. */
  readonly groupSize?: number
}

/** A row before it is a row: its turns are learned, everything before `promptLength` is prompt. */
interface Piece {
  readonly trajectory: CapturedTrajectory
  readonly turns: readonly TrajectoryTurn[]
  readonly promptLength: number
  readonly end: number
  /** Where the prompt of the next row ends. */
  readonly nextEnd: number
}

/** A session that is learned from. */
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
    ...{ trajectory, turns: [turn], promptLength: turn.start, end: turn.end },
    nextEnd: turns[i + 1]?.start ?? turn.end,
  }))
}

/** Why a session cannot be learned from, whatever is in it. */
const refusal = ({ reward, end }: CapturedSession): string | null => {
  if (end === null) return 'the session is not finished'
  if (end.status === 'failed') return `the session failed: ${end.reason ?? 'no reason was told'}`
  return reward === null ? 'the session has no reward' : null
}

const whole = (session: CapturedSession, reason: string): LeftOut => ({
  session: session.id,
  conversation: null,
  reason,
})

const learnedOf = (
  session: CapturedSession,
  { rows = 'conversations', ...options }: CapturedBatchOptions,
): { readonly learned: readonly Learned[]; readonly left: readonly LeftOut[] } => {
  const refused = refusal(session)
  if (refused !== null) return { learned: [], left: [whole(session, refused)] }
  const { trajectories, splits } = sessionTrajectories(session, options)
  const left = trajectories.flatMap(({ status, reason }, conversation): readonly LeftOut[] =>
    status === 'ok' ? [] : [{ session: session.id, conversation, reason: reason ?? status }],
  )
  const pieces = trajectories
    .filter(({ status }) => status === 'ok')
    .flatMap((trajectory) => piecesOf(trajectory, rows))
  return pieces.length === 0
    ? { learned: [], left: [...left, whole(session, 'the session has no conversation to learn from')] }
    : { learned: [{ session, total: session.reward!.total, pieces, splits }], left } // refused without one
}

/** Sessions of one group side by side, groups in the order in which they come; groups of another size are left out. */
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
          whole(session, `its group has ${group.length} sessions to learn from, and ${groupSize} are asked for`),
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

/** The first `length` tokens of a conversation: what the policy sampled, in whichever trajectory it is learned, and what was rendered. */
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

/** The oldest weights that sampled any token of a piece. */
const versionOf = ({ trajectory, promptLength, end }: Piece): number => {
  const sampled = trajectory.versions.slice(promptLength, end).filter((version) => version >= 0)
  return sampled.reduce((a, b) => Math.min(a, b), sampled[0] ?? 0)
}

const unsampled = (row: Float32Array, from: number): Float32Array => row.slice().fill(Number.NaN, 0, from)

/** A mask that learns only from `from` on. */
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
 * A batch from sessions that are over: what `LLMCollector` gives, so that advantages and learners take it as it is.
 *
 * All conversations of a session are one trajectory of the batch, with the session's reward on its last row: attempts at a task are compared
 * by session. Sessions that are unfinished, failed or without a reward are left out and told, as is every conversation that a failed call
 * cut short: a failure of the infrastructure is no reward of 0. `policyVersion` is the oldest that sampled any token of a row.
 *
 * Shapes   `[B]` rows, sessions of a group side by side; `tokens.*` etc. as of `LLMCollector`.
 * Errors   `Left(CapturedBatchFailure)` for turns that were sampled at different temperatures: their log-probabilities are no policy's.
 * Effects  makes four tensors that belong to the enclosing scope.
 * Cost     `conversations` hold every token once; `turns` hold it once for each turn after it.
 */
export const capturedBatch = (
  sessions: readonly CapturedSession[],
  options: CapturedBatchOptions = {},
): E.Either<CapturedBatchFailure, CapturedBatch> => {
  checkOptions('capturedBatch', options, {
    rows: oneOf('conversations', 'turns'),
    groupSize: aNumber,
    shared: oneOf('once', 'each'),
    decode: aFunction,
  })
  const found = sessions.map((session) => learnedOf(session, options))
  const { kept, left } = grouped(
    found.flatMap(({ learned }) => learned),
    options.groupSize,
  )
  const temperatures = temperaturesOf(kept)
  if (temperatures.length > 1) {
    const reason = `turns were sampled at the temperatures ${temperatures.join(', ')}: make a batch of each, or let the proxy set one`
    return E.left({ _tag: 'CapturedBatchFailure', reason })
  }
  return E.right({
    batch: batchOf(kept) as unknown as CollectedBatch<CapturedEntries>, // its entries, written out in `batchOf`
    left: [...found.flatMap((one) => one.left), ...left],
    splits: kept.flatMap(({ session, splits }) => splits.map((split) => ({ ...split, session: session.id }))),
  })
}
