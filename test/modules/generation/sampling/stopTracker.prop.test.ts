import { decodeEnd, decodeNext, type SamplingParams, type TextTokenizer } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DEFAULT_SAMPLING } from '../../../../src/modules/generation/sampling/params.js'
import {
  bannedTokens,
  type Finish,
  readEnd,
  readTokens,
  type StopRules,
  stopTracker,
} from '../../../../src/modules/generation/sampling/stopTracker.js'
import { type Family, familyTokenizer } from '../../../kit/tokenizers.js'

const NONE = { text: '', finish: null }

const rulesOf = (sampling: Partial<SamplingParams>, others: Partial<StopRules> = {}): StopRules => ({
  sampling: { ...DEFAULT_SAMPLING, ...sampling },
  endTokens: [],
  maxTokens: 1000,
  decoding: null,
  ...others,
})

interface Told {
  readonly text: string
  readonly finish: Finish | null
  readonly tokens: number
}

/** What all tokens bring, given in steps; then the end. */
const told = (rules: StopRules, steps: readonly (readonly number[])[]): Told => {
  let state = stopTracker(rules)
  let [text, tokens] = ['', 0]
  for (const ids of steps) {
    const [next, result] = readTokens(state, ids)
    state = next
    text += result.text
    tokens += result.read
    if (result.finish !== null) return { text, finish: result.finish, tokens }
  }
  const end = readEnd(state)
  return { text: text + end.text, finish: end.finish, tokens }
}

/** The stop string that ends first after `from`, by looking at every end. */
const firstStop = (
  text: string,
  stops: readonly string[],
  from: number,
): { readonly stop: string; readonly end: number } | null => {
  for (let end = from + 1; end <= text.length; end++) {
    const stop = stops.find((candidate) => text.slice(0, end).endsWith(candidate))
    if (stop !== undefined) return { stop, end }
  }
  return null
}

/** The same by decoding everything again after each token and searching it from the start. */
const oracle = (tokenizer: TextTokenizer, rules: StopRules, ids: readonly number[]): Told => {
  const { stop, stopText, minTokens, stopTokens, endTokens } = rules.sampling
  const cut = (text: string, protectedText: number, tokens: number, isOver: boolean): Told | null => {
    const match = tokens > minTokens ? firstStop(text, stop, protectedText) : null
    if (match === null) return isOver ? { text, finish: null, tokens } : null
    const end = match.end - (stopText === 'exclude' ? match.stop.length : 0)
    return { text: text.slice(0, end), finish: { finishReason: 'stop', stopReason: match.stop }, tokens }
  }
  let state = tokenizer.decodeStart('skip')
  let [text, protectedText] = ['', 0]
  for (const [i, id] of ids.entries()) {
    const tokens = i + 1
    const mayEnd = tokens > minTokens
    const isEnd = mayEnd && endTokens === 'stop' && rules.endTokens.includes(id)
    const isStop = mayEnd && stopTokens.includes(id)
    if (!((isEnd || isStop) && stopText === 'exclude')) {
      const [next, more] = decodeNext(state, [id])
      state = next
      text += more
    }
    if (!mayEnd) protectedText = text.length
    const found = cut(text, protectedText, tokens, false)
    if (found !== null) return found
    if (!(isEnd || isStop || tokens >= rules.maxTokens)) continue
    const last = cut(text + decodeEnd(state), protectedText, tokens, true)!
    if (last.finish !== null) return last
    const reason = isEnd || !isStop ? null : id
    return { ...last, finish: { finishReason: isEnd || isStop ? 'stop' : 'length', stopReason: reason } }
  }
  return cut(text + decodeEnd(state), protectedText, ids.length, true)!
}

/** Byte-level, byte-fallback, WordPiece, Unigram. */
const FAMILIES: readonly Family[] = ['gpt2', 'llama2', 'bert', 't5']

describe.each(FAMILIES)('the end of a completion with %s', (family) => {
  const tokenizer = familyTokenizer(family)
  const decoding = tokenizer.decodeStart('skip')
  const text = fc
    .array(fc.constantFrom('a', 'b', 'ab', ' ', 'stop', '.', '🇩🇪', 'é', '日', '\n', 'aab', '😀'), { maxLength: 12 })
    .map((parts) => parts.join(''))
  const anyIds = fc.oneof(
    text.map((said) => Array.from(tokenizer.encode(said))),
    fc.array(fc.nat(tokenizer.vocabularySize - 1), { maxLength: 10 }),
  )
  const stops = fc.array(
    fc.constantFrom('a', 'ab', 'ba', 'aab', 'b b', ' ', 'stop', '🇩', '🇪', 'é', '日', 's', '😀', '�'),
    {
      maxLength: 3,
    },
  )
  const anyRules = fc
    .record({
      stop: stops,
      stopText: fc.constantFrom('exclude', 'include'),
      minTokens: fc.constantFrom(0, 0, 1, 3),
      maxTokens: fc.constantFrom(2, 5, 100),
      ends: fc.constantFrom('stop', 'ignore'),
      endToken: fc.nat(tokenizer.vocabularySize - 1),
      stopToken: fc.nat(tokenizer.vocabularySize - 1),
    })
    .map(({ maxTokens, endToken, stopToken, ends, ...sampling }) =>
      rulesOf(
        { ...sampling, stopTokens: [stopToken], endTokens: ends },
        { maxTokens: Math.max(maxTokens, sampling.minTokens), endTokens: [endToken], decoding },
      ),
    )
  /** Rules and tokens, of which some end the completion. */
  const anyCase = fc.tuple(anyRules, anyIds, fc.nat(9), fc.boolean()).map(([rules, ids, place, isStop]) => {
    const [id] = isStop ? rules.sampling.stopTokens : rules.endTokens
    return [rules, ids.toSpliced(place, 0, id!)] as const
  })

  it('is where searching the whole text again after each token finds it', () => {
    const law = fc.property(anyCase, ([rules, ids]) => {
      expect(
        told(
          rules,
          ids.map((id) => [id]),
        ),
      ).toEqual(oracle(tokenizer, rules, ids))
    })
    fc.assert(law, { numRuns: 300 })
  })

  it('is the same in steps of any length', () => {
    const law = fc.property(anyCase, fc.array(fc.nat(10), { maxLength: 4 }), ([rules, ids], cuts) => {
      const places = [0, ...cuts.map((cut) => Math.min(cut, ids.length)), ids.length].toSorted((a, b) => a - b)
      const steps = places.slice(1).map((place, i) => ids.slice(places[i], place))
      expect(told(rules, steps)).toEqual(told(rules, [ids]))
    })
    fc.assert(law, { numRuns: 150 })
  })

  it('shows no excluded stop string, and never more than can be taken back', () => {
    const law = fc.property(anyIds, stops, (ids, stop) => {
      const rules = rulesOf({ stop }, { decoding })
      let state = stopTracker(rules)
      let [shown, certain, decoded] = ['', '', decoding]
      for (const id of ids) {
        const [next, result] = readTokens(state, [id])
        const [after, more] = decodeNext(decoded, [id])
        state = next
        shown += result.text
        decoded = after
        certain += more
        for (const word of stop) expect(shown).not.toContain(word)
        if (result.finish !== null) return
        const open = Math.max(
          0,
          ...stop.flatMap((word) =>
            Array.from({ length: word.length }, (_, n) => (certain.endsWith(word.slice(0, n)) ? n : 0)),
          ),
        )
        expect(shown).toBe(certain.slice(0, certain.length - open))
      }
    })
    fc.assert(law, { numRuns: 150 })
  })
})

describe('the end of a completion', () => {
  const tokenizer = familyTokenizer('gpt2')
  const decoding = tokenizer.decodeStart('skip')
  const ids = Array.from(tokenizer.encode('one stop two!'))
  const end = tokenizer.idOf('<|endoftext|>')!

  it('is the end token, which gives no stop reason and no text', () => {
    const rules = rulesOf({}, { endTokens: [end], decoding: tokenizer.decodeStart('keep') })
    expect(told(rules, [[...ids, end, ...ids]])).toEqual({
      text: 'one stop two!',
      finish: { finishReason: 'stop', stopReason: null },
      tokens: ids.length + 1,
    })
  })

  it('is a stop token, whose text is kept where it is included', () => {
    const [last] = ids.slice(-1)
    const finish: Finish = { finishReason: 'stop', stopReason: last! }
    const excluded = rulesOf({ stopTokens: [last!] }, { decoding })
    const included = rulesOf({ stopTokens: [last!], stopText: 'include' }, { decoding })
    expect(told(excluded, [ids])).toEqual({
      text: tokenizer.decode(ids.slice(0, -1), 'skip'),
      finish,
      tokens: ids.length,
    })
    expect(told(included, [ids])).toEqual({ text: 'one stop two!', finish, tokens: ids.length })
  })

  it('is the limit where nothing else is', () => {
    const rules = rulesOf({ endTokens: 'ignore' }, { endTokens: [end], maxTokens: 3, decoding: null })
    expect(told(rules, [[end, end, end, end]])).toEqual({
      text: '',
      finish: { finishReason: 'length', stopReason: null },
      tokens: 3,
    })
  })

  it('hides special tokens or shows them, as the decoding that it was given', () => {
    const mixed = [...ids, end, ...ids]
    for (const specialTokens of ['keep', 'skip'] as const) {
      const rules = rulesOf({}, { decoding: tokenizer.decodeStart(specialTokens) })
      expect(told(rules, [mixed]).text).toBe(tokenizer.decode(mixed, specialTokens))
    }
  })

  it('can be reached twice from one state', () => {
    const state = readTokens(stopTracker(rulesOf({ stop: ['p t'] }, { decoding })), ids.slice(0, 1))[0]
    expect(readTokens(state, ids)[1]).toEqual(readTokens(state, ids)[1])
  })

  it('gives no text where nothing is decoded', () => {
    expect(readEnd(stopTracker(rulesOf({})))).toEqual(NONE)
  })

  it('cannot be sampled before the least number of tokens', () => {
    const rules = rulesOf({ minTokens: 2, stopTokens: [4], endTokens: 'ignore' }, { endTokens: [9] })
    expect([0, 1, 2].map((count) => bannedTokens(rules, count))).toEqual([[9, 4], [9, 4], []])
  })
})
