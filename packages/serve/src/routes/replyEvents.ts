/** A reply as blocks: thoughts, text and calls of tools, whole or while they are written. */
import type { FinishReason } from '@tandem-rl/text'
import type { ChatRequest } from '../requests/chat.js'
import type { ApiFailure } from '../requests/failure.js'
import { failureOf, type RunningJob, type TokenUsage, type WholePrompt } from '../requests/generation.js'
import type { Served } from '../requests/served.js'
import { callId, endChoice, firstProgress, type ReplyPart, readMore, readReply } from './reading.js'

/** A part of a reply: thoughts, text, or a call with its arguments as JSON. */
export type ReplyBlock =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'thoughts'; readonly text: string }
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

const callBlock = (id: string, name: string, text: string): ReplyBlock => ({ kind: 'call', id, name, text })

/** Returns the blocks of a whole reply. Text that is empty is no block. */
export const wholeReply = (
  served: Served,
  request: ChatRequest,
  { prompt: { completions, cachedTokens }, prefix }: { readonly prompt: WholePrompt; readonly prefix: string },
): WholeReply => {
  const { text: all, tokens, finishReason, stopReason } = completions[0]! // one was asked for
  const { thoughts, text, calls } = readReply(request, all, finishReason)
  return {
    blocks: [
      ...(thoughts === '' ? [] : [{ kind: 'thoughts' as const, text: thoughts }]),
      ...(text === '' ? [] : [{ kind: 'text' as const, text }]),
      ...calls.map(({ name, arguments: args }) => callBlock(callId(served, prefix), name, args)),
    ],
    finishReason,
    stopReason,
    usage: { prompt: request.prompt.length, completion: tokens.length, cached: cachedTokens },
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
  return [{ closed: [...closed, open], open: null }, [{ _tag: 'Close', index: closed.length, block: open }]]
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

/** Writes a part of the reply. A call is whole, so that no client runs the half of one. */
const written = (writing: Writing, part: ReplyPart, newId: () => string): readonly [Writing, readonly ReplyEvent[]] => {
  if (part.kind !== 'call' && writing.open?.kind === part.kind) return more(writing, part.text)
  const [block, text] =
    part.kind === 'call'
      ? [callBlock(newId(), part.call.name, ''), part.call.arguments]
      : [{ kind: part.kind, text: '' }, part.text]
  const [next, events] = opened(writing, block)
  const [last, rest] = more(next, text)
  return [last, [...events, ...rest]]
}

/**
 * Streams a reply as blocks. The last event is `End` or `Failed`.
 *
 * Effects  reads the job's events; the job runs as they are read.
 */
export async function* replyEvents(
  served: Served,
  request: ChatRequest,
  { running, prefix }: { readonly running: RunningJob; readonly prefix: string },
): AsyncGenerator<ReplyEvent> {
  let writing: Writing = { closed: [], open: null }
  let choice = firstProgress(request)
  let [cached, completion] = [0, 0]
  const write = function* ({ choice: next, parts }: ReturnType<typeof readMore>): Generator<ReplyEvent> {
    choice = next
    for (const part of parts) {
      const [after, events] = written(writing, part, () => callId(served, prefix))
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
      completion += event.tokens.length
      yield* write(readMore(request, choice, event.text))
    }
    if (event._tag === 'Finished') {
      yield* write(endChoice(request, choice, event.finishReason))
      const [{ closed }, events] = close(writing)
      yield* events
      const usage = { prompt: request.prompt.length, completion, cached }
      yield {
        _tag: 'End',
        end: { blocks: closed, finishReason: event.finishReason, stopReason: event.stopReason, usage },
      }
    }
  }
}

/** Returns true if a reply calls a tool. */
export const callsTools = ({ blocks }: WholeReply): boolean => blocks.some(({ kind }) => kind === 'call')
