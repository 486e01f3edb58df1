import { keyFromSeed, sipHash } from '@tandem-rl/base'
import { checkLaws, envLaws } from '@tandem-rl/testing'
import fc from 'fast-check'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { ragged } from '../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { decodedPrompt, hashTokens, LLMHashingEnv, nextHash } from '../../src/envs/llmHashingEnv.js'
import { append } from '../../src/envs/transforms/transform.js'
import { answered, freeing, itemsAt, refused, tokenizer } from '../kit/conversation.js'
import { useEngine } from '../kit/engine.js'

useEngine()

const key = keyFromSeed(4)
const ids = fc.array(fc.nat(299), { maxLength: 5 })
const prompting = (...rows: readonly ArrayLike<number>[]) =>
  TensorDict({ tokens: { prompt: ragged('int32', rows) } }, [rows.length])
const sampling = (...rows: readonly ArrayLike<number>[]) =>
  TensorDict({ tokens: { response: ragged('int32', rows) } }, [rows.length])
const env = () => LLMHashingEnv({ batchSize: 1, vocabularySize: 300 })

/** The hash of 64-bit words as this machine lays them out in memory: lowest byte first. */
const hashOf = (...words: readonly bigint[]): string => sipHash(new Uint8Array(BigUint64Array.from(words).buffer))

describe('LLMHashingEnv', () => {
  checkLaws(
    it,
    envLaws(
      fc.tuple(ids, ids).map(([prompt, said]) => ({
        env: LLMHashingEnv({ batchSize: 1, vocabularySize: 300, eosTokenId: 7 }),
        request: () => prompting(prompt),
        act: () => sampling(said),
        steps: 2,
      })),
    ),
  )

  it('names a state by the hash of its tokens, and the next by the hash before and the action', () =>
    freeing(async (keep) => {
      const first = await answered(env().reset(prompting([1, 2, 299]), key))
      const next = keep(await answered(env().step(first, sampling([5]))))
      const [opened, stepped] = [itemsAt(first, 'hashing')[0], itemsAt(next, 'hashing')[0]] as [string, string] // by its schema
      expect(opened).toBe(hashOf(1n, 2n, 299n))
      expect(stepped).toBe(hashOf(BigInt(`0x${opened}`), 5n))
    }))

  it('has the names that it had when this was written', () => {
    expect([hashTokens([]), hashTokens([1, 2, 3]), nextHash(hashTokens([1, 2]), [3])]).toMatchInlineSnapshot(`
      [
        "1e924b9d737700d7",
        "d17877799911d4cd",
        "64bce68cf6b6f60c",
      ]
    `)
  })

  it('law: several ids at once lead where they lead one after the other, and no other way leads there', async () => {
    await fc.assert(
      fc.asyncProperty(ids, ids, ids, (prompt, said, more) =>
        freeing(async (keep) => {
          const first = await answered(env().reset(prompting(prompt), key))
          const two = keep(await answered(env().step(first, sampling(said))))
          const one = keep(await answered(env().step(first, sampling([...said, ...more]))))
          const both = keep(await answered(env().step(two as never, sampling(more)))) // a stepped state is a state
          expect(itemsAt(both, 'hashing')).toEqual(itemsAt(one, 'hashing'))
          expect(itemsAt(both, 'hashing')[0] === itemsAt(two, 'hashing')[0]).toBe(more.length === 0)
        }),
      ),
    )
  })

  it('refuses ids outside of the vocabulary, and wrong options', async () => {
    const state = await answered(env().reset(prompting([1]), key))
    const failure = await refused(env().step(state, sampling([5, 300, -1])))
    expect(failure.reason).toBe('the action has ids that are not below 300: 300 of element 0, -1 of element 0')
    expect(() => LLMHashingEnv({ batchSize: 1, vocabularySize: 0 })).toThrow('vocabularySize must be at least 1, got 0')
  })

  it('shows the text of its tokens where a tokenizer decodes them', () =>
    freeing(async (keep) => {
      const decoded = pipe(env(), append(decodedPrompt({ tokenizer })))
      const [pens, end] = [tokenizer.encode('pens'), tokenizer.encode(' there')]
      const first = await answered(decoded.reset(prompting(pens), key))
      const next = keep(await answered(decoded.step(first, sampling(end))))
      expect([itemsAt(first, 'text', 'prompt'), itemsAt(next, 'text', 'prompt')]).toEqual([['pens'], ['pens there']])
    }))
})
