/** Plays the chains of an agent: independent conversations, several for each prompt. */

import { ABORTED, type Clock, cancellation, child, type Failure, type Key, limiter } from '@tandem-rl/base'
import { harmless, thrownText } from '@tandem-rl/base/host'
import { decodeNext, type Message, type TextTokenizer, type ToolCallFormat, textOf } from '@tandem-rl/text'
import { ToolRegistry, toolSpecs } from '@tandem-rl/tools'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import {
  append,
  type Env,
  type HistoryAction,
  type HistoryPrompt,
  type Policy,
  type TokenAction,
  tokenBudget,
  tokenEnv,
} from 'tandem-rl'
import { playMember } from 'tandem-rl/async'
import type { AgentRowTask } from 'tandem-rl/datasets'
import { get, raggedRow, type TensorDict } from 'tandem-rl/tensordict'
import { type AgentParts, type AgentSource, agentEnv } from './agentEnv.js'
import type { BackendSeat } from './backends/backend.js'
import { type ReadRows, readRows, type ThrownChain } from './chainRows.js'
import type { ChainHappening, ChainObserver, ChainPlace } from './events.js'
import { type CallObserver, callTimer } from './monitor.js'
import type { ChainCall, ChainTrajectory } from './trajectory.js'

/** The parts that all chains of a run share. */
export interface ChainRules {
  readonly parts: AgentParts
  readonly seat: BackendSeat
  /** The format in which the policy writes native calls. */
  readonly format: ToolCallFormat | undefined
  readonly tasks: readonly AgentRowTask[]
  readonly numChains: number
  readonly maxTurns: number
  readonly maxConcurrentChains: number
  /** Tokens of a conversation after which it gets no further turn. */
  readonly tokenBudget: number | undefined
  readonly key: Key
  readonly signal: AbortSignal
  readonly observers: readonly ChainObserver[]
  readonly clock: Clock
}

/** One chain while it is played. */
interface Chain {
  readonly place: ChainPlace
  readonly key: Key
  readonly emit: (happening: ChainHappening) => void
  /** True if an observer is registered. */
  readonly isObserved: boolean
  readonly onCall: CallObserver
  readonly calls: ChainCall[]
  /** Number of the turn, from 1. */
  turn: number
}

const thrown = (error: unknown): ThrownChain => ({ _tag: 'ThrownChain', reason: thrownText(error), error })

const chainOf = ({ tasks, observers, clock, key }: ChainRules, groupIdx: number, chainIdx: number): Chain => {
  const groupId = `${groupIdx}:${tasks[groupIdx]!.id}`
  const place = { groupId, groupIdx, chainIdx, chainId: `${groupId}/${chainIdx}` }
  const timed = callTimer(clock)
  const emit = (happening: ChainHappening): void => {
    for (const observer of observers) observer({ ...happening, ...place })
  }
  const chain: Chain = {
    place,
    emit,
    isObserved: observers.length > 0,
    calls: [],
    turn: 0,
    key: child(child(key, groupIdx), chainIdx),
    onCall: (event) => {
      const { turn } = chain
      const ended = timed(event)
      if (ended !== undefined) chain.calls.push(ended)
      if (event.type === 'start') emit({ type: 'tool_call_start', turn, call: event.call })
      else emit({ type: 'tool_call_end', turn, call: event.call, outcome: event.outcome, ms: ended?.ms ?? 0 })
    },
  }
  return chain
}

/** Reads the text of the first row of an action. */
const replyText = (action: TensorDict, tokenizer: TextTokenizer | undefined): string => {
  if (tokenizer === undefined)
    return textOf(get(action as TensorDict<HistoryAction>, 'history', 'response').items.first()!) // a policy of messages
  return tokenizer.decode(raggedRow(get(action as TensorDict<TokenAction>, 'tokens', 'response'), 0), 'skip')
}

/** The functions that a streaming policy calls. */
type Hooks = Partial<NonNullable<Parameters<Policy<unknown, unknown>['act']>[2]>>

/** Passes on the text of a streaming policy: its own, or that of its token ids. */
const streaming = (tokenizer: TextTokenizer | undefined, onText: (text: string) => void): Hooks => {
  if (tokenizer === undefined) return { onText: (_, text) => onText(text) }
  let state = tokenizer.decodeStart('skip')
  return {
    onTokens: (_, ids) => {
      const [next, text] = decodeNext(state, ids)
      state = next
      onText(text)
    },
  }
}

/**
 * A policy that reports its turns. It streams only for observers, since whole replies cost less.
 */
const watched = <I, O>(
  policy: Policy<I, O>,
  chain: Chain,
  { clock, tokenizer }: { readonly clock: Clock; readonly tokenizer: TextTokenizer | undefined },
): Policy<I, O> => ({
  name: policy.name,
  act: (td, key, options) => async () => {
    chain.turn++
    const { turn, emit } = chain
    emit({ type: 'generation_start', turn })
    let hasStreamed = false
    const onText = (text: string): void => {
      hasStreamed ||= text !== ''
      if (text !== '') emit({ type: 'generation_chunk', turn, text })
    }
    const started = clock.now()
    const pieces = chain.isObserved ? streaming(tokenizer, onText) : {}
    const result = await policy.act(td, key, { ...options, ...pieces })()
    if (E.isLeft(result)) return result
    const text = replyText(result.right as TensorDict, tokenizer)
    if (!hasStreamed) onText(text)
    emit({ type: 'generation_end', turn, text, ms: clock.now() - started })
    return result
  },
})

/** The messages that follow the policy's, or the summary if the conversation was folded. */
const observed = (rows: TensorDict): readonly Message[] => {
  const known = rows as TensorDict<HistoryPrompt & { readonly next: TensorDict<HistoryPrompt> }> // of an agent's environment
  const [before, after] = [
    get(known, 'history', 'prompt').items.first()!,
    get(known, 'next', 'history', 'prompt').items.first()!,
  ]
  const isFolded = after.messages.size <= before.messages.size
  return (isFolded ? after.messages.takeLast(1) : after.messages.skip(before.messages.size + 1)).toArray()
}

type Played = E.Either<Failure, ReadRows>

/** Plays one chain in its environment. */
const playIn = async <O, P>(env: Env<O, P>, policy: Policy<O, P>, chain: Chain, rules: ChainRules): Promise<Played> => {
  const { signal, clock, maxTurns, parts } = rules
  const limits = { policy, maxTurns, tokenBudget: Number.POSITIVE_INFINITY, turns: 'all', clock } as const
  const onTurn = ({ rows }: { readonly rows: unknown }): void => {
    const messages = observed(rows as TensorDict)
    if (messages.length > 0) chain.emit({ type: 'observation', turn: chain.turn, messages })
  }
  const played = await playMember({ env, member: 0, key: chain.key, onTurn }, limits, signal)
  if (played === ABORTED) return E.left({ _tag: 'CancelledChain', reason: 'the run was cancelled' })
  if (E.isLeft(played)) return played
  using rows = played.right.rows
  return E.right(readRows(rows.value as TensorDict, parts, maxTurns))
}

/** Plays one chain with the policy of the seat. */
const play = async (chain: Chain, rules: ChainRules): Promise<Played> => {
  const { parts, seat, format, tasks, maxTurns, clock } = rules
  const source: AgentSource = { name: 'messages', size: tasks.length, at: (i) => E.right(tasks[i % tasks.length]!) }
  const toolOptions = { ...parts.toolOptions, onCall: chain.onCall }
  const drawn = { source, prompts: 1, start: chain.place.groupIdx, maxTurns }
  const template = seat.reads === 'tokens' ? seat.text.template : undefined
  const env = agentEnv({ ...parts, toolOptions }, drawn, { format, template })
  const tokenizer = seat.reads === 'tokens' ? seat.text.tokenizer : undefined
  if (seat.reads === 'messages')
    return playIn(env as never, watched(seat.policy, chain, { clock, tokenizer }) as never, chain, rules) // the states have conversations
  const native = parts.kind.tools === 'native' && parts.tools.length > 0
  const text = { ...seat.text, ...(native && { tools: toolSpecs(ToolRegistry(parts.tools)) }) }
  const inTokens = tokenEnv(env, text)
  const budget = rules.tokenBudget
  const bounded =
    budget === undefined
      ? inTokens
      : pipe(inTokens as never, append(tokenBudget({ tokens: budget, counted: 'all' }) as never)) // it reads token ids
  return playIn(bounded as never, watched(seat.policy, chain, { clock, tokenizer }) as never, chain, rules) // the states have token ids
}

/** The trajectory of a chain that has ended in whatever way. */
const trajectoryOf = (chain: Chain, played: Played, { row }: AgentRowTask, totalMs: number): ChainTrajectory => {
  const { place, calls } = chain
  if (E.isLeft(played)) {
    return {
      ...place,
      calls,
      row,
      messages: [],
      segments: [],
      turns: [],
      reward: null,
      rewardExtras: {},
      finishReason: 'failed',
      failure: played.left,
      timings: { totalMs, generationMs: 0 },
    }
  }
  const generationMs = played.right.turns.reduce((sum, turn) => sum + turn.generationMs, 0)
  return {
    ...place,
    ...played.right,
    calls,
    failure: null,
    row,
    timings: { totalMs, generationMs },
  }
}

const playChain = async (chain: Chain, rules: ChainRules): Promise<ChainTrajectory> => {
  const { clock, tasks } = rules
  const task = tasks[chain.place.groupIdx]!
  const started = clock.now()
  const { emit } = chain
  emit({ type: 'chain_start', row: task.row })
  const played = await (async (): Promise<Played> => {
    try {
      return await play(chain, rules)
    } catch (error) {
      return E.left(thrown(error))
    }
  })()
  const totalMs = clock.now() - started
  const trajectory = trajectoryOf(chain, played, task, totalMs)
  const { reward, rewardExtras: extras, failure, finishReason } = trajectory
  if (reward !== null && rules.parts.reward !== undefined) emit({ type: 'reward', reward, extras })
  if (failure !== null) emit({ type: 'error', failure })
  emit({ type: 'chain_end', finishReason, ms: totalMs })
  return trajectory
}

/**
 * Plays `numChains` chains for each task, at most `maxConcurrentChains` at a time. A chain that
 * fails is marked, and the others go on. An observer that throws is a warning. Chain `c` of task
 * `g` draws from `child(child(key, g), c)`, whatever is played beside it.
 */
export const playChains = async (given: ChainRules): Promise<readonly ChainTrajectory[]> => {
  const observers = given.observers.map((observer) => harmless('an observer of chains', observer))
  const rules = { ...given, observers }
  const places = limiter(rules.maxConcurrentChains)
  const chains = rules.tasks.flatMap((_, group) =>
    Array.from({ length: rules.numChains }, (__, index) => chainOf(rules, group, index)),
  )
  const all = cancellation({ signal: rules.signal })
  const one = async (chain: Chain): Promise<ChainTrajectory> => {
    const { signal, release } = all.part()
    const waiting = new AbortController().signal // a cancelled chain gets its place as well, and fails at once
    const played = await places.run(() => playChain(chain, { ...rules, signal }), waiting)
    release()
    return played as ChainTrajectory // `waiting` never aborts
  }
  try {
    return await Promise.all(chains.map(one))
  } finally {
    all.release()
  }
}
