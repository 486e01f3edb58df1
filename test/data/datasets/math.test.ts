import { parseJsonLines } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { boxedAnswer, MATH } from '../../../src/data/datasets/math.js'
import { tasksOfRows } from '../../../src/data/datasets/rows.js'

/** LaTeX with balanced braces, escaped braces among them. */
const anyBalanced: fc.Arbitrary<string> = fc.letrec<{ part: string; text: string }>((tie) => ({
  part: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom('1', '\\frac', 'x', ' ', '\\{', '\\}', '\\\\', '^2', '+'),
    tie('text').map((text) => `{${text}}`),
  ),
  text: fc.array(tie('part'), { maxLength: 4 }).map((parts) => parts.join('')),
})).text

const row = (changes: object = {}) => ({
  ...{ problem: 'What is $1+1$?', level: 'Level 1', type: 'Algebra', solution: 'It is $\\boxed{2}$.' },
  ...changes,
})
const parse = (...rows: readonly object[]) =>
  parseJsonLines(rows.map((each) => JSON.stringify(each)).join('\n'), { schema: MATH.schema, source: 'math' })

describe('boxedAnswer', () => {
  it('gives what stands between the braces, whatever is nested in it', () => {
    fc.assert(
      fc.property(anyBalanced, anyBalanced, fc.constantFrom('', '$.', ' text {more} \\}'), (before, inside, after) => {
        fc.pre(inside.trim() !== '')
        expect(boxedAnswer(`${before}\\boxed{${inside}}${after}`)).toEqual(E.right(inside.trim()))
      }),
    )
  })

  it.each([
    ['\\boxed{1} then \\boxed{2}', '2'],
    ['\\boxed{\\boxed{3}}', '3'],
    ['\\boxed {4}', '4'],
    ['\\boxed 5$', '5'],
    ['\\boxed{\\text{a } b}', '\\text{a } b'],
    ['\\boxed{\\left\\{1\\right\\}}', '\\left\\{1\\right\\}'],
  ])('reads %s', (text, expected) => {
    expect(boxedAnswer(text)).toEqual(E.right(expected))
  })

  it.each([
    ['no box', /does not occur/],
    ['\\boxed{1', /not closed/],
    ['\\boxed{1\\}', /not closed/],
    ['\\boxed{ }', /is empty/],
    ['\\boxed', /nothing in braces/],
    ['\\boxed}', /nothing in braces/],
    ['\\boxed{7} and \\boxed{', /not closed/],
  ])('refuses %s', (text, reason) => {
    expect(boxedAnswer(text)).toHaveProperty('left.reason', expect.stringMatching(reason))
  })
})

describe('MATH', () => {
  it('keeps the row, and takes the box as the answer', () => {
    const rows = parse(row(), row({ level: 'Level ?', split: 'train' }))
    expect(E.isRight(rows) && tasksOfRows('math', rows.right, MATH)).toMatchObject({ right: { name: 'math', size: 2 } })
    expect(E.isRight(rows) && MATH.task(rows.right[1]!, 'math-1')).toEqual({
      ...{ id: 'math-1', query: 'What is $1+1$?', answer: '2', row: row({ level: 'Level ?' }) },
    })
  })

  it('names everything that is wrong with a row', () => {
    const bad = parse(row(), { problem: ' ', level: 'Level 6', solution: 'two' })
    expect(bad).toMatchObject({ left: { source: 'math', row: 2 } })
    expect(bad).toHaveProperty(
      'left.reason',
      expect.stringMatching(
        /^problem: must not be empty; level: must be .*; type: .*; solution: '\\boxed' does not occur; the row has problem, level, solution$/,
      ),
    )
  })

  it('throws for a row that was never validated', () => {
    expect(() => MATH.task(row({ solution: 'two' }), 'math-7')).toThrow(/the row of math-7 was never validated/)
  })
})
