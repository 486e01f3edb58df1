import { parseJsonLines } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { IFEVAL } from '../../../src/data/datasets/ifEval.js'

const row = (changes: object = {}) => ({
  key: 1000,
  prompt: 'Write 300 words, no commas.',
  instruction_id_list: ['punctuation:no_comma', 'length_constraints:number_words'],
  kwargs: [{}, { relation: 'at least', num_words: 300 }],
  ...changes,
})
const parse = (...rows: readonly object[]) =>
  parseJsonLines(rows.map((each) => JSON.stringify(each)).join('\n'), { schema: IFEVAL.schema, source: 'ifeval' })

describe('IFEVAL', () => {
  it('pairs each instruction with its arguments; the answer is empty, for there is none', () => {
    const rows = parse(row())
    expect(E.isRight(rows) && IFEVAL.task(rows.right[0]!, 'ifeval-0')).toEqual({
      id: 'ifeval-0',
      query: 'Write 300 words, no commas.',
      answer: '',
      row: {
        key: 1000,
        prompt: 'Write 300 words, no commas.',
        instructions: [
          { id: 'punctuation:no_comma', kwargs: {} },
          { id: 'length_constraints:number_words', kwargs: { relation: 'at least', num_words: 300 } },
        ],
      },
    })
  })

  it('leaves out arguments that are null, as Parquet files have them', () => {
    const rows = parse(
      row({
        kwargs: [
          { relation: null, num_words: null },
          { relation: 'at least', num_words: 300 },
        ],
      }),
    )
    expect(rows).toEqual(parse(row()))
    expect(parse(row({ kwargs: [null, { relation: 'at least', num_words: 300 }] }))).toEqual(rows)
  })

  it.each([
    [{ kwargs: [{}] }, 'kwargs: 1 for 2 instructions'],
    [{ key: '7', prompt: '' }, expect.stringMatching(/^key: .*; prompt: must not be empty$/)],
    [
      {
        instruction_id_list: ['no comma', 'length_constraints:number_words', 'keywords:letter_frequency'],
        kwargs: [
          {},
          { relation: 'at most', num_wrods: 3 },
          { letter: 'ab', let_frequency: 1.5, let_relation: 'at least' },
        ],
      },
      expect.stringMatching(
        /^instruction_id_list.0: unknown instruction "no comma"; kwargs.1.num_words: .*; kwargs.1.relation: .*; kwargs.1: .*num_wrods.*; kwargs.2.letter: must be one character; kwargs.2.let_frequency: /,
      ),
    ],
    [
      {
        instruction_id_list: ['length_constraints:nth_paragraph_first_word'],
        kwargs: [{ num_paragraphs: 2, nth_paragraph: 3, first_word: 'so' }],
      },
      'kwargs.0.nth_paragraph: must be one of the paragraphs',
    ],
    [
      { instruction_id_list: ['keywords:existence'], kwargs: [{ keywords: ['x'.repeat(257)] }] },
      expect.stringMatching(/^kwargs.0.keywords.0: /),
    ],
    [{ instruction_id_list: [], kwargs: [] }, expect.stringMatching(/^instruction_id_list: /)],
  ])('refuses a row with %j', (changes, reason) => {
    expect(parse(row(), row(changes))).toMatchObject({ left: { row: 2, reason } })
  })
})
