import { getEventListeners } from 'node:events'
import { keyFromSeed } from '@tandem-rl/base'
import type { GeneratedToken, GenerationEvent, GenerationFailure } from '@tandem-rl/text'
import fc from 'fast-check'
import { isRight } from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { ragged, raggedRows } from '../../../../src/data/tensorDict/leaf.js'
import { get } from '../../../../src/data/tensorDict/tensorDict.js'
import { enginePolicy } from '../../../../src/modules/generation/policy/enginePolicy.js'
import { eventEngine, finished, goodEvents, HANG, started, tokenOf, tokensOf } from '../../../kit/eventEngine.js'
import { leftOf, rightOf } from '../../../kit/results.js'
import { tokenPrompt } from '../../../kit/small.js'

const key = keyFromSeed(1)
const sampling = { maxTokens: 3 }

/** The policy's result for a response of its engine. */
const failureFor = (events: readonly (GenerationEvent | Error)[]) =>
  leftOf(enginePolicy({ engine: eventEngine(() => events), sampling }).act(tokenPrompt([[1]]), key))

const failed = (kind: GenerationFailure['kind']): GenerationEvent => ({
  _tag: 'Failed',
  failure: { _tag: 'GenerationFailure', kind, reason: `it is ${kind}` },
})

const one = (token: Partial<GeneratedToken>): readonly GenerationEvent[] => [
  started,
  tokensOf(0, [tokenOf(7), { ...tokenOf(8), ...token }]),
  finished(0),
]

describe('an answer that cannot be', () => {
  it.each<readonly [string, readonly (GenerationEvent | Error)[], string]>([
    ['NaN for a log-probability', one({ temperedLogProb: Number.NaN }), 'token 1 has no log-probability'],
    ['a log-probability above 0', one({ temperedLogProb: 0.5 }), 'above 0'],
    ['-9999 for a log-probability', one({ temperedLogProb: -9999 }), 'for missing numbers'],
    ['-Infinity for a log-probability', one({ temperedLogProb: Number.NEGATIVE_INFINITY }), 'for missing numbers'],
    ['an id outside of the vocabulary', one({ id: 100 }), 'token 1 has id 100'],
    ['a version that is none', one({ version: Number.NaN }), 'version NaN'],
    ['two versions in a completion', one({ version: 1 }), 'from version 0 to 1'],
    ['an abort', [started, finished(0, 'abort')], "'abort'"],
    ['an error', [started, tokensOf(0, [tokenOf(7)]), finished(0, 'error')], "'error'"],
    ['no tokens', [started, finished(0)], 'a completion without tokens'],
    ['too many tokens', [started, tokensOf(0, Array(4).fill(tokenOf(7))), finished(0)], '4 tokens although at most 3'],
    ['tokens that are missing', [started, tokensOf(0, [tokenOf(7)]), finished(0, 'length')], 'after 1 of 3 tokens'],
    ['a completion that nobody asked for', [started, tokensOf(1, [tokenOf(7)])], 'completion 1 of 1'],
    ['tokens after the end', [...one({}), tokensOf(0, [tokenOf(7)])], 'has ended'],
    ['a stream that ends early', [started, tokensOf(0, [tokenOf(7)])], 'ended before'],
    ['an exception', [started, new Error('socket')], 'broke its contract: socket'],
  ])('with %s is a failure of the infrastructure, and no row', async (_, events, reason) => {
    expect(await failureFor(events)).toMatchObject({
      ...{ _tag: 'PolicyFailure', kind: 'infrastructure', reason: expect.stringContaining(reason) },
    })
  })

  it('of any numbers gives either a row of those very numbers or a failure', async () => {
    const anyNumber = fc.oneof(fc.double(), fc.constantFrom(Number.NaN, -9999, -9998, -9997, 0, 1e-9, -1))
    await fc.assert(
      fc.asyncProperty(fc.array(anyNumber, { minLength: 1, maxLength: 3 }), async (numbers) => {
        const tokens = numbers.map((temperedLogProb) => tokenOf(7, { temperedLogProb }))
        const engine = eventEngine(() => [started, tokensOf(0, tokens), finished(0)])
        const answer = await enginePolicy({ engine, sampling }).act(tokenPrompt([[1]]), key)()
        expect(isRight(answer)).toBe(numbers.every((x) => x <= 0 && x > -9998))
        if (isRight(answer)) {
          expect(raggedRows(get(answer.right, 'logProbs', 'response'))).toEqual([numbers.map(Math.fround)])
        }
      }),
    )
  })

  it('in a score is a failure: other places, other ids, numbers that are none', async () => {
    const place = (id: number, logProb: number) => ({ id, logProb, rank: 1, top: [] })
    for (const [promptLogProbs, reason] of [
      [null, 'gave no log-probabilities'],
      [[null, place(2, -1)], 'gave 2 log-probabilities for a prompt of 3'],
      [[null, place(2, -1), place(4, -1)], 'scored id 4 at place 2'],
      [[null, place(2, -1), place(3, Number.NaN)], 'place 2 of the prompt has no log-probability'],
      [[null, null, place(3, -1)], 'no log-probability at place 1'],
    ] as const) {
      const engine = eventEngine(() => [
        { _tag: 'Started', cachedTokens: 0, promptLogProbs },
        tokensOf(0, [tokenOf(7)]),
        finished(0, 'length'),
      ])
      const failure = await leftOf(enginePolicy({ engine }).score(ragged('int32', [[1]]), ragged('int32', [[2, 3]]), 1))
      expect(failure).toMatchObject({ kind: 'infrastructure', reason: expect.stringContaining(reason) })
    }
  })
})

describe('a completion of several versions', () => {
  it('counts as one of the oldest where that was asked for', async () => {
    const engine = eventEngine(() => [
      started,
      tokensOf(0, [tokenOf(7, { version: 4 }), tokenOf(8, { version: 3 })]),
      finished(0),
    ])
    const policy = enginePolicy({ engine, sampling, mixedVersions: 'oldest' })
    expect(get(await rightOf(policy.act(tokenPrompt([[1]]), key)), 'policyVersion').items.toArray()).toEqual([3])
  })
})

describe('a failure of the engine', () => {
  it.each([
    ['invalid', 'asked'],
    ['unauthorized', 'asked'],
    ['unknown-adapter', 'infrastructure'],
    ['overloaded', 'infrastructure'],
    ['closed', 'infrastructure'],
    ['internal', 'infrastructure'],
    ['unreachable', 'infrastructure'],
    ['timeout', 'infrastructure'],
    ['protocol', 'infrastructure'],
  ] as const)('of kind %s is one of kind %s', async (kind, expected) => {
    expect(await failureFor([failed(kind)])).toMatchObject({ kind: expected, reason: `it is ${kind}` })
  })

  it('under one row ends the requests of the others, even those that hang', async () => {
    const engine = eventEngine((request) => (request.prompt[0] === 2 ? [started, failed('internal')] : [HANG]))
    const failure = await leftOf(enginePolicy({ engine, sampling }).act(tokenPrompt([[1], [2], [3]]), key))
    expect(failure.reason).toBe('it is internal')
    expect(engine.aborted()).toBe(3)
  })
})

describe('calling off', () => {
  it('by the signal ends a call that hangs, as cancelled, and leaves no listener on the signal', async () => {
    const controller = new AbortController()
    const engine = eventEngine(() => [started, HANG])
    const task = enginePolicy({ engine, sampling }).act(tokenPrompt([[1], [2]]), key, { signal: controller.signal })
    const running = leftOf(task)
    while (engine.seen.length < 2) await new Promise((go) => setImmediate(go))
    controller.abort()
    expect(await running).toMatchObject({ kind: 'cancelled' })
    expect(engine.aborted()).toBe(2)
    expect(getEventListeners(controller.signal, 'abort')).toEqual([])
    expect(await leftOf(task)).toMatchObject({ kind: 'cancelled' })
    expect(engine.seen).toHaveLength(2)
  })

  it('happens at the deadline too, whatever hangs', async () => {
    const limits = { deadlineMs: 20 }
    for (const engine of [
      eventEngine(() => [started, HANG]),
      { ...eventEngine(() => []), connect: () => new Promise<never>(() => {}) },
    ]) {
      const failure = await leftOf(enginePolicy({ engine, sampling, limits }).act(tokenPrompt([[1]]), key))
      expect(failure).toMatchObject({ kind: 'infrastructure', reason: expect.stringContaining('deadline of 20 ms') })
    }
  })

  it('leaves no listener after a call that went well', async () => {
    const { signal } = new AbortController()
    await rightOf(enginePolicy({ engine: eventEngine(goodEvents), sampling }).act(tokenPrompt([[1]]), key, { signal }))
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })
})

describe('requests at a time', () => {
  it('are at most as many as allowed, over all calls of the policy', async () => {
    let most = 0
    const engine = eventEngine((request) => {
      most = Math.max(most, engine.open())
      return goodEvents(request)
    })
    const policy = enginePolicy({ engine, sampling, limits: { maxConcurrent: 3 } })
    const rows = Array.from({ length: 10 }, (_, i) => [i + 1])
    await Promise.all([1, 2].map((seed) => rightOf(policy.act(tokenPrompt(rows), keyFromSeed(seed)))))
    expect(engine.seen).toHaveLength(20)
    expect(most).toBe(3)
  })

  it('do not grow with a policy of other settings', async () => {
    const engine = eventEngine(() => [started, HANG])
    const controller = new AbortController()
    const policy = enginePolicy({ engine, sampling, limits: { maxConcurrent: 1 } })
    const both = [policy, policy.withSampling({ maxTokens: 2 })].map((each) =>
      leftOf(each.act(tokenPrompt([[1]]), key, { signal: controller.signal })),
    )
    for (let turn = 0; turn < 5; turn++) await new Promise((go) => setImmediate(go))
    controller.abort()
    await Promise.all(both)
    expect(engine.seen).toHaveLength(1)
  })
})
