/** A request inside the engine: its completions, events and measurements. */
import type {
  FinishReason,
  GeneratedToken,
  GenerationFailure,
  GenerationRequest,
  PromptLogProbs,
} from '@tandem-rl/text'
import type { Either } from 'fp-ts/lib/Either.js'
import type { MetricsRecorder } from './engineMetrics.js'
import type { WeightUse } from './engineWeights.js'
import type { Outbox } from './outbox.js'
import type { Age } from './plan.js'
import type { NextToken } from './runner/modelRunner.js'
import type { Finish } from './sampling/stopTracker.js'

/** A sampled token, with its text and whether it ends the completion. */
export interface SampledTicket {
  readonly token: GeneratedToken
  /** The text that is now final. */
  readonly text: string
  readonly finish: Finish | null
}

/** The sampler of one completion. A mutable value. */
export interface CompletionSampler {
  readonly next: (scores: NextToken, version: number) => Either<GenerationFailure, SampledTicket>
  /** Returns text that was held back, at the end of the completion. */
  readonly rest: () => string
}

/** A growing list of token ids. */
interface TokenList {
  readonly length: () => number
  readonly last: () => number
  readonly push: (id: number) => void
  /** A view of all ids, valid until the next `push`. */
  readonly view: () => Int32Array
}

/** One completion. */
export interface Row extends Age {
  readonly ticket: Ticket
  /** The prompt and all sampled tokens. */
  readonly tokens: TokenList
  readonly choose: CompletionSampler['next']
  /** Adds a sampled token, sends it to the reader, and closes the row if it was the last one. */
  readonly deliver: (sampled: SampledTicket) => void
  /** Closes the row without another token. */
  readonly abort: () => void
  readonly isOpen: () => boolean
}

/** One request. */
export interface Ticket {
  readonly request: GenerationRequest
  readonly arrival: number
  readonly use: WeightUse
  readonly rows: readonly Row[]
  /** Marks the start of the computation. The first call records the waiting time. */
  readonly schedule: () => void
  readonly hasBegun: () => boolean
  /** Reports the start to the reader, on the first call. */
  readonly begin: (cachedTokens: number, promptLogProbs: PromptLogProbs | null) => void
  readonly fail: (failure: GenerationFailure) => void
  readonly isOpen: () => boolean
}

/** The parts of a ticket. */
export interface TicketParts {
  readonly request: GenerationRequest
  readonly arrival: number
  readonly use: WeightUse
  readonly outbox: Outbox
  readonly metrics: MetricsRecorder
  /** Returns the time in milliseconds. */
  readonly now: () => number
  readonly start: (index: number) => CompletionSampler
  /** Called once, when the last completion has ended. */
  readonly closed: (ticket: Ticket) => void
}

/** Makes a list that starts with these ids. */
const tokenList = (ids: Int32Array): TokenList => {
  let [values, count] = [Int32Array.from(ids), ids.length]
  return {
    length: () => count,
    last: () => values[count - 1]!,
    push: (id) => {
      if (count === values.length) {
        const larger = new Int32Array(2 * count + 16)
        larger.set(values)
        values = larger
      }
      values[count++] = id
    },
    view: () => values.subarray(0, count),
  }
}

/** Converts milliseconds to seconds. */
const seconds = (ms: number): number => ms / 1000

/**
 * Makes a ticket with all its completions.
 *
 * Effects  a mutable value that writes to `outbox` and `metrics`.
 */
export const makeTicket = (parts: TicketParts): Ticket => {
  const { request, arrival, use, outbox, metrics, now } = parts
  const arrivedAt = now()
  let open = request.sampling.n
  let [isScheduled, hasBegun, hasToken] = [false, false, false]

  const close = (): void => {
    open = 0
    outbox.end()
    use.release()
    metrics.observe('endToEnd', seconds(now() - arrivedAt))
    parts.closed(ticket)
  }

  const makeRow = (index: number): Row => {
    const sampler = parts.start(index)
    const tokens = tokenList(request.prompt)
    let isOpen = true
    let lastTokenAt: number | null = null

    const end = (finishReason: FinishReason, stopReason: string | number | null): void => {
      isOpen = false
      metrics.finish(finishReason)
      outbox.push({ _tag: 'Finished', index, finishReason, stopReason })
      open--
      if (open === 0) close()
    }

    return {
      arrival,
      index,
      get ticket() {
        return ticket
      },
      tokens,
      choose: sampler.next,
      deliver: ({ token, text, finish }) => {
        const at = now()
        if (!hasToken) metrics.observe('timeToFirstToken', seconds(at - arrivedAt))
        if (lastTokenAt !== null) metrics.observe('interTokenLatency', seconds(at - lastTokenAt))
        lastTokenAt = at
        hasToken = true
        metrics.add('generatedTokens', 1)
        tokens.push(token.id)
        outbox.push({ _tag: 'Tokens', index, tokens: [token], text })
        if (finish !== null) end(finish.finishReason, finish.stopReason)
      },
      abort: () => {
        const text = sampler.rest()
        if (text !== '') outbox.push({ _tag: 'Tokens', index, tokens: [], text })
        end('abort', null)
      },
      isOpen: () => isOpen && open > 0,
    }
  }

  const ticket: Ticket = {
    request,
    arrival,
    use,
    rows: Array.from({ length: request.sampling.n }, (_, index) => makeRow(index)),
    schedule: () => {
      if (!isScheduled) metrics.observe('queueTime', seconds(now() - arrivedAt))
      isScheduled = true
    },
    hasBegun: () => hasBegun,
    begin: (cachedTokens, promptLogProbs) => {
      if (hasBegun) return
      hasBegun = true
      metrics.add('promptTokens', request.prompt.length)
      outbox.push({ _tag: 'Started', cachedTokens, promptLogProbs })
    },
    fail: (failure) => {
      for (let i = 0; i < open; i++) metrics.finish('error')
      outbox.push({ _tag: 'Failed', failure })
      close()
    },
    isOpen: () => open > 0,
  }
  return ticket
}
