import { keyFromSeed } from '@tandem-rl/base'
import { checkLaws, envLaws } from '@tandem-rl/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { taskList } from '../../src/data/task.js'
import { exactMatch } from '../../src/doors/rewards.js'
import { SingleTurnEnv } from '../../src/envs/singleTurnEnv.js'
import { answered, empty, freeing, numbersAt, refused, replies } from '../kit/conversation.js'
import { useEngine } from '../kit/engine.js'

useEngine()

const key = keyFromSeed(3)
const source = taskList('words', [{ query: 'tree', answer: 'TREE' }])

const capitals = () =>
  SingleTurnEnv({
    ...{ source, prompts: 1, repeats: 2, solvedAt: 1 },
    parts: ['length'],
    reward: ({ prediction, answer }) => ({
      reward: prediction === answer ? 1 : 0.25,
      length: prediction.length,
    }),
  })

describe('SingleTurnEnv', () => {
  it('ends after one answer with the reward of a function, its parts, and success', () =>
    freeing(async (keep) => {
      const env = capitals()
      const start = keep(await answered(env.reset(empty(2), key)))
      const end = keep(await answered(env.step(start, replies('TREE', 'Tree!'))))
      expect(numbersAt(end, 'reward')).toEqual([1, 0.25])
      expect(numbersAt(end, 'rewardLength')).toEqual([4, 5])
      expect([numbersAt(end, 'success'), numbersAt(end, 'done')]).toEqual([
        [1, 0],
        [1, 1],
      ])
    }))

  it('takes a reward of the library', () =>
    freeing(async (keep) => {
      const env = SingleTurnEnv({ source, prompts: 1, repeats: 2, reward: exactMatch() })
      const start = keep(await answered(env.reset(empty(2), key)))
      const end = keep(await answered(env.step(start, replies('TREE', 'leaf'))))
      expect(numbersAt(end, 'reward')).toEqual([1, 0])
    }))

  it('fails with the task if the reward throws', () =>
    freeing(async (keep) => {
      const env = SingleTurnEnv({
        ...{ source, prompts: 1 },
        reward: () => {
          throw new Error('no judge')
        },
      })
      const start = keep(await answered(env.reset(empty(1), key)))
      expect((await refused(env.step(start, replies('TREE')))).reason).toMatch(/task .*no judge/)
    }))

  describe('obeys the laws of environments', () => {
    checkLaws(it, envLaws(fc.constant({ env: capitals(), act: () => replies('TREE', 'x'), steps: 2 }), 3))
  })
})
