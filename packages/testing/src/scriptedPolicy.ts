/** Policies with scripted answers, in token ids, text, or messages. */
import { ABORTED, child, type Key, unlessAborted } from '@tandem-rl/base'
import { type Message, message } from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
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
} from 'tandem-rl'
import { data, ragged, TensorDict, take } from 'tandem-rl/tensordict'
import { disturbed, type Fault } from './faults.js'

/**
 * The turn of one batch element in token ids. Plain ids have -1 nat each and end with a stop token.
 */
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

/** The turn of one batch element as a message, or as the text of an assistant message. */
export type ScriptedMessage = string | Message

/** A call of a scripted policy. */
export interface ScriptedCall<In> {
  /** The state, by reference. Its tensors keep their owners. */
  readonly state: TensorDict<In>
  readonly key: Key
}

/** A policy that follows a script and records its calls. */
export interface ScriptedPolicy<In, Out> extends Policy<In, Out> {
  /** Returns the calls so far, including failed ones. */
  readonly calls: () => readonly ScriptedCall<In>[]
}

/** The script of a policy. */
export interface PolicyScript<In, T> {
  /**
   * A list: the turns of all elements of all calls, in order; at its end, the policy returns
   * `Left(PolicyFailure)`. Or a function of an element's own state, batch shape `[1]`, and its key,
   * `child(key, element)`. A policy with a function satisfies `policyLaws`.
   */
  readonly answers: readonly T[] | ((state: TensorDict<In>, key: Key) => T)
  /** Returns the fault of a call, counted from 0. */
  readonly faults?: (call: number) => Fault<PolicyFailure> | undefined
  readonly name?: string
}

/** A script in token ids, with the stamps of the simulated engine. */
export interface TokenScript extends PolicyScript<TokenPrompt, ScriptedTokens> {
  /** Version of the weights. Default 0. */
  readonly policyVersion?: number
  /** Default: temperature 1, no cuts, 1024 new tokens. */
  readonly sampling?: Partial<SamplingRecord>
}

const NAME = 'ScriptedPolicy'

const SAMPLING: SamplingRecord = { temperature: 1, topK: null, topP: null, maxNewTokens: 1024, minNewTokens: 0 }

/** Makes a failure for the faults of a script. Without a kind, the state caused it. */
export const policyFailure = (reason: string, policy = NAME, kind?: PolicyFailure['kind']): PolicyFailure => ({
  _tag: 'PolicyFailure',
  policy,
  reason,
  ...(kind !== undefined && { kind }),
})

/** Makes a policy of a script. `toAction` makes an action of the elements' turns. */
const scripted = <In, Out, T>(
  script: PolicyScript<In, T>,
  toAction: (turns: readonly T[]) => TensorDict<Out>,
): ScriptedPolicy<In, Out> => {
  const { answers, faults, name = NAME } = script
  const calls: ScriptedCall<In>[] = []
  let reported = 0
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
    const turns = answers.slice(reported, reported + elements.length)
    if (turns.length < elements.length) {
      const reason = `the script has ${answers.length} answers; ${reported} were used and ${elements.length} more are requested`
      return E.left(policyFailure(reason, name))
    }
    reported += elements.length
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
      return result === ABORTED ? E.left(policyFailure('the call was cancelled', name, 'cancelled')) : result
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
 * Makes a token policy that follows a script. Like an engine, it returns log-probabilities and its
 * stamp.
 *
 * Shapes   reads `[B]`; returns `tokens.response` and `logProbs.response` ragged `[B]`,
 *          `stopReason`, `policyVersion`, `sampling`.
 * Errors   `Left(PolicyFailure)` at the end of a list and for faults; of kind `cancelled` if the
 *          signal aborts, also while a fault waits. Rejects with RangeError for a turn with
 *          different numbers of log-probabilities and ids, and for a state without a batch axis.
 * Effects  records its calls and its position in a list.
 *
 * @example
 * scriptedPolicy({ answers: [[5, 6], [7]] }).name // 'ScriptedPolicy'
 */
export const scriptedPolicy = (script: TokenScript): ScriptedPolicy<TokenPrompt, TokenAction> =>
  scripted(script, (reply) => {
    const turns = reply.map(tokensOf)
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
 * Makes a text policy that follows a script.
 *
 * @example
 * scriptedTextPolicy({ answers: ['four'] }).calls() // []
 */
export const scriptedTextPolicy = (
  script: PolicyScript<TextPrompt, ScriptedText>,
): ScriptedPolicy<TextPrompt, TextAction> =>
  scripted(script, (reply) => {
    const turns = reply.map((turn) => (typeof turn === 'string' ? { text: turn } : turn))
    return TensorDict(
      {
        text: { response: data(turns.map(({ text }) => text)) },
        stopReason: data(turns.map(({ stopReason = 'stop' }): StopReason => stopReason)),
      },
      [turns.length],
    )
  })

/**
 * Makes a conversation policy that follows a script. A string is a finished message of the
 * assistant.
 *
 * @example
 * scriptedHistoryPolicy({ answers: ['four'] }).calls() // []
 */
export const scriptedHistoryPolicy = (
  script: PolicyScript<HistoryPrompt, ScriptedMessage>,
): ScriptedPolicy<HistoryPrompt, HistoryAction> =>
  scripted(script, (reply) =>
    TensorDict(
      {
        history: {
          response: data(reply.map((turn) => (typeof turn === 'string' ? message('assistant', turn) : turn))),
        },
      },
      [reply.length],
    ),
  )
