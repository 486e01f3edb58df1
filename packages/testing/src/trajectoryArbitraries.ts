/** fast-check arbitraries of collected batches: groups of trajectories, turn by turn. */
import { formatKey, type Key, keyFromSeed } from '@tandem-rl/base'
import { appendMessage, History, message, type TokenSpan } from '@tandem-rl/text'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import type { CollectedBatch, HistoryPrompt, SamplingRecord, StopReason, Task, TokenPrompt } from 'tandem-rl'
import { assign, type Data, data, ragged, TensorDict } from 'tandem-rl/tensordict'
import { anyTask } from './arbitraries.js'
import { shown, textOfMade } from './shown.js'
import type { RecipeOf } from './specArbitraries.js'

/** Rewards of the members of one group. */
export interface RewardGroup {
  readonly groupId: string
  readonly rewards: readonly number[]
}

const ordinary = fc.oneof(fc.constantFrom(0, 0.1, 1, -1), fc.float({ min: -100, max: 100, noNaN: true }))

/**
 * Draws rewards of one group, `[G]`, with frequent edge cases: a group of one, all equal, almost
 * equal, NaN, infinite, very large.
 *
 * @example
 * fc.sample(anyGroupRewards(4), 1)[0].length <= 4 // true
 */
export const anyGroupRewards = (maxSize = 6): fc.Arbitrary<readonly number[]> => {
  const several = fc.array(ordinary, { minLength: 1, maxLength: maxSize })
  const withOne = (odd: fc.Arbitrary<number>): fc.Arbitrary<readonly number[]> =>
    fc.tuple(several, odd, fc.nat(maxSize)).map(([rewards, x, at]) => rewards.with(at % rewards.length, x))
  return fc.oneof(
    { weight: 4, arbitrary: several },
    {
      weight: 2,
      arbitrary: fc.tuple(ordinary, fc.integer({ min: 1, max: maxSize })).map(([x, n]) => new Array<number>(n).fill(x)),
    },
    { weight: 1, arbitrary: ordinary.map((x) => [x]) },
    { weight: 1, arbitrary: several.map((rewards) => rewards.map((_, i) => 1 + i * 2 ** -40)) },
    { weight: 1, arbitrary: withOne(fc.constant(Number.NaN)) },
    { weight: 1, arbitrary: withOne(fc.constantFrom(Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY)) },
    { weight: 1, arbitrary: withOne(fc.constantFrom(1e30, -1e30)) },
  )
}

/** Draws groups with an id each. */
export const anyGroups: fc.Arbitrary<readonly RewardGroup[]> = fc
  .array(anyGroupRewards(), { maxLength: 5 })
  .map((groups) => groups.map((rewards, i) => ({ groupId: `group-${i}`, rewards })))

/** The states that the trajectories of `anyTrajectories` went through. */
export type TrajectoryState = TokenPrompt &
  HistoryPrompt & {
    readonly query: Data<string>
    readonly answer: Data<string>
    readonly taskId: Data<string>
    readonly groupId: Data<string>
  }

/** A collected batch as a recipe. */
export interface TrajectoryRecipe extends RecipeOf<unknown> {
  readonly build: () => CollectedBatch<TrajectoryState>
}

/** The options of drawn trajectories. */
export interface AnyTrajectoryOptions {
  /** Number of members in every group of a batch. Default 1 to 3. */
  readonly groupSizes?: fc.Arbitrary<number>
  /** Default 3. */
  readonly maxGroups?: number
  /** Default 3. */
  readonly maxTurns?: number
  /** Rewards of single turns. Default: finite. */
  readonly rewards?: fc.Arbitrary<number>
}

/**
 * The turn of a policy. Its ids are the codes of the letters, followed by END if it stopped by
 * itself.
 */
interface Turn {
  readonly letters: readonly (readonly [letter: string, logProb: number])[]
  readonly endLogProb: number
  readonly stopReason: StopReason
  readonly reward: number
  /** The user's next text; empty for no message. */
  readonly wanted: string
  /** True if new weights were loaded before the turn. */
  readonly isUpdated: boolean
}

interface Trajectory {
  readonly turns: readonly Turn[]
  readonly end: 'terminated' | 'truncated'
}

interface Group {
  readonly task: Task
  readonly members: readonly Trajectory[]
}

const END = ';'

const anyTurn = (rewards: fc.Arbitrary<number>): fc.Arbitrary<Turn> => {
  const logProb = fc.float({ min: -20, max: 0, noNaN: true })
  return fc
    .record({
      letters: fc.array(fc.tuple(fc.constantFrom('a', 'b', ' '), logProb), { maxLength: 4 }),
      endLogProb: logProb,
      stopReason: fc.constantFrom<StopReason>('stop', 'length'),
      reward: rewards,
      wanted: fc.constantFrom('', 'go on'),
      isUpdated: fc.boolean(),
    })
    .map((turn) => (turn.letters.length === 0 ? { ...turn, stopReason: 'stop' } : turn)) // one token at least
}

const anySampling: fc.Arbitrary<SamplingRecord> = fc.record({
  temperature: fc.constantFrom(1, 0.7, 0),
  topK: fc.constantFrom(null, 5),
  topP: fc.constantFrom(null, 0.9),
  maxNewTokens: fc.constant(5),
  minNewTokens: fc.constant(0),
})

/** A conversation up to the policy's turn, as messages and as token ids with their origin. */
interface Position {
  readonly history: History
  readonly ids: readonly number[]
  readonly spans: readonly TokenSpan[]
}

/** Draws keys of resets. */
const anyOrigin: fc.Arbitrary<Key> = fc.maxSafeNat().map(keyFromSeed)

const codes = (text: string): readonly number[] => Array.from(text, (letter) => letter.codePointAt(0)!) // a letter has one

/** Returns the position with more ids, which belong to one message. */
const longer = (
  { history, ids, spans }: Position,
  more: readonly number[],
  of: Pick<TokenSpan, 'role' | 'origin' | 'message'>,
): Position => ({
  history,
  ids: [...ids, ...more],
  spans: more.length === 0 ? spans : [...spans, { start: ids.length, end: ids.length + more.length, ...of }],
})

/** Adds the user's text and the header of the assistant's turn. */
const asking = (position: Position, text: string): Position => {
  const place = position.history.messages.size
  const responses =
    text === ''
      ? position
      : {
          ...longer(position, codes(`u:${text}${END}`), { role: 'user', origin: 'rendered', message: place }),
          history: appendMessage(position.history, message('user', text)),
        }
  return longer(responses, codes('a:'), {
    role: 'assistant',
    origin: 'rendered',
    message: responses.history.messages.size,
  })
}

const responseOf = ({ letters, stopReason, endLogProb }: Turn) => {
  const text = letters.map(([letter]) => letter).join('')
  const isStopped = stopReason === 'stop'
  return {
    message: message('assistant', text, { isComplete: isStopped }),
    ids: codes(isStopped ? `${text}${END}` : text),
    logProbs: [...letters.map(([, logProb]) => logProb), ...(isStopped ? [endLogProb] : [])],
  }
}

const after = (position: Position, turn: Turn): Position => {
  const { message: reply, ids } = responseOf(turn)
  const isComplete = turn.stopReason === 'stop'
  const place = { role: 'assistant', message: position.history.messages.size }
  const responses = longer(position, ids, { ...place, origin: 'sampled' })
  const closed = longer(responses, isComplete ? [] : codes(END), { ...place, origin: 'rendered' })
  const history = appendMessage(position.history, reply)
  return asking({ ...closed, history }, turn.wanted)
}

/** One row of the batch. */
interface Row {
  readonly task: Task
  readonly groupId: string
  readonly trajectoryId: string
  readonly turn: number
  readonly before: Position
  readonly next: Position
  readonly action: Turn
  readonly version: number
  readonly end: Trajectory['end'] | undefined
}

const rowsOf = (groups: readonly Group[], origin: Key): readonly Row[] => {
  const rows: Row[] = []
  let element = 0
  for (const [g, { task, members }] of groups.entries()) {
    for (const { turns, end } of members) {
      let before = asking({ history: History([]), ids: [], spans: [] }, task.query)
      let version = 0
      for (const [turn, action] of turns.entries()) {
        const next = after(before, action)
        version += action.isUpdated ? 1 : 0
        const isLast = turn === turns.length - 1
        const ids = { groupId: `${formatKey(origin)}:${g}:${task.id}`, trajectoryId: `${formatKey(origin)}:${element}` }
        rows.push({ task, ...ids, turn, before, next, action, version, end: isLast ? end : undefined })
        before = next
      }
      element++
    }
  }
  return rows
}

const stateEntries = (rows: readonly Row[], positions: readonly Position[]) => {
  const ids = positions.map((position) => position.ids)
  return {
    query: data(rows.map(({ task }) => task.query)),
    answer: data(rows.map(({ task }) => task.answer)),
    taskId: data(rows.map(({ task }) => task.id)),
    groupId: data(rows.map(({ groupId }) => groupId)),
    history: { prompt: data(positions.map(({ history }) => history)) },
    tokens: { prompt: ragged('int32', ids), spans: data(positions.map(({ spans }) => spans)) },
  }
}

const batchOf = (rows: readonly Row[], sampling: SamplingRecord): CollectedBatch<TrajectoryState> => {
  const responses = rows.map(({ action }) => responseOf(action))
  const prompts = rows.map(({ before }) => before.ids)
  const full = prompts.map((ids, i) => [...ids, ...responses[i]!.ids])
  const overFull = (prompt: number, response: (i: number) => readonly number[]) =>
    prompts.map((ids, i) => [...ids.map(() => prompt), ...response(i)])
  const ended = (end: Row['end']) =>
    tf.tensor1d(
      rows.map((row) => (row.end === end ? 1 : 0)),
      'bool',
    )
  const state = TensorDict(
    stateEntries(
      rows,
      rows.map(({ before }) => before),
    ),
    [rows.length],
  )
  const batch = assign(state, {
    tokens: {
      response: ragged(
        'int32',
        responses.map(({ ids }) => ids),
      ),
      full: ragged('int32', full),
    },
    logProbs: {
      response: ragged(
        'float32',
        responses.map(({ logProbs }) => logProbs),
      ),
      full: ragged(
        'float32',
        overFull(Number.NaN, (i) => responses[i]!.logProbs),
      ),
    },
    masks: {
      attention: ragged(
        'bool',
        overFull(1, (i) => responses[i]!.ids.map(() => 1)),
      ),
      assistant: ragged(
        'bool',
        overFull(0, (i) => responses[i]!.ids.map(() => 1)),
      ),
    },
    history: {
      response: data(responses.map(({ message }) => message)),
      full: data(rows.map(({ before }, i) => appendMessage(before.history, responses[i]!.message))), // one for each row
    },
    stopReason: data(rows.map(({ action }) => action.stopReason)),
    policyVersion: data(rows.map(({ version }) => version)),
    sampling: data(rows.map(() => sampling)),
    trajectoryId: data(rows.map(({ trajectoryId }) => trajectoryId)),
    turn: data(rows.map(({ turn }) => turn)),
    status: data(rows.map(() => 'ok' as const)),
    generationMs: data(rows.map(() => 0)),
    next: {
      ...stateEntries(
        rows,
        rows.map(({ next }) => next),
      ),
      reward: tf.tensor1d(
        rows.map(({ action }) => action.reward),
        'float32',
      ),
      terminated: ended('terminated'),
      truncated: ended('truncated'),
      done: tf.tensor1d(
        rows.map(({ end }) => (end === undefined ? 0 : 1)),
        'bool',
      ),
    },
  })
  return batch as unknown as CollectedBatch<TrajectoryState> // the entries of a collected batch, by its definition
}

/**
 * Draws collected batches as `LLMCollector` yields them: one row per turn, with members of a group
 * adjacent. Tokens, log-probabilities, spans, masks and messages are consistent, as
 * `trajectoryProblems` defines. Drawing makes no tensors.
 *
 * All groups of a batch have one size. There is at least one row.
 *
 * @example
 * fc.sample(anyTrajectories({ groupSizes: fc.constant(2), maxTurns: 1 }), 1)[0].batchShape[0] % 2 // 0
 */
export const anyTrajectories = (options: AnyTrajectoryOptions = {}): fc.Arbitrary<TrajectoryRecipe> =>
  collectedBatches({ ...options, batches: 1 }).map(([only]) => only!)

/** The options of `collectedBatches`. */
export interface CollectedBatchesOptions extends AnyTrajectoryOptions {
  /** Number of batches. Default 2. */
  readonly batches?: number
}

/**
 * Draws batches as one collector yields them in sequence. They can be joined, and no two share a
 * trajectory or a group.
 *
 * All groups have the same size, and all rows have the same sampling settings. `anyTrajectories`
 * describes each batch.
 *
 * @example
 * fc.sample(collectedBatches({ batches: 3 }), 1)[0].length // 3
 */
export const collectedBatches = (options: CollectedBatchesOptions = {}): fc.Arbitrary<readonly TrajectoryRecipe[]> => {
  const { batches = 2, groupSizes = fc.integer({ min: 1, max: 3 }) } = options
  const { maxGroups = 3, maxTurns = 3, rewards = ordinary } = options
  const trajectory: fc.Arbitrary<Trajectory> = fc.record({
    turns: fc.array(anyTurn(rewards), { minLength: 1, maxLength: maxTurns }),
    end: fc.constantFrom('terminated', 'truncated'),
  })
  return groupSizes.chain((size) => {
    const group: fc.Arbitrary<Group> = fc.record({
      task: anyTask,
      members: fc.array(trajectory, { minLength: size, maxLength: size }),
    })
    const groups = fc.array(group, { minLength: 1, maxLength: maxGroups })
    const many = { minLength: batches, maxLength: batches }
    const origins = fc.noShrink(fc.uniqueArray(anyOrigin, { ...many, selector: formatKey }))
    return fc.tuple(fc.array(groups, many), anySampling, origins).map(([drawn, sampling, keys]) =>
      drawn.map((groups, i) => {
        const rows = rowsOf(groups, keys[i]!) // as many as batches
        const build = () => batchOf(rows, sampling)
        return shown({ batchShape: [rows.length], build }, () => textOfMade(build as () => TensorDict)) // of any schema
      }),
    )
  })
}
