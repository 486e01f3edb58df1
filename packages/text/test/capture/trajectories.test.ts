import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { anySession, callOf, completionOf, sessionOf } from '../../../../test/kit/capturedCalls.js'
import { cpuSeconds, expectLinear } from '../../../../test/kit/scaling.js'
import { linkCalls } from '../../src/capture/linking.js'
import { type CapturedSession, completionStatus } from '../../src/capture/session.js'
import { sessionTrajectories } from '../../src/capture/trajectories.js'

const startsWith = (ids: Int32Array, start: Int32Array): boolean =>
  start.length <= ids.length && start.every((id, i) => id === ids[i])

/**
 * All completions that are ok, and how long the longest of them is that a call may go on from: the
 * slow way.
 */
const longestBefore = ({ calls }: CapturedSession, index: number): number =>
  Math.max(
    0,
    ...calls
      .filter((call) => call.index < index)
      .flatMap(({ prompt, completions }) =>
        completions.flatMap(({ status, ids }) => {
          const full = Int32Array.from([...prompt, ...ids])
          return status === 'ok' && startsWith(calls[index]!.prompt, full) ? [full.length] : []
        }),
      ),
  )

const okTokens = ({ calls }: CapturedSession): number =>
  calls
    .flatMap(({ completions }) => completions)
    .reduce((n, { status, ids }) => n + (status === 'ok' ? ids.length : 0), 0)

describe('calls are linked', () => {
  it('with the longest completion that their prompt begins with', () => {
    fc.assert(
      fc.property(anySession, (session) => {
        for (const [index, parent] of linkCalls(session.calls).parents) {
          expect(parent?.full.length ?? 0).toBe(longestBefore(session, index))
          if (parent !== null) expect(startsWith(session.calls[index]!.prompt, parent.full)).toBe(true)
        }
      }),
    )
  })

  it('in time that grows as the tokens of a long conversation', () => {
    const first = Array.from({ length: 4000 }, (_, i) => i % 50)
    const chain = (count: number) =>
      Array.from({ length: count }, (_, i) =>
        callOf(i, [...first, ...Array.from({ length: 2 * i }, (_each, t) => t % 2)], [[0]]),
      )
    expectLinear((count) => {
      const calls = chain(count)
      return cpuSeconds(() => expect(linkCalls(calls).nodes).toHaveLength(count))
    }, 100)
  })

  it('in whatever order they are told', () => {
    const shuffled = anySession.chain((session) =>
      fc
        .shuffledSubarray([...session.calls], { minLength: session.calls.length })
        .map((calls) => [session, { ...session, calls }] as const),
    )
    fc.assert(
      fc.property(shuffled, fc.constantFrom('once' as const, 'each' as const), ([session, other], shared) => {
        expect(sessionTrajectories(other, { shared })).toEqual(sessionTrajectories(session, { shared }))
      }),
    )
  })

  it('to one chain each where two runs say the same', () => {
    const twins = [
      callOf(0, [1], [[2]]),
      callOf(1, [1], [[2]]),
      callOf(2, [1, 2, 3], [[4]]),
      callOf(3, [1, 2, 3], [[4]]),
    ]
    const { trajectories } = sessionTrajectories(sessionOf(twins))
    expect(trajectories.map(({ ids }) => [...ids])).toEqual([
      [1, 2, 3, 4],
      [1, 2, 3, 4],
    ])
    expect(trajectories.map(({ mask }) => [...mask])).toEqual([
      [0, 1, 0, 1],
      [0, 1, 0, 1],
    ])
  })
})

describe('the trajectories of a session', () => {
  it('learn every token that was sampled to its end once, and no other', () => {
    fc.assert(
      fc.property(anySession, (session) => {
        const { trajectories } = sessionTrajectories(session)
        const turns = trajectories.flatMap((trajectory) => trajectory.turns.map((turn) => ({ trajectory, turn })))
        expect(new Set(turns.map(({ turn }) => `${turn.call}.${turn.completion}`)).size).toBe(turns.length)
        for (const { trajectory, turn } of turns) {
          const { ids, logProbs, versions } = session.calls[turn.call]!.completions[turn.completion]!
          expect(trajectory.ids.slice(turn.start, turn.end)).toEqual(ids)
          expect(trajectory.logProbs.slice(turn.start, turn.end)).toEqual(logProbs)
          expect(trajectory.versions.slice(turn.start, turn.end)).toEqual(versions)
          expect(trajectory.ids.slice(0, turn.start)).toEqual(session.calls[turn.call]!.prompt)
          expect([...trajectory.mask.slice(turn.start, turn.end)].every((on) => on === 1)).toBe(true)
        }
        const masked = trajectories.reduce((n, { mask }) => n + mask.reduce((a, b) => a + b, 0), 0)
        expect(masked).toBe(okTokens(session))
        for (const { mask, logProbs, versions } of trajectories) {
          expect([...logProbs].map((x) => (Number.isNaN(x) ? 0 : 1))).toEqual([...mask])
          expect([...versions].map((x) => (x === -1 ? 0 : 1))).toEqual([...mask])
        }
      }),
    )
  })

  it('learn it in each of their conversations if that is asked for', () => {
    fc.assert(
      fc.property(anySession, (session) => {
        const [once, each] = (['once', 'each'] as const).map(
          (shared) => sessionTrajectories(session, { shared }).trajectories,
        )
        expect(each!.map(({ ids }) => ids)).toEqual(once!.map(({ ids }) => ids))
        for (const [i, { mask, shared }] of once!.entries()) {
          const all = Uint8Array.from(mask)
          for (const { start, end } of shared) all.fill(1, start, end)
          expect(each![i]!.mask).toEqual(all)
        }
      }),
    )
  })

  it('leave out what failed, and say so', () => {
    const nan = completionOf([5, 6], {
      ...completionStatus({ ids: [5, 6], logProbs: [-1, Number.NaN], finishReason: 'stop', failure: null }),
    })
    const session = sessionOf([callOf(0, [1], [[2]]), callOf(1, [1, 2, 3], [nan]), callOf(2, [1, 2, 3], [[4]])])
    const { trajectories, unused } = sessionTrajectories(session)
    expect(trajectories).toMatchObject([{ status: 'ok', turns: [{ call: 0 }, { call: 2 }] }])
    expect(unused).toEqual([
      { call: 1, completion: 0, status: 'unusable', reason: 'the log-probability of token 1 is NaN' },
    ])
  })

  it('are failed where a call that failed cut them short, and in all where it was the last', () => {
    const failed = completionOf([], { status: 'failed', finishReason: null, reason: 'no connection' })
    const calls = [callOf(0, [1], [[2]]), callOf(1, [9], [[8]]), callOf(2, [1, 2, 3], [failed])]
    const last = sessionTrajectories(sessionOf(calls)).trajectories
    expect(last.map(({ status, reason }) => [status, reason])).toEqual([
      ['failed', 'the last call of the session is failed: no connection'],
      ['failed', 'the last call of the session is failed: no connection'],
    ])
    const others = sessionTrajectories(sessionOf([...calls, callOf(3, [9, 8, 7], [[6]])])).trajectories
    expect(others.map(({ status, reason }) => [status, reason])).toEqual([
      ['failed', 'call 2, which continues it, is failed: no connection'],
      ['ok', null],
    ])
    const told = sessionOf(calls.slice(0, 2), { end: { status: 'failed', reason: 'the container died' } })
    expect(sessionTrajectories(told).trajectories.every(({ status }) => status === 'failed')).toBe(true)
  })
})

describe('a completion', () => {
  const seen = { ids: [1], logProbs: [-1], finishReason: 'stop', failure: null } as const

  it.each([
    ['ok', {}],
    ['ok', { finishReason: 'length' }],
    ['aborted', { finishReason: 'abort' }],
    ['aborted', { finishReason: null }],
    ['failed', { finishReason: 'error' }],
    ['failed', { failure: 'oops' }],
    ['unusable', { ids: [], logProbs: [] }],
    ['unusable', { logProbs: [Number.NaN] }],
    ['unusable', { logProbs: [-9999] }],
    ['unusable', { logProbs: [Number.NEGATIVE_INFINITY] }],
    ['unusable', { logProbs: [0.5] }],
  ] as const)('is %s when %o', (status, fields) => {
    expect(completionStatus({ ...seen, ...fields })).toMatchObject({
      status,
      reason: status === 'ok' ? null : expect.any(String),
    })
  })
})
