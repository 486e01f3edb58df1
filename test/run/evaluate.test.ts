import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { beforeAll, describe, expect, it } from 'vitest'
import { FailureError } from '../../src/core/failure.js'
import { keyFromSeed } from '../../src/core/key.js'
import type { RowFailure, TaskSource } from '../../src/data/task.js'
import { scope } from '../../src/engine/scope.js'
import { gsm8kReward } from '../../src/envs/rewards/gsm8k.js'
import { makeParams, type Pretrained } from '../../src/modules/pretrained.js'
import { TransformersWrapper } from '../../src/modules/transformersWrapper.js'
import { evaluateProblems, type ProblemResult, scoresOf } from '../../src/run/evaluate.js'
import { evaluationTasks } from '../../src/run/tasks.js'
import { useEngine } from '../kit/engine.js'
import { rightOf } from '../kit/results.js'
import { answeringModel } from '../kit/runs.js'

useEngine({ threads: 1 })

let model: Pretrained
let source: TaskSource
beforeAll(async () => {
  model = await answeringModel()
  source = (await rightOf(evaluationTasks({}))).source
})

interface Wish {
  readonly problems: number
  readonly batch?: number
  readonly source?: TaskSource
  readonly seed?: number
}

/** The parts of an evaluation, at most `limit` of them. */
const evaluate = async (wish: Wish, limit = Number.POSITIVE_INFINITY): Promise<(readonly ProblemResult[])[]> => {
  const { config, text, arrays } = model
  const sampling = { temperature: 0, maxNewTokens: 8 }
  const policy = scope(() => TransformersWrapper({ config, params: makeParams(arrays), sampling }))
  const { seed = 0, ...rest } = wish
  const parts: (readonly ProblemResult[])[] = []
  try {
    for await (const part of evaluateProblems({ text, policy, source, key: keyFromSeed(seed), ...rest })) {
      parts.push(part)
      if (parts.length >= limit) break
    }
  } finally {
    policy.release()
  }
  return parts
}

describe('evaluateProblems', () => {
  it('answers the first problems of the source in order, in parts of the batch size', async () => {
    const parts = await evaluate({ problems: 5, batch: 2 })
    expect(parts.map((part) => part.length)).toEqual([2, 2, 1])
    const asked = Array.from({ length: 5 }, (_, i) => source.at(i))
    const answered = parts.flat().map(({ taskId, query }) => ({ taskId, query }))
    expect(answered.map(E.right)).toEqual(asked.map(E.map(({ id, query }) => ({ taskId: id, query }))))
  })

  it('is greedy: neither the key nor the size of the batch changes a result', async () => {
    const whole = (await evaluate({ problems: 5 })).flat()
    expect((await evaluate({ problems: 5, batch: 2, seed: 9 })).flat()).toEqual(whole)
  })

  it('judges each completion by the reward of its own problem', async () => {
    for (const [i, result] of (await evaluate({ problems: 8, batch: 3 })).flat().entries()) {
      const task = source.at(i)
      if (E.isLeft(task)) throw new FailureError(task.left)
      const reward = gsm8kReward(result.completion, task.right.answer)
      expect(result).toMatchObject({ isRight: reward.right === 1, isWorked: reward.think === 1 })
      expect(result.tokens).toBeGreaterThan(0)
      expect(result.tokens).toBeLessThanOrEqual(8)
    }
  })

  it('finds the right answer right', async () => {
    const [[result] = []] = await evaluate({ problems: 1 })
    const given = /<answer>(\d+)<\/answer>/.exec(result!.completion)![1]!
    const task = { id: 'easy', query: result!.query, answer: `#### ${given}` }
    const easy: TaskSource = { name: 'easy', size: 1, at: () => E.right(task) }
    expect((await evaluate({ problems: 1, source: easy })).flat()).toMatchObject([{ taskId: 'easy', isRight: true }])
  })

  it('frees everything if its reader stops early', async () => {
    expect(await evaluate({ problems: 6, batch: 2 }, 1)).toHaveLength(1) // the check for leaks does the rest
  })

  it('throws the failure of a row, after the parts before it', async () => {
    const failure: RowFailure = { _tag: 'RowFailure', source: 'rows', row: 4, reason: 'torn' }
    const torn: TaskSource = { ...source, at: (i) => (i < 3 ? source.at(i) : E.left(failure)) }
    await expect(evaluate({ problems: 4, batch: 2, source: torn })).rejects.toThrow(/rows, line 4: torn/)
    expect(await evaluate({ problems: 4, batch: 2, source: torn }, 1)).toHaveLength(1)
  })
})

const anyResult: fc.Arbitrary<ProblemResult> = fc.record({
  ...{ taskId: fc.string(), query: fc.string(), completion: fc.string() },
  ...{ isRight: fc.boolean(), isWorked: fc.boolean(), tokens: fc.nat(1000) },
})
const anyResults = fc.array(anyResult, { minLength: 1, maxLength: 20 })

describe('scoresOf', () => {
  it('are means: scores of a whole are the weighted scores of its parts', () => {
    const law = fc.property(anyResults, anyResults, (a, b) => {
      const [left, right, whole] = [scoresOf(a), scoresOf(b), scoresOf([...a, ...b])]
      expect(whole.problems).toBe(a.length + b.length)
      for (const name of ['accuracy', 'worked', 'completionTokens'] as const)
        expect(whole[name] * whole.problems).toBeCloseTo(left[name] * a.length + right[name] * b.length, 6)
    })
    fc.assert(law)
  })

  it('do not depend on order, and lie between 0 and 1', () => {
    const law = fc.property(anyResults, (results) => {
      const scores = scoresOf(results)
      const reversed = scoresOf([...results].reverse())
      expect(reversed.accuracy).toBeCloseTo(scores.accuracy, 12)
      for (const share of [scores.accuracy, scores.worked]) expect(share >= 0 && share <= 1).toBe(true)
    })
    fc.assert(law)
  })

  it('count exactly', () => {
    const result = { taskId: 'a', query: '', completion: '', isRight: true, isWorked: false, tokens: 4 }
    const results = [result, { ...result, isRight: false, isWorked: true, tokens: 8 }, result, result]
    expect(scoresOf(results)).toEqual({ problems: 4, accuracy: 0.75, worked: 0.25, completionTokens: 5 })
  })

  it('of nothing are an error, not NaN', () => {
    expect(() => scoresOf([])).toThrow(RangeError)
  })
})
