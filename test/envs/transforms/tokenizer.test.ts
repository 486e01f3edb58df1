import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { checkLaws, envLaws, erased, transformLaws } from '@tandem-rl/testing'
import { History, message, render, appendMessage as say, type TokenSpan } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { dataSpec } from '../../../src/data/spec.js'
import { data } from '../../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { maskOfSpans } from '../../../src/data/tokenMasks.js'
import { TEXT_SPECS } from '../../../src/envs/transforms/templateTransform.js'
import { Tokenizer } from '../../../src/envs/transforms/tokenizer.js'
import {
  answered,
  asking,
  END,
  freeing,
  itemsAt,
  rowsAt,
  sampled,
  template,
  tokenChat,
  tokenizer,
} from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const key = keyFromSeed(4)

type Ids = readonly number[]

/**
 * Any ids: broken UTF-8, special tokens in the middle, texts that would be cut in another way;
 * ended or not.
 */
const ids = fc
  .tuple(fc.array(fc.nat(tokenizer.vocabularySize - 1), { maxLength: 8 }), fc.boolean())
  .map(([row, isEnded]): Ids => (isEnded ? [...row, END] : row))
const turns = fc.array(ids, { minLength: 1, maxLength: 3 })

/** Plays turns, one row of ids per turn, and gives the states. */
const played = async (rows: readonly Ids[], keep: <T>(value: T) => T): Promise<readonly TensorDict[]> => {
  const env = tokenChat(1)
  let state = await answered(env.reset(asking('How many pens?'), key))
  const states: TensorDict[] = [state]
  for (const row of rows) {
    state = keep(await answered(env.step(state, sampled(row))))
    states.push(state)
  }
  return states
}

const promptOf = (state: TensorDict): Ids => rowsAt(state, 'tokens', 'prompt')[0]!
const spansOf = (state: TensorDict): readonly TokenSpan[] =>
  itemsAt(state, 'tokens', 'spans')[0] as readonly TokenSpan[] // by its schema
const textAt = (state: TensorDict): string => itemsAt(state, 'text', 'prompt')[0] as string // by the schema of TextEntries

/** 1 where the policy sampled the token. */
const assistantMask = (state: TensorDict): Ids => Array.from(maskOfSpans(spansOf(state), promptOf(state).length))

describe('Tokenizer', () => {
  describe('as a transform', () => {
    const textOf = (history: History) => {
      const { text, spans, plainText: given } = orThrow(render(template, history, { generationPrompt: 'add' }))
      return TensorDict({ text: { prompt: data([text]), spans: data([spans]), plainText: data([given]) } }, [1])
    }
    const samples = fc.tuple(fc.string(), fc.string()).map(([question, answer]) => {
      const opened = History([message('user', question)])
      return {
        inner: {
          observation: { text: TEXT_SPECS },
          action: { text: { response: dataSpec('string') } },
        },
        state: () => textOf(opened),
        action: () => sampled([...tokenizer.encode(answer), END]),
        next: () => textOf(say(opened, message('assistant', answer))),
      }
    })
    checkLaws(it, transformLaws(fc.constant(erased(Tokenizer({ tokenizer }))), samples))
  })

  it('encodes the prompt as a whole, and its spans lie side by side', async () => {
    const law = fc.asyncProperty(fc.array(fc.string(), { minLength: 1, maxLength: 3 }), async (questions) => {
      const state = await answered(tokenChat(questions.length).reset(asking(...questions), key))
      const texts = itemsAt(state, 'text', 'prompt') as readonly string[] // by the schema of TextEntries
      expect(rowsAt(state, 'tokens', 'prompt')).toEqual(texts.map((text) => Array.from(tokenizer.encode(text))))
      expect(assistantMask(state)).toEqual(promptOf(state).map(() => 0))
    })
    await fc.assert(law)
  })

  it('token first: every prompt begins with the prompt before and the ids that were sampled', async () => {
    const law = fc.asyncProperty(turns, (rows) =>
      freeing(async (keep) => {
        const states = await played(rows, keep)
        for (const [i, row] of rows.entries()) {
          const known = [...promptOf(states[i]!), ...row]
          expect(promptOf(states[i + 1]!).slice(0, known.length)).toEqual(known)
          expect(promptOf(states[i + 1]!).length).toBeGreaterThan(known.length)
        }
      }),
    )
    await fc.assert(law)
  })

  it('what follows the sampled ids is the encoding of what the template added', async () => {
    const law = fc.asyncProperty(turns, (rows) =>
      freeing(async (keep) => {
        const states = await played(rows, keep)
        for (const [i, row] of rows.entries()) {
          const [before, after] = [states[i]!, states[i + 1]!]
          const writtenTo = textAt(before).length + tokenizer.decode(row, 'keep').length
          const rest = promptOf(after).slice(promptOf(before).length + row.length)
          expect(rest).toEqual(Array.from(tokenizer.encode(textAt(after).slice(writtenTo))))
        }
      }),
    )
    await fc.assert(law, { numRuns: 50 })
  })

  it('ids that the tokenizer would cut in another way stay as they were sampled', () =>
    freeing(async (keep) => {
      const letters = Array.from(' pens', (letter) => Array.from(tokenizer.encode(letter))).flat()
      expect(Array.from(tokenizer.encode(' pens'))).not.toEqual(letters)
      const states = await played([[...letters, END], [END]], keep)
      const start = promptOf(states[0]!).length
      for (const state of states.slice(1)) {
        expect(promptOf(state).slice(start, start + letters.length)).toEqual(letters)
        expect(textAt(state)).toContain('<|im_start|>assistant\n pens<|im_end|>')
      }
    }))

  it('the sampled spans are the sampled ids, exactly, in every turn', async () => {
    const law = fc.asyncProperty(turns, (rows) =>
      freeing(async (keep) => {
        const states = await played(rows, keep)
        const spans = spansOf(states.at(-1)!)
        const ours = spans.filter((span) => span.origin === 'sampled')
        expect(ours.map(({ start, end }) => promptOf(states.at(-1)!).slice(start, end))).toEqual(rows)
        expect(ours.map(({ start }) => start)).toEqual(rows.map((_, i) => promptOf(states[i]!).length))
        expect(ours.every(({ role }) => role === 'assistant')).toBe(true)
        expect(ours.map((span) => span.message)).toEqual(rows.map((_, i) => 1 + 2 * i))
      }),
    )
    await fc.assert(law, { numRuns: 50 })
  })

  it('spans of tokens lie side by side over the whole prompt', async () => {
    const law = fc.asyncProperty(turns, (rows) =>
      freeing(async (keep) => {
        for (const state of await played(rows, keep)) {
          const spans = spansOf(state)
          expect(spans.map(({ start }) => start)).toEqual([0, ...spans.slice(0, -1).map(({ end }) => end)])
          expect(spans.at(-1)!.end).toBe(promptOf(state).length)
        }
      }),
    )
    await fc.assert(law, { numRuns: 50 })
  })

  it('the end of turn is the policy’s where it sampled it, and the template’s where it did not', () =>
    freeing(async (keep) => {
      const yes = Array.from(tokenizer.encode('Yes'))
      const maskAt = (state: TensorDict, id: number): Ids =>
        assistantMask(state).filter((_, t) => promptOf(state)[t] === id)
      const [, ended] = await played([[...yes, END]], keep)
      expect(maskAt(ended!, END)).toEqual([0, 1, 0]) // first question, answer, second question
      const [, cut] = await played([yes], keep)
      expect(maskAt(cut!, END)).toEqual([0, 0, 0])
      expect(promptOf(cut!)).toEqual(promptOf(ended!))
    }))

  it('the inverse gives the text of the ids with its special tokens', async () => {
    // Casts: this inverse reads no state, and all it makes is a TensorDict.
    const law = fc.property(fc.array(ids, { minLength: 1, maxLength: 3 }), (rows) => {
      const inner = Tokenizer({ tokenizer }).inverse(sampled(...rows), TensorDict({}, [rows.length]) as never)
      const texts = inner._tag === 'Right' ? itemsAt(inner.right as TensorDict, 'text', 'response') : []
      expect(texts).toEqual(rows.map((row) => tokenizer.decode(row, 'keep')))
    })
    fc.assert(law)
  })

  describe('around a conversation', () => {
    const runs = fc.tuple(ids, ids).map((rows) => ({
      env: tokenChat(2),
      request: () => asking('one?', 'two?'),
      act: () => sampled(...rows),
      steps: 2,
    }))
    checkLaws(it, envLaws(runs))
  })
})
