import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { ABORTED, type Cancellation, cancellation } from '../../core/cancellation.js'
import { child, formatKey, type Key, parseKey } from '../../core/key.js'
import { limiter } from '../../core/limiter.js'
import { aFunction, aNumber, aRecord, aText, checkOptions, eitherOf, type OptionKinds } from '../../core/options.js'
import type { HistoryAction, HistoryPrompt, Policy } from '../../data/policy.js'
import { dataSpec } from '../../data/spec.js'
import { type Data, data } from '../../data/tensorDict/leaf.js'
import { take } from '../../data/tensorDict/selecting.js'
import { get, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { discard, scope } from '../../engine/scope.js'
import { appendMessage, History, lastMessage, type Message, message, textOf } from '../../text/history/history.js'
import { type EnvFailure, endedRows, envFailure, type Outcome } from '../base/env.js'
import { type Transform, transform } from '../transforms/transform.js'

/** The state of a `userSimulator` for each conversation. */
export type SimulatedUser = {
  readonly simulatedUser: TensorDict<{
    /** Where the randomness of this user comes from: `formatKey`. */
    readonly key: Data<string>
    /** What the user is told, as its system message; empty for nothing. */
    readonly persona: Data<string>
    /** Messages that the user has written. */
    readonly turns: Data<number>
  }>
}

export interface UserSimulatorOptions {
  /** Writes the user's messages. It is never trained, and its tokens are not looked at. */
  readonly policy: Policy<HistoryPrompt, HistoryAction>
  /**
   * What the user is told: who it is, what it wants, how it ends the conversation. A function makes
   * it of the first state of its conversation, batch shape `[1]`.
   */
  readonly persona?: string | ((element: TensorDict) => string)
  /**
   * A message with this text in it is the user's last: the episode is terminated. What stands
   * before it is still said. Default: no text is.
   */
  readonly stopMarker?: string
  /**
   * Messages of the user; where the policy has answered the last of them, the episode is truncated.
   */
  readonly maxTurns: number
  /**
   * Put before the user's first message in its own view: for models whose template begins with
   * somebody else's. Default: nothing.
   */
  readonly opening?: string
  readonly roles?: { readonly user: string; readonly policy: string }
  /** Calls of the user's policy at a time, in one step. Default 16. */
  readonly maxCalls?: number
}

const NAME = 'userSimulator'
const ROLES = { user: 'user', policy: 'assistant' } as const

/** What the user knows besides the messages. */
export interface UserScene {
  /** Its system message; empty for none. */
  readonly persona?: string
  readonly opening?: string
  readonly roles?: NonNullable<UserSimulatorOptions['roles']>
}

/**
 * A conversation as its user reads it: what the policy wrote is a user's, what the user wrote is
 * the assistant's. System messages, calls and results of tools and thoughts are not shown, nor
 * messages that have nothing else.
 *
 * @example
 * userView(History([message('user', 'Hi'), message('assistant', 'Hello!')])).messages.map(({ role }) => role).toArray() // ['assistant', 'user']
 */
export const userView = (history: History, { persona = '', opening, roles = ROLES }: UserScene = {}): History => {
  const swapped = history.messages.flatMap((each): readonly Message[] => {
    const text = textOf(each)
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

/** What the user of one conversation says. */
const askOne = async (
  [i, { history, persona, key }]: readonly [number, UserTurn],
  { policy, opening, roles }: UserSimulatorOptions,
  signal: AbortSignal,
): Promise<E.Either<EnvFailure, readonly [number, string]>> => {
  const scene = { persona, ...(opening !== undefined && { opening }), ...(roles !== undefined && { roles }) }
  const asked = TensorDict({ history: { prompt: data([userView(history, scene)]) } }, [1])
  const action = await policy.act(asked, key, { signal })()
  if (E.isLeft(action)) return E.left(envFailure(NAME, `the user of conversation ${i} could not answer`, action.left))
  const text = textOf(get(action.right, 'history', 'response').items.first()!) // one element was asked for
  discard(action.right)
  return E.right([i, text])
}

/** What the users of some conversations say, all of them or the first failure. */
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
      return reply === ABORTED ? E.left(envFailure(NAME, 'nobody waits for the user any more')) : reply
    }),
  )
  const failure = replies.find(E.isLeft)
  return failure ?? E.right(new Map(replies.flatMap((reply) => (E.isRight(reply) ? [reply.right] : []))))
}

/** A message of the user, without the marker and what follows it, and whether it was the last. */
const heard = (text: string, stopMarker: string | undefined): { readonly text: string; readonly isLast: boolean } => {
  const at = stopMarker === undefined ? -1 : text.indexOf(stopMarker)
  return at === -1 ? { text, isLast: false } : { text: text.slice(0, at), isLast: true }
}

/**
 * How a conversation in which it was the user's turn goes on: without an answer, its messages are
 * used up.
 */
const endOf = (reply: ReturnType<typeof heard> | undefined): End => {
  if (reply === undefined) return 'truncated'
  return reply.isLast ? 'terminated' : 'none'
}

/** Ends that come to those that there are. Tensors of the enclosing scope. */
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

const USER_SIMULATOR_OPTIONS: OptionKinds<UserSimulatorOptions> = {
  policy: aRecord,
  persona: eitherOf(aText, aFunction),
  stopMarker: aText,
  maxTurns: aNumber,
  opening: aText,
  roles: aRecord,
  maxCalls: aNumber,
}

/**
 * A user who is played by a policy: writes the next message after each turn of the assistant.
 *
 * After a step, where the last message is the policy's and the episode is open, the user is asked
 * with the conversation as it reads it (`userView`), and what it says is appended as a message of
 * the user. A message with `stopMarker` ends the episode; so does the answer to the last of
 * `maxTurns` messages. Where a tool has answered instead, the user waits. Put it outside of what
 * ends episodes and runs tools, and inside of `TemplateTransform`: what it says is text that the
 * policy reads, of which nothing is trained.
 *
 * Each conversation has a user of its own, asked by itself with a key of its own,
 * `child(key, turn)` of the key that the state keeps. Equal keys and a policy that samples from its
 * key give equal conversations, whatever else is in the batch.
 *
 * Shapes   all entries `[B]`.
 * Errors   `Left(EnvFailure)` with the policy's failure, for the whole batch: a user who cannot
 *          answer says nothing about the policy. Throws RangeError with all options that are wrong.
 * Effects  those of the user's policy, at most `maxCalls` at a time; it gets the signal of the
 *          step.
 * Source   none in TorchRL (asked for in its issues 2271 and 2872); the user of tau-bench (Yao et
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
      const known = get(context.previous as TensorDict<SimulatedUser>, 'simulatedUser') // added by `reset` or the step before
      const [keys, personas, turns] = [get(known, 'key').items, get(known, 'persona').items, get(known, 'turns').items]
      const over = endedRows(next, 'done')
      const isTurn = (history: History, i: number): boolean =>
        over[i] === false && lastMessage(history)?.role === roles.policy
      const waiting = [...histories.entries()].filter(([i, history]) => isTurn(history, i))
      const asked = waiting.filter(([i]) => turns.get(i)! < maxTurns) // one for each element
      const userTurns = asked.map(([i, history]): readonly [number, UserTurn] => [
        i,
        { history, persona: personas.get(i)!, key: child(parseKey(keys.get(i)!)!, turns.get(i)!) }, // as `reset` wrote them
      ])
      const work = cancellation({ signal: context.signal })
      const replies = await askAll(new Map(userTurns), options, work)
      work.release()
      if (E.isLeft(replies)) return replies
      const said = new Map([...replies.right].map(([i, text]) => [i, heard(text, stopMarker)]))
      const ends = new Map(waiting.map(([i]) => [i, endOf(said.get(i))]))
      const grown = histories.map((history, i) => {
        const reply = said.get(i)
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
              turns: data(turns.map((n, i) => (said.has(i) ? n + 1 : n))),
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
