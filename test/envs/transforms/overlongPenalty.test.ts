import { checkLaws, erased, transformLaws } from '@tandem-rl/testing'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ragged } from '../../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { overlongReward } from '../../../src/envs/rewards/overlong.js'
import { overlongPenalty } from '../../../src/envs/transforms/overlongPenalty.js'
import { answered, empty, freeing, numbersAt, refused } from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const OPTIONS = { longest: 8, cache: 4 } // quarters: exact in float32

const lengths = fc.array(fc.nat(8), { minLength: 1, maxLength: 4 })
const written = (sizes: readonly number[]): TensorDict => {
  const rows = sizes.map((size) => Array<number>(size).fill(7))
  return TensorDict({ tokens: { response: ragged('int32', rows) } }, [sizes.length])
}

const samples = lengths.map((sizes) => ({
  inner: { observation: {}, action: {} },
  state: () => empty(sizes.length),
  action: () => written(sizes),
  next: () => TensorDict({ reward: tf.ones([sizes.length]) }, [sizes.length]),
}))

describe('overlongPenalty', () => {
  checkLaws(it, transformLaws(fc.constant(erased(overlongPenalty(OPTIONS))), samples))

  it('adds the reward of the length to what is there, and keeps it', async () => {
    const law = fc.asyncProperty(lengths, (sizes) =>
      freeing(async (keep) => {
        const size = sizes.length
        const next = keep(TensorDict({ reward: tf.tensor1d(sizes.map((_, i) => i)) }, [size]))
        const context = { previous: empty(size), action: written(sizes) }
        const [added] = await answered(overlongPenalty(OPTIONS).step(next, context, null))
        keep(added)
        const penalties = sizes.map((tokens) => overlongReward(tokens, OPTIONS))
        expect(numbersAt(added, 'lengthPenalty').map((x) => x + 0)).toEqual(penalties.map((x) => x + 0))
        expect(numbersAt(added, 'reward')).toEqual(penalties.map((penalty, i) => i + penalty))
      }),
    )
    await fc.assert(law)
  })

  it('is the reward where there is none', () =>
    freeing(async (keep) => {
      const context = { previous: empty(1), action: written([8]) }
      const [added] = await answered(overlongPenalty(OPTIONS).step(empty(1), context, null))
      keep(added)
      expect(numbersAt(added, 'reward')).toEqual([-1])
    }))

  it('refuses an action without token ids, and options that make no sense', async () => {
    const failure = await refused(
      overlongPenalty(OPTIONS).step(empty(1), { previous: empty(1), action: empty(1) }, null),
    )
    expect(failure.reason).toContain('no tokens.response')
    expect(() => overlongPenalty({ longest: 4, cache: 9 })).toThrow('overlongPenalty: cache must be from 1 to 4, got 9')
  })
})
