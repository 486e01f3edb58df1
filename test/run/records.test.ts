import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { summarizeRun } from '../../src/run/metrics/records.js'
import { summaryContext as context, evaluationRecord, stepRecord } from '../kit/records.js'

const seconds = fc.double({ min: 0.001, max: 100, noNaN: true })
const share = fc.double({ min: 0, max: 1, noNaN: true })
const phases = fc.record(
  { generation: seconds, environment: seconds, reference: seconds, training: seconds, weightSync: seconds },
  { requiredKeys: ['generation', 'environment', 'training', 'weightSync'] }, // older logs have no reference
)
const steps = fc.array(
  fc
    .record({ reward: share, completionTokens: fc.nat(64), tokens: fc.nat(500), maxLogProbGap: share, seconds: phases })
    .map(({ tokens, maxLogProbGap, ...changes }) => stepRecord(1, { ...changes, update: { tokens, maxLogProbGap } })),
  { maxLength: 8 },
)
const evaluations = fc
  .array(fc.record({ accuracy: share, think: share, seconds }), { minLength: 1, maxLength: 8 })
  .map((list) =>
    list.map(({ accuracy, think, seconds: took }, i) =>
      evaluationRecord(3 * i, accuracy, { scores: { rewardThink: think }, seconds: took }),
    ),
  )

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)

describe('summarize', () => {
  it('takes before and after from the first and the last evaluation', () => {
    const law = fc.property(steps, evaluations, (list, all) => {
      const [first, last] = [all[0]!, all.at(-1)!]
      expect(summarizeRun(list, all, context)).toMatchObject({
        evaluated: [{ name: 'held out', score: 'accuracy', tasks: 200, before: first.scores, after: last.scores }],
        evaluations: all,
      })
    })
    fc.assert(law)
  })

  it('adds up the seconds of each phase, of evaluations and of checkpoints', () => {
    const law = fc.property(steps, evaluations, (list, all) => {
      const { seconds: total } = summarizeRun(list, all, context)
      expect(total.generation).toBeCloseTo(sum(list.map((record) => record.seconds.generation)), 6)
      expect(total.environment).toBeCloseTo(sum(list.map((record) => record.seconds.environment)), 6)
      expect(total.training).toBeCloseTo(sum(list.map((record) => record.seconds.training)), 6)
      const scoring = list.flatMap(({ seconds: { reference } }) => reference ?? [])
      if (scoring.length === 0) expect(total).not.toHaveProperty('reference')
      else expect(total.reference).toBeCloseTo(sum(scoring), 6)
      expect(total.weightSync).toBeCloseTo(sum(list.map((record) => record.seconds.weightSync)), 6)
      expect(total.evaluation).toBeCloseTo(sum(all.map((record) => record.seconds)), 6)
      expect(total.checkpoint).toBe(context.checkpointSeconds)
    })
    fc.assert(law)
  })

  it('has a reward for each step, and the largest gap of log-probabilities', () => {
    const law = fc.property(steps, evaluations, (list, all) => {
      const summary = summarizeRun(list, all, context)
      expect(summary.steps).toBe(list.length)
      expect(summary.rewardCurve).toEqual(list.map((record) => record.reward))
      expect(summary.maxLogProbGap).toBe(Math.max(0, ...list.map(({ update }) => update.maxLogProbGap!)))
    })
    fc.assert(law)
  })

  it('gives the lowest accuracy of the second half: what was learned and lost again shows', () => {
    const accuracies = [0.1, 0.2, 0.8, 0.3, 0.9]
    const all = accuracies.map((accuracy, i) => evaluationRecord(10 * i, accuracy))
    expect(summarizeRun([], all, context).evaluated[0]?.worstLate).toBe(0.3)
    expect(summarizeRun([], all.slice(0, 1), context).evaluated[0]?.worstLate).toBe(0.1)
  })

  it('counts sampled tokens by seconds of generation, trained tokens by seconds of training', () => {
    const seconds = { generation: 2, environment: 0, training: 4, weightSync: 0 }
    const list = [1, 2].map((n) =>
      stepRecord(n, { trajectories: 4, completionTokens: 5, sampling: null, update: { tokens: 12 }, seconds }),
    )
    expect(summarizeRun(list, [], context).tokensPerSecond).toEqual({ generation: 10, training: 3 })
  })

  it('has speeds of 0, not NaN, before any step', () => {
    expect(summarizeRun([], [], context).tokensPerSecond).toEqual({ generation: 0, training: 0 })
  })

  it('is JSON: nothing is lost when it is written and read', () => {
    const law = fc.property(steps, evaluations, (list, all) => {
      const summary = summarizeRun(list, all, context)
      expect(JSON.parse(JSON.stringify(summary))).toEqual(summary)
    })
    fc.assert(law)
  })

  it('has one curve for each evaluator, in the order in which they came', () => {
    const all = ['easy', 'hard', 'easy', 'hard'].map((name, i) => evaluationRecord(i, i / 4, { name }))
    const { evaluated, best } = summarizeRun([], all, context)
    expect(evaluated.map(({ name, before, after }) => [name, before.accuracy, after.accuracy])).toEqual([
      ['easy', 0, 0.5],
      ['hard', 0.25, 0.75],
    ])
    expect(best).toEqual({ step: 2, name: 'easy', value: 0.5 }) // the first one chooses
  })
})
