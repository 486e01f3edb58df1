import { keyFromSeed } from '@tandem-rl/base'
import { anyTransformSample, checkLaws, envLaws, erased, transformLaws } from '@tandem-rl/testing'
import type { TokenSpan } from '@tandem-rl/text'
import fc from 'fast-check'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { dataSpec, raggedSpec } from '../../../src/data/spec.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { type TokenBudgetOptions, tokenBudget } from '../../../src/envs/transforms/tokenBudget.js'
import { append } from '../../../src/envs/transforms/transform.js'
import {
  answered,
  asking,
  END,
  freeing,
  numbersAt,
  refused,
  rowsAt,
  sampled,
  tokenChat,
} from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const key = keyFromSeed(3)

const chat = (batchSize: number, options: TokenBudgetOptions) =>
  pipe(tokenChat(batchSize), append(tokenBudget(options)))

const lengthsOf = (state: TensorDict): readonly number[] => rowsAt(state, 'tokens', 'prompt').map((row) => row.length)

const budgets = fc.record({
  tokens: fc.integer({ min: 1, max: 60 }),
  counted: fc.constantFrom('sampled' as const, 'all' as const),
})

describe('tokenBudget', () => {
  describe('as a transform', () => {
    const tokens = { prompt: raggedSpec('int32'), spans: dataSpec<readonly TokenSpan[]>('TokenSpan[]') }
    const samples = anyTransformSample(
      { observation: { tokens }, action: { tokens: { response: raggedSpec('int32') } } },
      { values: { 'TokenSpan[]': fc.constant([]) } },
    )
    const transforms = budgets.map((options) => erased(tokenBudget(options)))
    checkLaws(it, transformLaws(transforms, samples))
  })

  it('counts what was sampled or all there is, tells what is left, and truncates where nothing is', async () => {
    const rows = fc.array(fc.nat(9), { minLength: 2, maxLength: 2 }) // empty completions, too
    const law = fc.asyncProperty(budgets, fc.array(rows, { minLength: 1, maxLength: 3 }), (options, turns) =>
      freeing(async (keep) => {
        const env = chat(2, options)
        let state = keep(await answered(env.reset(asking('How many pens?', 'Why?'), key)))
        let written = [0, 0]
        const check = (): readonly number[] => {
          const used = options.counted === 'all' ? lengthsOf(state) : written
          expect(numbersAt(state, 'tokensUsed')).toEqual(used)
          expect(numbersAt(state, 'tokensLeft')).toEqual(used.map((n) => Math.max(0, options.tokens - n)))
          return used.map((n) => (n >= options.tokens ? 1 : 0))
        }
        check()
        for (const sizes of turns) {
          state = keep(await answered(env.step(state, sampled(...sizes.map((size) => Array(size).fill(END))))))
          written = written.map((n, i) => n + sizes[i]!)
          const over = check()
          expect(numbersAt(state, 'truncated')).toEqual(over)
          expect(numbersAt(state, 'done')).toEqual(over)
          expect(numbersAt(state, 'terminated')).toEqual([0, 0])
        }
      }),
    )
    await fc.assert(law, { numRuns: 20 })
  })

  it('needs the ids of an action, and a number of tokens', async () => {
    await freeing(async (keep) => {
      const budget = tokenBudget({ tokens: 4 })
      const state = keep(await answered(chat(1, { tokens: 4 }).reset(asking('?'), key)))
      const { reason } = await refused(budget.step(state, { previous: state, action: TensorDict({}, [1]) }, null))
      expect(reason).toBe('the action has no tokens.response')
    })
    for (const tokens of [0, -1, 1.5, Number.NaN, 2 ** 31]) expect(() => tokenBudget({ tokens })).toThrow(RangeError)
  })

  describe('around a chat', () => {
    const env = chat(2, { tokens: 5 })
    const request = () => asking('?', '!')
    checkLaws(it, envLaws(fc.constant({ env, request, act: () => sampled([END], [65, 66, END]), steps: 3 }), 3))
  })
})
