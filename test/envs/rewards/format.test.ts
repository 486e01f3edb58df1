import { History, message } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FORMAT_RULES, formatReward, formatScore } from '../../../src/envs/rewards/format.js'

const TAGS = ['<think>', '</think>', '<answer>', '</answer>']
const pieces = fc.array(fc.oneof(fc.constantFrom(...TAGS), fc.constantFrom(' ', '\n', 'x', '<', '>', '/')), {
  maxLength: 12,
})

/** Reads the form piece by piece, as a slow second opinion. */
const oracle = (text: string): boolean =>
  /^\s*<think>((?!<\/?(think|answer)>)[\s\S])*<\/think>\s*<answer>((?!<\/?(think|answer)>)[\s\S])*<\/answer>\s*$/.test(
    text,
  )

const history = (text: string): History => History([message('user', '<think>?'), message('assistant', text)])
const task = { id: 't', query: '?', answer: '4' }

describe('formatScore', () => {
  it.each([
    ['<think>2 + 2</think><answer>4</answer>', true, true, true],
    [' <think>a</think>\n<answer></answer>\n', true, true, true],
    ['<answer>4</answer><think>late</think>', true, false, true],
    ['<think><answer>4</answer></think>', true, false, true],
    ['<think>a</think> so <answer>4</answer>', true, true, false],
    ['<think>a</think><answer>4</answer><|im_end|>', true, true, false],
    ['<think>a</think><answer>4</answer><answer>5</answer>', false, false, false],
    ['<think>a</think><answer>4', false, false, false],
    ['</think>a<think><answer>4</answer>', false, false, false],
    ['<think>a</think></think><answer>4</answer>', false, false, false],
    ['', false, false, false],
  ])('%s', (text, blocks, order, outside) => {
    expect(formatScore(text).kept).toEqual({ blocks, order, outside })
  })

  it('all rules are kept exactly where the two blocks stand alone, whatever the text', () => {
    fc.assert(
      fc.property(pieces, (parts) => {
        const text = parts.join('')
        const { kept, penalty } = formatScore(text)
        expect(Object.values(kept).every(Boolean)).toBe(oracle(text))
        expect(penalty === 0).toBe(oracle(text))
      }),
      { numRuns: 2000 },
    )
  })

  it('the well formed text is what it is, whatever is in the blocks', () => {
    const inside = fc.string().filter((text) => !text.includes('<'))
    fc.assert(
      fc.property(inside, inside, (thought, answer) => {
        const text = `<think>${thought}</think>\n<answer>${answer}</answer>`
        expect(formatScore(text)).toEqual({ kept: { blocks: true, order: true, outside: true }, penalty: 0 })
      }),
    )
  })

  it('each broken rule costs the same part of the factor, and only the rules that count', () => {
    const spoken = '<think>a</think> so <answer>4</answer>'
    expect(formatScore(spoken).penalty).toBeCloseTo(-1 / 3)
    expect(formatScore(spoken, { factor: 0.5, rules: ['outside', 'order'] }).penalty).toBe(-0.25)
    expect(formatScore(spoken, { rules: ['blocks', 'order'] }).penalty).toBe(0)
    expect(formatScore('', { factor: 2 }).penalty).toBe(-2)
  })

  it('a marker of the end of the turn is no text, once and at the very end', () => {
    const options = { blocks: ['answer'], endOfTurn: '<|im_end|>' }
    expect(formatScore('<answer>4</answer><|im_end|>', options).penalty).toBe(0)
    expect(formatScore('<answer>4</answer><|im_end|><|im_end|>', options).kept.outside).toBe(false)
  })

  it('is done at once with texts that are made to be slow', () => {
    const many = 200_000
    for (const text of ['<think>'.repeat(many), '<think>a</think>'.repeat(many), ' '.repeat(many), '<'.repeat(many)])
      expect(formatScore(text).kept.blocks).toBe(false)
    const deep = `<think>${'<answer'.repeat(many)}</think>${' \n'.repeat(many)}<answer>4</answer>`
    expect(formatScore(deep).penalty).toBe(0)
    expect(formatScore('<think>\ud800</think><answer>\udfff</answer>').penalty).toBe(0)
  })

  it('refuses options that make no sense, all of them at once', () => {
    expect(() => formatScore('', { blocks: ['a b'], rules: [], factor: -1 })).toThrow(
      /blocks must be .*; rules must be .*; factor must not be negative, got -1/,
    )
    expect(() => formatScore('', { blocks: ['a', 'a'] })).toThrow(RangeError)
  })
})

describe('formatReward', () => {
  it('is the factor for what keeps the form, and 0 for what breaks all of it', () => {
    const reward = formatReward({ factor: 0.5 })
    const gold = reward.score({ task, history: history('<think>a</think><answer>4</answer>') })
    expect(gold).toEqual({ reward: 0.5, success: true, parts: { blocks: 1, order: 1, outside: 1 } })
    for (const worthless of ['', '4', '<answer><answer>'.repeat(9)])
      expect(reward.score({ task, history: history(worthless) }).reward).toBe(0)
    expect(reward.score({ task, history: History([]) })).toMatchObject({ reward: 0, success: false })
  })

  it('stays in its range, and its parts are its names', () => {
    fc.assert(
      fc.property(pieces, fc.subarray([...FORMAT_RULES], { minLength: 1 }), (parts, rules) => {
        const reward = formatReward({ rules })
        const scored = reward.score({ task, history: history(parts.join('')) })
        expect(Object.keys(scored.parts)).toEqual(reward.partNames)
        expect(scored.reward).toBeGreaterThanOrEqual(0)
        expect(scored.reward).toBeLessThanOrEqual(1)
      }),
    )
  })
})
