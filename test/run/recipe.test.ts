/** Recipes: validation, description and changes of settings. */
import { differingSettings } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { defineRecipe } from '../../src/run/define/defineRecipe.js'
import { parseSettings, readAssignment, settingLeaves, withSetting } from '../../src/run/parts/recipe.js'
import { policySettings } from '../../src/run/parts/settings.js'

const recipe = defineRecipe({
  name: 'small',
  summary: 'A recipe for tests.',
  settings: z.strictObject({
    steps: z.number().int().positive().default(3).describe('steps'),
    learner: z
      .strictObject({ rate: z.number().nullable().default(null), names: z.array(z.string()).default([]) })
      .prefault({}),
  }),
  build: () => {
    throw new Error('it is not built')
  },
})

describe('defineRecipe', () => {
  it('refuses settings without a default', () => {
    const build = (): never => {
      throw new Error('it is not built')
    }
    const settings = z.strictObject({ steps: z.number() })
    expect(() => defineRecipe({ name: 'x', summary: 's', settings, build })).toThrow(
      'every setting of x needs a default: steps',
    )
  })
})

describe('settings of a recipe', () => {
  it('are leaves with paths, kinds and defaults', () => {
    expect(
      settingLeaves(recipe.settings).map(({ path, kind, default: value }) => [path.join('.'), kind, value]),
    ).toEqual([
      ['steps', 'integer', 3],
      ['learner.rate', 'number', null],
      ['learner.names', 'array', []],
    ])
  })

  it('are refused where they are unknown, with the nearest one', () => {
    expect(parseSettings(recipe, { learner: { rat: 1 }, stpes: 2 })).toEqual(
      E.left({
        _tag: 'SettingsFailure',
        reason:
          "small: unknown setting 'learner.rat': did you mean 'learner.rate'?; unknown setting 'stpes': did you mean 'steps'?",
      }),
    )
  })

  it('suggest the nearest allowed value', () => {
    const settings = z.strictObject({
      loss: z.strictObject({ kind: z.enum(['grpo', 'ppo']).default('grpo') }).prefault({}),
    })
    const parsed = parseSettings({ name: 'small', settings }, { loss: { kind: 'gpro' } })
    expect(E.isLeft(parsed) && parsed.left.reason).toBe(
      `small: loss.kind: expected one of "grpo"|"ppo"; did you mean 'grpo'?`,
    )
  })

  it('are refused where they are of another kind, by path', () => {
    const parsed = parseSettings(recipe, { steps: 0.5 })
    expect(E.isLeft(parsed) && parsed.left.reason).toContain('steps: ')
  })

  it.each([
    ['steps=7', [['steps'], 7]],
    ['learner.rate=off', [['learner', 'rate'], null]],
    ['learner.rate=1e-3', [['learner', 'rate'], 0.001]],
    ['learner.names=["a"]', [['learner', 'names'], ['a']]],
  ])('are read from %s', (text, expected) => {
    expect(readAssignment(recipe, text)).toEqual(E.right(expected))
  })

  it('are refused as an assignment to a path that is not there, or without a value', () => {
    const reason = (text: string): string => {
      const read = readAssignment(recipe, text)
      return E.isLeft(read) ? read.left.reason : ''
    }
    expect(reason('learner.rat=1')).toBe("small: unknown setting 'learner.rat': did you mean 'learner.rate'?")
    expect(reason('steps')).toContain('--set takes path=value')
  })

  it('differ from others exactly where one is set: law', () => {
    const leaves = settingLeaves(policySettings)
    const base = policySettings.parse({})
    fc.assert(
      fc.property(fc.constantFrom(...leaves), fc.jsonValue(), (leaf, value) => {
        const changed = withSetting(base, leaf.path, value)
        const same = JSON.stringify(value) === JSON.stringify(leaf.default)
        const found = differingSettings(base, changed).map(({ path }) => path)
        fc.pre(typeof value !== 'object' || value === null || Array.isArray(value))
        fc.pre(typeof leaf.default !== 'object' || leaf.default === null)
        expect(found).toEqual(same ? [] : [leaf.path.join('.')])
      }),
    )
  })
})
