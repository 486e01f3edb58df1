import { checkOptions, child, formatKey, type Key, keyFromSeed } from '@tandem-rl/base'
import { appendMessage, History, lastMessage, type Message, message, type Task, textOf } from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { dataSpec } from '../../data/spec.js'
import { merge } from '../../data/tensorDict/merge.js'
import { findData, type TensorDict } from '../../data/tensorDict/tensorDict.js'
import { type EnvFailure, endedRows, envFailure, type StepBetween } from '../base/env.js'
import type { Episode } from '../base/episode.js'
import { REWARD_TRANSFORM_OPTIONS } from '../optionKinds.js'
import type { Answered, AnyReward, RewardFailure, Scored } from '../rewards/reward.js'
import { type RewardFunction, type RewardParts, reward as rewardOfFunction } from '../rewards/rewardFunction.js'
import type { TaskColumns, TaskEntry } from './dataLoadingPrimer.js'
import { episodesOf, stateTasks } from './episode.js'
import { extraParts, extraProblem } from './extraParts.js'
import { HISTORY_MODE, type InputMode, responsesOf } from './responses.js'
import {
  isAnswer,
  type OnAnswer,
  type PartEntries,
  type RewardEntries,
  rewarded,
  rewardKeys,
  rewardSpec,
  unscored,
} from './rewardEntries.js'
import { type StepContext, type Transform, transform } from './transform.js'

/**
 * The time of a reward. `end`: once, in the step in which the episode ends. `turn`: in every step.
 */
export type When = 'end' | 'turn'

/** The options of reading and rewarding answers. */
export interface RewardReading {
  /**
   * Default `end`: a conversation is rewarded once, for its last message, so a judge is called
   * once.
   */
  readonly when?: When
  /**
   * `terminate` ends the episode after a message without a reply of an inner transform, such as a
   * tool or a user. With `when: 'turn'` and a reward with a part `answer`, it ends after a message
   * in which that part is above 0. With `continue`, only other transforms end the episode. Default
   * `terminate`.
   */
  readonly onAnswer?: OnAnswer
  /** The view from which the answer is read. Default: the message. */
  readonly inputMode?: InputMode
  /** The template's end of a turn, which is cut off answers that are read as text or tokens. */
  readonly endOfTurn?: string
}

export interface RewardTransformOptions<T extends Task = Task, P extends string = string>
  extends RewardReading,
    RewardParts<P> {
  /**
   * A reward of this library, or a function as `reward` takes it, which `parts`, `solvedAt` and
   * `optional` are for.
   */
  readonly reward: AnyReward<T, P> | RewardFunction<T, NoInfer<P>>
}

/**
 * Required entries: columns of the task, and the whole task if the reward needs it
 * (`keep: 'task'`).
 */
export type NeededTask<T extends Task> = TaskColumns & (Task extends T ? unknown : TaskEntry<T>)

/** The random stream of an episode, and the number of its scored turns. */
export interface RewardState {
  readonly key: Key
  readonly turn: number
}

const COLUMNS = {
  query: dataSpec<string>('string'),
  answer: dataSpec<string>('string'),
  taskId: dataSpec<string>('string'),
}

/** Conversations, by the schemas of `data/policy.ts`. */
const historiesOf = (td: TensorDict): readonly History[] | undefined => findData<History>(td, ['history', 'prompt'])

/** Returns `true` if the policy's message received no reply, so the conversation has ended. */
const isLast = ({ previous, next }: StepBetween, i: number): boolean => {
  const [before, after] = [historiesOf(previous)?.[i], historiesOf(next)?.[i]]
  if (before === undefined || after === undefined) return true
  return after.messages.size <= before.messages.size + 1 && lastMessage(after)?.toolCalls.length === 0
}

/** Returns the conversation before the answer: the history, or only the question without one. */
const promptOf = (previous: TensorDict, task: Task, i: number): History =>
  historiesOf(previous)?.[i] ?? History([message('user', task.query)])

/**
 * Returns the conversation with the answer, and the tool results after it if the state has them.
 */
const answeredHistory = (between: StepBetween, answerMessage: Message, task: Task, i: number): History => {
  const before = promptOf(between.previous, task, i)
  const reported = historiesOf(between.next)?.[i]?.messages.slice(before.messages.size + 1)
  const results = reported?.takeWhile(({ role, toolCallId }) => role === 'tool' || toolCallId !== undefined)
  return (results?.toArray() ?? []).reduce(appendMessage, appendMessage(before, answerMessage))
}

/** Returns the results of tools in a state, for rewards. */
const toolsOf = (next: TensorDict, i: number): Pick<Answered, 'finish' | 'tools'> => {
  const finish = findData<string | null>(next, ['tools', 'finish'])?.[i] ?? undefined
  const tools = findData<Readonly<Record<string, unknown>>>(next, ['tools', 'states'])?.[i]
  return { ...(finish !== undefined && { finish }), ...(tools !== undefined && { tools }) }
}

const without = (endOfTurn: string | undefined, reply: Message): Message => {
  const text = textOf(reply)
  return endOfTurn !== undefined && endOfTurn !== '' && text.endsWith(endOfTurn)
    ? { ...reply, content: [{ type: 'text', text: text.slice(0, -endOfTurn.length) }] }
    : reply
}

/** The shared arguments of a step's scores. */
interface Scoring {
  readonly key: Key
  readonly signal: AbortSignal | undefined
  readonly episodes: readonly Episode[]
}

/**
 * The episodes of a step: their names are those of the tools' episodes, or of the reward's own
 * streams.
 */
const scoredEpisodes = (next: TensorDict, key: Key): readonly Episode[] => {
  const chains = findData<string>(next, ['tools', 'keys'])
  return episodesOf(next, chains ?? Array.from({ length: next.batchShape[0] ?? 0 }, (_, i) => formatKey(child(key, i))))
}

/**
 * Scores elements, services at the same time; the first failure ends the others. `null` for those
 * that are not due.
 */
const scoreAll =
  <T extends Task>(
    name: string,
    reward: AnyReward<T>,
    answers: readonly (Answered<T> | null)[],
    { key, signal: outer, episodes }: Scoring,
  ): TE.TaskEither<EnvFailure, readonly (Scored | null)[]> =>
  async () => {
    const controller = new AbortController()
    const signal = outer === undefined ? controller.signal : AbortSignal.any([controller.signal, outer])
    const failureOf = ({ rewardName, reason, cause }: RewardFailure): EnvFailure =>
      envFailure(name, `the reward ${rewardName} could not be had: ${reason}`, cause)
    const one = async (answered: Answered<T> | null, i: number): Promise<E.Either<EnvFailure, Scored | null>> => {
      if (answered === null) return E.right(null)
      const scored = reward.score(answered, { key: child(key, i), signal, episode: episodes[i] })
      if (typeof scored !== 'function') return E.right(scored)
      const result = E.mapLeft(failureOf)(await scored())
      if (E.isLeft(result)) controller.abort()
      return result
    }
    const results = await Promise.all(answers.map(one))
    return E.sequenceArray(results)
  }

const noScores = ({ batchShape: [size = 0] }: TensorDict): readonly null[] => new Array<null>(size).fill(null)

type Rewarding<T extends Task, P extends string> = Transform<RewardState, NeededTask<T>, RewardEntries & PartEntries<P>>

/** `rewardTransform` with a name, for the other files of this folder. */
export const rewarding = <T extends Task, P extends string>(
  name: string,
  reward: AnyReward<T, P>,
  { inputMode = HISTORY_MODE, endOfTurn, onAnswer = 'terminate', when = 'end' }: RewardReading,
): Rewarding<T, P> => {
  const keys = rewardKeys(name, reward.partNames)
  const isOpen = reward.extras === 'parts'
  const withExtras = (td: TensorDict<RewardEntries>, scores: readonly (Scored | null)[]): TensorDict<RewardEntries> =>
    isOpen ? merge(td, extraParts(scores, keys)) : td
  const clashOf = (scores: readonly (Scored | null)[]): string | null =>
    isOpen ? (scores.map((score) => score && extraProblem(score, keys)).find((each) => each !== null) ?? null) : null
  const hasAnswerPart = reward.partNames.some((part) => part === 'answer')
  const step = (next: TensorDict, { previous, action, signal }: StepContext, { key, turn }: RewardState) => {
    const responses = responsesOf(action, inputMode)
    if (responses === undefined)
      return TE.left(envFailure(name, `the action has no entry ${inputMode._tag}.response of its kind`))
    const between = { previous, next }
    const [over, ended] = [endedRows(previous, 'done'), endedRows(next, 'done')]
    const last = responses.map((_, i) => onAnswer === 'terminate' && isLast(between, i))
    const tasks = stateTasks(next) as readonly T[] // whole tasks are the reward's, and columns only where it takes any task
    const answers = responses.map((response, i): Answered<T> | null => {
      if (over[i] === true || (when === 'end' && ended[i] === false && last[i] === false)) return null
      const answerMessage = without(inputMode._tag === 'history' ? undefined : endOfTurn, response)
      return { task: tasks[i]!, history: answeredHistory(between, answerMessage, tasks[i]!, i), ...toolsOf(next, i) }
    })
    /** Returns the elements that their score ends. */
    const endsOf = (scores: readonly (Scored | null)[]): readonly boolean[] =>
      scores.map((score, i) => {
        if (score === null || onAnswer === 'continue') return false
        return when === 'turn' && hasAnswerPart ? isAnswer(score) : ended[i] === false && last[i] === true
      })
    return pipe(
      scoreAll(name, reward, answers, { key: child(key, turn), signal, episodes: scoredEpisodes(next, key) }),
      TE.filterOrElse(
        (scores) => clashOf(scores) === null,
        (scores) => envFailure(name, `the reward ${reward.name} could not be had: ${clashOf(scores)}`),
      ),
      TE.map((scores) => {
        const added = scope(() => withExtras(rewarded(between, scores, { keys, ends: endsOf(scores) }), scores))
        return [added as never, { key, turn: turn + 1 }] as const // the keys are those of the parts
      }),
    )
  }
  return transform<RewardState, NeededTask<T>, RewardEntries & PartEntries<P>>({
    name,
    initial: { key: keyFromSeed(0), turn: 0 },
    needs: { observation: COLUMNS, action: {} },
    adds: {
      ...rewardSpec(keys),
      ...(isOpen && { extraParts: dataSpec<Readonly<Record<string, number>>>('ExtraParts') }),
    },
    // The cast is right: the keys are those of the parts.
    reset: (td, _, key) =>
      TE.right([
        scope(() => withExtras(unscored(keys, td), noScores(td))) as never,
        { key: child(key, name), turn: 0 },
      ]),
    step,
  })
}

/**
 * Makes a transform that rewards the policy by a plain function, a `Reward` or a `RewardService`.
 * By default the reward is given once, when the episode ends: by another transform (`StepCounter`,
 * a tool limit), or because the policy's message received no reply. The reward is added to the
 * existing one. Each part has its own entry (`rewardKey`), next to `success`. The answer is read
 * from the action, the conversation before it from the state. Place the transform outside of tools
 * and users.
 *
 * Shapes   reward, parts and success `[B]`.
 * Errors   throws RangeError for unknown options and for parts whose entries have the same name.
 *          `Left(EnvFailure)` if the action lacks the view that `inputMode` names, the service
 *          fails, or the function throws. Such a rollout has no reward.
 * Source   TorchRL's reward parsers, made one.
 *
 * @example
 * rewardTransform({ reward: ({ prediction, answer }) => (prediction === answer ? 1 : 0), when: 'turn' }).name // 'rewardTransform(reward)'
 */
export const rewardTransform = <T extends Task = Task, const P extends string = never>(
  options: RewardTransformOptions<T, P>,
): Rewarding<T, P> => {
  checkOptions('rewardTransform', options, REWARD_TRANSFORM_OPTIONS)
  const { reward, parts, solvedAt, optional, ...reading } = options
  const own = {
    ...(parts !== undefined && { parts }),
    ...(solvedAt !== undefined && { solvedAt }),
    ...(optional !== undefined && { optional }),
  }
  if (typeof reward !== 'function' && Object.keys(own).length > 0) {
    throw new RangeError(
      `rewardTransform: parts, solvedAt and optional are for functions, and ${reward.name} is a reward with its own`,
    )
  }
  const value = typeof reward === 'function' ? rewardOfFunction(reward, own) : reward
  return rewarding(`rewardTransform(${value.name})`, value, reading)
}
