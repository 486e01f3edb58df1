import { formatKey, parseKey } from '@tandem-rl/base'
import { sameHistory, textOf } from '@tandem-rl/text'
import { liveTensors, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { gsm8kReward } from 'tandem-rl/rewards'
import { batchSize, equals, isTensorDict, leafEntries, raggedRows, type TensorDict } from 'tandem-rl/tensordict'
import { describe, expect, it } from 'vitest'
import { useEngine } from '../../../test/kit/engine.js'
import {
  anyBatchShape,
  anyHistory,
  anyKey,
  anyMessage,
  anyName,
  anyRagged,
  anyTask,
  anyTensorDict,
} from '../src/arbitraries.js'

useEngine()

/** Fails unless each of the named things occurs among many draws. */
const covers = <T>(arbitrary: fc.Arbitrary<T>, wanted: Readonly<Record<string, (value: T) => boolean>>): void => {
  const drawn = fc.sample(arbitrary, 2000)
  const missing = Object.entries(wanted).flatMap(([name, is]) => (drawn.some(is) ? [] : [name]))
  expect(missing).toEqual([])
}

const depthOf = (td: TensorDict): number =>
  1 +
  Math.max(
    0,
    ...td.entries
      .valueSeq()
      .map((entry) => (isTensorDict(entry) ? depthOf(entry) : 0))
      .toArray(),
  )

describe('arbitraries', () => {
  it('anyKey gives keys that can be written and read', () => {
    const law = fc.property(anyKey, (key) => {
      expect(parseKey(formatKey(key))).toEqual(key)
    })
    fc.assert(law)
  })

  it('anyName has the names that trip up careless code', () => {
    covers(anyName, {
      empty: (name) => name === '',
      prototype: (name) => name === '__proto__',
      number: (name) => /^\d+$/.test(name),
      dot: (name) => name.includes('.'),
      'another alphabet': (name) => /[^\p{ASCII}]/u.test(name),
    })
  })

  it.each(['int32', 'float32', 'bool'] as const)('anyRagged gives rows of %s, as many as asked for', (type) => {
    const law = fc.property(fc.nat(4), fc.nat(6), fc.gen(), (rows, longest, g) => {
      const leaf = g(anyRagged, type, rows, longest)
      expect(leaf.type).toBe(type)
      expect(raggedRows(leaf)).toHaveLength(rows)
      expect(raggedRows(leaf).every((row) => row.length <= longest)).toBe(true)
      if (type === 'bool') expect(Array.from(leaf.values).every((x) => x === 0 || x === 1)).toBe(true)
    })
    fc.assert(law)
  })

  it('anyRagged has empty rows, and floats that are no numbers', () => {
    covers(anyRagged('float32', 3), {
      'an empty row': (leaf) => raggedRows(leaf).some((row) => row.length === 0),
      'a full row': (leaf) => raggedRows(leaf).some((row) => row.length === 5),
      NaN: (leaf) => Array.from(leaf.values).some(Number.isNaN),
      infinity: (leaf) => Array.from(leaf.values).includes(Number.POSITIVE_INFINITY),
    })
  })

  it('anyMessage and anyHistory have all roles, cut and empty messages, and empty conversations', () => {
    covers(anyMessage, {
      ...Object.fromEntries(
        ['system', 'user', 'assistant', 'tool'].map((role) => [
          role,
          (m: { readonly role: string }) => m.role === role,
        ]),
      ),
      cut: (m) => !m.isComplete,
      empty: (m) => textOf(m) === '',
    })
    covers(anyHistory, { empty: (h) => h.messages.isEmpty(), long: (h) => h.messages.size > 3 })
    const law = fc.property(anyHistory, (history) => {
      expect(sameHistory(history, { ...history })).toBe(true)
    })
    fc.assert(law)
  })

  it('anyTask gives tasks that the reward can score', () => {
    const law = fc.property(anyTask, ({ query, answer }) => {
      const truth = answer.split('#### ')[1]!
      expect(gsm8kReward(`<answer>${truth}</answer>`, answer).right).toBe(1)
      expect(gsm8kReward('<answer>0.5</answer>', answer).right).toBe(0)
      expect(query).not.toBe('')
    })
    fc.assert(law)
    covers(anyTask, { negative: ({ answer }) => answer.includes('#### -') })
  })

  it('anyBatchShape has no axis, an axis of nothing, and three axes', () => {
    covers(anyBatchShape, {
      scalar: (shape) => shape.length === 0,
      nothing: (shape) => shape.includes(0),
      one: (shape) => shape.includes(1),
      deep: (shape) => shape.length === 3,
    })
  })
})

describe('anyTensorDict', () => {
  it('makes no tensor until it builds, and builds equal values again and again', () => {
    const law = fc.property(anyTensorDict(), (recipe) => {
      expect(liveTensors().count).toBe(0)
      scope(() => {
        const [first, second] = [recipe.build(), recipe.build()]
        expect(equals(first, second)).toBe(true)
        return []
      })
    })
    fc.assert(law)
  })

  it('builds the batch shape that it states, which is one of those asked for', () => {
    const law = fc.property(anyTensorDict(fc.constantFrom([2], [3, 1])), (recipe) => {
      scope(() => {
        expect(recipe.build().batchShape).toEqual(recipe.batchShape)
        expect([2, 3]).toContain(batchSize(recipe.batchShape))
        return []
      })
    })
    fc.assert(law)
  })

  it('has all kinds of leaves, nodes in nodes, and nothing at all', () => {
    scope(() => {
      const built = fc.sample(anyTensorDict(), 300).map((recipe) => recipe.build())
      const leaves = built.flatMap((td) => leafEntries(td).map(([, leaf]) => ('_tag' in leaf ? leaf._tag : leaf.dtype)))
      expect(new Set(leaves)).toEqual(new Set(['Ragged', 'Data', 'Meta', 'float32', 'int32', 'bool']))
      expect(new Set(built.map(depthOf))).toEqual(new Set([1, 2, 3]))
      expect(built.some((td) => td.entries.isEmpty())).toBe(true)
      return []
    })
  })
})
