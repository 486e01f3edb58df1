/**
 * A short, deterministic form of `npm run verify -- fuzz`: the corpora and some mutations, without
 * timing.
 */
import { child, keyFromSeed } from '@tandem-rl/base'
import { describe, expect, it } from 'vitest'
import { mutated } from './mutate.js'
import { corpusOf, TARGETS } from './targets.js'

const INPUTS = 40

describe.each(Object.entries(TARGETS))('%s', (name, target) => {
  it('reads its corpus, and what is made of it, without a mistake', async () => {
    const corpus = corpusOf(name)
    expect(corpus.length).toBeGreaterThan(2)
    const made = Array.from({ length: INPUTS }, (_, i) => mutated(corpus, child(keyFromSeed(20261122), i)))
    for (const input of [...corpus, ...made]) {
      try {
        await target(input)
      } catch (error) {
        throw new Error(`${name} fails for ${JSON.stringify(input.slice(0, 2000))}`, { cause: error })
      }
    }
  })
})
