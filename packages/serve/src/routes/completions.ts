import type { GeneratedToken, PromptLogProbs } from '@tandem-rl/text'
import {
  type CompletionBody,
  type CompletionPrompt,
  completionRequest,
  type ReadCompletion,
} from '../requests/completion.js'
import { type TokenUsage, usageJson, type WholePrompt } from '../requests/generation.js'
import { type Served, unixSeconds } from '../requests/served.js'
import { type ChunkWriter, type Endpoint, endpoint, streamed, writingOf } from './answer.js'
import { completionLogProbs, promptLogProbsJson, promptPlaces, sampledPlaces, type TokenWriting } from './logProbs.js'

/** A part of a completion. The first one starts with the echoed prompt. */
interface Piece {
  readonly tokens: readonly GeneratedToken[]
  readonly text: string
  /** `null` for pieces without the echoed prompt. */
  readonly echoed: { readonly prompt: CompletionPrompt; readonly logProbs: PromptLogProbs | null } | null
  /** Position of the piece in the text, in characters. */
  readonly offset: number
}

/** Returns the text and log-probabilities of a piece for a choice. */
const pieceJson = (request: CompletionBody, writing: TokenWriting, { tokens, text, echoed, offset }: Piece) => {
  const before = echoed === null || request.tokenIds === 'included' ? '' : echoed.prompt.text
  const sampled = request.echo === 'only' ? [] : tokens
  const places = [
    ...(echoed === null ? [] : promptPlaces(echoed.prompt.ids, echoed.logProbs ?? [])),
    ...sampledPlaces(sampled, writing),
  ]
  return {
    text: before + (request.echo === 'only' ? '' : text),
    logprobs: request.logProbs === null ? null : completionLogProbs(places, writing, offset),
    token_ids: request.tokenIds === 'included' ? sampled.map(({ id }) => id) : null,
  }
}

const echoedIn = (
  request: CompletionBody,
  prompt: CompletionPrompt,
  logProbs: PromptLogProbs | null,
): Piece['echoed'] => (request.echo === 'none' ? null : { prompt, logProbs })

const choicesOf = (served: Served, request: CompletionBody, whole: readonly WholePrompt[]): readonly object[] => {
  const writing = writingOf(served, request)
  return whole.flatMap(({ completions, promptLogProbs }, p) => {
    const prompt = request.prompts[p]!
    return completions.map((completion, k) => {
      const echoed = echoedIn(request, prompt, promptLogProbs)
      return {
        index: p * request.n + k,
        ...pieceJson(request, writing, { ...completion, echoed, offset: 0 }),
        finish_reason: completion.finishReason,
        stop_reason: completion.stopReason,
        prompt_logprobs:
          request.promptLogProbs === 'included' ? promptLogProbsJson(promptLogProbs, writing.tokenizer) : null,
        prompt_token_ids: request.tokenIds === 'included' ? Array.from(prompt.ids) : null,
      }
    })
  })
}

const usageOf = (request: CompletionBody, whole: readonly WholePrompt[]): TokenUsage => ({
  prompt: request.prompts.reduce((sum, { ids }) => sum + ids.length, 0),
  completion:
    request.echo === 'only'
      ? 0
      : whole.reduce((sum, { completions }) => sum + completions.reduce((n, { tokens }) => n + tokens.length, 0), 0),
  cached: whole.reduce((sum, { cachedTokens }) => sum + cachedTokens, 0),
})

const heading = (served: Served, { job, model }: CompletionBody) => ({
  id: job.id,
  object: 'text_completion',
  created: unixSeconds(served.world),
  model,
})

/** The state of a stream. */
interface Progress {
  /** Per choice: number of tokens and characters so far, and whether its first piece was sent. */
  readonly tokens: number[]
  readonly characters: number[]
  readonly begun: boolean[]
  /** Per prompt. */
  readonly cached: number[]
  readonly promptLogProbs: (PromptLogProbs | null)[]
}

const progressOf = ({ prompts, n }: CompletionBody): Progress => ({
  tokens: Array(prompts.length * n).fill(0),
  characters: Array(prompts.length * n).fill(0),
  begun: Array(prompts.length * n).fill(false),
  cached: Array(prompts.length).fill(0),
  promptLogProbs: Array(prompts.length).fill(null),
})

/** Makes one chunk of one choice. */
const choiceChunk = (
  {
    request,
    writing,
    progress,
  }: { readonly request: CompletionBody; readonly writing: TokenWriting; readonly progress: Progress },
  at: { readonly prompt: number; readonly index: number },
  part: { readonly tokens: readonly GeneratedToken[]; readonly text: string; readonly finish: object },
) => {
  const choice = at.prompt * request.n + at.index
  const prompt = request.prompts[at.prompt]!
  const isFirst = progress.begun[choice] === false
  progress.begun[choice] = true
  const echoed = isFirst ? echoedIn(request, prompt, progress.promptLogProbs[at.prompt] ?? null) : null
  const json = pieceJson(request, writing, { ...part, echoed, offset: progress.characters[choice]! })
  progress.characters[choice]! += Array.from(json.text).length
  progress.tokens[choice]! += request.echo === 'only' ? 0 : part.tokens.length
  const promptIds = isFirst && request.tokenIds === 'included' ? Array.from(prompt.ids) : null
  return { choice, json: { index: choice, ...json, ...part.finish, prompt_token_ids: promptIds } }
}

const UNFINISHED = { finish_reason: null, stop_reason: null }

const completionChunks = (served: Served, request: CompletionBody): ChunkWriter => {
  const state = { request, writing: writingOf(served, request), progress: progressOf(request) }
  const { progress } = state
  return {
    head: heading(served, request),
    chunksOf: (prompt, event) => {
      if (event._tag === 'Started') {
        progress.cached[prompt] = event.cachedTokens
        progress.promptLogProbs[prompt] = event.promptLogProbs
      }
      if (event._tag !== 'Tokens' && event._tag !== 'Finished') return []
      const part =
        event._tag === 'Tokens'
          ? { tokens: event.tokens, text: event.text, finish: UNFINISHED }
          : { tokens: [], text: '', finish: { finish_reason: event.finishReason, stop_reason: event.stopReason } }
      const { choice, json } = choiceChunk(state, { prompt, index: event.index }, part)
      const usage = {
        prompt: request.prompts[prompt]!.ids.length,
        completion: progress.tokens[choice]!,
        cached: progress.cached[prompt]!,
      }
      return [{ choice: json, usage }]
    },
    total: () => ({
      prompt: request.prompts.reduce((sum, { ids }) => sum + ids.length, 0),
      completion: progress.tokens.reduce((sum, x) => sum + x, 0),
      cached: progress.cached.reduce((sum, x) => sum + x, 0),
    }),
  }
}

/** Answers a completion request, whole or as a stream. */
export const completions: Endpoint<ReadCompletion> = endpoint(completionRequest, (served, request) => ({
  whole: (prompts) => ({
    ...heading(served, request),
    choices: choicesOf(served, request, prompts),
    usage: usageJson(usageOf(request, prompts)),
    system_fingerprint: null,
  }),
  frames: streamed(() => completionChunks(served, request)),
}))
