import { anyTransformSample, checkLaws, erased, transformLaws } from '@tandem-rl/testing'
import { message } from '@tandem-rl/text'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { dataSpec } from '../../../src/data/spec.js'
import { data, ragged } from '../../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { formatScore } from '../../../src/envs/rewards/format.js'
import { formatPenalty } from '../../../src/envs/transforms/formatPenalty.js'
import type { InputMode } from '../../../src/envs/transforms/responses.js'
import { answered, END_OF_TURN, empty, freeing, numbersAt, refused, tokenizer } from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const FORMED = '<think>a</think><answer>4</answer>'
const texts = fc.array(fc.constantFrom(FORMED, 'four', '', '<answer>4</answer><think>a</think>', `${FORMED}.`), {
  minLength: 1,
  maxLength: 4,
})

/** One text for each element, in all views. */
const written = (all: readonly string[]): TensorDict =>
  TensorDict(
    {
      history: { response: data(all.map((text) => message('assistant', text))) },
      text: { response: data(all.map((text) => text + END_OF_TURN)) },
      tokens: {
        response: ragged(
          'int32',
          all.map((text) => tokenizer.encode(text + END_OF_TURN)),
        ),
      },
    },
    [all.length],
  )

const MODES: readonly InputMode[] = [{ _tag: 'history' }, { _tag: 'text' }, { _tag: 'tokens', tokenizer }]

describe('formatPenalty', () => {
  describe('as a transform', () => {
    const samples = anyTransformSample({ observation: {}, action: { text: { response: dataSpec('string') } } })
    const penalties = fc.integer({ min: 0, max: 3 }).map((factor) => formatPenalty({ factor, inputMode: MODES[1]! }))
    checkLaws(it, transformLaws(penalties.map(erased), samples))
  })

  it.each(MODES.map((mode) => [mode._tag, mode] as const))(
    'adds the penalty of each completion, read as %s',
    (_, inputMode) =>
      fc.assert(
        fc.asyncProperty(texts, (all) =>
          freeing(async (keep) => {
            const size = all.length
            const next = keep(TensorDict({ reward: tf.tensor1d(all.map((_, i) => i)) }, [size]))
            const penalty = formatPenalty({ inputMode, endOfTurn: END_OF_TURN, factor: 3 })
            const [added] = await answered(penalty.step(next, { previous: empty(size), action: written(all) }, null))
            keep(added)
            const scores = all.map((text) => formatScore(text, { factor: 3 }))
            expect(numbersAt(added, 'reward')).toEqual(scores.map((score, i) => i + score.penalty))
            expect(numbersAt(added, 'formatPenalty').map((x) => x + 0)).toEqual(
              scores.map((score) => score.penalty + 0),
            )
            for (const rule of ['blocks', 'order', 'outside'] as const) {
              const name = `format${rule.charAt(0).toUpperCase()}${rule.slice(1)}`
              expect(numbersAt(added, name)).toEqual(scores.map(({ kept }) => (kept[rule] ? 1 : 0)))
            }
          }),
        ),
        { numRuns: 20 },
      ),
  )

  it('is the reward where there is none, and refuses actions and options that it cannot read', async () => {
    await freeing(async (keep) => {
      const context = { previous: empty(1), action: written(['']) }
      const [added] = await answered(formatPenalty().step(empty(1), context, null))
      keep(added)
      expect(numbersAt(added, 'reward')).toEqual([-1])
    })
    const failure = await refused(formatPenalty().step(empty(1), { previous: empty(1), action: empty(1) }, null))
    expect(failure.reason).toBe('the action has no entry history.response of its kind')
    expect(() => formatPenalty({ factor: Number.NaN })).toThrow('formatPenalty: factor must not be negative, got NaN')
  })
})
