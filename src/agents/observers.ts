/** Observers that print the events of agents. */
import { describe } from '../core/failure.js'
import { visibleText } from '../core/visibleText.js'
import { textOf } from '../text/history/history.js'
import type { ChainEvent, ChainObserver } from './events.js'

const seconds = (ms: number): string => `${(ms / 1000).toFixed(2)} s`

const textFor = (event: ChainEvent): string => {
  switch (event.type) {
    case 'chain_start':
      return `--- ${event.chainId}\n`
    case 'generation_start':
      return `[turn ${event.turn}] `
    case 'generation_chunk':
      return visibleText(event.text)
    case 'generation_end':
      return `\n`
    case 'tool_call_start':
      return `  call ${visibleText(event.call.name)}(${visibleText(JSON.stringify(event.call.arguments))})\n`
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

/**
 * Makes an observer that prints a chain as it is played. The lines of several chains would be
 * mixed: use `progressObserver` for them.
 *
 * Errors   the observer throws RangeError when a second chain begins before the first has ended,
 *          which fails that chain.
 *
 * @example
 * consoleObserver((text) => process.stdout.write(text)).length // 1
 */
export const consoleObserver = (write: (text: string) => void): ChainObserver => {
  let open: string | undefined
  return (event) => {
    if (open !== undefined && open !== event.chainId)
      throw new RangeError('consoleObserver: expected one chain at a time, got several: use progressObserver')
    open = event.type === 'chain_end' ? undefined : event.chainId
    write(textFor(event))
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
  return `${ended} of ${total} chains, ${running} running, ${failed} failed, ${turns} turns, ${toolCalls} tool calls${reward}`
}
