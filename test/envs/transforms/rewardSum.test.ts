import { readFileSync } from 'node:fs'
import { keyFromSeed } from '@tandem-rl/base'
import { anyTransformSample, checkLaws, envLaws, erased, transformLaws } from '@tandem-rl/testing'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { tensorSpec } from '../../../src/data/spec.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { ChatEnv } from '../../../src/envs/chatEnv.js'
import { formatPenalty } from '../../../src/envs/transforms/formatPenalty.js'
import { RewardSum } from '../../../src/envs/transforms/rewardSum.js'
import { append } from '../../../src/envs/transforms/transform.js'
import { answered, asking, empty, freeing, numbersAt, refused, replies } from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const key = keyFromSeed(3)

/** A chat whose every turn costs what its form costs. */
const chat = (batchSize: number) =>
  pipe(
    ChatEnv({ batchSize }),
    append(formatPenalty({ blocks: ['answer'], rules: ['blocks'] })),
    append(RewardSum({ entries: ['reward', 'formatBlocks'] })),
  )

describe('RewardSum', () => {
  describe('as a transform', () => {
    const samples = anyTransformSample({ observation: { bonus: tensorSpec('float32') }, action: {} })
    const sums = fc.constantFrom(erased(RewardSum()), erased(RewardSum({ entries: ['bonus', 'reward'] })))
    checkLaws(it, transformLaws(sums, samples))
  })

  it('is the sum of the rewards of all steps, for each element and each entry', async () => {
    const turns = fc.array(fc.array(fc.boolean(), { minLength: 2, maxLength: 2 }), { maxLength: 4 })
    const law = fc.asyncProperty(turns, (rounds) =>
      freeing(async (keep) => {
        const env = chat(2)
        let state = keep(await answered(env.reset(asking('?', '!'), key)))
        for (const round of rounds) {
          const texts = round.map((isFormed) => (isFormed ? '<answer>4</answer>' : '4'))
          state = keep(await answered(env.step(state, replies(...texts))))
        }
        const formed = [0, 1].map((i) => rounds.filter((round) => round[i]).length)
        expect(numbersAt(state, 'episodeFormatBlocks')).toEqual(formed)
        expect(numbersAt(state, 'episodeReward').map((x) => x + 0)).toEqual(formed.map((n) => n - rounds.length))
      }),
    )
    await fc.assert(law, { numRuns: 20 })
  })

  it('is what TorchRL sums up', () =>
    freeing(async (keep) => {
      const { sums: golden } = JSON.parse(readFileSync('test/golden/transforms.json', 'utf8')) as {
        readonly sums: { readonly rewards: readonly number[][]; readonly sums: readonly number[][] }
      }
      let previous = empty(2)
      for (const [t, rewards] of golden.rewards.entries()) {
        const next = keep(TensorDict({ reward: tf.tensor1d(rewards) }, [2]))
        const [added] = await answered(RewardSum().step(next, { previous, action: empty(2) }, null))
        previous = keep(added) as TensorDict
        for (const [i, sum] of golden.sums[t]!.entries())
          expect(numbersAt(added, 'episodeReward')[i]).toBeCloseTo(sum, 6)
      }
      expect(golden.rewards.length).toBe(3)
    }))

  it('goes two ways from one state, and neither knows of the other', () =>
    freeing(async (keep) => {
      const env = chat(1)
      const first = keep(await answered(env.reset(asking('?'), key)))
      const second = keep(await answered(env.step(first, replies('4'))))
      const [good, bad] = [
        keep(await answered(env.step(second, replies('<answer>4</answer>')))),
        keep(await answered(env.step(second, replies('5')))),
      ]
      const sums = [second, good, bad].map((state) => numbersAt(state, 'episodeReward')[0])
      expect(sums).toEqual([-1, -1, -2])
    }))

  it('a step that lacks an entry is a failure that names it, and names that make no sense are refused', async () => {
    const sum = RewardSum({ entries: ['reward', 'bonus', 'malus'] })
    await freeing(async (keep) => {
      const next = keep(TensorDict({ reward: tf.ones([1]) }, [1]))
      const { reason } = await refused(sum.step(next, { previous: empty(1), action: empty(1) }, null))
      expect(reason).toBe('the step gave no tensor bonus, malus')
    })
    expect(() => RewardSum({ entries: ['reward', 'reward'] })).toThrow(RangeError)
    expect(() => RewardSum({ entries: [] })).toThrow('at least one')
  })

  describe('around a chat', () => {
    const act = () => replies('<answer>4</answer>', 'four')
    checkLaws(it, envLaws(fc.constant({ env: chat(2), request: () => asking('?', '!'), act, steps: 3 }), 3))
  })
})
