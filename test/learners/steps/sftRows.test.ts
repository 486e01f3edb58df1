/** Conversations as rows to learn from. */
import { orThrow } from '@tandem-rl/base'
import { requireLeft } from '@tandem-rl/testing'
import { History, message } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { maskedRows, sftRows } from '../../../src/learners/steps/sftRows.js'
import { END_OF_TURN, template, tokenizer } from '../../kit/conversation.js'
import { failingTokenizer, UNENCODABLE } from '../../kit/hostileTokenizer.js'

const text = { tokenizer, template, endOfTurn: END_OF_TURN }

const decode = (ids: ArrayLike<number>): string => tokenizer.decode(Array.from(ids), 'keep')

describe('sftRows', () => {
  const chat = History([
    message('system', 's'),
    message('user', 'How many?'),
    message('assistant', 'There are 18.'),
    message('user', 'And pens?'),
    message('assistant', 'So many.'),
  ])

  it('learns what the assistant wrote in every turn, with the end of its turns', () => {
    const { prompts, completions, masks } = orThrow(sftRows([chat], text))
    expect(decode(prompts[0]!)).toMatch(/^<\|im_start\|>system\ns<\|im_end\|>\n.*<\|im_start\|>assistant\n$/s)
    expect(decode(completions[0]!)).toMatch(/^There are 18\.<\|im_end\|>\n<\|im_start\|>user.*So many\.<\|im_end\|>$/s)
    const learned = Array.from(completions[0]!).filter((_, t) => masks[0]![t] === 1)
    expect(decode(learned)).toBe('There are 18.<|im_end|>So many.<|im_end|>')
  })

  it('reads no special token from the text of a message', () => {
    const [plain, hostile] = ['x', END_OF_TURN].map((said) =>
      orThrow(sftRows([History([message('user', said), message('assistant', 'y')])], text)),
    )
    const ends = (ids: ArrayLike<number>) => Array.from(ids).filter((id) => id === tokenizer.idOf(END_OF_TURN)).length
    expect(ends(hostile!.prompts[0]!)).toBe(ends(plain!.prompts[0]!))
  })

  it('names a conversation that the tokenizer of a hostile model needs too much work for', () => {
    const long = History([message('user', UNENCODABLE), message('assistant', 'a')])
    const { reason } = requireLeft(sftRows([long], { ...text, tokenizer: failingTokenizer() }))
    expect(reason).toContain('the conversation: the tokenizer needs more than')
  })

  it('names every conversation that teaches nothing or that the template refuses', () => {
    const silent = History([message('user', 'a')])
    expect(requireLeft(sftRows([silent, chat, silent], text)).reason).toMatch(/conversation 0.*conversation 2/s)
    expect(requireLeft(sftRows([chat], { ...text, from: 'tags' })).reason).toContain('no generation blocks')
  })
})

describe('maskedRows', () => {
  const conversation = fc
    .array(fc.tuple(fc.nat(99), fc.constantFrom(0, 1)), { minLength: 2, maxLength: 12 })
    .map((pairs) => ({ ids: pairs.map(([id]) => id), mask: pairs.map(([, on]) => on) }))
    .filter(({ mask }) => mask.slice(1).includes(1))

  it('keeps the tokens in order, learns the same ones but for the first, and begins and ends with one that is learned', () => {
    fc.assert(
      fc.property(conversation, ({ ids, mask }) => {
        const { prompts, completions, masks } = maskedRows([{ ids, mask }])
        const [prompt, completion, on] = [prompts[0]!, completions[0]!, masks[0]!].map((row) => Array.from(row))
        expect(ids.slice(0, prompt!.length + completion!.length)).toEqual([...prompt!, ...completion!])
        expect(completion!.filter((_, t) => on![t] === 1)).toEqual(ids.filter((_, t) => t > 0 && mask[t] === 1))
        expect([on!.at(0), on!.at(-1), prompt!.length > 0]).toEqual([1, 1, true])
      }),
    )
  })

  it('refuses conversations without a token to learn and masks of another length, all at once', () => {
    const given = [
      { ids: [1, 2], mask: [1, 0] },
      { ids: [1, 2], mask: [0, 1] },
      { ids: [1], mask: [0, 1] },
    ]
    expect(() => maskedRows(given)).toThrow(
      'maskedRows: conversation 0 has no token to train on; conversation 2 has 1 tokens but 2 in its mask',
    )
  })
})
