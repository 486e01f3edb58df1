/**
 * Answers of `POST /v1/chat/completions`.
 *
 * This folder holds the answers of the endpoints. It does not hold the checks of requests
 * (`../requests`).
 */
import type { GeneratedToken } from '../../data/generation.js'
import type { ToolDelta } from '../../text/toolCalls/machine.js'
import type { ReadText } from '../../text/toolCalls/reader.js'
import { type ChatRequest, chatRequest } from '../requests/chat.js'
import { type TokenUsage, usageJson, type WholeCompletion, type WholePrompt } from '../requests/generation.js'
import { type Served, unixSeconds } from '../requests/served.js'
import { type Chunk, type ChunkWriter, type Endpoint, endpoint, streamed, writingOf } from './answer.js'
import { chatLogProbs, promptLogProbsJson, type TokenWriting } from './logProbs.js'
import { type ChoiceProgress, callId, firstProgress, readAnswer, readMore } from './reading.js'

const heading = (served: Served, { job, model }: ChatRequest, object: string) => ({
  id: job.id,
  object,
  created: unixSeconds(served.world),
  model,
})

const messageOf = (served: Served, asked: ChatRequest, { text, calls }: ReadText): object => ({
  role: asked.role,
  content: calls.length > 0 && text === '' ? null : asked.echo + text,
  refusal: null,
  annotations: null,
  audio: null,
  function_call: null,
  tool_calls: calls.map(({ name, arguments: args }) => ({
    id: callId(served, 'chatcmpl-tool-'),
    type: 'function',
    function: { name, arguments: args },
  })),
  reasoning: null,
})

const finishOf = (finish: WholeCompletion['finishReason'], calls: number): string =>
  finish === 'stop' && calls > 0 ? 'tool_calls' : finish

const answerJson = (served: Served, asked: ChatRequest, whole: WholePrompt): object => {
  const writing = writingOf(served, asked)
  const prompt = asked.prompt.length
  const completion = whole.completions.reduce((sum, { tokens }) => sum + tokens.length, 0)
  return {
    ...heading(served, asked, 'chat.completion'),
    choices: whole.completions.map(({ text, tokens, finishReason, stopReason }, index) => {
      const answer = readAnswer(asked, text)
      return {
        index,
        message: messageOf(served, asked, answer),
        logprobs: asked.logProbs === null ? null : chatLogProbs(tokens, writing),
        finish_reason: finishOf(finishReason, answer.calls.length),
        stop_reason: stopReason,
        token_ids: asked.tokenIds === 'told' ? tokens.map(({ id }) => id) : null,
      }
    }),
    service_tier: null,
    system_fingerprint: null,
    usage: usageJson({ prompt, completion, cached: whole.cachedTokens }),
    prompt_logprobs:
      asked.promptLogProbs === 'told' ? promptLogProbsJson(whole.promptLogProbs, writing.tokenizer) : null,
    prompt_token_ids: asked.tokenIds === 'told' ? Array.from(asked.prompt) : null,
  }
}

/**
 * Returns the deltas of tool calls in a stream: first a call with its own id and its name, then its
 * arguments.
 */
const callDeltas = (served: Served, deltas: readonly ToolDelta[]): readonly object[] =>
  deltas.flatMap((delta) => {
    if (delta._tag === 'Text' || delta._tag === 'Id') return []
    return delta._tag === 'Call'
      ? [
          {
            index: delta.index,
            id: callId(served, 'chatcmpl-tool-'),
            type: 'function',
            function: { name: delta.name, arguments: '' },
          },
        ]
      : [{ index: delta.index, function: { arguments: delta.text } }]
  })

const deltaJson = (served: Served, deltas: readonly ToolDelta[]): object => {
  const text = deltas.map((delta) => (delta._tag === 'Text' ? delta.text : '')).join('')
  const calls = callDeltas(served, deltas)
  return {
    ...((text !== '' || calls.length === 0) && { content: text }),
    ...(calls.length > 0 && { tool_calls: calls }),
  }
}

interface StreamState {
  readonly served: Served
  readonly asked: ChatRequest
  readonly writing: TokenWriting
  readonly choices: ChoiceProgress[]
}

const tokensJson = ({ asked, writing }: StreamState, tokens: readonly GeneratedToken[]) => ({
  logprobs: asked.logProbs === null || tokens.length === 0 ? null : chatLogProbs(tokens, writing),
  token_ids: asked.tokenIds === 'told' ? tokens.map(({ id }) => id) : null,
})

/** Returns the choice of a chunk for new tokens, or `undefined` if there is nothing to send yet. */
const tokensChunk = (
  state: StreamState,
  index: number,
  { tokens, text }: { readonly tokens: readonly GeneratedToken[]; readonly text: string },
): object | undefined => {
  const { choice, deltas } = readMore(state.asked, state.choices[index]!, text)
  state.choices[index] = { ...choice, tokens: choice.tokens + tokens.length }
  const isSilent =
    deltas.length === 0 && (tokens.length === 0 || (state.asked.logProbs === null && state.asked.tokenIds === 'untold'))
  return isSilent
    ? undefined
    : {
        index,
        delta: deltas.length === 0 ? {} : deltaJson(state.served, deltas),
        ...tokensJson(state, tokens),
        finish_reason: null,
      }
}

/** Returns the choice of the last chunk, with the text that the parser of tool calls held back. */
const finishChunk = (
  state: StreamState,
  index: number,
  { finishReason, stopReason }: Pick<WholeCompletion, 'finishReason' | 'stopReason'>,
): object => {
  const { choice, deltas } = readMore(state.asked, state.choices[index]!, null)
  state.choices[index] = choice
  return {
    index,
    delta: deltas.length === 0 ? {} : deltaJson(state.served, deltas),
    ...tokensJson(state, []),
    finish_reason: finishOf(finishReason, choice.calls),
    stop_reason: stopReason,
  }
}

/** Returns the first chunks: the role of each choice, and the echoed text. */
const firstChoices = ({ asked }: StreamState): readonly object[] => {
  const indices = Array.from({ length: asked.n }, (_, index) => index)
  const begin = (delta: object) => (index: number) => ({ index, delta, logprobs: null, finish_reason: null })
  return [
    ...indices.map(begin({ role: asked.role, content: '' })),
    ...(asked.echo === '' ? [] : indices.map(begin({ content: asked.echo }))),
  ]
}

/** Returns the chunks of `firstChoices`. The first of them carries the prompt's token ids. */
const beginning = (state: StreamState, usage: TokenUsage): readonly Chunk[] =>
  firstChoices(state).map((choice, i) => ({
    choice,
    usage,
    ...(i === 0 && state.asked.tokenIds === 'told' && { fields: { prompt_token_ids: Array.from(state.asked.prompt) } }),
  }))

const chatChunks = (served: Served, asked: ChatRequest): ChunkWriter => {
  const choices = Array.from({ length: asked.n }, () => firstProgress(asked))
  const state = { served, asked, writing: writingOf(served, asked), choices }
  let cached = 0
  const usage = (completion: number): TokenUsage => ({ prompt: asked.prompt.length, completion, cached })
  return {
    head: heading(served, asked, 'chat.completion.chunk'),
    chunksOf: (_prompt, event) => {
      if (event._tag === 'Started') {
        cached = event.cachedTokens
        return beginning(state, usage(0))
      }
      if (event._tag !== 'Tokens' && event._tag !== 'Finished') return []
      const choice =
        event._tag === 'Tokens' ? tokensChunk(state, event.index, event) : finishChunk(state, event.index, event)
      return choice === undefined ? [] : [{ choice, usage: usage(choices[event.index]!.tokens) }]
    },
    total: () => usage(choices.reduce((sum, { tokens }) => sum + tokens, 0)),
  }
}

/** Answers a chat request, whole or as a stream. Both read tool calls in the same way. */
export const chatCompletions: Endpoint = endpoint(chatRequest, (served, asked) => ({
  whole: ([prompt]) => answerJson(served, asked, prompt!),
  frames: streamed(() => chatChunks(served, asked)),
}))
