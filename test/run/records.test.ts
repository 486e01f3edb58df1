import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type EvaluationRecord, type StepRecord, type SummaryContext, summarize } from '../../src/run/records.js'

const NO_SECONDS = { generation: 0, environment: 0, training: 0, weightSync: 0 }

const step = (changes: Partial<StepRecord> = {}): StepRecord => ({
  ...{ type: 'step', step: 1, reward: 0, accuracy: 0, worked: 0, answered: 0, truncated: 0, completionTokens: 0 },
  ...{ groupsUsed: 0, groupsDropped: 0, groupsWithoutSignal: 0, learningRate: 0, policyVersion: 0, tokens: 0 },
  ...{
    loss: 0,
    clipFraction: 0,
    cutFraction: 0,
    klApprox: 0,
    klToRef: null,
    ess: 1,
    entropy: 0,
    gradNorm: 0,
    maxLogProbGap: 0,
  },
  ...{ updates: [], seconds: NO_SECONDS, ...changes },
})

const evaluation = (changes: Partial<EvaluationRecord> = {}): EvaluationRecord => ({
  ...{ type: 'evaluation', step: 0, problems: 4, accuracy: 0, worked: 0, completionTokens: 1, seconds: 0, ...changes },
})

const context: SummaryContext = {
  ...{ status: 'finished', seed: 1, completionsPerStep: 4, secondsTotal: 10, checkpointSeconds: 1, policyVersion: 2 },
  parameters: 100,
  engine: { backend: 'cpu', version: '1', threads: 1, compiles: 0, graphs: 0, graphBytes: 0, fallbacks: {} },
}

const seconds = fc.double({ min: 0.001, max: 100, noNaN: true })
const share = fc.double({ min: 0, max: 1, noNaN: true })
const phases = fc.record({ generation: seconds, environment: seconds, training: seconds, weightSync: seconds })
const steps = fc.array(
  fc
    .record({ reward: share, completionTokens: fc.nat(64), tokens: fc.nat(500), maxLogProbGap: share, seconds: phases })
    .map(step),
  { maxLength: 8 },
)
const evaluations = fc
  .array(fc.record({ accuracy: share, worked: share, seconds }), { minLength: 1, maxLength: 8 })
  .map((list) => list.map((changes, i) => evaluation({ ...changes, step: 3 * i })))

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)

describe('summarize', () => {
  it('takes before and after from the first and the last evaluation', () => {
    const law = fc.property(steps, evaluations, (list, all) => {
      const [first, last] = [all[0]!, all.at(-1)!]
      expect(summarize(list, all, context)).toMatchObject({
        ...{ accuracyBefore: first.accuracy, accuracyAfter: last.accuracy },
        ...{ workedBefore: first.worked, workedAfter: last.worked, evaluations: all, evalProblems: last.problems },
      })
    })
    fc.assert(law)
  })

  it('adds up the seconds of each phase, of evaluations and of checkpoints', () => {
    const law = fc.property(steps, evaluations, (list, all) => {
      const { seconds: total } = summarize(list, all, context)
      expect(total.generation).toBeCloseTo(sum(list.map((record) => record.seconds.generation)), 6)
      expect(total.environment).toBeCloseTo(sum(list.map((record) => record.seconds.environment)), 6)
      expect(total.training).toBeCloseTo(sum(list.map((record) => record.seconds.training)), 6)
      expect(total.weightSync).toBeCloseTo(sum(list.map((record) => record.seconds.weightSync)), 6)
      expect(total.evaluation).toBeCloseTo(sum(all.map((record) => record.seconds)), 6)
      expect(total.checkpoint).toBe(context.checkpointSeconds)
    })
    fc.assert(law)
  })

  it('has a reward for each step, and the largest gap of log-probabilities', () => {
    const law = fc.property(steps, evaluations, (list, all) => {
      const summary = summarize(list, all, context)
      expect(summary.steps).toBe(list.length)
      expect(summary.rewardCurve).toEqual(list.map((record) => record.reward))
      expect(summary.maxLogProbGap).toBe(Math.max(0, ...list.map((record) => record.maxLogProbGap)))
    })
    fc.assert(law)
  })

  it('gives the lowest accuracy of the second half: what was learned and lost again shows', () => {
    const accuracies = [0.1, 0.2, 0.8, 0.3, 0.9]
    const all = accuracies.map((accuracy, i) => evaluation({ accuracy, step: 10 * i }))
    expect(summarize([], all, context).accuracyLowestLate).toBe(0.3)
    expect(summarize([], all.slice(0, 1), context).accuracyLowestLate).toBe(0.1)
  })

  it('counts sampled tokens by seconds of generation, trained tokens by seconds of training', () => {
    const busy = { ...NO_SECONDS, generation: 2, training: 4 }
    const list = [1, 2].map((n) => step({ step: n, completionTokens: 5, tokens: 12, seconds: busy }))
    expect(summarize(list, [evaluation()], context).tokensPerSecond).toEqual({ generation: 10, training: 3 })
  })

  it('has speeds of 0, not NaN, before any step', () => {
    expect(summarize([], [evaluation()], context).tokensPerSecond).toEqual({ generation: 0, training: 0 })
  })

  it('is JSON: nothing is lost when it is written and read', () => {
    const law = fc.property(steps, evaluations, (list, all) => {
      const summary = summarize(list, all, context)
      expect(JSON.parse(JSON.stringify(summary))).toEqual(summary)
    })
    fc.assert(law)
  })

  it('throws without any evaluation', () => {
    expect(() => summarize([step()], [], context)).toThrow(/at least one evaluation/)
  })
})
