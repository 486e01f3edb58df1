/** Observers that print the events of agents. */
import { countOf, describe, visibleText } from '@tandem-rl/base'
import { print } from '@tandem-rl/base/host'
import { argumentsText, textOf } from '@tandem-rl/text'
import type { ChainEvent, ChainObserver } from './events.js'

const seconds = (ms: number): string => `${(ms / 1000).toFixed(2)} s`

const textFor = (event: ChainEvent): string => {
  switch (event.type) {
    case 'chain_start':
      return `--- ${visibleText(event.chainId)}\n`
    case 'generation_start':
      return `[turn ${event.turn}] `
    case 'generation_chunk':
      return visibleText(event.text)
    case 'generation_end':
      return `\n`
    case 'tool_call_start':
      return `  call ${visibleText(event.call.name)}(${visibleText(argumentsText(event.call))})\n`
    case 'tool_call_end':
      return `  ${event.outcome} after ${seconds(event.ms)}\n`
    case 'observation':
      return event.messages
        .map((each) => `  ${each.role}: ${visibleText(textOf(each)).replaceAll('\n', '\n  ')}\n`)
        .join('')
    case 'reward':
      return `reward ${event.reward}\n`
    case 'error':
      return `error: ${visibleText(describe(event.failure))}\n`
    case 'chain_end':
      return `${event.finishReason} after ${seconds(event.ms)}\n`
  }
}

/** A chain that is printed. `pending`: the start of a line that is not printed yet. */
interface Printed {
  readonly mode: 'directly' | 'by line'
  readonly pending: string
}

/**
 * Makes an observer that prints chains as they are played: one chain piece by piece, and several at
 * once line by line, each line after the id of its chain.
 *
 * Effects  calls `write`, by default on the standard output.
 *
 * @example
 * consoleObserver((text) => process.stdout.write(text)).length // 1
 */
export const consoleObserver = (write: (text: string) => void = print): ChainObserver => {
  const open = new Map<string, Printed>()
  /** Ends the line of the chain that was alone. */
  const joined = (): void => {
    for (const [id, { mode, pending }] of open) {
      if (mode === 'by line') continue
      if (pending !== '') write('\n')
      open.set(id, { mode: 'by line', pending: '' })
    }
  }
  return (event) => {
    const { chainId } = event
    if (!open.has(chainId)) {
      const isAlone = open.size === 0
      if (!isAlone) joined()
      open.set(chainId, { mode: isAlone ? 'directly' : 'by line', pending: '' })
    }
    const { mode, pending } = open.get(chainId)! // it was just added
    const text = textFor(event)
    const lines = `${pending}${text}`.split('\n')
    const rest = lines.pop()! // a split has at least one part
    if (mode === 'directly') write(text)
    else for (const line of lines) write(`[${visibleText(chainId)}] ${line}\n`)
    if (event.type === 'chain_end') open.delete(chainId)
    else open.set(chainId, { mode, pending: rest })
  }
}

/** The progress so far. */
export interface ChainProgress {
  readonly total: number
  readonly running: number
  readonly ended: number
  readonly failed: number
  readonly turns: number
  readonly toolCalls: number
  /** Mean reward of the chains that have one; `null` before the first. */
  readonly meanReward: number | null
}

/**
 * Makes an observer that reports the progress of many chains after each of them has ended.
 *
 * @example
 * progressObserver({ total: 8, onProgress: ({ ended, total }) => console.log(`${ended} of ${total}`) }).length // 1
 */
export const progressObserver = (options: {
  /** Number of chains. */
  readonly total: number
  readonly onProgress: (progress: ChainProgress) => void
}): ChainObserver => {
  const { total, onProgress } = options
  let [started, ended, failed, turns, toolCalls] = [0, 0, 0, 0, 0]
  let rewards: readonly number[] = []
  return (event) => {
    if (event.type === 'chain_start') started++
    if (event.type === 'generation_end') turns++
    if (event.type === 'tool_call_start') toolCalls++
    if (event.type === 'reward') rewards = [...rewards, event.reward]
    if (event.type !== 'chain_end') return
    ended++
    if (event.finishReason === 'failed') failed++
    const meanReward = rewards.length === 0 ? null : rewards.reduce((a, b) => a + b, 0) / rewards.length
    onProgress({ total, running: started - ended, ended, failed, turns, toolCalls, meanReward })
  }
}

/** Formats progress as one line. */
export const progressLine = ({
  total,
  running,
  ended,
  failed,
  turns,
  toolCalls,
  meanReward,
}: ChainProgress): string => {
  const reward = meanReward === null ? '' : `, mean reward ${meanReward.toFixed(3)}`
  return `${ended} of ${countOf(total, 'chain')}, ${running} running, ${failed} failed, ${countOf(turns, 'turn')}, ${countOf(toolCalls, 'tool call')}${reward}`
}
