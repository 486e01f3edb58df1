import { checkOptions, child, formatKey, uniformInteger } from '@tandem-rl/base'
import { appendMessage, History, type Message, message, textOf, withoutThoughts } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { type ChatState, type Env, type EnvFailure, envFailure, type HistoryAction } from 'tandem-rl'
import { endedRows, makeEnv } from 'tandem-rl/envs'
import { type Data, type DeepMerge, data, dataSpec, get, TensorDict } from 'tandem-rl/tensordict'
import { MLGYM_WRAPPER_OPTIONS } from '../optionKinds.js'
import { commandBlock, guardMultiLine } from './commandBlock.js'
import type { MLGymFailure, MLGymMetrics, MLGymOpened, MLGymReply, MLGymShell } from './session.js'
import type { MLGymPlace, MLGymSessions } from './sessions.js'

/** The state of an episode besides its conversation. JSON. */
export interface MLGymEpisode {
  readonly place: MLGymPlace
  readonly baseline: MLGymMetrics | null
  readonly shell: MLGymShell
  /** Number of consecutive messages without a command. */
  readonly wrong: number
  /** The part of the gain over the baseline that has been paid so far. */
  readonly paid: number
  readonly exitStatus: string | null
}

/**
 * The states of an `MLGymWrapper`. `query` is the name of the task. All elements of a batch share
 * it and `groupId`.
 */
export type MLGymEnvState = DeepMerge<
  ChatState,
  {
    readonly groupId: Data<string>
    readonly mlgym: Data<MLGymEpisode>
    /** True if the last message had no command, so that nothing was run. */
    readonly retry: Data<boolean>
  }
>

export interface MLGymWrapperOptions {
  readonly sessions: MLGymSessions
  /** Names of tasks, such as `prisonersDilemma`. Each reset draws one. */
  readonly tasks: readonly string[]
  /** Number of conversations about one task. Default 1. */
  readonly batchSize?: number
  /**
   * Maximum number of commands of an episode. After the last one, MLGym evaluates and ends it.
   * Default 10.
   */
  readonly maxSteps?: number
  /** Reward added for a message without a command, usually negative. Default 0. */
  readonly rewardWrongFormat?: number
  /**
   * Number of consecutive messages without a command after which the episode is given up, as in
   * MLGym. Default 3.
   */
  readonly maxWrong?: number
  /**
   * The number of an evaluation that counts, and whether higher or lower is better. Default:
   * `Score`, or the only number; higher.
   */
  readonly metric?: { readonly name?: string; readonly better?: 'higher' | 'lower' }
}

const NAME = 'MLGymWrapper'

/**
 * MLGym's command to give up an episode without a valid command. The current state is evaluated.
 */
const GIVE_UP = 'exit_format'

const systemPrompt = (commandDocs: string): string =>
  'You solve a machine learning task in a shell. Write in each message what you think and plan, and then one command in a code block of three ' +
  'backticks; nothing else is run. You see what the command printed before you write the next one. Programs that wait for input do not work.\n' +
  `Besides those of the shell there are these commands:\n${commandDocs}`

const WRONG_FORMAT =
  'Nothing was run: the message has no command. Write what you think, and then one command in a code block:\n```\ncommand\n```'

const prompt = (steps: number, maxSteps: number, { openFile, workingDirectory }: MLGymShell): string =>
  `(Current Step: ${steps}, Remaining Steps: ${maxSteps - steps})\n(Open file: ${openFile})\n(Current directory: ${workingDirectory})\nbash-$`

const observed = (text: string): string => (text.trim() === '' ? 'The command ran, and printed nothing.' : text)

/**
 * Returns the gain of an evaluation over the baseline; undefined if it lacks the number. A missing
 * baseline counts as 0.
 */
const gainOf = (
  metrics: MLGymMetrics | undefined,
  baseline: MLGymMetrics | null,
  { name, better = 'higher' }: NonNullable<MLGymWrapperOptions['metric']>,
): number | undefined => {
  if (metrics === undefined) return undefined
  const [only, more] = Object.keys(metrics)
  const key = name ?? (more === undefined && only !== undefined ? only : 'Score')
  const score = Object.hasOwn(metrics, key) ? metrics[key] : undefined
  if (score === undefined || score === null) return undefined
  const before = baseline !== null && Object.hasOwn(baseline, key) ? (baseline[key] ?? 0) : 0
  return better === 'higher' ? score - before : before - score
}

const checkSizes = ({ tasks, maxSteps = 1, maxWrong = 1, rewardWrongFormat = 0 }: MLGymWrapperOptions): void => {
  const problems = [
    ...(tasks.length === 0 ? ['tasks is empty'] : []),
    ...(Number.isInteger(maxSteps) && maxSteps >= 1 ? [] : [`maxSteps must be at least 1, got ${maxSteps}`]),
    ...(Number.isInteger(maxWrong) && maxWrong >= 1 ? [] : [`maxWrong must be at least 1, got ${maxWrong}`]),
    ...(Number.isFinite(rewardWrongFormat) ? [] : [`rewardWrongFormat must be a number, got ${rewardWrongFormat}`]),
  ]
  if (problems.length > 0) throw new RangeError(`${NAME}: ${problems.join('; ')}`)
}

/** One conversation between two turns. */
interface Desk {
  readonly history: History
  readonly episode: MLGymEpisode
}

/** The result of a turn. */
interface Moved extends Desk {
  readonly reward: number
  readonly done: boolean
  readonly retry: boolean
}

const failure = (i: number, cause: MLGymFailure): EnvFailure =>
  envFailure(NAME, `conversation ${i}: ${cause.kind === 'unexpected' ? 'not as recorded: ' : ''}${cause.reason}`)

/** Returns all results, or the first failure. */
const all = <T>(results: readonly E.Either<MLGymFailure, T>[]): E.Either<EnvFailure, readonly T[]> => {
  const failed = results.findIndex(E.isLeft)
  const first = results[failed]
  if (first !== undefined && E.isLeft(first)) return E.left(failure(failed, first.left))
  return E.right(results.flatMap((result) => (E.isRight(result) ? [result.right] : [])))
}

const stateOf = (
  task: string,
  groupId: string,
  desks: readonly (Desk & { readonly retry: boolean })[],
): TensorDict<MLGymEnvState> =>
  TensorDict(
    {
      query: data(desks.map(() => task)),
      groupId: data(desks.map(() => groupId)),
      history: { prompt: data(desks.map(({ history }) => history)) },
      mlgym: data(desks.map(({ episode }) => episode)),
      retry: data(desks.map(({ retry }) => retry)),
    },
    [desks.length],
  )

/** The options of a wrapper that concern single turns, with their defaults. */
type Rules = Required<Pick<MLGymWrapperOptions, 'sessions' | 'maxSteps' | 'rewardWrongFormat' | 'maxWrong' | 'metric'>>

/** Computes the next messages and the reward of a reply. */
const moved = (desk: Desk, command: string, reply: MLGymReply, { maxSteps, metric }: Rules): Moved => {
  const { episode } = desk
  const gain = gainOf(reply.scores.at(-1), episode.baseline, metric)
  const commands = [...episode.place.commands, command]
  const next: MLGymEpisode = {
    ...episode,
    place: { ...episode.place, commands },
    shell: reply.shell,
    wrong: 0,
    paid: gain ?? episode.paid,
    exitStatus: reply.exitStatus,
  }
  const text = `${observed(reply.observation)}\n${prompt(commands.length, maxSteps, reply.shell)}`
  return {
    history: appendMessage(desk.history, message('user', text)),
    episode: next,
    reward: next.paid - episode.paid,
    done: reply.done,
    retry: false,
  }
}

const runTurn = async (
  { history, episode }: Desk,
  written: Message,
  rules: Rules,
  signal: AbortSignal | undefined,
): Promise<E.Either<MLGymFailure, Moved>> => {
  const desk = { history: appendMessage(history, written), episode }
  const block = commandBlock(withoutThoughts(textOf(written)))
  const command = block === undefined ? '' : guardMultiLine(block.command.trim())
  if (command !== '') {
    const reply = await rules.sessions.step(episode.place, command, signal)
    return E.map((answer: MLGymReply) => moved(desk, command, answer, rules))(reply)
  }
  const wrong = episode.wrong + 1
  const penalty = rules.rewardWrongFormat
  if (wrong < rules.maxWrong) {
    const wanted = appendMessage(desk.history, message('user', WRONG_FORMAT))
    return E.right({ history: wanted, episode: { ...episode, wrong }, reward: penalty, done: false, retry: true })
  }
  const reply = await rules.sessions.step(episode.place, GIVE_UP, signal)
  return E.map((answer: MLGymReply): Moved => {
    const last = moved(desk, GIVE_UP, answer, rules)
    return { ...last, reward: last.reward + penalty, done: true, retry: true }
  })(reply)
}

/** Returns the first messages of a conversation about a task. */
const opening = ({ description, commandDocs, shell }: MLGymOpened, maxSteps: number): History =>
  History([
    message('system', systemPrompt(commandDocs)),
    message('user', `${description}\n\n${prompt(0, maxSteps, shell)}`),
  ])

/**
 * Machine learning tasks of MLGym. The policy writes a discussion and a command, and reads the
 * output of the command.
 *
 * `reset` draws a task, opens a container for each conversation and shows the task. `step` runs the
 * command of the message's last code block. A message without a code block runs nothing: the policy
 * gets a reminder of the format, `rewardWrongFormat` is added to the reward, and `retry` is true.
 * After `maxWrong` such messages in a row, the episode is given up.
 *
 * Rewards come from evaluations, on `validate`, on `submit` and at the end: the gain over the
 * baseline, minus the gain paid before. The sum of an episode is therefore its last evaluation
 * minus the baseline, however often it was evaluated. Scores are measured by MLGym and never parsed
 * from the output of a command.
 *
 * All state is in the TensorDict: an episode is the list of its commands. `mlgymSessions` runs each
 * command in the container of that state. Without one, as for a fork or after a resume, it
 * opens one and runs the earlier commands again.
 *
 * Shapes   all entries `[B]`; all elements have the same task.
 * Errors   `Left(EnvFailure)` if a container fails, which is never a reward of 0. Throws RangeError
 *          that lists all invalid options.
 * Effects  those of the sessions. Containers end with their episodes, or with `sessions.close()`.
 * Source   MLGym (Nathani et al. 2025), its `step`, `ThoughtActionParser` and agent; TorchRL
 *          `MLGymWrapper`, which reads scores from text that a command can print, and pays the full
 *          score of each evaluation.
 *
 * @example
 * MLGymWrapper({ sessions: mlgymSessions({ mlgym: recordedMLGym([]) }), tasks: ['prisonersDilemma'] }).name // 'MLGymWrapper'
 */
export const MLGymWrapper = (options: MLGymWrapperOptions): Env<MLGymEnvState, HistoryAction> => {
  checkOptions('MLGymWrapper', options, MLGYM_WRAPPER_OPTIONS)
  checkSizes(options)
  const { sessions, tasks, batchSize = 1, maxSteps = 10, rewardWrongFormat = 0, maxWrong = 3, metric = {} } = options
  const rules: Rules = { sessions, maxSteps, rewardWrongFormat, maxWrong, metric }
  return makeEnv<MLGymEnvState, HistoryAction>({
    name: NAME,
    batchSize,
    specs: {
      observation: {
        query: dataSpec<string>('string'),
        groupId: dataSpec<string>('string'),
        history: { prompt: dataSpec<History>('History') },
        mlgym: dataSpec<MLGymEpisode>('MLGymEpisode'),
        retry: dataSpec<boolean>('boolean'),
      },
      action: { history: { response: dataSpec<Message>('Message') } },
    },
    reset: (_, key) => async () => {
      const own = child(key, NAME)
      const task = tasks[uniformInteger(own, tasks.length)]!
      const seed = uniformInteger(own, 2 ** 31, 1)
      const places = Array.from({ length: batchSize }, (_, i): MLGymPlace => {
        return { id: formatKey(child(own, i)), request: { task, maxSteps, seed }, commands: [] }
      })
      const opened = all(await Promise.all(places.map((place) => sessions.open(place))))
      if (E.isLeft(opened)) return opened
      const desks = opened.right.map((each, i) => {
        const episode = {
          place: places[i]!,
          baseline: each.baseline,
          shell: each.shell,
          wrong: 0,
          paid: 0,
          exitStatus: null,
        }
        return { history: opening(each, maxSteps), episode, retry: false }
      })
      return E.right(stateOf(task, `${formatKey(own)}:${task}`, desks))
    },
    step:
      (state, action, { signal }) =>
      async () => {
        const [histories, episodes] = [get(state, 'history', 'prompt').items, get(state, 'mlgym').items]
        const [over, written] = [endedRows(state, 'done'), get(action, 'history', 'response').items]
        const turns = histories.toArray().map((history, i) => {
          const desk = { history, episode: episodes.get(i)! } // one for each element
          if (over[i] === true) return Promise.resolve(E.right({ ...desk, reward: 0, done: true, retry: false }))
          return runTurn(desk, written.get(i)!, rules, signal)
        })
        const results = all(await Promise.all(turns))
        if (E.isLeft(results)) return results
        const next = stateOf(get(state, 'query').items.first()!, get(state, 'groupId').items.first()!, results.right) // all elements share them
        return E.right({
          next,
          reward: results.right.map(({ reward }) => reward),
          terminated: results.right.map(({ done }) => done),
        })
      },
  })
}
