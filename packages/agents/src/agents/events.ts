/** Events of running agents, and the observers that receive them. */
import type { Failure } from '@tandem-rl/base'
import type { Message, ToolCall } from '@tandem-rl/text'
import type { ChainFinish } from './trajectory.js'

/** An event of a chain. Turns count from 1. */
export type ChainHappening =
  | { readonly type: 'chain_start'; readonly row: Readonly<Record<string, unknown>> }
  | { readonly type: 'generation_start'; readonly turn: number }
  /** New text of the reply. A policy that does not stream has one chunk. */
  | { readonly type: 'generation_chunk'; readonly turn: number; readonly text: string }
  | { readonly type: 'generation_end'; readonly turn: number; readonly text: string; readonly ms: number }
  | { readonly type: 'tool_call_start'; readonly turn: number; readonly call: ToolCall }
  | {
      readonly type: 'tool_call_end'
      readonly turn: number
      readonly call: ToolCall
      readonly outcome: string
      readonly ms: number
    }
  /** The messages that follow the policy's: results of tools, or a summary. */
  | { readonly type: 'observation'; readonly turn: number; readonly messages: readonly Message[] }
  | { readonly type: 'reward'; readonly reward: number; readonly extras: Readonly<Record<string, number>> }
  | { readonly type: 'error'; readonly failure: Failure }
  | { readonly type: 'chain_end'; readonly finishReason: ChainFinish; readonly ms: number }

/** The place of a chain in a run. */
export interface ChainPlace {
  readonly chainId: string
  readonly groupId: string
  readonly chainIdx: number
  readonly groupIdx: number
}

/** An event of a chain. The events of one chain come in order; those of several are interleaved. */
export type ChainEvent = ChainHappening & ChainPlace

/** Receives events. If it throws or rejects, a warning is printed, and the chains go on. */
export type ChainObserver = (event: ChainEvent) => unknown
