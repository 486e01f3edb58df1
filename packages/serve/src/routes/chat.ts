/** Answers of `POST /v1/chat/completions`. */
import type { GeneratedToken } from '@tandem-rl/text'
import { type ChatRequest, chatRequest, type ReadChat } from '../requests/chat.js'
import { type TokenUsage, usageJson, type WholeCompletion, type WholePrompt } from '../requests/generation.js'
import { type Served, unixSeconds } from '../requests/served.js'
import { type Chunk, type ChunkWriter, type Endpoint, endpoint, streamed, writingOf } from './answer.js'
import { chatLogProbs, promptLogProbsJson, type TokenWriting } from './logProbs.js'
import {
  type ChoiceProgress,
  callId,
  endChoice,
  firstProgress,
  type ReplyPart,
  readMore,
  readReply,
  type WholeReading,
} from './reading.js'

const heading = (served: Served, { job, model }: ChatRequest, object: string) => ({
  id: job.id,
  object,
  created: unixSeconds(served.world),
  model,
})

const messageOf = (served: Served, request: ChatRequest, { thoughts, text, calls }: WholeReading): object => ({
  role: request.role,
  content: calls.length > 0 && text === '' ? null : request.echo + text,
  refusal: null,
  annotations: null,
  audio: null,
  function_call: null,
  tool_calls: calls.map(({ name, arguments: args }) => ({
    id: callId(served, 'chatcmpl-tool-'),
    type: 'function',
    function: { name, arguments: args },
  })),
  reasoning: thoughts === '' ? null : thoughts,
  ...(thoughts !== '' && { reasoning_content: thoughts }),
})

const finishOf = (finish: WholeCompletion['finishReason'], calls: number): string =>
  finish === 'stop' && calls > 0 ? 'tool_calls' : finish

const answerJson = (served: Served, request: ChatRequest, whole: WholePrompt): object => {
  const writing = writingOf(served, request)
  const prompt = request.prompt.length
  const completion = whole.completions.reduce((sum, { tokens }) => sum + tokens.length, 0)
  return {
    ...heading(served, request, 'chat.completion'),
    choices: whole.completions.map(({ text, tokens, finishReason, stopReason }, index) => {
      const answer = readReply(request, text, finishReason)
      return {
        index,
        message: messageOf(served, request, answer),
        logprobs: request.logProbs === null ? null : chatLogProbs(tokens, writing),
        finish_reason: finishOf(finishReason, answer.calls.length),
        stop_reason: stopReason,
        token_ids: request.tokenIds === 'included' ? tokens.map(({ id }) => id) : null,
      }
    }),
    service_tier: null,
    system_fingerprint: null,
    usage: usageJson({ prompt, completion, cached: whole.cachedTokens }),
    prompt_logprobs:
      request.promptLogProbs === 'included' ? promptLogProbsJson(whole.promptLogProbs, writing.tokenizer) : null,
    prompt_token_ids: request.tokenIds === 'included' ? Array.from(request.prompt) : null,
  }
}

/**
 * Returns the delta of a chunk. A call is whole, with its own id, and alone in its chunk, because
 * some clients read only the first one.
 */
const deltaJson = (served: Served, part: ReplyPart, index: number): object => {
  if (part.kind === 'text') return { content: part.text }
  if (part.kind === 'thoughts') return { reasoning: part.text, reasoning_content: part.text }
  const { name, arguments: args } = part.call
  const id = callId(served, 'chatcmpl-tool-')
  return { tool_calls: [{ index, id, type: 'function', function: { name, arguments: args } }] }
}

interface StreamState {
  readonly served: Served
  readonly request: ChatRequest
  readonly writing: TokenWriting
  readonly choices: StreamedChoice[]
}

interface StreamedChoice extends ChoiceProgress {
  readonly tokens: number
}

const tokensJson = ({ request, writing }: StreamState, tokens: readonly GeneratedToken[]) => ({
  logprobs: request.logProbs === null || tokens.length === 0 ? null : chatLogProbs(tokens, writing),
  token_ids: request.tokenIds === 'included' ? tokens.map(({ id }) => id) : null,
})

/** Returns the deltas of new parts of a choice. The calls among them are counted from `calls`. */
const deltasOf = ({ served }: StreamState, parts: readonly ReplyPart[], calls: number): readonly object[] => {
  let index = calls
  return parts.map((part) => deltaJson(served, part, part.kind === 'call' ? index++ : index))
}

/** Returns the choices of the chunks for new tokens, of which the first carries the tokens. */
const tokensChunks = (
  state: StreamState,
  index: number,
  { tokens, text }: { readonly tokens: readonly GeneratedToken[]; readonly text: string },
): readonly object[] => {
  const before = state.choices[index]!
  const { choice, parts } = readMore(state.request, before, text)
  state.choices[index] = { ...choice, tokens: before.tokens + tokens.length }
  const isShown = tokens.length > 0 && (state.request.logProbs !== null || state.request.tokenIds === 'included')
  const deltas = parts.length === 0 && isShown ? [{}] : deltasOf(state, parts, before.calls)
  return deltas.map((delta, i) => ({
    index,
    delta,
    ...tokensJson(state, i === 0 ? tokens : []),
    finish_reason: null,
  }))
}

/** Returns the choices of the last chunks, with what the parser of tool calls held back. */
const finishChunks = (
  state: StreamState,
  index: number,
  { finishReason, stopReason }: Pick<WholeCompletion, 'finishReason' | 'stopReason'>,
): readonly object[] => {
  const before = state.choices[index]!
  const { choice, parts } = endChoice(state.request, before, finishReason)
  state.choices[index] = { ...before, ...choice }
  const deltas = deltasOf(state, parts, before.calls)
  const chunk = (delta: object): object => ({ index, delta, ...tokensJson(state, []) })
  return [
    ...deltas.slice(0, -1).map((delta) => ({ ...chunk(delta), finish_reason: null })),
    { ...chunk(deltas.at(-1) ?? {}), finish_reason: finishOf(finishReason, choice.calls), stop_reason: stopReason },
  ]
}

/** Returns the first chunks: the role of each choice, and the echoed text. */
const firstChoices = ({ request }: StreamState): readonly object[] => {
  const indices = Array.from({ length: request.n }, (_, index) => index)
  const begin = (delta: object) => (index: number) => ({ index, delta, logprobs: null, finish_reason: null })
  return [
    ...indices.map(begin({ role: request.role, content: '' })),
    ...(request.echo === '' ? [] : indices.map(begin({ content: request.echo }))),
  ]
}

/** Returns the chunks of `firstChoices`. The first of them carries the prompt's token ids. */
const beginning = (state: StreamState, usage: TokenUsage): readonly Chunk[] =>
  firstChoices(state).map((choice, i) => ({
    choice,
    usage,
    ...(i === 0 &&
      state.request.tokenIds === 'included' && { fields: { prompt_token_ids: Array.from(state.request.prompt) } }),
  }))

const chatChunks = (served: Served, request: ChatRequest): ChunkWriter => {
  const choices = Array.from({ length: request.n }, () => ({ ...firstProgress(request), tokens: 0 }))
  const state = { served, request, writing: writingOf(served, request), choices }
  let cached = 0
  const usage = (completion: number): TokenUsage => ({ prompt: request.prompt.length, completion, cached })
  return {
    head: heading(served, request, 'chat.completion.chunk'),
    chunksOf: (_prompt, event) => {
      if (event._tag === 'Started') {
        cached = event.cachedTokens
        return beginning(state, usage(0))
      }
      if (event._tag !== 'Tokens' && event._tag !== 'Finished') return []
      const found =
        event._tag === 'Tokens' ? tokensChunks(state, event.index, event) : finishChunks(state, event.index, event)
      return found.map((choice) => ({ choice, usage: usage(choices[event.index]!.tokens) }))
    },
    total: () => usage(choices.reduce((sum, { tokens }) => sum + tokens, 0)),
  }
}

/** Answers a chat request, whole or as a stream. Both read tool calls in the same way. */
export const chatCompletions: Endpoint<ReadChat> = endpoint(chatRequest, (served, request) => ({
  whole: ([prompt]) => answerJson(served, request, prompt!),
  frames: streamed(() => chatChunks(served, request)),
}))
