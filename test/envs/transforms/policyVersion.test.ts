import { anyKey, checkLaws, erased, transformLaws } from '@tandem-rl/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { data, meta } from '../../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { PolicyVersion } from '../../../src/envs/transforms/policyVersion.js'
import { answered, empty, itemsAt, refused } from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const versions = fc.array(fc.nat(), { minLength: 1, maxLength: 4 })
const stamped = (stamps: readonly number[]): TensorDict => TensorDict({ policyVersion: data(stamps) }, [stamps.length])

const samples = versions.map((stamps) => ({
  inner: { observation: {}, action: {} },
  state: () => empty(stamps.length),
  action: () => stamped(stamps),
  next: () => empty(stamps.length),
}))

describe('PolicyVersion', () => {
  checkLaws(it, transformLaws(fc.constant(erased(PolicyVersion())), samples))

  it('has no version before the first step', async () => {
    const law = fc.asyncProperty(fc.nat(4), anyKey, async (size, key) => {
      const [added] = await answered(PolicyVersion().reset(empty(size), null, key))
      expect(itemsAt(added, 'policyVersion')).toEqual(new Array(size).fill(null))
    })
    await fc.assert(law)
  })

  it('carries the stamp of each episode, also where an update fell between them', async () => {
    const law = fc.asyncProperty(versions, async (stamps) => {
      const size = stamps.length
      const context = { previous: empty(size), action: stamped(stamps) }
      const [added] = await answered(PolicyVersion().step(empty(size), context, null))
      expect(itemsAt(added, 'policyVersion')).toEqual(stamps)
    })
    await fc.assert(law)
  })

  it.each([
    ['no stamp', empty(1)],
    ['a stamp of another kind', TensorDict({ policyVersion: meta(3) }, [1])],
    ['a node in its place', TensorDict({ policyVersion: { version: data([3]) } }, [1])],
  ])('refuses an action with %s: a version is never guessed', async (_, action) => {
    const failure = await refused(PolicyVersion().step(empty(1), { previous: empty(1), action }, null))
    expect(failure).toMatchObject({ _tag: 'EnvFailure', env: 'PolicyVersion' })
    expect(failure.reason).toContain("'policyVersion'")
  })
})
