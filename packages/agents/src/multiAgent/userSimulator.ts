import {
  ABORTED,
  type Cancellation,
  cancellation,
  checkOptions,
  child,
  formatKey,
  type Key,
  limiter,
  parseKey,
} from '@tandem-rl/base'
import { appendMessage, History, lastMessage, type Message, message, textOf, withoutThoughts } from '@tandem-rl/text'
import { discard, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import {
  type EnvFailure,
  envFailure,
  type HistoryAction,
  type HistoryPrompt,
  type Outcome,
  type Policy,
  type Transform,
  transform,
} from 'tandem-rl'
import { endedRows } from 'tandem-rl/envs'
import { type Data, data, dataSpec, get, TensorDict, take } from 'tandem-rl/tensordict'
import { USER_SIMULATOR_OPTIONS } from '../optionKinds.js'

/** The state of a `userSimulator` for each conversation. */
export type SimulatedUser = {
  readonly simulatedUser: TensorDict<{
    /** The random key of this user, from `formatKey`. */
    readonly key: Data<string>
    /** The system message of the user's policy; empty for none. */
    readonly persona: Data<string>
    /** Messages that the user has written. */
    readonly turns: Data<number>
  }>
}

export interface UserSimulatorOptions {
  /** Writes the user's messages. It is never trained, and its tokens are ignored. */
  readonly policy: Policy<HistoryPrompt, HistoryAction>
  /**
   * The system message of the user's policy: who the user is, what it wants, and how it ends the
   * conversation. A function computes it from the first state of the conversation, batch shape
   * `[1]`.
   */
  readonly persona?: string | ((element: TensorDict) => string)
  /**
   * A text that marks the user's last message: it terminates the episode. The text before it is
   * still appended. Default: no marker.
   */
  readonly stopMarker?: string
  /** Maximum number of messages of the user. The reply to the last one truncates the episode. */
  readonly maxTurns: number
  /**
   * A message in front of the user's first one, in the user's view, for models whose template must
   * begin with another role. Default: none.
   */
  readonly opening?: string
  readonly roles?: { readonly user: string; readonly policy: string }
  /** Maximum concurrent calls of the user's policy in one step. Default 16. */
  readonly maxCalls?: number
}

const NAME = 'userSimulator'
const ROLES = { user: 'user', policy: 'assistant' } as const

/** The context of the user besides the messages. */
export interface UserScene {
  /** The user's system message; empty for none. */
  readonly persona?: string
  readonly opening?: string
  readonly roles?: NonNullable<UserSimulatorOptions['roles']>
}

/**
 * Returns a conversation in the view of its user: messages of the policy have the role `user`, and
 * messages of the user the role `assistant`. System messages, tool calls, tool results and thoughts
 * are left out, and so are messages that contain nothing else.
 *
 * @example
 * userView(History([message('user', 'Hi'), message('assistant', 'Hello!')])).messages.map(({ role }) => role).toArray() // ['assistant', 'user']
 */
export const userView = (history: History, { persona = '', opening, roles = ROLES }: UserScene = {}): History => {
  const swapped = history.messages.flatMap((each): readonly Message[] => {
    const text = withoutThoughts(textOf(each))
    if (each.role === roles.user) return [message('assistant', text)]
    return each.role === roles.policy && text !== '' ? [message('user', text)] : []
  })
  return History([
    ...(persona === '' ? [] : [message('system', persona)]),
    ...(opening === undefined ? [] : [message('user', opening)]),
    ...swapped,
  ])
}

type End = 'none' | 'terminated' | 'truncated'

/** One conversation in which it is the user's turn. */
interface UserTurn {
  readonly history: History
  readonly persona: string
  readonly key: Key
}

const checkSizes = ({ maxTurns, maxCalls = 1, stopMarker }: UserSimulatorOptions): void => {
  const isCount = (n: number): boolean => Number.isInteger(n) && n >= 1
  const problems = [
    ...(isCount(maxTurns) ? [] : [`maxTurns must be at least 1, got ${maxTurns}`]),
    ...(isCount(maxCalls) ? [] : [`maxCalls must be at least 1, got ${maxCalls}`]),
    ...(stopMarker === '' ? ['stopMarker is empty: every message would be the last'] : []),
  ]
  if (problems.length > 0) throw new RangeError(`${NAME}: ${problems.join('; ')}`)
}

/** Generates the user's message of one conversation. */
const askOne = async (
  [i, { history, persona, key }]: readonly [number, UserTurn],
  { policy, opening, roles }: UserSimulatorOptions,
  signal: AbortSignal,
): Promise<E.Either<EnvFailure, readonly [number, string]>> => {
  const scene = { persona, ...(opening !== undefined && { opening }), ...(roles !== undefined && { roles }) }
  const request = TensorDict({ history: { prompt: data([userView(history, scene)]) } }, [1])
  const action = await policy.act(request, key, { signal })()
  if (E.isLeft(action)) return E.left(envFailure(NAME, `the simulated user of conversation ${i} failed`, action.left))
  const text = withoutThoughts(textOf(get(action.right, 'history', 'response').items.first()!)) // one element was requested
  discard(action.right)
  return E.right([i, text])
}

/** Generates the users' messages of some conversations, or returns the first failure. */
const askAll = async (
  turns: ReadonlyMap<number, UserTurn>,
  options: UserSimulatorOptions,
  work: Cancellation,
): Promise<E.Either<EnvFailure, ReadonlyMap<number, string>>> => {
  const places = limiter(options.maxCalls ?? 16)
  const replies = await Promise.all(
    [...turns].map(async (turn) => {
      const { signal, release } = work.part()
      const reply = await places.run(() => askOne(turn, options, signal), signal)
      release()
      return reply === ABORTED ? E.left(envFailure(NAME, 'the simulated user was cancelled')) : reply
    }),
  )
  const failure = replies.find(E.isLeft)
  return failure ?? E.right(new Map(replies.flatMap((reply) => (E.isRight(reply) ? [reply.right] : []))))
}

/** Cuts a message of the user at the marker, and returns whether it was the last. */
const heard = (text: string, stopMarker: string | undefined): { readonly text: string; readonly isLast: boolean } => {
  const at = stopMarker === undefined ? -1 : text.indexOf(stopMarker)
  return at === -1 ? { text, isLast: false } : { text: text.slice(0, at), isLast: true }
}

/**
 * Returns how a conversation ends after the user's turn. Without a reply, the messages of the user
 * are used up.
 */
const endOf = (reply: ReturnType<typeof heard> | undefined): End => {
  if (reply === undefined) return 'truncated'
  return reply.isLast ? 'terminated' : 'none'
}

/** Adds ends to those of a state. The tensors belong to the enclosing scope. */
const endsOf = (next: TensorDict, ends: ReadonlyMap<number, End>): Omit<Outcome, 'reward'> => {
  const flags = (key: 'terminated' | 'truncated'): readonly boolean[] =>
    endedRows(next, key).map((before, i) => before || ends.get(i) === key)
  const [terminated, truncated] = [flags('terminated'), flags('truncated')]
  const bools = (values: readonly boolean[]): tf.Tensor => tf.tensor(values.map(Number), [...next.batchShape], 'bool')
  return {
    terminated: bools(terminated),
    truncated: bools(truncated),
    done: bools(terminated.map((ended, i) => ended || truncated[i] === true)),
  }
}

/**
 * Adds a simulated user to an environment: a policy that writes the next message after each turn of
 * the assistant.
 *
 * After a step, if the last message is the policy's and the episode is open, the user's policy gets
 * the conversation in the user's view (`userView`), and its reply is appended as a user message. A
 * message with `stopMarker` ends the episode, and so does the reply to the last of `maxTurns`
 * messages. After a tool result, the user waits. Place it outside transforms that end episodes and
 * run tools, and inside `TemplateTransform`. The policy reads the user's messages as text, and none
 * of their tokens is trained.
 *
 * Each conversation has its own user, called separately with its own key `child(key, turn)`, where
 * `key` is part of the state. With equal keys and a policy that samples from its key, conversations
 * are equal in every batch.
 *
 * Shapes   all entries `[B]`.
 * Errors   `Left(EnvFailure)` with the failure of the user's policy, for the whole batch: such a
 *          failure does not depend on the trained policy. Throws RangeError that lists all invalid
 *          options.
 * Effects  those of the user's policy, at most `maxCalls` at a time, which gets the signal of the
 *          step.
 * Source   none in TorchRL (requested in its issues 2271 and 2872); the user of tau-bench (Yao et
 *          al. 2024).
 *
 * @example
 * userSimulator({ policy: scriptedHistoryPolicy({ answers: () => 'And then?' }), maxTurns: 3, stopMarker: '[END]' }).name // 'userSimulator'
 */
export const userSimulator = (
  options: UserSimulatorOptions,
): Transform<null, HistoryPrompt, HistoryPrompt & SimulatedUser> => {
  checkOptions('userSimulator', options, USER_SIMULATOR_OPTIONS)
  checkSizes(options)
  const { persona = '', stopMarker, maxTurns, roles = ROLES } = options
  const personaOf = (td: TensorDict, i: number): string =>
    typeof persona === 'string' ? persona : scope(() => persona(take(td, [i])))
  return transform<null, HistoryPrompt, HistoryPrompt & SimulatedUser>({
    name: NAME,
    initial: null,
    adds: {
      history: { prompt: dataSpec<History>('History') },
      simulatedUser: {
        key: dataSpec<string>('string'),
        persona: dataSpec<string>('string'),
        turns: dataSpec<number>('number'),
      },
    },
    reset: (td, _, key) => {
      const rows = [...get(td, 'history', 'prompt').items.keys()]
      const own = child(key, NAME)
      const simulatedUser = {
        key: data(rows.map((i) => formatKey(child(own, i)))),
        persona: data(rows.map((i) => personaOf(td, i))),
        turns: data(rows.map(() => 0)),
      }
      return TE.right([TensorDict({ history: get(td, 'history'), simulatedUser }, td.batchShape), null])
    },
    step: (next, context) => async () => {
      const histories = get(next, 'history', 'prompt').items
      const known = get(context.previous as TensorDict<SimulatedUser>, 'simulatedUser') // added by `reset` or the previous step
      const [keys, personas, turns] = [get(known, 'key').items, get(known, 'persona').items, get(known, 'turns').items]
      const over = endedRows(next, 'done')
      const isTurn = (history: History, i: number): boolean =>
        over[i] === false && lastMessage(history)?.role === roles.policy
      const waiting = [...histories.entries()].filter(([i, history]) => isTurn(history, i))
      const requested = waiting.filter(([i]) => turns.get(i)! < maxTurns) // one for each element
      const userTurns = requested.map(([i, history]): readonly [number, UserTurn] => [
        i,
        { history, persona: personas.get(i)!, key: child(parseKey(keys.get(i)!)!, turns.get(i)!) }, // as written by `reset`
      ])
      const work = cancellation({ signal: context.signal })
      const replies = await askAll(new Map(userTurns), options, work)
      work.release()
      if (E.isLeft(replies)) return replies
      const answer = new Map([...replies.right].map(([i, text]) => [i, heard(text, stopMarker)]))
      const ends = new Map(waiting.map(([i]) => [i, endOf(answer.get(i))]))
      const grown = histories.map((history, i) => {
        const reply = answer.get(i)
        return reply === undefined || (reply.isLast && reply.text === '')
          ? history
          : appendMessage(history, message(roles.user, reply.text))
      })
      const added = scope(() =>
        TensorDict(
          {
            history: { prompt: data(grown) },
            simulatedUser: {
              key: data(keys),
              persona: data(personas),
              turns: data(turns.map((n, i) => (answer.has(i) ? n + 1 : n))),
            },
            ...endsOf(next, ends),
          },
          next.batchShape,
        ),
      )
      return E.right([added, null])
    },
  })
}
