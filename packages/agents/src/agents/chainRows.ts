/** Reads the rows of a played chain. */

import type { Failure } from '@tandem-rl/base'
import { type History, type Message, textOf } from '@tandem-rl/text'
import type { HistoryAction, HistoryPrompt, Outcome } from 'tandem-rl'
import { endedRows, rewardKey } from 'tandem-rl/envs'
import { type Data, find, findData, get, type Ragged, raggedRow, type TensorDict } from 'tandem-rl/tensordict'
import type { AgentParts } from './agentEnv.js'
import { readerOf } from './agentEnv.js'
import { type ChainFinish, type ChainSegment, type ChainTurn, joinTurnTokens } from './trajectory.js'

/** The contents of a chain's rows. */
export interface ReadRows {
  readonly messages: readonly Message[]
  readonly segments: readonly ChainSegment[]
  readonly turns: readonly ChainTurn[]
  readonly reward: number
  readonly rewardExtras: Readonly<Record<string, number>>
  readonly finishReason: ChainFinish
}

/**
 * The entries of rows that an agent's environment has played. Those of tokens and segments may be
 * missing.
 */
type Rows = TensorDict<
  HistoryPrompt &
    HistoryAction & {
      readonly generationMs: Data<number>
      readonly segment: Data<number>
      readonly toolCalls: Data<number>
      readonly tokens: TensorDict<{ readonly prompt: Ragged<'int32'>; readonly response: Ragged<'int32'> }>
      readonly logProbs: TensorDict<{ readonly response: Ragged<'float32'> }>
      readonly next: TensorDict<Outcome & HistoryPrompt & { readonly toolCalls: Data<number> }>
    }
>

const numbersOf = (td: TensorDict, ...path: readonly string[]): readonly number[] => {
  const entry = find(td, path)
  return entry !== undefined && 'dataSync' in entry ? Array.from(entry.dataSync()) : []
}

const turnsOf = (rows: Rows): readonly ChainTurn[] => {
  const has = (...path: readonly string[]): boolean => find(rows as TensorDict, path) !== undefined
  const segments = has('segment') ? get(rows, 'segment').items : undefined
  const hasTokens = has('tokens', 'prompt') && has('tokens', 'response') && has('logProbs', 'response')
  const times = get(rows, 'generationMs').items
  return get(rows, 'history', 'response')
    .items.toArray()
    .map((message, i) => ({
      message,
      segment: segments?.get(i) ?? 0,
      generationMs: times.get(i)!,
      tokens: hasTokens
        ? {
            prompt: Array.from(raggedRow(get(rows, 'tokens', 'prompt'), i)),
            response: Array.from(raggedRow(get(rows, 'tokens', 'response'), i)),
            logProbs: Array.from(raggedRow(get(rows, 'logProbs', 'response'), i)),
          }
        : null,
    }))
}

const messagesOf = ({ messages }: History): readonly Message[] => messages.toArray()

const segmentsOf = (rows: Rows, turns: readonly ChainTurn[]): readonly ChainSegment[] => {
  const kept = findData<number | null>(get(rows, 'next') as TensorDict, ['history', 'kept'])
  const count = (turns.at(-1)?.segment ?? 0) + 1
  return Array.from({ length: count }, (_, segment) => {
    const places = turns.flatMap((turn, i) => (turn.segment === segment ? [i] : []))
    const last = places.at(-1)!
    const isFolded = segment < count - 1 // the messages after a fold begin with the summary
    const messages = isFolded
      ? [...messagesOf(get(rows, 'history', 'prompt').items.get(last)!), turns[last]!.message]
      : messagesOf(get(rows, 'next', 'history', 'prompt').items.get(last)!)
    const tokens = joinTurnTokens(
      places.map((place) => turns[place]!.tokens),
      (turn) => typeof kept?.[places[turn]!] === 'number',
    )
    return { messages, tokens }
  })
}

/** Why the last turn was the last. */
const finishOf = (rows: Rows, parts: AgentParts, maxTurns: number): ChainFinish => {
  const next = get(rows, 'next')
  const last = get(rows, 'generationMs').items.size - 1
  const isTerminated = endedRows(next as TensorDict, 'terminated')[last] === true
  if (!isTerminated) return last + 1 >= maxTurns ? 'max_turns' : 'max_model_len'
  const reply = get(rows, 'history', 'response').items.get(last)!
  if (readerOf(parts)(textOf(reply)).end === 'terminal') return 'terminal'
  const hasCalled = get(next, 'toolCalls').items.get(last) !== get(rows, 'toolCalls').items.get(last)
  return hasCalled ? 'terminal' : 'no_tool_calls'
}

/** Sums the parts of scores whose names became known when they were scored. */
const extraSums = (next: TensorDict): Readonly<Record<string, number>> => {
  const each = (findData<Readonly<Record<string, number>>>(next, 'extraParts') ?? []).flatMap(Object.entries)
  const names = [...new Set(each.map(([name]) => name))]
  return Object.fromEntries(names.map((name) => [name, sum(each.map(([own, value]) => (own === name ? value : 0)))]))
}

const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0)

/** Reads the rows of one chain, turn by turn. */
export const readRows = (batch: TensorDict, parts: AgentParts, maxTurns: number): ReadRows => {
  const rows = batch as Rows // played in the environment of an agent
  const turns = turnsOf(rows)
  const next = get(rows, 'next') as TensorDict
  const segments = segmentsOf(rows, turns)
  const named = (parts.reward?.partNames ?? []).map((name) => [name, sum(numbersOf(next, rewardKey(name)))] as const)
  const success = parts.reward === undefined ? {} : { success: numbersOf(next, 'success').at(-1) ?? 0 }
  return {
    messages: segments.at(-1)!.messages,
    segments,
    turns,
    reward: sum(numbersOf(next, 'reward')),
    rewardExtras: { ...Object.fromEntries(named), ...extraSums(next), ...success },
    finishReason: finishOf(rows, parts, maxTurns),
  }
}

/** A chain that threw an exception, which is a bug of a tool, a reward, a policy or an observer. */
export interface ThrownChain extends Failure {
  readonly _tag: 'ThrownChain'
  readonly error: unknown
}
