/** Overrides of shared defaults. */
import { describe, expect, it } from 'vitest'
import { settingLeaves } from '../../src/run/parts/recipe.js'
import { policySettings } from '../../src/run/parts/settings.js'
import { withDefaults } from '../../src/run/parts/withDefaults.js'

const changed = withDefaults(policySettings, { steps: 7, learner: { learningRate: 3e-5 }, lora: { rank: 4 } })

describe('withDefaults', () => {
  it('changes the defaults that are named, also where another field of the group is set', () => {
    const plain = policySettings.parse({ learner: { epochs: 2 } })
    expect(changed.parse({ learner: { epochs: 2 } })).toEqual({
      ...{ ...plain, steps: 7, learner: { ...plain.learner, learningRate: 3e-5 }, lora: { ...plain.lora, rank: 4 } },
    })
    expect(changed.parse({ learner: { learningRate: 1 } }).learner.learningRate).toBe(1)
  })

  it('keeps descriptions, flags and the order of settings', () => {
    const shown = (schema: typeof policySettings) => settingLeaves(schema).map(({ default: _, ...leaf }) => leaf)
    expect(shown(changed)).toEqual(shown(policySettings))
    const leaf = settingLeaves(changed).find(({ path }) => path.join('.') === 'lora.rank')
    expect(leaf).toMatchObject({ default: 4, flag: 'lora-rank' })
  })

  it('still refuses unknown settings', () => {
    expect(changed.safeParse({ learner: { rate: 1 } }).success).toBe(false)
  })

  it('refuses a setting that there is not, with the nearest one', () => {
    const wrong: object = { learner: { learningRat: 1 } }
    expect(() => withDefaults(policySettings, wrong)).toThrow(
      "withDefaults: unknown setting 'learningRat': did you mean 'learningRate'?",
    )
  })
})
