import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RunEvent } from '../../src/run/events.js'
import type { StepRecord } from '../../src/run/records.js'
import { DEFAULT_SETTINGS } from '../../src/run/settings.js'
import { trackedEvents } from '../../src/tracking/trackedEvents.js'

const session = { run: 'first', isResumed: false, at: 5 }

describe('trackedEvents', () => {
  it('begins a new run at step 0, and a resumed one at its first step', () => {
    const settings = { model: 'm', ...DEFAULT_SETTINGS }
    const event = { type: 'start', parameters: 1, trained: 1, firstStep: 7, settings } as const
    expect(trackedEvents(event, session)).toEqual([{ type: 'start', at: 5, run: 'first', from: 0, settings }])
    expect(trackedEvents(event, { ...session, isResumed: true })).toMatchObject([{ from: 7 }])
  })

  it('names the numbers of an evaluation and its seconds', () => {
    const numbers = { problems: 4, accuracy: 0.5, worked: 0.25, completionTokens: 9 }
    expect(trackedEvents({ type: 'evaluation', step: 3, ...numbers, seconds: 2 }, session)).toEqual([
      {
        ...{
          type: 'scalars',
          at: 5,
          step: 3,
          seconds: { evaluation: 2 },
          spans: [{ name: 'evaluation', from: -1995, to: 5 }],
        },
        values: { 'eval/problems': 4, 'eval/accuracy': 0.5, 'eval/worked': 0.25, 'eval/completionTokens': 9 },
      },
    ])
  })

  it('names the numbers of a step by what they describe, also those of records in it, and leaves lists and null out', () => {
    const record = {
      reward: 0.5,
      klToRef: null,
      sampling: { rounds: 2, tokens: 9 },
      correction: null,
      updates: [{ loss: 7 }],
    }
    const seconds = { generation: 2, environment: 0.5, training: 1, weightSync: 0.25 }
    const event = { type: 'step', step: 3, ...record, loss: 0.25, seconds } as unknown as StepRecord // what the test looks at
    const [told] = trackedEvents(event, { ...session, at: 5000, since: 1000 })
    expect(told).toMatchObject({ type: 'scalars', step: 3, seconds })
    expect(told?.type === 'scalars' && told.values).toEqual({
      ...{ 'rollout/reward': 0.5, 'rollout/sampling/rounds': 2, 'rollout/sampling/tokens': 9, 'train/loss': 0.25 },
    })
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
          const event = { type: 'step', step: 3, seconds } as unknown as StepRecord // what the test looks at
          const [told] = trackedEvents(event, { ...session, at, ...(since !== null && { since }) })
          const spans = told?.type === 'scalars' ? told.spans! : []
          expect(spans.map(({ name, from, to }) => [name, (to - from) / 1000])).toEqual(Object.entries(seconds))
          for (const [i, { from }] of spans.entries()) if (i > 0) expect(from).toBe(spans[i - 1]!.to)
          expect(spans.at(-1)?.to ?? at).toBeLessThanOrEqual(at)
        },
      ),
    )
  })

  it('tells completions as texts with the question, the answer and what they earned', () => {
    const sample = { query: 'What is 1 + 1?', tokens: ['<answer>', '2', '</answer>'], answer: '2', reward: 1 }
    const event = { type: 'samples', step: 3, samples: [sample, sample] } as unknown as RunEvent // what the test looks at
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

  it('says how long a checkpoint took', () => {
    expect(trackedEvents({ type: 'checkpoint', step: 2, path: 'a' }, { ...session, at: 50, since: 20 })).toEqual([
      {
        ...{ type: 'saved', at: 50, step: 2, what: 'checkpoint', path: 'a' },
        spans: [{ name: 'checkpoint', from: 20, to: 50 }],
      },
    ])
  })

  it('tells nothing of progress within an evaluation', () => {
    expect(trackedEvents({ type: 'evaluating', step: 3, done: 1, problems: 4 }, session)).toEqual([])
  })
})
