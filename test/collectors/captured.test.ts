import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { trajectoryProblems } from '@tandem-rl/testing'
import type { CapturedCall, CapturedSession } from '@tandem-rl/text'
import { liveTensors, type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type CapturedBatchOptions, capturedBatch } from '../../src/collectors/captured.js'
import { raggedRows } from '../../src/data/tensorDict/leaf.js'
import { get } from '../../src/data/tensorDict/tensorDict.js'
import { initialParams, type Params } from '../../src/modules/transformer/params.js'
import { MCAdvantage } from '../../src/objectives/advantages/mcAdvantage.js'
import { anyIds, callOf, completionOf, sessionOf } from '../kit/capturedCalls.js'
import { expectClose } from '../kit/close.js'
import { useEngine, valuesOf } from '../kit/engine.js'
import { learnedRows } from '../kit/learners.js'
import { tinyConfig } from '../kit/models.js'
import { policyStep } from '../kit/stepsOf.js'
import { descent } from '../kit/trainingRows.js'

useEngine()

const config = tinyConfig({ layers: 1, hiddenSize: 8, intermediateSize: 8, heads: 2, keyValueHeads: 1, headSize: 4 })

let params: Owned<Params>
beforeAll(() => {
  params = own(scope(() => initialParams(config, keyFromSeed(1), 0.5)))
})
afterAll(() => params.release())

const attempt = (id: string, total: number, calls: readonly CapturedCall[]): CapturedSession =>
  sessionOf(calls, { id, reward: { total, parts: {} } })

/** Two turns with a tool between them, one of them with a side conversation. */
const SESSIONS = [
  attempt('a', 1, [callOf(0, [1, 2], [[3, 4]]), callOf(1, [1, 2, 3, 4, 5, 6], [[7]]), callOf(2, [9], [[8, 7]])]),
  attempt('b', 0, [callOf(0, [1, 2], [[5]]), callOf(1, [1, 2, 5, 6], [[4, 3]])]),
]

/** The calls of one conversation. */
const anyLine = fc
  .array(fc.record({ observed: anyIds(3), sampled: anyIds(3) }), { minLength: 1, maxLength: 4 })
  .map((turns) =>
    turns.map(({ observed, sampled }, i) =>
      callOf(i, [...turns.slice(0, i).flatMap((turn) => [...turn.observed, ...turn.sampled]), ...observed], [sampled]),
    ),
  )

const learn = (sessions: readonly CapturedSession[], options: CapturedBatchOptions) =>
  scope(() => {
    const { batch } = orThrow(capturedBatch(sessions, options))
    const rows = learnedRows(batch, 2)
    const step = policyStep({ config, optimizer: descent, maxGradNorm: 1e9 })
    const { state, metrics } = step.update({ params: params.value, optimizer: {} }, rows, 1)
    using owned = state
    step.release()
    return {
      numbers: Object.entries(owned.value.params).map(([name, tensor]) => [name, valuesOf(tensor)] as const),
      metrics,
      rows,
    }
  })

describe('a captured batch', () => {
  it('has a row for each conversation, and learns what was sampled in it', () => {
    scope(() => {
      const { batch, left } = orThrow(capturedBatch(SESSIONS))
      expect(left).toEqual([])
      expect(raggedRows(get(batch, 'tokens', 'full'))).toEqual([
        [1, 2, 3, 4, 5, 6, 7],
        [9, 8, 7],
        [1, 2, 5, 6, 4, 3],
      ])
      expect(raggedRows(get(batch, 'masks', 'assistant'))).toEqual([
        [0, 0, 1, 1, 0, 0, 1],
        [0, 1, 1],
        [0, 0, 1, 0, 1, 1],
      ])
      expect(raggedRows(get(batch, 'versions', 'response'))).toEqual([
        [0, 1, -1, -1, 1],
        [2, 1],
        [2, -1, 1, 0],
      ])
      expect(get(batch, 'policyVersion').items.toArray()).toEqual([0, 1, 0])
      expect(get(batch, 'trajectoryId').items.toArray()).toEqual(['a', 'a', 'b'])
      expect(get(batch, 'groupId').items.toArray()).toEqual(['a:g', 'a:g', 'a:g'])
      expect(valuesOf(get(batch, 'next', 'reward'))).toEqual([0, 1, 0])
      expect(valuesOf(get(batch, 'next', 'done'))).toEqual([0, 1, 1])
    })
    expect(liveTensors().count).toBe(Object.keys(params.value).length)
  })

  it('in turns tells one story, as those of the collector do', () => {
    fc.assert(
      fc.property(fc.array(anyLine, { maxLength: 4 }), (lines) => {
        scope(() => {
          const sessions = lines.map((calls, i) => sessionOf(calls, { id: `s${i}`, group: `g${i % 2}` }))
          expect(trajectoryProblems(orThrow(capturedBatch(sessions, { rows: 'turns' })).batch)).toEqual([])
        })
      }),
      { numRuns: 50 },
    )
  })

  it('learns the same in one row for each conversation as in one for each turn', () => {
    const [whole, turns] = (['conversations', 'turns'] as const).map((rows) => learn(SESSIONS, { rows }))
    expect(whole!.rows.completions).toHaveLength(3)
    expect(turns!.rows.completions).toHaveLength(5)
    expect(whole!.rows.masks).toBeDefined()
    expect(turns!.rows.masks).toBeUndefined()
    expect(whole!.metrics.tokens).toBe(8)
    expect(whole!.metrics.loss).not.toBe(0)
    for (const [i, [, values]] of whole!.numbers.entries()) {
      expectClose(values, turns!.numbers[i]![1], { absolute: 1e-6, relative: 1e-5 })
    }
    for (const name of ['loss', 'klApprox', 'entropy', 'maxLogProbGap', 'ess'] as const) {
      expectClose([whole!.metrics[name]], [turns!.metrics[name]], { absolute: 2e-6, relative: 1e-5 })
    }
  })

  it('compares sessions, however many conversations they have', () => {
    scope(() => {
      const { batch } = orThrow(capturedBatch(SESSIONS))
      const advantages = raggedRows(get(MCAdvantage({ groupSize: 2 })(batch), 'advantage')).map((row) => row[0]!)
      expect(advantages).toHaveLength(3)
      expect(advantages[0]).toBe(advantages[1])
      expect(advantages[0]).toBeCloseTo(-advantages[2]!)
    })
  })

  it('leaves out rows without a signal for the policy, with the reason', () => {
    const failed = completionOf([], { status: 'failed', finishReason: null, reason: 'no connection' })
    const [good, other] = SESSIONS as [CapturedSession, CapturedSession]
    const sessions = [
      good,
      other,
      { ...good, id: 'open', end: null },
      { ...good, id: 'free', reward: null },
      { ...good, id: 'down', end: { status: 'failed', reason: 'the container died' } as const },
      attempt('cut', 0, [callOf(0, [1], [[2]]), callOf(1, [1, 2, 3], [failed])]),
      attempt('empty', 1, []),
      { ...good, id: 'alone', group: 'h' },
    ]
    scope(() => {
      const { batch, left } = orThrow(capturedBatch(sessions, { groupSize: 2 }))
      expect(get(batch, 'session').items.toArray()).toEqual(['a', 'a', 'b'])
      expect(left.map(({ session, conversation, reason }) => `${session} ${conversation}: ${reason}`)).toEqual([
        'open null: the session is not finished',
        'free null: the session has no reward',
        'down null: the session failed: the container died',
        'cut 0: the last call of the session is failed: no connection',
        'cut null: the session has no conversation to train on',
        'empty null: the session has no conversation to train on',
        'alone null: its group has 1 usable sessions, and groupSize is 2',
      ])
    })
  })

  it('is refused where turns were sampled at different temperatures', () => {
    const hot = callOf(0, [1], [[2]])
    const cold = { ...hot, index: 1, sampling: { ...hot.sampling, temperature: 0.5 } }
    expect(capturedBatch([sessionOf([hot, cold])])).toMatchObject({
      left: { reason: expect.stringContaining('temperatures (1, 0.5)') },
    })
  })

  it('of nothing has no rows', () => {
    scope(() => {
      expect(orThrow(capturedBatch([])).batch.batchShape).toEqual([0])
    })
  })
})

describe('a training step', () => {
  it('refuses masks of another length than their tokens', () => {
    const rows = {
      prompts: [[1]],
      completions: [[2, 3]],
      oldLogProbs: [[0, 0]],
      masks: [[1]],
      advantages: [1],
      temperature: 1,
    }
    const step = policyStep({ config, optimizer: descent })
    expect(() => step.update({ params: params.value, optimizer: {} }, rows, 1)).toThrow(/row 0 has .* masks/)
    step.release()
  })
})
