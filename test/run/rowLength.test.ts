/** Rows too long for the model are refused by name, before all of their text is encoded. */
import { History, message } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import type { PreferencePair } from '../../src/doors/datasets.js'
import * as T from '../../src/index.js'
import { useEngine } from '../kit/engine.js'
import { failingTokenizer, UNENCODABLE } from '../kit/hostileTokenizer.js'
import { smallModel } from '../kit/learners.js'

useEngine({ threads: 1 })

const chat = (answer: string): History => History([message('user', 'a?'), message('assistant', answer)])
const pair = (chosen: string): PreferencePair => ({
  ...{ prompt: History([message('user', 'a?')]), rejected: 'no' },
  chosen,
})

/** A row of 60 MB. */
const HUGE = 'x'.repeat(60_000_000)

/** The text of a model, whose tokenizer counts the characters that it encodes. */
const countingText = async () => {
  const { text } = await smallModel()
  let characters = 0
  const counted = <F extends (text: string, ...rest: never[]) => unknown>(encode: F): F =>
    ((said: string, ...rest: never[]) => {
      characters += said.length
      return encode(said, ...rest)
    }) as F // the same arguments and the same result
  const { encode, encoding } = text.tokenizer
  const tokenizer = { ...text.tokenizer, encode: counted(encode), encoding: counted(encoding) }
  return { text: { ...text, tokenizer }, characters: () => characters }
}

const reasonOf = (result: E.Either<T.Failure, unknown>): string =>
  E.isLeft(result) ? T.describe(result.left) : 'no failure'

const LONG = 'has 60,000,000 characters and more than 64 tokens, the limit is 64'
const TOKENS = /has \d+ tokens, the limit is 64/

describe('a row that is longer than the limit', () => {
  it.each(['chatBatch', 'pairBatch'] as const)('of 60 MB is refused by %s before it is encoded', async (kind) => {
    const { text, characters } = await countingText()
    const limit = { maxTokens: 64 }
    const result =
      kind === 'chatBatch'
        ? T.chatBatch(text, limit)([chat('b'), chat(HUGE)])
        : T.pairBatch(text, limit)([pair('b'), pair(HUGE)])
    expect(reasonOf(result)).toMatch(/(conversation|pair) 1: has 60,000,\d\d\d characters and more than 64 tokens/)
    expect(characters()).toBeLessThan(20_000)
  })

  it.each(['chatBatch', 'pairBatch'] as const)('by some tokens is refused by %s with their number', async (kind) => {
    const { text } = await smallModel()
    const limit = { maxTokens: 64 }
    const answer = '12345 67890 '.repeat(20)
    const result =
      kind === 'chatBatch'
        ? T.chatBatch(text, limit)([chat('b'), chat(answer)])
        : T.pairBatch(text, limit)([pair('b'), pair(answer)])
    expect(reasonOf(result)).toMatch(TOKENS)
    expect(reasonOf(result)).toMatch(/^(conversation|pair) 1: /)
  })

  it.each(['chatBatch', 'pairBatch'] as const)(
    'is refused by %s if the tokenizer of a hostile model needs too much work for it',
    async (kind) => {
      const { text } = await smallModel()
      const hostileText = { ...text, tokenizer: failingTokenizer() }
      const result =
        kind === 'chatBatch'
          ? T.chatBatch(hostileText)([chat(UNENCODABLE)])
          : T.pairBatch(hostileText)([pair(UNENCODABLE)])
      expect(reasonOf(result)).toContain('the tokenizer needs more than')
    },
  )

  it('is refused at the model_max_length of the tokenizer unless a limit is given', async () => {
    const { text } = await smallModel()
    const tokenizer = { ...text.tokenizer, settings: { ...text.tokenizer.settings, maxLength: 64 } }
    expect(reasonOf(T.chatBatch({ ...text, tokenizer })([chat(HUGE)]))).toContain('the limit is 64')
  })

  it.each([undefined, 3])(
    'is named with its file and its row, whatever the order of the rows (key %j)',
    async (seed) => {
      const { text } = await smallModel()
      const rows = Array.from({ length: 7 }, (_, i) => chat(i === 4 ? HUGE : String(i)))
      const data = T.rowBatches({
        ...{ name: 'train', rows, size: 7, batch: T.chatBatch(text, { maxTokens: 64 }) },
        ...(seed !== undefined && { key: T.keyFromSeed(seed) }),
        origin: { source: 'chats.jsonl', rowNumber: (index) => 129 + index },
      })
      const source = await data.open({ position: null, push: async () => {} } as never) // rows read nothing else
      const made = await source.collect({ position: null } as never)() // rows read nothing else
      expect(reasonOf(made)).toContain('chats.jsonl, row 133: ')
      expect(reasonOf(made)).toContain(LONG.replace('60,000,000', '60,000,002'))
      expect(() => Array.from(data.once())).toThrow('chats.jsonl, row 133: ')
    },
  )
})

describe('splitRows', () => {
  it('holds out the first rows, trains on the others, and numbers the rows of both from the first', async () => {
    const { text } = await smallModel()
    const split = (long: number) =>
      T.splitRows({
        rows: Array.from({ length: 7 }, (_, i) => chat(i === long ? HUGE : String(i))),
        ...{ source: 'chats.jsonl', heldOut: 2, size: 2, key: T.keyFromSeed(1) },
        batch: T.chatBatch(text, { maxTokens: 64 }),
      })
    const { train, heldOut } = split(7)
    expect([train.rows, heldOut.rows]).toEqual([5, 2])
    expect(() => Array.from(split(1).heldOut.once())).toThrow('chats.jsonl, row 2: ')
    expect(() => {
      for (const made of split(6).train.once()) made.release()
    }).toThrow('chats.jsonl, row 7: ')
  })

  it('names the file and the number of held-out rows if none are left for training', async () => {
    const { text } = await smallModel()
    const rows = [chat('1'), chat('2')]
    const options = { rows, source: 'chats.jsonl', size: 2, key: T.keyFromSeed(1), batch: T.chatBatch(text) }
    expect(() => T.splitRows({ ...options, heldOut: 128 })).toThrow(
      'no rows are left for training: chats.jsonl has 2, and the first 128 are held out',
    )
  })
})
