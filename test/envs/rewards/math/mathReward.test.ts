import { readFileSync } from 'node:fs'
import { checkLaws, rewardLaws } from '@tandem-rl/testing'
import { History, message } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type AnswerPlace, mathAnswerOf } from '../../../../src/envs/rewards/math/mathAnswer.js'
import { type MathRewardOptions, mathReward } from '../../../../src/envs/rewards/math/mathReward.js'

const scored = (answer: string, reply: string, options: MathRewardOptions = {}) =>
  mathReward(options).score({
    task: { id: 'a', query: 'What is it?', answer },
    history: History([message('user', 'What is it?'), message('assistant', reply)]),
  })

const GOLD = (
  JSON.parse(readFileSync('test/golden/mathAnswers.json', 'utf8')) as {
    readonly pairs: readonly { readonly a: string }[]
  }
).pairs // by its generator
  .map(({ a }) => a)

describe('mathAnswerOf', () => {
  it.each<[string, string, readonly AnswerPlace[], string]>([
    ['the last box', 'So \\boxed{1}, no: \\boxed{\\frac{1}{2}}.', ['block', 'box'], '\\frac{1}{2}'],
    ['a block before a box', '\\boxed{1} <answer>2</answer> \\boxed{3}', ['block', 'box'], '2'],
    ['a box inside of a block', '<answer>$\\boxed{2}$</answer>', ['block', 'box'], '2'],
    ['a box before a block, if it comes first', '\\boxed{1} <answer>2</answer>', ['box', 'block'], '1'],
    ['an empty block is none', '<answer> </answer> \\boxed{3}', ['block', 'box'], '3'],
    ['a box that is not closed is none', 'It is \\boxed{1', ['block', 'box'], ''],
    ['a phrase is read where it is asked for', 'The final answer is: $\\frac12$.', ['box', 'phrase'], '$\\frac12$'],
    ['the last phrase', 'The answer is 3. No, the answer is 4.\nDone.', ['phrase'], '4'],
    ['several boxes of one answer', '$\\boxed{1}$, $\\boxed{2}$ and $\\boxed{3}$.', ['box'], '1, 2, 3'],
    ['boxes with words of LaTeX between them', '\\boxed{1}\\text{ or }\\boxed{2}', ['box'], '1, 2'],
    ['boxes of which one is taken back', '\\boxed{1}, \\boxed{2}, or rather \\boxed{3}', ['box'], '3'],
    ['a box in a box', '\\boxed{\\boxed{3}}', ['box'], '3'],
    ['boxes in a block', '<answer>\\boxed{1} or \\boxed{2}</answer>', ['block'], '1, 2'],
    ['a sentence in a block', '<answer>So the final answer is: 5. That is all.</answer>', ['block'], '5'],
    ['a number with a point in a sentence', '<answer>The answer is 5.25.</answer>', ['block'], '5.25'],
    ['no phrase unless asked for', 'The answer is 3', ['block', 'box'], ''],
    ['nothing', '', ['block', 'box', 'phrase'], ''],
  ])('%s', (_, reply, places, answer) => {
    expect(mathAnswerOf(reply, places)).toBe(answer)
  })
})

describe('mathReward', () => {
  it.each([
    ['the right answer', '\\boxed{\\dfrac12}', 1, { answer: 1, think: 0, right: 1 }],
    ['with a thought', '<think>Half.</think>\\boxed{0.5}', 1, { answer: 1, think: 1, right: 1 }],
    ['another answer', '\\boxed{\\frac13}', 0.1, { answer: 1, think: 0, right: 0 }],
    ['no answer', '\\frac12', 0, { answer: 0, think: 0, right: 0 }],
    ['all candidates', '\\boxed{\\frac12, \\frac13}', 0.1, { answer: 1, think: 0, right: 0 }],
  ])('%s', (_, reply, reward, parts) => {
    expect(scored('\\frac{1}{2}', reply)).toEqual({ reward, success: parts.right === 1, parts })
  })

  it('takes a whole solution for the reference too, and reads its last box', () => {
    expect(scored('First \\boxed{1}. Then $2+2=\\boxed{4}$.', '\\boxed{4}').reward).toBe(1)
  })

  it('wants all boxes of a reference that has several, and pays no list of guesses', () => {
    const both = 'So \\boxed{2} \\text{ and } \\boxed{3}.'
    expect(scored(both, '\\boxed{2, 3}').reward).toBe(1)
    expect(scored(both, '\\boxed{3}, \\boxed{2}').reward).toBe(1)
    expect(scored(both, '\\boxed{3}').reward).toBe(0.1)
    expect(scored('3', '\\boxed{2}, \\boxed{3}').reward).toBe(0.1)
  })

  it('finds many boxes in linear time', () => {
    expect(mathAnswerOf('\\boxed{1} '.repeat(1e5), ['box']).length).toBe(58)
    expect(mathAnswerOf(`\\boxed{${'{'.repeat(1e5)}`.repeat(3), ['box'])).toBe('')
  })

  it('gives what its options say', () => {
    const options = { correctReward: 2, formatReward: -0.5, places: ['phrase'] as const }
    expect(scored('4', 'The answer is 4.', options).reward).toBe(2)
    expect(scored('4', 'The answer is 5.', options).reward).toBe(-0.5)
    expect(mathReward(options).range).toEqual([-0.5, 2])
  })

  it('asks for a second opinion after a no, and accepts only a yes', () => {
    const secondOpinion = (a: string): boolean | undefined => (a === 'four' ? true : a === 'five' ? false : undefined)
    expect(['four', 'five', 'six'].map((text) => scored('4', `\\boxed{${text}}`, { secondOpinion }).reward)).toEqual([
      1, 0.1, 0.1,
    ])
  })

  it.each(GOLD.map((answer) => [answer]))('gives full marks for %s as the answer to itself', (answer) => {
    expect(scored(answer, `\\boxed{${answer}}`).reward).toBe(1)
  })

  checkLaws(
    it,
    rewardLaws(
      fc
        .constantFrom('\\frac{3}{17}', '2\\sqrt{3}', '(1,\\infty)', 'x^2+7x', '\\{3,5\\}', '\\text{Friday}')
        .map((gold) => ({
          reward: mathReward(),
          task: { id: 'a', query: 'What is it?', answer: gold },
          gold,
          reply: (answer: string) => `So \\boxed{${answer}}`,
          candidates: ['\\frac{5}{17}', '11'],
          consolation: 0.1, // for the form
          worthless: [gold, `\\boxed{${gold}`, `<answer>${gold}`],
        })),
    ),
  )
})
