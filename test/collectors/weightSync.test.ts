import { keyFromSeed } from '@tandem-rl/base'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { inProcessUpdater } from '../../src/collectors/weightSync.js'
import type { WeightReceiver } from '../../src/data/weights.js'
import { initialParams } from '../../src/modules/transformer/params.js'
import { TransformersWrapper } from '../../src/modules/transformersWrapper.js'
import { useEngine } from '../kit/engine.js'
import { tinyConfig } from '../kit/models.js'
import { leftOf, rightOf } from '../kit/results.js'

useEngine()

/**
 * An engine whose weights are a word; it refuses the word 'bad', and may answer with a version of
 * its own.
 */
const engine = (answer: (version: number) => number = (version) => version) => {
  let [word, version] = ['first', 0]
  const receiver: WeightReceiver<string> = {
    version: () => version,
    load: (weights, next) => async () => {
      if (weights === 'bad') return TE.left({ _tag: 'WeightFailure', receiver: 'engine', reason: 'bad' } as const)()
      word = weights
      version = answer(next)
      return TE.right(version)()
    },
  }
  return { receiver, inUse: () => ({ word, version }) }
}

describe('inProcessUpdater', () => {
  it('answers with the version pushed, which grows: the engine has always the newest weights that were accepted', async () => {
    const pushes = fc.array(
      fc.record({ word: fc.constantFrom('a', 'b', 'bad'), version: fc.integer({ min: -1, max: 6 }) }),
    )
    await fc.assert(
      fc.asyncProperty(pushes, async (drawn) => {
        const { receiver, inUse } = engine()
        const updater = inProcessUpdater(receiver)
        let expected = inUse()
        for (const push of drawn) {
          const result = await updater.push(push.word, push.version)()
          const accepted = push.version > expected.version && push.word !== 'bad'
          if (accepted) expected = push
          expect(result._tag).toBe(accepted ? 'Right' : 'Left')
          expect(inUse()).toEqual(expected)
        }
      }),
    )
  })

  it('reports the version in use when a push is not newer', async () => {
    const updater = inProcessUpdater(engine().receiver)
    await rightOf(updater.push('a', 4))
    const failure = await leftOf(updater.push('b', 4))
    expect(failure).toMatchObject({ _tag: 'WeightFailure', reason: 'version 4 is not newer than 4, which is in use' })
  })

  it('passes the refusal of the engine on', async () => {
    const failure = await leftOf(inProcessUpdater(engine().receiver).push('bad', 1))
    expect(failure).toEqual({ _tag: 'WeightFailure', receiver: 'engine', reason: 'bad' })
  })

  it('does not believe an engine that answers with another version', async () => {
    const { reason } = await leftOf(inProcessUpdater(engine((version) => version - 1).receiver).push('a', 5))
    expect(reason).toBe('gave version 5, but the engine samples with 4')
  })

  it('does nothing before the push is run, and then compares with the version of that moment', async () => {
    const { receiver, inUse } = engine()
    const updater = inProcessUpdater(receiver)
    const [one, two] = [updater.push('a', 1), updater.push('b', 2)]
    expect(inUse()).toEqual({ word: 'first', version: 0 })
    await rightOf(two)
    await leftOf(one)
    expect(inUse()).toEqual({ word: 'b', version: 2 })
  })

  it('updates a policy in this process, and refuses weights of another architecture', async () => {
    const config = tinyConfig({ layers: 1 })
    using params = own(scope(() => [1, 2].map((seed) => initialParams(config, keyFromSeed(seed)))))
    using other = own(scope(() => initialParams(tinyConfig({ layers: 2 }), keyFromSeed(1))))
    const policy = TransformersWrapper({ config, params: params.value[0]! })
    const updater = inProcessUpdater(policy)
    expect(await rightOf(updater.push(params.value[1]!, 1))).toBe(1)
    expect((await leftOf(updater.push(other.value, 2))).receiver).toBe('TransformersWrapper')
    expect(policy.version()).toBe(1)
    policy.release()
  })
})
