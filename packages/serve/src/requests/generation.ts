/** Runs checked requests in the engine: ids, abort, early failures, and complete results. */
import {
  type DecodeState,
  decodeEnd,
  decodeNext,
  type FinishReason,
  type GeneratedToken,
  type GenerationEvent,
  type PromptLogProbs,
  type SamplingParams,
} from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { type ApiFailure, apiFailure, fromEngine } from './failure.js'
import type { Served } from './served.js'
import { merged } from './streams.js'

/** The prompts of one request, with equal sampling except for their maximum length. */
export interface Job {
  /** The client's name of the request, or a new one. */
  readonly name: string
  /** The id of the answer: the name with its prefix. */
  readonly id: string
  readonly prompts: readonly { readonly ids: Int32Array; readonly sampling: SamplingParams }[]
  readonly adapter: string | null
  readonly cacheSalt: string
  /**
   * Special tokens in the text. `skip`: the engine leaves them out. `keep`: the text is decoded
   * again with them. `inside`: with them, except those that end an answer.
   */
  readonly specialTokens: 'skip' | 'keep' | 'inside'
}

/** An event of one of the prompts. */
type JobEvent = readonly [prompt: number, event: GenerationEvent]

/** The events of a running job, and a function that ends it early. */
export interface RunningJob {
  readonly events: AsyncGenerator<JobEvent>
  readonly stop: () => void
}

/** Decodes the text of each completion again, with its special tokens. */
async function* withSpecialTokens(
  events: AsyncIterable<GenerationEvent>,
  start: DecodeState,
  left: readonly number[],
): AsyncGenerator<GenerationEvent> {
  const states = new Map<number, DecodeState>()
  for await (const event of events) {
    if (event._tag === 'Tokens') {
      const [state, text] = decodeNext(
        states.get(event.index) ?? start,
        event.tokens.flatMap(({ id }) => (left.includes(id) ? [] : [id])),
      )
      states.set(event.index, state)
      yield { ...event, text }
    } else {
      if (event._tag === 'Finished') {
        const rest = decodeEnd(states.get(event.index) ?? start)
        if (rest !== '') yield { _tag: 'Tokens', index: event.index, tokens: [], text: rest }
      }
      yield event
    }
  }
}

/**
 * Starts a job. It ends when all prompts have ended, when `stop` is called, or when the client's
 * `signal` aborts.
 *
 * Effects  the engine starts at the first `next`.
 */
export const startJob = (served: Served, job: Job, signal: AbortSignal): RunningJob => {
  const control = new AbortController()
  const abort = (): void => control.abort()
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort, { once: true })
  const streams = job.prompts.map(({ ids, sampling }) => {
    const request = { prompt: ids, sampling, adapter: job.adapter, cacheSalt: job.cacheSalt }
    const events = served.requests.run(request, { given: job.name, answer: job.id }, control.signal)
    if (job.specialTokens === 'skip') return events
    const left = job.specialTokens === 'keep' ? [] : served.engine.info.endTokens
    return withSpecialTokens(events, served.text.tokenizer.decodeStart('keep'), left)
  })
  const events = (async function* (): AsyncGenerator<JobEvent> {
    try {
      yield* merged(streams)
    } finally {
      signal.removeEventListener('abort', abort)
      abort()
    }
  })()
  const stop = (): void => {
    abort()
    void events.return(undefined)
  }
  return { events, stop }
}

/** Returns the failure in an event, if any. */
export const failureOf = (event: GenerationEvent): ApiFailure | undefined => {
  if (event._tag === 'Failed') return fromEngine(event.failure)
  return event._tag === 'Finished' && event.finishReason === 'error'
    ? apiFailure(500, 'Internal server error')
    : undefined
}

/**
 * Waits for the first event of a job, so that an early failure still has its own status.
 *
 * Errors   `Left(ApiFailure)` if the first event is a failure.
 */
export const afterFirst = async (job: RunningJob): Promise<E.Either<ApiFailure, RunningJob>> => {
  const first = await job.events.next()
  const failure = first.done === true ? undefined : failureOf(first.value[1])
  if (failure !== undefined) {
    job.stop()
    return E.left(failure)
  }
  const events = async function* (): AsyncGenerator<JobEvent> {
    try {
      if (first.done !== true) yield first.value
      yield* job.events
    } finally {
      job.stop()
    }
  }
  return E.right({ events: events(), stop: job.stop })
}

/** A completion from its first to its last token. */
export interface WholeCompletion {
  readonly tokens: readonly GeneratedToken[]
  readonly text: string
  readonly finishReason: FinishReason
  readonly stopReason: string | number | null
}

/** The complete results of one prompt. */
export interface WholePrompt {
  readonly cachedTokens: number
  readonly promptLogProbs: PromptLogProbs | null
  readonly completions: readonly WholeCompletion[]
}

interface Growing {
  cachedTokens: number
  promptLogProbs: PromptLogProbs | null
  readonly completions: {
    tokens: GeneratedToken[]
    text: string[]
    finishReason: FinishReason
    stopReason: string | number | null
  }[]
}

const grow = (prompt: Growing, event: GenerationEvent): void => {
  if (event._tag === 'Started') {
    prompt.cachedTokens = event.cachedTokens
    prompt.promptLogProbs = event.promptLogProbs
  } else if (event._tag === 'Tokens') {
    const completion = prompt.completions[event.index]!
    for (const token of event.tokens) completion.tokens.push(token)
    completion.text.push(event.text)
  } else if (event._tag === 'Finished') {
    const completion = prompt.completions[event.index]!
    completion.finishReason = event.finishReason
    completion.stopReason = event.stopReason
  }
}

/**
 * Waits for a whole job.
 *
 * Errors   `Left(ApiFailure)` as soon as one of its completions fails; the others are then aborted.
 */
export const wholeJob = async (
  running: RunningJob,
  job: Job,
): Promise<E.Either<ApiFailure, readonly WholePrompt[]>> => {
  const prompts = job.prompts.map(
    ({ sampling }): Growing => ({
      cachedTokens: 0,
      promptLogProbs: null,
      completions: Array.from({ length: sampling.n }, () => ({
        tokens: [],
        text: [],
        finishReason: 'abort',
        stopReason: null,
      })),
    }),
  )
  for await (const [prompt, event] of running.events) {
    const failure = failureOf(event)
    if (failure !== undefined) return E.left(failure)
    grow(prompts[prompt]!, event)
  }
  return E.right(
    prompts.map(({ completions, ...rest }) => ({
      ...rest,
      completions: completions.map((completion) => ({ ...completion, text: completion.text.join('') })),
    })),
  )
}

/** Counts of prompt and sampled tokens. */
export interface TokenUsage {
  readonly prompt: number
  readonly completion: number
  readonly cached: number
}

/** Returns vLLM's `usage`. */
export const usageJson = ({ prompt, completion, cached }: TokenUsage): object => ({
  prompt_tokens: prompt,
  total_tokens: prompt + completion,
  completion_tokens: completion,
  prompt_tokens_details: { cached_tokens: cached },
})
