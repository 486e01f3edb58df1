import type { GeneratedToken, PromptLogProbs } from '../../data/generation.js'
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
const pieceJson = (asked: CompletionBody, writing: TokenWriting, { tokens, text, echoed, offset }: Piece) => {
  const before = echoed === null || asked.tokenIds === 'told' ? '' : echoed.prompt.text
  const sampled = asked.echo === 'only' ? [] : tokens
  const places = [
    ...(echoed === null ? [] : promptPlaces(echoed.prompt.ids, echoed.logProbs ?? [])),
    ...sampledPlaces(sampled, writing),
  ]
  return {
    text: before + (asked.echo === 'only' ? '' : text),
    logprobs: asked.logProbs === null ? null : completionLogProbs(places, writing, offset),
    token_ids: asked.tokenIds === 'told' ? sampled.map(({ id }) => id) : null,
  }
}

const echoedIn = (asked: CompletionBody, prompt: CompletionPrompt, logProbs: PromptLogProbs | null): Piece['echoed'] =>
  asked.echo === 'none' ? null : { prompt, logProbs }

const choicesOf = (served: Served, asked: CompletionBody, whole: readonly WholePrompt[]): readonly object[] => {
  const writing = writingOf(served, asked)
  return whole.flatMap(({ completions, promptLogProbs }, p) => {
    const prompt = asked.prompts[p]!
    return completions.map((completion, k) => {
      const echoed = echoedIn(asked, prompt, promptLogProbs)
      return {
        index: p * asked.n + k,
        ...pieceJson(asked, writing, { ...completion, echoed, offset: 0 }),
        finish_reason: completion.finishReason,
        stop_reason: completion.stopReason,
        prompt_logprobs: asked.promptLogProbs === 'told' ? promptLogProbsJson(promptLogProbs, writing.tokenizer) : null,
        prompt_token_ids: asked.tokenIds === 'told' ? Array.from(prompt.ids) : null,
      }
    })
  })
}

const usageOf = (asked: CompletionBody, whole: readonly WholePrompt[]): TokenUsage => ({
  prompt: asked.prompts.reduce((sum, { ids }) => sum + ids.length, 0),
  completion:
    asked.echo === 'only'
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
    asked,
    writing,
    progress,
  }: { readonly asked: CompletionBody; readonly writing: TokenWriting; readonly progress: Progress },
  at: { readonly prompt: number; readonly index: number },
  part: { readonly tokens: readonly GeneratedToken[]; readonly text: string; readonly finish: object },
) => {
  const choice = at.prompt * asked.n + at.index
  const prompt = asked.prompts[at.prompt]!
  const isFirst = progress.begun[choice] === false
  progress.begun[choice] = true
  const echoed = isFirst ? echoedIn(asked, prompt, progress.promptLogProbs[at.prompt] ?? null) : null
  const json = pieceJson(asked, writing, { ...part, echoed, offset: progress.characters[choice]! })
  progress.characters[choice]! += Array.from(json.text).length
  progress.tokens[choice]! += asked.echo === 'only' ? 0 : part.tokens.length
  const promptIds = isFirst && asked.tokenIds === 'told' ? Array.from(prompt.ids) : null
  return { choice, json: { index: choice, ...json, ...part.finish, prompt_token_ids: promptIds } }
}

const UNFINISHED = { finish_reason: null, stop_reason: null }

const completionChunks = (served: Served, asked: CompletionBody): ChunkWriter => {
  const state = { asked, writing: writingOf(served, asked), progress: progressOf(asked) }
  const { progress } = state
  return {
    head: heading(served, asked),
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
        prompt: asked.prompts[prompt]!.ids.length,
        completion: progress.tokens[choice]!,
        cached: progress.cached[prompt]!,
      }
      return [{ choice: json, usage }]
    },
    total: () => ({
      prompt: asked.prompts.reduce((sum, { ids }) => sum + ids.length, 0),
      completion: progress.tokens.reduce((sum, x) => sum + x, 0),
      cached: progress.cached.reduce((sum, x) => sum + x, 0),
    }),
  }
}

/** Answers a completion request, whole or as a stream. */
export const completions: Endpoint<ReadCompletion> = endpoint(completionRequest, (served, asked) => ({
  whole: (prompts) => ({
    ...heading(served, asked),
    choices: choicesOf(served, asked, prompts),
    usage: usageJson(usageOf(asked, prompts)),
    system_fingerprint: null,
  }),
  frames: streamed(() => completionChunks(served, asked)),
}))
