/** A reply as blocks: text and calls of tools, whole or while they are written. */
import type { FinishReason } from '../../data/generation.js'
import type { ToolDelta } from '../../text/toolCalls/machine.js'
import type { ChatRequest } from '../requests/chat.js'
import type { ApiFailure } from '../requests/failure.js'
import { failureOf, type RunningJob, type TokenUsage, type WholePrompt } from '../requests/generation.js'
import type { Served } from '../requests/served.js'
import { callId, firstProgress, readMore, readReply } from './reading.js'

/** A part of a reply: text, or a call with its arguments as JSON. */
export type ReplyBlock =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'call'; readonly id: string; readonly name: string; readonly text: string }

/** The end of a reply. */
interface ReplyEnd {
  readonly finishReason: FinishReason
  readonly stopReason: string | number | null
  readonly usage: TokenUsage
}

/** A whole reply. */
export interface WholeReply extends ReplyEnd {
  readonly blocks: readonly ReplyBlock[]
}

/** Returns the blocks of a whole reply. Text that is empty is no block. */
export const wholeReply = (
  served: Served,
  asked: ChatRequest,
  { prompt: { completions, cachedTokens }, prefix }: { readonly prompt: WholePrompt; readonly prefix: string },
): WholeReply => {
  const { text: all, tokens, finishReason, stopReason } = completions[0]! // one was asked for
  const { text, calls } = readReply(asked, all)
  return {
    blocks: [
      ...(text === '' ? [] : [{ kind: 'text' as const, text }]),
      ...calls.map(({ name, arguments: args }) => ({
        ...{ kind: 'call' as const, id: callId(served, prefix), name, text: args === '' ? '{}' : args },
      })),
    ],
    ...{ finishReason, stopReason },
    usage: { prompt: asked.prompt.length, completion: tokens.length, cached: cachedTokens },
  }
}

/**
 * Something that happened in a streamed reply. Blocks are opened and closed one after the other.
 */
export type ReplyEvent =
  | { readonly _tag: 'Begin'; readonly cached: number }
  | { readonly _tag: 'Open'; readonly index: number; readonly block: ReplyBlock }
  | { readonly _tag: 'More'; readonly index: number; readonly kind: ReplyBlock['kind']; readonly text: string }
  | { readonly _tag: 'Close'; readonly index: number; readonly block: ReplyBlock }
  | { readonly _tag: 'End'; readonly end: WholeReply }
  | { readonly _tag: 'Failed'; readonly failure: ApiFailure }

/** The blocks that are closed, and the open one. */
interface Writing {
  readonly closed: readonly ReplyBlock[]
  readonly open: ReplyBlock | null
}

const close = ({ closed, open }: Writing): readonly [Writing, readonly ReplyEvent[]] => {
  if (open === null) return [{ closed, open }, []]
  const block = open.kind === 'call' && open.text === '' ? { ...open, text: '{}' } : open
  return [{ closed: [...closed, block], open: null }, [{ _tag: 'Close', index: closed.length, block }]]
}

const opened = (writing: Writing, block: ReplyBlock): readonly [Writing, readonly ReplyEvent[]] => {
  const [{ closed }, events] = close(writing)
  return [{ closed, open: block }, [...events, { _tag: 'Open', index: closed.length, block }]]
}

const more = ({ closed, open }: Writing, text: string): readonly [Writing, readonly ReplyEvent[]] =>
  open === null || text === ''
    ? [{ closed, open }, []]
    : [
        { closed, open: { ...open, text: open.text + text } },
        [{ _tag: 'More', index: closed.length, kind: open.kind, text }],
      ]

const written = (
  writing: Writing,
  delta: ToolDelta,
  newId: () => string,
): readonly [Writing, readonly ReplyEvent[]] => {
  if (delta._tag === 'Id') return [writing, []]
  if (delta._tag === 'Call') return opened(writing, { kind: 'call', id: newId(), name: delta.name, text: '' })
  if (delta._tag === 'Arguments' || writing.open?.kind === 'text') return more(writing, delta.text)
  if (delta.text === '') return [writing, []]
  const [next, events] = opened(writing, { kind: 'text', text: '' })
  const [last, rest] = more(next, delta.text)
  return [last, [...events, ...rest]]
}

/**
 * Streams a reply as blocks. The last event is `End` or `Failed`.
 *
 * Effects  reads the job's events; the job runs as they are read.
 */
export async function* replyEvents(
  served: Served,
  asked: ChatRequest,
  { running, prefix }: { readonly running: RunningJob; readonly prefix: string },
): AsyncGenerator<ReplyEvent> {
  let writing: Writing = { closed: [], open: null }
  let choice = firstProgress(asked)
  let cached = 0
  const read = function* (text: string | null): Generator<ReplyEvent> {
    const { choice: next, deltas } = readMore(asked, choice, text)
    choice = next
    for (const delta of deltas) {
      const [after, events] = written(writing, delta, () => callId(served, prefix))
      writing = after
      yield* events
    }
  }
  for await (const [, event] of running.events) {
    const failure = failureOf(event)
    if (failure !== undefined) {
      yield { _tag: 'Failed', failure }
      return
    }
    if (event._tag === 'Started') {
      cached = event.cachedTokens
      yield { _tag: 'Begin', cached }
    }
    if (event._tag === 'Tokens') {
      choice = { ...choice, tokens: choice.tokens + event.tokens.length }
      yield* read(event.text)
    }
    if (event._tag === 'Finished') {
      yield* read(null)
      const [{ closed }, events] = close(writing)
      yield* events
      const usage = { prompt: asked.prompt.length, completion: choice.tokens, cached }
      yield {
        _tag: 'End',
        end: { blocks: closed, finishReason: event.finishReason, stopReason: event.stopReason, usage },
      }
    }
  }
}

/** Returns true if a reply calls a tool. */
export const callsTools = ({ blocks }: WholeReply): boolean => blocks.some(({ kind }) => kind === 'call')
