/** Plays groups of attempts of the user's agent, scores them, and makes batches of them. */
import { child, countOf, describe, type Key, ownValue } from '@tandem-rl/base'
import type { AgentAttempt, CapturedSession, OpenAgent, Task } from '@tandem-rl/text'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { type CapturedEntries, capturedBatch } from '../../collectors/captured.js'
import type { Collected, CollectorFailure } from '../../collectors/llmCollector.js'
import type { CollectorPosition } from '../../collectors/rollouts/lockstep.js'
import type { CollectedBatch } from '../../collectors/rollouts/turnRows.js'
import type { LogProbModel } from '../../data/policy.js'
import { type RewardKLForm, rewardKL } from '../../data/rewardKL.js'
import type { TaskSource } from '../../data/task.js'
import { data, type Ragged, ragged, raggedRows } from '../../data/tensorDict/leaf.js'
import { assign } from '../../data/tensorDict/merge.js'
import { get, type TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { EnvFailure } from '../../envs/base/env.js'
import { type AgentReward, lastConversation, scoreAttempt } from './agentReward.js'

/** The rows of captured sessions. */
type Rows = CollectedBatch<CapturedEntries>

/** An attempt that has failed as often as it may. */
export interface FailedAttempt {
  readonly task: string
  readonly reason: string
}

/** An attempt with its reward. */
export interface ScoredAttempt {
  readonly session: CapturedSession
  readonly task: Task
}

/** The rules for playing and scoring attempts. */
export interface AttemptRules<T extends Task> {
  readonly agent: OpenAgent<T>
  readonly reward: AgentReward<T> | undefined
  /** Times that an attempt is played until it does not fail. */
  readonly tries: number
  /** Called for every failed try. */
  readonly onFailure: (failure: FailedAttempt) => void
}

/** Returns the reason why nothing can be learned from an attempt, or `null`. */
const problemOf = ({ end, calls }: CapturedSession): string | null => {
  if (end?.status !== 'ok') return end?.reason ?? 'the attempt did not end'
  return calls.length === 0 ? 'the program made no call to the model' : null
}

/** Plays an attempt and scores it. A failed one is played again, with another key. */
export const scoredAttempt = async <T extends Task>(
  attempt: AgentAttempt<T>,
  { agent, reward, tries, onFailure }: AttemptRules<T>,
): Promise<E.Either<FailedAttempt, ScoredAttempt>> => {
  const { task } = attempt
  let failure: FailedAttempt = { task: task.id, reason: 'it was not played' }
  for (let n = 0; n < tries; n++) {
    const key = child(attempt.key, n)
    const { session, result } = await agent.play({ ...attempt, key, id: n === 0 ? attempt.id : `${attempt.id}.${n}` })
    const problem = problemOf(session)
    const scored =
      problem === null
        ? await scoreAttempt(reward, { task, session, result, key: child(key, 'reward') })
        : E.left(problem)
    if (E.isRight(scored)) return E.right({ session: { ...session, reward: scored.right }, task })
    failure = { task: task.id, reason: scored.left }
    onFailure(failure)
  }
  return E.left(failure)
}

/** The KL divergence from the initial model, measured and subtracted from rewards. */
interface AgentKL {
  readonly reference: LogProbModel
  readonly form: RewardKLForm
}

/** The source of a run's attempts, and the settings of its batches. */
export interface AgentSessions<T extends Task> extends AttemptRules<T> {
  readonly tasks: TaskSource<T>
  readonly key: Key
  /** Tasks per batch, and attempts per task. */
  readonly groups: number
  readonly groupSize: number
  readonly temperature: number
  readonly maxNewTokens: number
  /** `null` if the divergence is not measured. */
  readonly kl: AgentKL | null
  readonly name: string
}

/** Counts of a collected batch. */
interface BatchCounts {
  readonly omittedGroups: number
  readonly splitConversations: number
}

const failed = (env: string, reason: string): EnvFailure => ({ _tag: 'EnvFailure', env, where: env, reason })

/** Adds the reward parts, `next.rewardRight` and so on, and the texts of the tasks. */
const described = (batch: Rows, attempts: readonly ScoredAttempt[]): TensorDict => {
  const byId = new Map(attempts.map((attempt) => [attempt.session.id, attempt]))
  const ids = get(batch, 'session').items.toArray()
  const each = ids.map((id) => byId.get(id)!) // rows are of these sessions
  const isLast = ids.map((id, row) => ids[row + 1] !== id)
  const names = [...new Set(attempts.flatMap(({ session }) => Object.keys(session.reward!.parts)))] // all are scored
  const part = (name: string): tf.Tensor =>
    tf.tensor1d(
      each.map(({ session }, row) => (isLast[row] === true ? (ownValue(session.reward!.parts, name) ?? 0) : 0)),
      'float32',
    )
  const entry = (name: string): string =>
    name === 'success' ? name : `reward${name.slice(0, 1).toUpperCase()}${name.slice(1)}`
  const added = {
    query: data(each.map(({ task }) => task.query)),
    answer: data(each.map(({ task }) => task.answer)),
    taskId: data(each.map(({ task }) => task.id)),
    next: {
      history: { prompt: data(each.map(({ session }) => lastConversation(session))) },
      ...Object.fromEntries(names.map((name) => [entry(name), part(name)])),
    },
  }
  return assign(batch as unknown as TensorDict, added) // read by names from here on
}

/** The reference's log-probabilities of a batch, and the divergence of each sampled token. */
interface Divergence {
  readonly refLogProbs: Ragged<'float32'>
  readonly klPenalty: Ragged<'float32'>
}

const divergenceOf = async (
  batch: Rows,
  { reference, form }: AgentKL,
  temperature: number,
): Promise<E.Either<EnvFailure, Divergence>> => {
  const response = get(batch, 'tokens', 'response')
  const scored = await reference.score(get(batch, 'tokens', 'prompt'), response, temperature)()
  if (E.isLeft(scored)) return E.left(failed('reference', describe(scored.left)))
  const ours = raggedRows(get(batch, 'logProbs', 'response'))
  const masks = raggedRows(get(batch, 'masks', 'assistant'))
  const rows = raggedRows(scored.right).map((row, i) => {
    const start = masks[i]!.length - row.length
    return Float32Array.from(row, (log, t) => (masks[i]![start + t] === 1 ? rewardKL(form, ours[i]![t]! - log) : 0))
  })
  return E.right({ refLogProbs: scored.right, klPenalty: ragged('float32', rows) })
}

type CapturedOutcome = { readonly next: TensorDict<{ readonly reward: tf.Tensor }> }

/** Adds the divergence to a batch, and subtracts it from the rewards. */
const penalized = (batch: TensorDict, { refLogProbs, klPenalty }: Divergence, coefficient: number): TensorDict => {
  const earned = get(batch as TensorDict<CapturedOutcome>, 'next', 'reward') // every batch has rewards
  const rewards = earned.dataSync()
  const paid = raggedRows(klPenalty).map((row, i) => rewards[i]! - coefficient * row.reduce((sum, kl) => sum + kl, 0))
  return assign(batch, {
    next: {
      refLogProbs: { response: refLogProbs },
      klPenalty,
      reward: tf.tensor1d(paid, 'float32'),
      environmentReward: tf.clone(earned),
    },
  })
}

const playedGroups = async <T extends Task>(
  sessions: AgentSessions<T>,
  batch: number,
): Promise<E.Either<EnvFailure, readonly E.Either<FailedAttempt, ScoredAttempt>[]>> => {
  const { tasks, key, groups, groupSize, temperature, maxNewTokens, name } = sessions
  const attempts: AgentAttempt<T>[] = []
  for (let group = 0; group < groups; group++) {
    const index = batch * groups + group
    const task = tasks.at(index)
    if (E.isLeft(task)) return E.left({ ...failed(name, task.left.reason), cause: task.left })
    for (let member = 0; member < groupSize; member++)
      attempts.push({
        id: `${index}-${member}`,
        group: String(index),
        task: task.right,
        temperature,
        maxNewTokens,
        key: child(child(key, index), member),
      })
  }
  return E.right(await Promise.all(attempts.map((attempt) => scoredAttempt(attempt, sessions))))
}

/** Explains why no group of a batch can be trained on. */
const lossOf = (played: readonly E.Either<FailedAttempt, ScoredAttempt>[]): string => {
  const failures = played.flatMap((each) => (E.isLeft(each) ? [each.left] : []))
  const [first] = failures
  const count = `${failures.length} of ${countOf(played.length, 'attempt')} failed, and no group is complete`
  return first === undefined
    ? 'no attempt has a conversation to train on'
    : `${count}: task ${first.task}: ${first.reason}`
}

/**
 * Returns a function that collects the batch at a position and reports its counts. A group with a
 * failed attempt is left out.
 *
 * Errors   `Left(EnvFailure)` with the first reason if no group is left, or a task cannot be read.
 */
export const collectSessions =
  <T extends Task>(
    sessions: AgentSessions<T>,
    { coefficient, onBatch }: { readonly coefficient: number; readonly onBatch: (counts: BatchCounts) => void },
  ) =>
  (position: CollectorPosition): TaskEither<CollectorFailure, Collected<CollectedBatch<CapturedEntries>>> =>
  async () => {
    const { groups, groupSize, temperature, kl, name, agent } = sessions
    const played = await playedGroups(sessions, position.batch)
    if (E.isLeft(played)) return played
    const scored = played.right.flatMap((each) => (E.isRight(each) ? [each.right] : []))
    try {
      using captured = own(
        scope(() =>
          capturedBatch(
            scored.map(({ session }) => session),
            { groupSize },
          ),
        ),
      )
      if (E.isLeft(captured.value)) return E.left(failed(name, captured.value.left.reason))
      const { batch, splits } = captured.value.right
      const kept = new Set(get(batch, 'groupId').items).size
      if (kept === 0) return E.left(failed(name, lossOf(played.right)))
      const divergence = kl === null ? E.right(null) : await divergenceOf(batch, kl, temperature)
      if (E.isLeft(divergence)) return divergence
      onBatch({ omittedGroups: groups - kept, splitConversations: splits.length })
      return E.right({
        batch: own(
          scope(() => {
            const rows = described(batch, scored)
            return divergence.right === null ? rows : penalized(rows, divergence.right, coefficient)
          }),
        ) as never, // with the entries that it adds
        position: { ...position, batch: position.batch + 1 },
      })
    } finally {
      await agent.drop(scored.map(({ session }) => session.id))
    }
  }
