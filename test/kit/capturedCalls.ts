/** Captured calls for tests: written by hand, or drawn as an agent with branches makes them. */
import type { CapturedCall, CapturedCompletion, CapturedSession } from '@tandem-rl/text'
import fc from 'fast-check'

const sampling: CapturedCall['sampling'] = {
  ...{ maxTokens: 16, minTokens: 0, temperature: 1, topK: 0, topP: 1, minP: 0 },
  ...{ repetitionPenalty: 1, presencePenalty: 0, frequencyPenalty: 0, logitBias: [], allowedTokens: null },
  ...{ stop: [], stopTokens: [], endTokens: 'stop', key: '0000000000000001' },
}

/** A completion that ended well. Log-probabilities and versions follow from the tokens. */
export const completionOf = (ids: readonly number[], fields: Partial<CapturedCompletion> = {}): CapturedCompletion => ({
  ids: Int32Array.from(ids),
  logProbs: Float32Array.from(ids, (id) => -(id + 1) / 16),
  versions: Int32Array.from(ids, (id) => id % 3),
  ...{ finishReason: 'stop', stopReason: null, status: 'ok', reason: null },
  answer: { text: ids.join(' '), calls: [] },
  ...fields,
})

export const callOf = (
  index: number,
  prompt: readonly number[],
  completions: readonly (readonly number[] | CapturedCompletion)[],
  fields: Partial<CapturedCall> = {},
): CapturedCall => ({
  ...{ session: 's', index, startedAt: 1000 + index, durationMs: 5, path: '/v1/completions' },
  ...{ messages: null, tools: null, promptFrom: 'render', adapter: null, sampling },
  prompt: Int32Array.from(prompt),
  completions: completions.map((one) => ('ids' in one ? one : completionOf(one))),
  ...fields,
})

export const sessionOf = (calls: readonly CapturedCall[], fields: Partial<CapturedSession> = {}): CapturedSession => ({
  ...{ id: 's', group: 'g', metadata: {}, createdAt: 0, calls },
  ...{ reward: { total: 1, parts: {} }, end: { status: 'ok', reason: null } },
  ...fields,
})

export const anyIds = (most: number): fc.Arbitrary<readonly number[]> =>
  fc.array(fc.nat(3), { minLength: 1, maxLength: most })

/** One thing that an agent does next. */
const anyMove = fc.record({
  kind: fc.constantFrom('begin', 'go on', 'go on', 'go on', 'again', 'lose a token'),
  /** Which completion before it is gone on from, counted from the last. */
  back: fc.nat(3),
  observed: fc.array(fc.nat(3), { maxLength: 3 }),
  completions: fc.array(anyIds(3), { minLength: 1, maxLength: 2 }),
  fate: fc.constantFrom('ok', 'ok', 'ok', 'ok', 'failed', 'aborted'),
})

/**
 * Sessions of agents that go on from any earlier answer, sample twice, begin again, lose tokens and
 * meet failures. There are four tokens, so that equal beginnings come about by chance too.
 */
export const anySession: fc.Arbitrary<CapturedSession> = fc.array(anyMove, { maxLength: 8 }).map((moves) => {
  const calls: CapturedCall[] = []
  const ends: (readonly number[])[] = [[0]]
  for (const [index, { kind, back, observed, completions, fate }] of moves.entries()) {
    const from = ends.at(-1 - (back % ends.length))!
    const prompts = {
      begin: [0, ...observed],
      'go on': [...from, ...observed],
      again: Array.from(calls.at(-1)?.prompt ?? [0]),
      'lose a token': [...from.slice(0, -2), 3, ...observed],
    }
    const prompt = prompts[kind as keyof typeof prompts] // one of its keys
    const lost = { finishReason: null, status: fate, reason: fate } as Partial<CapturedCompletion> // of the fates, all but ok
    calls.push(
      callOf(
        index,
        prompt,
        completions.map((ids) => completionOf(ids, fate === 'ok' ? {} : lost)),
      ),
    )
    ends.push(...completions.map((ids) => [...prompt, ...ids]))
  }
  return sessionOf(calls)
})
