import { keyFromSeed } from '@tandem-rl/base'
import { checkLaws, erased, transformLaws } from '@tandem-rl/testing'
import { appendMessage, History, message, textOf } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { HistoryPrompt } from '../../../src/data/policy.js'
import { dataSpec } from '../../../src/data/spec.js'
import { data } from '../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { observationLimit } from '../../../src/envs/transforms/observationLimit.js'
import { answered, END_OF_TURN, refused, replies, tokenizer } from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const stateOf = (...histories: readonly History[]): TensorDict<HistoryPrompt> =>
  TensorDict({ history: { prompt: data(histories) } }, [histories.length])

const texts = fc.string({ unit: 'grapheme', maxLength: 30 })
const asked = History([message('user', 'Go')])
const said = appendMessage(asked, message('assistant', 'an answer of the policy that is longer than all limits here'))

/** Returns true if no character is cut in two. */
const isWhole = (text: string): boolean => !/\p{Surrogate}/u.test(text)

const samples = texts.map((text) => ({
  inner: {
    observation: { history: { prompt: dataSpec<History>('History') } },
    action: { history: { response: dataSpec('Message') } },
  },
  state: () => stateOf(asked),
  action: () => replies('an answer'),
  next: () => stateOf(appendMessage(said, message('tool', text))),
}))

/** The part of a tool's text within a limit. */
const heard = async (limit: ReturnType<typeof observationLimit>, text: string): Promise<string> => {
  const next = stateOf(appendMessage(said, message('tool', text)))
  const [added] = await answered(limit.step(next, { previous: stateOf(asked), action: replies('x') }, null))
  return textOf(get(added, 'history', 'prompt').items.get(0)!.messages.get(2)!)
}

describe('observationLimit', () => {
  checkLaws(it, transformLaws(fc.constant(erased(observationLimit({ characters: 8 }))), samples))

  it('law: what the environment says is at most so long and begins as it did; the rest of the conversation is the same', async () => {
    await fc.assert(
      fc.asyncProperty(texts, texts, fc.nat(12), async (first, second, characters) => {
        const parts = [first, second].map((text) => ({ type: 'text', text }) as const)
        const next = stateOf(appendMessage(said, message('tool', parts)))
        const limit = observationLimit({ characters })
        const [added] = await answered(limit.step(next, { previous: stateOf(asked), action: replies('x') }, null))
        const messages = get(added, 'history', 'prompt').items.get(0)!.messages
        const [whole, kept] = [first + second, textOf(messages.get(2)!)]
        expect(messages.slice(0, 2)).toEqual(said.messages)
        if (whole.length <= characters) expect(kept).toBe(whole)
        else {
          const [beginning, note] = kept.split(/\n(?=\[\d+ more characters\]$)/)
          expect(whole.startsWith(beginning!)).toBe(true)
          expect(beginning!.length).toBeGreaterThanOrEqual(characters - 2) // a pair in each part stays whole
          expect(beginning!.length).toBeLessThanOrEqual(characters)
          expect(note).toBe(`[${whole.length - characters} more characters]`)
          expect(isWhole(kept)).toBe(isWhole(whole))
        }
      }),
    )
  })

  it('makes 100 MB a failure that says whose they are, if that is wanted', async () => {
    const next = stateOf(appendMessage(said, message('tool', 'a'.repeat(100_000_000))))
    const limit = observationLimit({ characters: 10, longer: 'fail' })
    const failure = await refused(limit.step(next, { previous: stateOf(asked), action: replies('x') }, null))
    expect(failure.reason).toBe('message 2 (tool) has 100000000 characters, more than 10')
  })

  it('looks at the first messages, too, and lets pictures through', async () => {
    const picture = { type: 'image', source: { url: 'file:cat.png' } } as const
    const long = History([message('user', [picture, { type: 'text', text: 'What is this?' }])])
    const [added] = await answered(observationLimit({ characters: 4 }).reset(stateOf(long), null, keyFromSeed(1)))
    const [kept] = get(added, 'history', 'prompt').items.get(0)!.messages
    expect(kept!.content).toEqual([
      picture,
      { type: 'text', text: 'What' },
      { type: 'text', text: '\n[9 more characters]' },
    ])
  })

  it.each([-1, 0.5, Number.NaN])('refuses a limit of %d characters', (characters) => {
    expect(() => observationLimit({ characters })).toThrow(
      'observationLimit: characters must be an integer of at least 0',
    )
  })

  it('law: in tokens, what is kept is a beginning of at most so many, and no more could be kept of what counts', async () => {
    const words = fc.array(fc.constantFrom(' pens', '6 *', 'è', '😀', ' ', '\ud800', 'are there?', END_OF_TURN), {
      maxLength: 30,
    })
    await fc.assert(
      fc.asyncProperty(words, fc.nat(20), async (parts, tokens) => {
        const whole = parts.join('')
        const size = tokenizer.encode(whole, { specialTokens: 'plainText' }).length
        const kept = await heard(observationLimit({ tokens, tokenizer }), whole)
        if (size <= tokens) {
          expect(kept).toBe(whole)
          return
        }
        const [beginning, note] = kept.split(/\n(?=\[\d+ more tokens\]$)/)
        expect(whole.startsWith(beginning!)).toBe(true)
        const left = tokenizer.encode(beginning!, { specialTokens: 'plainText' }).length
        expect(left).toBeLessThanOrEqual(tokens)
        expect(left).toBeGreaterThanOrEqual(tokens - 4) // a character of four bytes stays whole
        expect(note).toBe(`[${size - tokens} more tokens]`)
        expect(isWhole(beginning!) || !isWhole(whole)).toBe(true)
      }),
    )
  })

  it('counts only the beginning of 100 MB in tokens, and says so', async () => {
    const limit = observationLimit({ tokens: 3, tokenizer })
    const kept = await heard(limit, ' pens'.repeat(20_000_000))
    expect(kept).toMatch(/^ pens pens pens\n\[at least \d{5} more tokens\]$/)
    const failing = observationLimit({ tokens: 1, tokenizer, longer: 'fail' })
    const next = stateOf(appendMessage(said, message('tool', ' pens pens')))
    const failure = await refused(failing.step(next, { previous: stateOf(asked), action: replies('x') }, null))
    expect(failure.reason).toBe('message 2 (tool) has 2 tokens, more than 1')
    expect(() => observationLimit({ tokens: -1, tokenizer })).toThrow('tokens must be an integer of at least 0, got -1')
  })
})
