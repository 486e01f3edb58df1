import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { child, type Key, keyFromSeed } from '../../core/key.js'
import { append, History, type Message, message, textOf } from '../../data/history.js'
import { dataSpec } from '../../data/spec.js'
import type { Task } from '../../data/task.js'
import type { Data } from '../../data/tensorDict/leaf.js'
import { find, get, type TensorDict } from '../../data/tensorDict/tensorDict.js'
import { scope } from '../../engine/scope.js'
import { type EnvFailure, envFailure } from '../env.js'
import type { Answered, Reward, RewardFailure, RewardService, Scored } from '../rewards/reward.js'
import type { TaskColumns, TaskEntry } from './dataLoadingPrimer.js'
import { HISTORY_MODE, type InputMode, responsesOf } from './responses.js'
import { type OnAnswer, type RewardEntries, rewarded, rewardKeys, rewardSpec, unscored } from './rewardEntries.js'
import { type StepContext, type Transform, transform } from './transform.js'

export interface RewardTransformOptions {
  /** Where the answer is read. Default: the message. */
  readonly inputMode?: InputMode
  /** Cut off the end of an answer that is read as text or tokens, which have it: the template's end of a turn. */
  readonly endOfTurn?: string
  /**
   * Whether an answer ends the episode: `terminate` (the default) where the part `answer` is above 0, or everywhere if the reward has no such
   * part.
   */
  readonly onAnswer?: OnAnswer
  /** `columns`: the state has query, answer and id of the task. `whole`: it has the task, with its row (`DataLoadingPrimer`'s `keep`). */
  readonly task?: 'columns' | 'whole'
}

/** The random stream of an episode, and how many turns of it were scored. */
export interface RewardState {
  readonly key: Key
  readonly turn: number
}

type AnyReward<T extends Task> = Reward<T> | RewardService<T>

const COLUMNS = {
  query: dataSpec<string>('string'),
  answer: dataSpec<string>('string'),
  taskId: dataSpec<string>('string'),
}
const WHOLE = { task: dataSpec<Task>('Task') }

const tasksOf = (td: TensorDict, view: 'columns' | 'whole'): readonly Task[] => {
  // Casts: the transform's spec asks the environment for these entries.
  if (view === 'whole') return get(td as TensorDict<TaskEntry>, 'task').items.toArray()
  const columns = td as TensorDict<TaskColumns>
  const [queries, answers] = [get(columns, 'query').items, get(columns, 'answer').items]
  return get(columns, 'taskId')
    .items.map((id, i) => ({ id, query: queries.get(i)!, answer: answers.get(i)! }))
    .toArray()
}

/** The conversation that an element answered to: its history, or its question alone where it has none. */
const promptOf = (previous: TensorDict, task: Task, i: number): History => {
  const entry = find(previous, ['history', 'prompt'])
  const isData = entry !== undefined && '_tag' in entry && entry._tag === 'Data'
  // The cast is right: `history.prompt` holds conversations, by the schemas of `data/policy.ts`.
  return isData ? (entry as Data<History>).items.get(i)! : History([message('user', task.query)])
}

const without = (endOfTurn: string | undefined, reply: Message): Message => {
  const text = textOf(reply)
  return endOfTurn !== undefined && endOfTurn !== '' && text.endsWith(endOfTurn)
    ? { ...reply, content: [{ type: 'text', text: text.slice(0, -endOfTurn.length) }] }
    : reply
}

const failureOf = ({ rewardName, reason, cause }: RewardFailure): EnvFailure =>
  envFailure('RewardTransform', `the reward ${rewardName} could not be had: ${reason}`, cause)

/** Scores all elements, services at the same time; the first failure ends the others. */
const scoreAll =
  <T extends Task>(
    reward: AnyReward<T>,
    answers: readonly Answered<T>[],
    { key, signal: outer }: { readonly key: Key; readonly signal: AbortSignal | undefined },
  ): TE.TaskEither<EnvFailure, readonly Scored[]> =>
  async () => {
    const controller = new AbortController()
    const signal = outer === undefined ? controller.signal : AbortSignal.any([controller.signal, outer])
    const one = async (answered: Answered<T>, i: number): Promise<E.Either<EnvFailure, Scored>> => {
      const scored = reward.score(answered, { key: child(key, i), signal })
      if (typeof scored !== 'function') return E.right(scored)
      const result = E.mapLeft(failureOf)(await scored())
      if (E.isLeft(result)) controller.abort()
      return result
    }
    const results = await Promise.all(answers.map(one))
    return E.sequenceArray(results)
  }

/**
 * Rewards each answer by a `Reward`, or by a `RewardService`, in the step. The reward is added to what is there; each part is an entry of its
 * own (`rewardKey`), with `success` beside them. What the policy wrote is read in the action alone; the conversation before it is the state's.
 *
 * Shapes   reward, parts and success `[B]`.
 * Errors   throws RangeError for parts whose entries have the same name. `Left(EnvFailure)` if the action lacks the view that `inputMode` names,
 *          and for a service that failed: such a rollout has no reward.
 * Source   TorchRL's reward parsers, made one.
 */
export function RewardTransform(
  reward: Reward | RewardService,
  options?: RewardTransformOptions & { readonly task?: 'columns' },
): Transform<RewardState, TaskColumns, RewardEntries>
export function RewardTransform<T extends Task>(
  reward: AnyReward<T>,
  options: RewardTransformOptions & { readonly task: 'whole' },
): Transform<RewardState, TaskEntry<T>, RewardEntries>
export function RewardTransform<T extends Task>(
  reward: AnyReward<T>,
  { inputMode = HISTORY_MODE, endOfTurn, onAnswer = 'terminate', task: view = 'columns' }: RewardTransformOptions = {},
): Transform<RewardState, never, RewardEntries> {
  const name = `RewardTransform(${reward.name})`
  const keys = rewardKeys(name, reward.partNames)
  const step = (next: TensorDict, { previous, action, signal }: StepContext, { key, turn }: RewardState) => {
    const responses = responsesOf(action, inputMode)
    if (responses === undefined)
      return TE.left(envFailure(name, `the action has no entry ${inputMode._tag}.response of its kind`))
    const tasks = tasksOf(next, view) as readonly T[] // whole tasks are the reward's, and columns only where it takes any task
    const answers = responses.map((response, i) => ({
      task: tasks[i]!,
      history: append(
        promptOf(previous, tasks[i]!, i),
        without(inputMode._tag === 'history' ? undefined : endOfTurn, response),
      ),
    }))
    return pipe(
      scoreAll(reward, answers, { key: child(key, turn), signal }),
      TE.map(
        (scores) =>
          [scope(() => rewarded({ previous, next }, scores, { keys, onAnswer })), { key, turn: turn + 1 }] as const,
      ),
    )
  }
  return transform<RewardState, never, RewardEntries>({
    name,
    initial: { key: keyFromSeed(0), turn: 0 },
    needs: { observation: view === 'whole' ? WHOLE : COLUMNS, action: {} },
    adds: rewardSpec(keys),
    reset: (td, _, key) => TE.right([scope(() => unscored(keys, td)), { key: child(key, name), turn: 0 }]),
    step,
  })
}
