/** Policies that say what a test tells them to: in token ids, in text, or in messages. */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { ABORTED, unlessAborted } from '../core/cancellation.js'
import { child, type Key } from '../core/key.js'
import type {
  HistoryAction,
  HistoryPrompt,
  Policy,
  PolicyFailure,
  SamplingRecord,
  StopReason,
  TextAction,
  TextPrompt,
  TokenAction,
  TokenPrompt,
} from '../data/policy.js'
import { data, ragged } from '../data/tensorDict/leaf.js'
import { take } from '../data/tensorDict/selecting.js'
import { TensorDict } from '../data/tensorDict/tensorDict.js'
import { scope } from '../engine/scope.js'
import { type Message, message } from '../text/history/history.js'
import { disturbed, type Fault } from './faults.js'

/** The turn of one batch element in token ids. Ids alone have -1 nat each, and were ended by a stop token. */
export type ScriptedTokens =
  | readonly number[]
  | {
      readonly ids: readonly number[]
      /** One for each id, in nats. Default -1. */
      readonly logProbs?: readonly number[]
      readonly stopReason?: StopReason
    }

/** The turn of one batch element as text. */
export type ScriptedText = string | { readonly text: string; readonly stopReason?: StopReason }

/** The turn of one batch element as a message, or as the text of an assistant's. */
export type ScriptedMessage = string | Message

/** What a scripted policy was asked. */
export interface ScriptedCall<In> {
  /** The state, by reference: tensors in it belong to whom they belonged. */
  readonly state: TensorDict<In>
  readonly key: Key
}

/** A policy that follows a script, and knows what it was asked. */
export interface ScriptedPolicy<In, Out> extends Policy<In, Out> {
  /** The calls so far, also those that failed. */
  readonly calls: () => readonly ScriptedCall<In>[]
}

/** What a scripted policy says. */
export interface PolicyScript<In, T> {
  /**
   * A list: the turns of all elements of all calls, one after the other; a policy at its end answers `Left(PolicyFailure)`.
   * Or a function of an element's own state, batch shape `[1]`, and its own key, `child(key, element)`: such a policy keeps `policyLaws`.
   */
  readonly answers: readonly T[] | ((state: TensorDict<In>, key: Key) => T)
  /** What disturbs the call with this number, counted from 0. */
  readonly faults?: (call: number) => Fault<PolicyFailure> | undefined
  readonly name?: string
}

/** A script in token ids, and how the engine that it plays stamps its samples. */
export interface TokenScript extends PolicyScript<TokenPrompt, ScriptedTokens> {
  /** Of the weights. Default 0. */
  readonly policyVersion?: number
  /** Default: temperature 1, nothing cut off, 1024 new tokens. */
  readonly sampling?: Partial<SamplingRecord>
}

const NAME = 'ScriptedPolicy'

const SAMPLING: SamplingRecord = { temperature: 1, topK: null, topP: null, maxNewTokens: 1024, minNewTokens: 0 }

/** A failure as a scripted policy gives it: for the faults of a script. Without a kind it is one of what was asked. */
export const policyFailure = (reason: string, policy = NAME, kind?: PolicyFailure['kind']): PolicyFailure => ({
  _tag: 'PolicyFailure',
  policy,
  reason,
  ...(kind !== undefined && { kind }),
})

/** Follows a script; `toAction` makes an action of what the elements say. */
const scripted = <In, Out, T>(
  script: PolicyScript<In, T>,
  toAction: (turns: readonly T[]) => TensorDict<Out>,
): ScriptedPolicy<In, Out> => {
  const { answers, faults, name = NAME } = script
  const calls: ScriptedCall<In>[] = []
  let told = 0
  const turnsOf = (state: TensorDict<In>, key: Key): E.Either<PolicyFailure, readonly T[]> => {
    const [size] = state.batchShape
    if (size === undefined) throw new RangeError(`${name}: the state has no batch axis`)
    const elements = Array.from({ length: size }, (_, i) => i)
    if (typeof answers === 'function') {
      const turns: T[] = []
      scope(() => {
        for (const i of elements) turns.push(answers(take(state, [i]), child(key, i)))
        return []
      })
      return E.right(turns)
    }
    const turns = answers.slice(told, told + elements.length)
    if (turns.length < elements.length) {
      const reason = `the script has ${answers.length} answers; ${told} were given and ${elements.length} more are asked for`
      return E.left(policyFailure(reason, name))
    }
    told += elements.length
    return E.right(turns)
  }
  const answer =
    (state: TensorDict<In>, key: Key): TaskEither<PolicyFailure, TensorDict<Out>> =>
    async () => {
      const turns = turnsOf(state, key)
      return E.isLeft(turns) ? turns : E.right(toAction(turns.right))
    }
  return {
    name,
    calls: () => [...calls],
    act: (state, key, options) => async () => {
      const number = calls.length
      calls.push({ state, key })
      const task = disturbed(faults?.(number), answer(state, key))
      const { signal } = options ?? {}
      if (signal === undefined) return task()
      const result = signal.aborted ? ABORTED : await unlessAborted(task(), signal)
      return result === ABORTED ? E.left(policyFailure('the call was called off', name, 'cancelled')) : result
    },
  }
}

interface Tokens {
  readonly ids: readonly number[]
  readonly logProbs: readonly number[]
  readonly stopReason: StopReason
}

const tokensOf = (turn: ScriptedTokens): Tokens => {
  const { ids, logProbs, stopReason = 'stop' } = 'ids' in turn ? turn : { ids: turn }
  if (logProbs !== undefined && logProbs.length !== ids.length) {
    throw new RangeError(`${NAME}: ${logProbs.length} log-probabilities for ${ids.length} ids`)
  }
  return { ids, logProbs: logProbs ?? ids.map(() => -1), stopReason }
}

/**
 * A policy that speaks token ids by a script, as an engine would: with log-probabilities and its stamp.
 *
 * Shapes   reads `[B]`; gives `tokens.response` and `logProbs.response` ragged `[B]`, `stopReason`, `policyVersion`, `sampling`.
 * Errors   `Left(PolicyFailure)` at the end of a list, where a fault says so, and of kind `cancelled` by the signal, also while a fault waits; throws RangeError (rejects) for a turn with another number
 *          of log-probabilities than ids, and for a state without a batch axis.
 * Effects  remembers its calls, and how much of a list it has told.
 *
 * @example
 * scriptedPolicy({ answers: [[5, 6], [7]] }).name // 'ScriptedPolicy'
 */
export const scriptedPolicy = (script: TokenScript): ScriptedPolicy<TokenPrompt, TokenAction> =>
  scripted(script, (said) => {
    const turns = said.map(tokensOf)
    const each = <T>(value: T) => data(turns.map(() => value))
    const ids = turns.map((turn) => turn.ids)
    const logProbs = turns.map((turn) => turn.logProbs)
    return TensorDict(
      {
        tokens: { response: ragged('int32', ids) },
        logProbs: { response: ragged('float32', logProbs) },
        stopReason: data(turns.map((turn) => turn.stopReason)),
        policyVersion: each(script.policyVersion ?? 0),
        sampling: each({ ...SAMPLING, ...script.sampling }),
      },
      [turns.length],
    )
  })

/**
 * `ScriptedPolicy` in text.
 *
 * @example
 * scriptedTextPolicy({ answers: ['four'] }).calls() // []
 */
export const scriptedTextPolicy = (
  script: PolicyScript<TextPrompt, ScriptedText>,
): ScriptedPolicy<TextPrompt, TextAction> =>
  scripted(script, (said) => {
    const turns = said.map((turn) => (typeof turn === 'string' ? { text: turn } : turn))
    return TensorDict(
      {
        text: { response: data(turns.map(({ text }) => text)) },
        stopReason: data(turns.map(({ stopReason = 'stop' }): StopReason => stopReason)),
      },
      [turns.length],
    )
  })

/**
 * `ScriptedPolicy` in messages; a string is a finished message of the assistant.
 *
 * @example
 * scriptedHistoryPolicy({ answers: ['four'] }).calls() // []
 */
export const scriptedHistoryPolicy = (
  script: PolicyScript<HistoryPrompt, ScriptedMessage>,
): ScriptedPolicy<HistoryPrompt, HistoryAction> =>
  scripted(script, (said) =>
    TensorDict(
      {
        history: { response: data(said.map((turn) => (typeof turn === 'string' ? message('assistant', turn) : turn))) },
      },
      [said.length],
    ),
  )
