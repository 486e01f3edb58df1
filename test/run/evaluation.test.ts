/** Evaluators: order of tasks, greedy decoding in any batch, and mean scores. */
import { FailureError, keyFromSeed, rowFailure } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { beforeAll, describe, expect, it } from 'vitest'
import type { TaskSource } from '../../src/data/task.js'
import { GSM8KEnv } from '../../src/envs/gsm8kEnv.js'
import { gsm8kReward } from '../../src/envs/rewards/gsm8k.js'
import { tokenEnv } from '../../src/envs/tokenEnv.js'
import { makeParams, type Pretrained } from '../../src/modules/pretrained/pretrained.js'
import { type TransformersPolicy, TransformersWrapper } from '../../src/modules/transformersWrapper.js'
import { type EvaluationResult, evaluator, scoring as scoringOf } from '../../src/run/metrics/evaluation.js'
import { heldOutProblems } from '../../src/run/parts/tasks.js'
import { useEngine } from '../kit/engine.js'
import { answeringModel } from '../kit/runs.js'

useEngine({ threads: 1 })

let model: Pretrained
const source = heldOutProblems()
beforeAll(async () => {
  model = await answeringModel()
})

interface Wish {
  readonly tasks: number
  readonly batch?: number
  readonly tries?: number
  readonly source?: TaskSource
  readonly seed?: number
  readonly temperature?: number
}

const evaluatorOf = (
  policy: TransformersPolicy,
  { source: tasksFrom = source, seed: _, temperature: __, ...rest }: Wish,
) =>
  evaluator({
    ...{ ...rest, policy },
    env: ({ groups, start }) =>
      tokenEnv(GSM8KEnv({ source: tasksFrom, prompts: groups, repeats: rest.tries ?? 1, start }), model.text),
  })

/** The results of an evaluation, part by part, at most `limit` parts. */
const evaluate = async (wish: Wish, limit = Number.POSITIVE_INFINITY): Promise<(readonly EvaluationResult[])[]> => {
  const { config, arrays } = model
  const sampling = { temperature: wish.temperature ?? 0, maxNewTokens: 8 }
  const policy = scope(() => TransformersWrapper({ config, params: makeParams(arrays), sampling }))
  const parts: (readonly EvaluationResult[])[] = []
  try {
    for await (const { results } of evaluatorOf(policy, wish).run(keyFromSeed(wish.seed ?? 0))) {
      parts.push(results)
      if (parts.length >= limit) break
    }
  } finally {
    policy.release()
  }
  return parts
}

describe('an evaluator', () => {
  it('plays the first tasks in order, in parts of the batch size', async () => {
    const parts = await evaluate({ tasks: 5, batch: 2 })
    expect(parts.map((part) => part.length)).toEqual([2, 2, 1])
    const asked = Array.from({ length: 5 }, (_, i) => source.at(i))
    const answered = parts.flat().map(({ taskId, query }) => ({ taskId, query }))
    expect(answered.map(E.right)).toEqual(asked.map(E.map(({ id, query }) => ({ taskId: id, query }))))
  })

  it('is greedy at temperature 0: neither the key nor the size of the batch changes a result', async () => {
    const whole = (await evaluate({ tasks: 5 })).flat()
    expect((await evaluate({ tasks: 5, batch: 2, seed: 9 })).flat()).toEqual(whole)
  })

  it('scores each completion by the reward of its own task', async () => {
    for (const [i, result] of (await evaluate({ tasks: 8, batch: 3 })).flat().entries()) {
      const task = source.at(i)
      if (E.isLeft(task)) throw new FailureError(task.left)
      const reward = gsm8kReward(result.completion, task.right.answer)
      expect(result).toMatchObject({ score: reward.right, parts: { rewardThink: Math.fround(reward.think) } })
      expect(result.tokens).toBeGreaterThan(0)
      expect(result.tokens).toBeLessThanOrEqual(8)
    }
  })

  it('finds the right answer right', async () => {
    const [[result] = []] = await evaluate({ tasks: 1 })
    const given = /<answer>(\d+)<\/answer>/.exec(result!.completion)![1]!
    const task = { id: 'easy', query: result!.query, answer: `#### ${given}` }
    const easy: TaskSource = { name: 'easy', size: 1, at: () => E.right(task) }
    expect((await evaluate({ tasks: 1, source: easy })).flat()).toMatchObject([{ taskId: 'easy', score: 1 }])
  })

  it('plays every task as often as there are tries', async () => {
    const results = (await evaluate({ tasks: 3, tries: 4, temperature: 1 })).flat()
    const ids = results.map(({ taskId }) => taskId)
    expect([ids.length, new Set(ids).size]).toEqual([12, 3])
  })

  it('frees everything if its reader stops early', async () => {
    expect(await evaluate({ tasks: 6, batch: 2 }, 1)).toHaveLength(1) // the check for leaks does the rest
  })

  it('throws the failure of a row, after the parts before it', async () => {
    const failure = rowFailure('rows', { first: { row: 4, reason: 'torn' } })
    const torn: TaskSource = { ...source, at: (i) => (i < 3 ? source.at(i) : E.left(failure)) }
    await expect(evaluate({ tasks: 4, batch: 2, source: torn })).rejects.toThrow(/rows, line 4: torn/)
    expect(await evaluate({ tasks: 4, batch: 2, source: torn }, 1)).toHaveLength(1)
  })
})

const anyResult: fc.Arbitrary<EvaluationResult> = fc.record({
  ...{ taskId: fc.constantFrom('a', 'b', 'c'), query: fc.string(), completion: fc.string() },
  score: fc.constantFrom(0, 1),
  parts: fc.record({ success: fc.constantFrom(0, 1), rewardThink: fc.constantFrom(0, 1) }),
  ...{ tokens: fc.nat(1000), turns: fc.integer({ min: 1, max: 4 }) },
})
const anyResults = fc.array(anyResult, { minLength: 1, maxLength: 20 })

const scoring = (tries = 1) => scoringOf(tries, 'success')

describe('scores', () => {
  it('are means: scores of a whole are the weighted scores of its parts', () => {
    const { scoresOf } = scoring()
    const law = fc.property(anyResults, anyResults, (a, b) => {
      const [left, right, whole] = [scoresOf(a), scoresOf(b), scoresOf([...a, ...b])]
      for (const name of ['accuracy', 'rewardThink', 'completionTokens', 'turns'] as const)
        expect(whole[name]! * (a.length + b.length)).toBeCloseTo(left[name]! * a.length + right[name]! * b.length, 6)
    })
    fc.assert(law)
  })

  it('do not depend on order, and pass@k is at least mean@k', () => {
    const law = fc.property(anyResults, (results) => {
      const scores = scoring(4).scoresOf(results)
      const reversed = scoring(4).scoresOf([...results].reverse())
      expect(reversed['pass@4']).toBeCloseTo(scores['pass@4']!, 12)
      expect(scores['pass@4']!).toBeLessThanOrEqual(1)
      const byTask = new Map<string, number[]>()
      for (const { taskId, score } of results) byTask.set(taskId, [...(byTask.get(taskId) ?? []), score])
      const solved = [...byTask.values()].filter((tries) => tries.some((score) => score === 1)).length
      expect(scores['pass@4']).toBeCloseTo(solved / byTask.size, 12)
    })
    fc.assert(law)
  })

  it('count exactly', () => {
    const result = { taskId: 'a', query: '', completion: '', score: 1, parts: { rewardThink: 0 }, tokens: 4, turns: 1 }
    const results = [result, { ...result, score: 0, parts: { rewardThink: 1 }, tokens: 8 }, result, result]
    const scores = { accuracy: 0.75, rewardThink: 0.25, completionTokens: 5, turns: 1 }
    expect(scoring().scoresOf(results)).toEqual(scores)
  })

  it('of nothing are an error, not NaN', () => {
    expect(() => scoring().scoresOf([])).toThrow(RangeError)
  })
})
