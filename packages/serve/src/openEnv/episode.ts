/** Environments in OpenEnv's form: episodes, frames and routes. */
import { child, type Key, keyFromSeed, namedMessage } from '@tandem-rl/base'
import { warnThrown } from '@tandem-rl/base/host'
import { type Message, message, type Task, textOf } from '@tandem-rl/text'
import { discard } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import type { HistoryPrompt, TaskSource } from 'tandem-rl'
import { tf } from 'tandem-rl'
import { type EnvOfTask, endedRows } from 'tandem-rl/envs'
import { data, find, get, TensorDict } from 'tandem-rl/tensordict'
import type { ResetFields } from './schemas.js'

/** The environments that a server plays. */
export interface ServedEnv {
  readonly env: EnvOfTask
  /**
   * Loads the tasks of resets that do not contain one, when the first of these arrives. Default:
   * every reset must contain `query`.
   */
  readonly tasks?: () => TaskSource | Promise<TaskSource>
  readonly key: Key
}

/** A request that was refused, or a failure of the environment, with OpenEnv's code. */
export interface PlayFailure {
  readonly code: 'VALIDATION_ERROR' | 'EXECUTION_ERROR'
  readonly reason: string
}

/** A message with its text, or its parts if it contains media. */
type PlainMessage = Omit<Partial<Message>, 'content' | 'role'> & { readonly role: string; readonly content: unknown }

/** The response to a reset or a step. */
export interface Observed {
  readonly observation: { readonly messages: readonly PlainMessage[]; readonly success: boolean | null }
  readonly reward: number | null
  readonly done: boolean
}

/** The response to a request for the state. */
interface EpisodeState {
  readonly episode_id: string | null
  readonly step_count: number
  readonly task_id: string | null
  readonly messages: readonly PlainMessage[]
}

type Result<T> = Promise<E.Either<PlayFailure, T>>

/** The episodes of one client, one after another. */
export interface Episodes {
  readonly reset: (fields: ResetFields) => Result<Observed>
  readonly step: (text: string, signal: AbortSignal) => Result<Observed>
  readonly state: () => EpisodeState
  /** Ends the current episode and releases its resources. */
  readonly close: () => void
}

const plain = ({ role, content, toolCalls, name, toolCallId, reasoning }: Message): PlainMessage => ({
  role,
  content: content.every(({ type }) => type === 'text') ? textOf({ content } as Message) : content, // all that it reads
  ...(toolCalls.length > 0 && { toolCalls }),
  ...(name !== undefined && { name }),
  ...(toolCallId !== undefined && { toolCallId }),
  ...(reasoning !== undefined && { reasoning }),
})

const invalid = (reason: string) => E.left<PlayFailure>({ code: 'VALIDATION_ERROR', reason })
const failed = (reason: string) => E.left<PlayFailure>({ code: 'EXECUTION_ERROR', reason })

/** The episode that is being played. */
interface Current {
  readonly id: string
  readonly task: Task
  readonly env: ReturnType<EnvOfTask>
  readonly state: TensorDict<HistoryPrompt>
  readonly steps: number
}

const messagesOf = (state: TensorDict<HistoryPrompt>): readonly Message[] =>
  get(state, 'history', 'prompt').items.get(0)!.messages.toArray() // a batch of one

const taskOf = async (
  { seed: _seed, episode_id: _id, ...fields }: ResetFields,
  { id, index, tasks }: { readonly id: string; readonly index: number; readonly tasks: ServedEnv['tasks'] },
): Result<Task> => {
  const { query, answer = '' } = fields
  if (query !== undefined) return E.right({ ...fields, id, query, answer })
  if (tasks === undefined)
    return invalid("reset needs the fields of a task, such as 'query' and 'answer': the recipe has no tasks of its own")
  const task = (await tasks()).at(index)
  return E.isLeft(task) ? failed(task.left.reason) : task
}

/** Makes the observation of a state, with the messages that follow the first `seen`. */
const observed = ({ state, steps }: Current, seen: number): Observed => {
  const reward = find(state, ['reward'])
  const done = endedRows(state, 'done')[0] === true
  const success = endedRows(state, 'success')[0] === true
  return {
    observation: { messages: messagesOf(state).slice(seen).map(plain), success: done ? success : null },
    reward: steps > 0 && reward instanceof tf.Tensor ? reward.dataSync()[0]! : null,
    done,
  }
}

/**
 * Plays episodes of one client. The calls must not overlap. `next` returns the index of an episode
 * without a seed. A failed step ends the episode.
 */
export const playEpisodes = ({ env: envOf, tasks, key }: ServedEnv, next: () => number): Episodes => {
  let current: Current | null = null
  const close = (): void => {
    if (current === null) return
    current.env.release?.(current.state)
    discard(current.state)
    current = null
  }
  const reset = async (fields: ResetFields): Result<Observed> => {
    close()
    const index = fields.seed ?? next()
    const id = fields.episode_id ?? `episode-${index}`
    const task = await taskOf(fields, { id, index, tasks })
    if (E.isLeft(task)) return task
    const env = envOf(task.right)
    const own = typeof fields.seed !== 'number' ? child(key, index) : keyFromSeed(fields.seed)
    const state = await env.reset(TensorDict({}, [1]), own)()
    if (E.isLeft(state)) return failed(state.left.reason)
    current = { id, task: task.right, env, state: state.right, steps: 0 }
    return E.right(observed(current, 0))
  }
  const step = async (text: string, signal: AbortSignal): Result<Observed> => {
    if (current === null) return invalid('there is no episode: send reset first')
    const { env, state: before, steps } = current
    if (endedRows(before, 'done')[0] === true) return invalid('the episode has ended: send reset')
    const action = TensorDict({ history: { response: data([message('assistant', text)]) } }, [1])
    const after = await env.step(before, action, { signal })()
    if (E.isLeft(after)) {
      close()
      return failed(after.left.reason)
    }
    const state = after.right as unknown as TensorDict<HistoryPrompt> // has the entries of the state before
    current = { ...current, state, steps: steps + 1 }
    discard(before, state)
    return E.right(observed(current, messagesOf(before).length + 1))
  }
  /** Ends the episode if the environment throws. */
  const guarded = async (play: () => Result<Observed>): Result<Observed> => {
    try {
      return await play()
    } catch (error) {
      close()
      warnThrown('the environment', error)
      return failed(`the environment failed: ${namedMessage(error)}`)
    }
  }
  return {
    reset: (fields) => guarded(() => reset(fields)),
    step: (text, signal) => guarded(() => step(text, signal)),
    state: () => ({
      episode_id: current?.id ?? null,
      step_count: current?.steps ?? 0,
      task_id: current?.task.id ?? null,
      messages: current === null ? [] : messagesOf(current.state).map(plain),
    }),
    close,
  }
}
