/**
 * Two more judges: Transformers for what tokenizer_config.json changes, and
 * `@huggingface/tokenizers` for ids of ordinary text.
 */
import { readFileSync } from 'node:fs'
import * as library from '@huggingface/tokenizers'
import { orThrow } from '@tandem-rl/base'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Family, families, familyJson, familyTokenizer } from '../../../../test/kit/tokenizers.js'
import { textTokenizer } from '../../src/tokenizer/textTokenizer.js'

interface Answer {
  readonly text: string
  readonly plain: readonly number[]
  readonly framed: readonly number[]
  readonly kept: string
  readonly skipped: string
}

interface Golden {
  readonly transformers: string
  readonly cases: readonly { readonly family: Family; readonly config: object; readonly answers: readonly Answer[] }[]
}

const golden = JSON.parse(readFileSync('test/golden/tokenizers/configs.json', 'utf8')) as Golden // written by the generator

describe('tokenizer_config.json, as Transformers 5.17 follows it', () => {
  it.each(golden.cases.map((item) => [item.family, JSON.stringify(item.config), item] as const))(
    '%s with %s',
    (family, _, { config, answers }) => {
      expect(golden.transformers).toBe('5.17.0')
      const tokenizer = orThrow(textTokenizer(familyJson(family), config))
      const ours = answers.map(({ text }): Answer => {
        const plain = tokenizer.encode(text)
        const framed = tokenizer.encode(text, { template: 'add' })
        return {
          text,
          plain: Array.from(plain),
          framed: Array.from(framed),
          kept: tokenizer.decode(plain, 'keep'),
          skipped: tokenizer.decode(framed, 'skip'),
        }
      })
      expect(ours).toEqual(answers)
    },
  )
})

interface PureTokenizer {
  readonly encode: (text: string, options: object) => { readonly ids: number[] }
}

// A cast: the library's own declarations are not resolved under Node's module rules.
const { Tokenizer: PureTokenizer } = library as unknown as {
  readonly Tokenizer: new (
    json: object,
    config: object,
  ) => PureTokenizer // its declarations do not resolve here
}

interface Difference {
  readonly family: Family
  readonly reason: string
}

const differences = JSON.parse(
  readFileSync('test/golden/tokenizers/pureDifferences.json', 'utf8'),
) as readonly Difference[] // written by hand

/** Returns the ids of a text, or the reason for their absence. */
const pureIds = (family: Family): ((text: string) => string) => {
  try {
    const pure = new PureTokenizer(familyJson(family), {})
    return (text) => pure.encode(text, { add_special_tokens: false }).ids.join()
  } catch (error) {
    return () => String(error)
  }
}

const WORDS = [
  'The',
  'quick',
  'brown',
  'fox',
  'jumps',
  'over',
  '12',
  'lazy',
  'dogs',
  "isn't",
  'it',
  'a',
  'café',
  '你好',
  'Straße',
  '3.5',
  'x+y=z',
]
const ordinary = fc
  .array(fc.tuple(fc.constantFrom(...WORDS), fc.constantFrom(' ', ' ', ', ', '. ', '\n', '')), {
    minLength: 1,
    maxLength: 12,
  })
  .map((parts) => parts.flat().join(''))

describe('@huggingface/tokenizers gives our ids for ordinary text', () => {
  const known = new Map(differences.map(({ family, reason }) => [family, reason]))

  it.each(families.map((family) => [family, known.get(family) ?? 'no difference'] as const))('%s: %s', (family) => {
    const tokenizer = familyTokenizer(family)
    const idsOf = pureIds(family)
    const texts = fc.sample(ordinary, { numRuns: 60, seed: 1 })
    const different = texts.filter((text) => idsOf(text) !== tokenizer.encode(text).join())
    if (known.has(family))
      expect(different.length).toBeGreaterThan(0) // a difference that is gone is to be deleted
    else expect(different).toEqual([])
  })
})
