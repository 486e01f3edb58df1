import fc from 'fast-check'
import type { RunEvent } from 'tandem-rl'
import { describe, expect, it } from 'vitest'
import { evaluationRecord, stepRecord } from '../../../test/kit/records.js'
import { trackedEvents } from '../src/trackedEvents.js'

const session = { run: 'first', isResumed: false, at: 5 }

describe('trackedEvents', () => {
  it('begins a new run at step 0, and a resumed one at its first step', () => {
    const settings = { model: 'm', learner: { learningRate: 0.1, options: {} }, target: ['q', 'v'], dtype: null }
    const event = { type: 'start', steps: 9, firstStep: 7, settings } as const
    expect(trackedEvents(event, session)).toEqual([
      {
        ...{ type: 'start', at: 5, run: 'first', from: 0 },
        settings: { model: 'm', 'learner.learningRate': 0.1, target: '["q","v"]', dtype: null },
      },
    ])
    expect(trackedEvents(event, { ...session, isResumed: true })).toMatchObject([{ from: 7 }])
  })

  it('names the numbers of an evaluation and its seconds', () => {
    const event = evaluationRecord(3, 0.5, { name: 'hard', tasks: 4, scores: { turns: 9 }, seconds: 2 })
    expect(trackedEvents(event, session)).toEqual([
      {
        ...{ type: 'scalars', at: 5, step: 3, seconds: { evaluation: 2 } },
        spans: [{ name: 'evaluation', from: -1995, to: 5 }],
        values: { 'eval/hard/tasks': 4, 'eval/hard/accuracy': 0.5, 'eval/hard/turns': 9 },
      },
    ])
  })

  it('names the numbers of a step by what they describe, also those of records in it, and leaves lists and null out', () => {
    const seconds = { generation: 2, environment: 0.5, training: 1, weightSync: 0.25 }
    const record = stepRecord(3, {
      ...{ seconds, parts: { rewardRight: 0.75 }, metrics: { ours: 7 }, completionKL: null },
      update: { loss: 0.25, klToRef: null },
      updates: [{ loss: 7, gradNorm: 1 }],
    })
    const [told] = trackedEvents(record, { ...session, at: 5000, since: 1000 })
    expect(told).toMatchObject({ type: 'scalars', step: 3, seconds })
    const values = told?.type === 'scalars' ? told.values : {}
    expect(values).toMatchObject({
      ...{ 'rollout/reward': 0.5, 'rollout/sampling/tokens': 384, 'rollout/rewardRight': 0.75, 'metrics/ours': 7 },
      ...{ 'train/loss': 0.25, 'train/learningRate': 1e-4, 'train/tokens': 384 },
    })
    expect(Object.keys(values).filter((name) => /klToRef|completionKL|updates|seconds|step$/.test(name))).toEqual([])
    expect(told?.type === 'scalars' && told.spans).toEqual([
      { name: 'generation', from: 1000, to: 3000 },
      { name: 'environment', from: 3000, to: 3500 },
      { name: 'training', from: 3500, to: 4500 },
      { name: 'weightSync', from: 4500, to: 4750 },
    ])
  })

  it('has phases that follow each other, each as long as it took, and end by the event', () => {
    const phases = fc.array(fc.tuple(fc.stringMatching(/^[a-z]{1,6}$/), fc.integer({ min: 0, max: 4096 })), {
      maxLength: 5,
    })
    fc.assert(
      fc.property(
        phases,
        fc.integer({ min: 0, max: 65_536 }),
        fc.option(fc.integer({ min: 0, max: 65_536 })),
        (drawn, at, since) => {
          const seconds = Object.fromEntries(drawn.map(([name, ms]) => [name, ms / 1024]))
          const event = { ...stepRecord(3), seconds: seconds as never } // phases of any name
          const [told] = trackedEvents(event, { ...session, at, ...(since !== null && { since }) })
          const spans = told?.type === 'scalars' ? told.spans! : []
          expect(spans.map(({ name, from, to }) => [name, (to - from) / 1000])).toEqual(Object.entries(seconds))
          for (const [i, { from }] of spans.entries()) if (i > 0) expect(from).toBe(spans[i - 1]!.to)
          expect(spans.at(-1)?.to ?? at).toBeLessThanOrEqual(at)
        },
      ),
    )
  })

  it('shows completions as texts with the question, the answer and their reward', () => {
    const sample = { query: 'What is 1 + 1?', tokens: ['<answer>', '2', '</answer>'], answer: '2', reward: 1 }
    const event = { type: 'samples', step: 3, samples: [sample, sample] } as unknown as RunEvent // the tested fields
    const text = 'What is 1 + 1?\n\n<answer>2</answer>\n\nanswer 2, reward 1'
    expect(trackedEvents(event, session)).toEqual([
      {
        type: 'samples',
        at: 5,
        step: 3,
        samples: [
          { name: '0', text },
          { name: '1', text },
        ],
      },
    ])
  })

  it('reports the time of a checkpoint', () => {
    expect(trackedEvents({ type: 'checkpoint', step: 2, path: 'a' }, { ...session, at: 50, since: 20 })).toEqual([
      {
        ...{ type: 'saved', at: 50, step: 2, what: 'checkpoint', path: 'a' },
        spans: [{ name: 'checkpoint', from: 20, to: 50 }],
      },
    ])
  })

  it('reports no progress within an evaluation', () => {
    expect(trackedEvents({ type: 'evaluating', step: 3, name: 'held out', done: 1, tasks: 4 }, session)).toEqual([])
  })
})
