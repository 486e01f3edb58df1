import { checkLaws, rewardLaws } from '@tandem-rl/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalNumber, type GSM8KReward, gsm8kAnswerReward, gsm8kReward } from '../../../src/envs/rewards/gsm8k.js'
import { anySpelling } from '../../kit/spellings.js'

/** answer, think, right. */
type Parts = readonly [answer: 0 | 1, think: 0 | 1, right: 0 | 1]

const RIGHT: Parts = [1, 1, 1]
const WRONG: Parts = [1, 1, 0]
const UNTHOUGHT: Parts = [1, 0, 1]

/** completion, reference number, parts. */
const PAIRS: readonly (readonly [completion: string, number: string, parts: Parts])[] = [
  // Spellings of one number
  ['<think>6 * 3</think><answer>18</answer>', '18', RIGHT],
  ['<think>6 * 3</think><answer>$18.00</answer>', '18', RIGHT],
  ['<think>x</think><answer>$1,234.</answer>', '1234', RIGHT],
  ['<think>x</think><answer>1,234.00</answer>', '1234', RIGHT],
  ['<think>x</think><answer>1234</answer>', '1,234', RIGHT],
  ['<think>x</think><answer>1,234,567</answer>', '1234567', RIGHT],
  ['<think>x</think><answer>\n 18 \n</answer>', '18', RIGHT],
  ['<think>x</think><answer>5.</answer>', '5', RIGHT],
  ['<think>x</think><answer>50%</answer>', '50', RIGHT],
  ['<think>x</think><answer>1.50</answer>', '1.5', RIGHT],
  ['<think>x</think><answer>.5</answer>', '0.50', RIGHT],
  ['<think>x</think><answer>007</answer>', '7', RIGHT],
  ['<think>x</think><answer>+7</answer>', '7', RIGHT],
  ['<think>x</think><answer>0.0</answer>', '0', RIGHT],
  ['<think>x</think><answer>-0</answer>', '0', RIGHT],
  // Negative numbers
  ['<think>x</think><answer>-3</answer>', '-3.0', RIGHT],
  ['<think>x</think><answer>-$1,000</answer>', '-1000', RIGHT],
  ['<think>x</think><answer>3</answer>', '-3', WRONG],
  ['<think>x</think><answer>-3</answer>', '3', WRONG],
  // Other numbers, and what is none
  ['<think>x</think><answer>19</answer>', '18', WRONG],
  ['<think>x</think><answer>1.8</answer>', '18', WRONG],
  ['<think>x</think><answer>180</answer>', '18', WRONG],
  ['<think>x</think><answer>18 dollars</answer>', '18', WRONG],
  ['<think>x</think><answer>1e3</answer>', '1000', WRONG],
  ['<think>x</think><answer>6 * 3</answer>', '18', WRONG],
  ['<think>x</think><answer>.</answer>', '0', WRONG],
  ['<think>x</think><answer>-</answer>', '0', WRONG],
  ['<think>x</think><answer>$</answer>', '0', WRONG],
  ['<think>x</think><answer>1.2.3</answer>', '1.23', WRONG],
  ['<think>x</think><answer>1 8</answer>', '18', WRONG],
  ['<think>x</think><answer>1\n8</answer>', '18', WRONG],
  // Several answers: the first counts
  ['<think>x</think><answer>18</answer><answer>19</answer>', '18', RIGHT],
  ['<think>x</think><answer>19</answer><answer>18</answer>', '18', WRONG],
  // Thoughts are not searched for the answer
  ['<think>or <answer>19</answer></think><answer>18</answer>', '18', RIGHT],
  ['<think>or <answer>18</answer></think><answer>19</answer>', '18', WRONG],
  ['I think <answer>18</answer></think> 19', '18', [0, 0, 0]],
  // Empty, nested and unclosed blocks
  ['<think>x</think><answer></answer>', '18', [0, 1, 0]],
  ['<think>x</think><answer> \n </answer>', '18', [0, 1, 0]],
  ['<think></think><answer>18</answer>', '18', UNTHOUGHT],
  ['<think>x</think><answer></answer><answer>18</answer>', '18', [0, 1, 0]],
  ['<think>x</think><answer><answer>18</answer></answer>', '18', WRONG],
  ['<think>a<think>b</think></think><answer>18</answer>', '18', RIGHT],
  ['<think>never closed <answer>18</answer>', '18', [0, 0, 0]],
  ['</think><answer>18</answer>', '18', UNTHOUGHT],
  ['<think>x</think><answer>18', '18', [0, 1, 0]],
  ['<think>x</think>18</answer>', '18', [0, 1, 0]],
  ['<think>x</think><Answer>18</Answer>', '18', [0, 1, 0]],
  ['<think>x</think>< answer>18</ answer>', '18', [0, 1, 0]],
  ['<answer>18</answer><think>x</think>', '18', RIGHT],
  ['<think>two\nlines</think>\n\n<answer>18</answer><|im_end|>', '18', RIGHT],
  // No block at all
  ['18', '18', [0, 0, 0]],
  ['#### 18', '18', [0, 0, 0]],
  ['', '18', [0, 0, 0]],
]

const partsOf = ({ answer, think, right }: GSM8KReward): Parts => [answer, think, right] as Parts // each is 0 or 1

const worthless = ['', '18', '#### 18', '<answer></answer>', '<answer>18', '18</answer>', '<think>18</think>']

describe('gsm8kReward', () => {
  it.each(PAIRS)('scores %j for %s as answer, think, right = %j', (completion, number, parts) => {
    const score = gsm8kReward(completion, `It is so.\n#### ${number}`)
    expect(partsOf(score)).toEqual(parts)
    expect(score.reward).toBe(parts[2] === 1 ? 1 : parts[0] === 1 ? 0.1 : 0)
  })

  it('gives the rewards that the options state, and the think block earns nothing', () => {
    const options = { correctReward: 5, formatReward: 2 }
    const rewardOf = (completion: string): number => gsm8kReward(completion, '#### 4', options).reward
    expect(rewardOf('<answer>4</answer>')).toBe(5)
    expect(rewardOf('<think>2 + 2</think><answer>4</answer>')).toBe(5)
    expect(rewardOf('<answer>5</answer>')).toBe(2)
    expect(rewardOf('<think>4</think>')).toBe(0)
  })

  it('compares what is not a number as text', () => {
    expect(gsm8kReward('<answer> blue </answer>', '#### blue').right).toBe(1)
    expect(gsm8kReward('<answer>Blue</answer>', '#### blue').right).toBe(0)
    expect(gsm8kReward('<answer>5</answer>', '#### blue').right).toBe(0)
  })

  it.each(['18', '####18', '#### 1 and #### 2'])(
    'throws for the reference %j, which has no single final answer',
    (r) => {
      expect(() => gsm8kReward('<answer>18</answer>', r)).toThrow('exactly once')
    },
  )

  it('counts format and answer apart: a wrong number loses the right part alone', () => {
    const law = fc.property(fc.integer(), fc.integer(), (given, truth) => {
      const { answer, think, right } = gsm8kReward(`<think>x</think><answer>${given}</answer>`, `#### ${truth}`)
      expect([answer, think, right]).toEqual([1, 1, given === truth ? 1 : 0])
    })
    fc.assert(law)
  })

  it('does not look at the text around the first blocks', () => {
    const plain = fc.string({ maxLength: 20 }).filter((text) => !text.includes('<'))
    const law = fc.property(plain, plain, fc.integer(), (before, after, n) => {
      const text = `<think>x</think><answer>${n}</answer>`
      expect(gsm8kReward(before + text + after, '#### 7')).toEqual(gsm8kReward(text, '#### 7'))
    })
    fc.assert(law)
  })

  checkLaws(
    it,
    rewardLaws(
      fc.integer({ min: -10_000, max: 10_000 }).map((n) => ({
        reward: gsm8kAnswerReward(),
        task: { id: 'sum', query: 'How many?', answer: `Because.\n#### ${n}` },
        reply: (answer: string) => `<think>Because.</think><answer>${answer}</answer>`,
        gold: n.toLocaleString('en-US'),
        candidates: [`${n + 1}`, `${2 * n + 3}`],
        consolation: 0.1, // for the form
        worthless: [...worthless, `${n}`, `#### ${n}`, `<answer>${n}`, `<think>${n}</think>`],
      })),
    ),
  )
})

describe('canonicalNumber', () => {
  const cents = fc.integer({ min: -(10 ** 9), max: 10 ** 9 }).map((n) => n / 100)

  it('is one text for all spellings of a number, and another for another number', () => {
    const spelling = fc.tuple(fc.boolean(), fc.boolean(), fc.boolean(), fc.constantFrom('', ' ', '\n'))
    const law = fc.property(cents, cents, spelling, (n, other, [commas, currency, zeros, space]) => {
      const digits = Math.abs(n).toLocaleString('en-US', { useGrouping: commas, minimumFractionDigits: zeros ? 2 : 0 })
      const spelt = `${space}${n < 0 ? '-' : ''}${currency ? '$' : ''}${digits}${space}`
      expect(canonicalNumber(spelt)).toBe(String(n === 0 ? 0 : n))
      expect(canonicalNumber(spelt) === canonicalNumber(String(other))).toBe(n === other)
    })
    fc.assert(law)
  })

  it('reads numbers in any markup, with any minus, currency and grouping', () => {
    const law = fc.property(anySpelling(2), fc.integer({ min: 1, max: 9 }), ({ number, text }, other) => {
      expect(canonicalNumber(text)).toBe(String(number))
      expect(gsm8kReward(`<answer>${text}</answer>`, `#### ${number}`).right).toBe(1)
      expect(gsm8kReward(`<answer>${text}</answer>`, `#### ${number + other}`).right).toBe(0)
    })
    fc.assert(law, { numRuns: 500 })
  })

  it.each(['5 + 5', '**5** and **6**', '$5$6$', '\\boxed{5}\\boxed{6}', 'x5', '5\u20136', '\\frac{5}{1}', '**', '$$'])(
    'takes no number from %j',
    (text) => {
      expect(canonicalNumber(text)).toBeUndefined()
    },
  )

  it('of a canonical number is itself', () => {
    const law = fc.property(fc.stringMatching(/^[-+$]?[0-9,]{0,6}\.?[0-9]{0,4}%?$/), (text) => {
      const canonical = canonicalNumber(text)
      expect(canonical === undefined || canonicalNumber(canonical) === canonical).toBe(true)
      if (!/,/.test(text)) expect(canonical === undefined).toBe(!/\d/.test(text))
    })
    fc.assert(law)
  })

  it.each(['1,8', '18,', ',18', '1,,800', '1,80', '1800,000', '1,8000', '1.5,000', '1$8', '1%8', '%18', '18$$', '1 8'])(
    'takes no number from %j, whose marks stand where none may',
    (text) => {
      expect(canonicalNumber(text)).toBeUndefined()
    },
  )

  it('pays nothing for the digits of the answer with a comma between them', () => {
    expect(gsm8kReward('<answer>1,8</answer>', '#### 18').right).toBe(0)
    expect(gsm8kReward('<answer>1$8</answer>', '#### 18').right).toBe(0)
  })

  it('reads long digits in linear time', () => {
    const zeros = '0'.repeat(2e5)
    expect(canonicalNumber(`${zeros}.${zeros}`)).toBe('0')
    expect(canonicalNumber(`${zeros}x`)).toBeUndefined()
    expect(canonicalNumber(`1.${zeros}x`)).toBeUndefined()
    for (const unit of ['*', '`', '{', '\\boxed{', '\\text', 'text', '$', '\u2009', 'US$', '0\\,'])
      expect(canonicalNumber(`\\${unit.repeat(5e4)}x`)).toBeUndefined()
  })
})
