import { readFileSync } from 'node:fs'
import { checkLaws, rewardLaws } from '@tandem-rl/testing'
import { History, message } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Reward } from '../../../src/envs/rewards/reward.js'
import { exactMatch, squadText, tokenF1, tokenF1Reward } from '../../../src/envs/rewards/textMatch.js'

interface Pair {
  readonly a: string
  readonly b: string
  readonly normal: string
  readonly exact: number
  readonly f1: number
}

const PAIRS = (JSON.parse(readFileSync('test/golden/squad.json', 'utf8')) as { readonly pairs: readonly Pair[] }).pairs // by its generator

const scored = (reward: Reward, reply: string, answer: string) =>
  reward.score({ task: { id: 'a', query: '?', answer }, history: History([message('assistant', reply)]) })

describe('squadText and tokenF1', () => {
  it.each(PAIRS.map((pair) => [pair.a, pair.b, pair] as const))(
    '%j and %j: as the script of SQuAD says',
    (a, b, pair) => {
      expect(squadText(a)).toBe(pair.normal)
      expect(squadText(a) === squadText(b)).toBe(pair.exact === 1)
      expect(tokenF1(a, b)).toBeCloseTo(pair.f1, 12)
    },
  )

  it('F1 is symmetric, within 0 and 1, and 1 for any order of the same words', () => {
    const text = fc.array(fc.constantFrom('a', 'cat', 'sat', 'mat', 'The', '!'), { maxLength: 8 })
    fc.assert(
      fc.property(text, text, (x, y) => {
        const f1 = tokenF1(x.join(' '), y.join(' '))
        expect(f1).toBe(tokenF1(y.join(' '), x.join(' ')))
        expect(f1 >= 0 && f1 <= 1).toBe(true)
        expect(tokenF1(x.join(' '), [...x].reverse().join(' '))).toBe(1)
      }),
    )
  })
})

describe('exactMatch', () => {
  it.each([
    ['the answer with spaces around it', {}, ' Paris\n', 1],
    ['other capitals', {}, 'paris', 0],
    ['other capitals, by the rules of SQuAD', { compare: 'squad' }, 'The paris.', 1],
    ['a sentence around it', {}, 'It is Paris', 0],
    ['a block', { read: 'block' }, 'It is <answer> Paris </answer>.', 1],
    ['no block', { read: 'block' }, 'Paris', 0],
    ['one of several answers', { answers: () => ['Lutetia', 'Paris'] }, 'Lutetia', 1],
    ['none of no answers', { answers: () => [] }, 'Paris', 0],
  ] as const)('%s', (_, options, reply, reward) => {
    expect(scored(exactMatch(options), reply, 'Paris')).toEqual({
      reward,
      success: reward === 1,
      parts: { match: reward },
    })
  })

  it('nothing matches an answer of which nothing is left', () => {
    expect(scored(exactMatch({ compare: 'squad' }), 'the', 'a').reward).toBe(0)
    expect(scored(exactMatch(), '', '').reward).toBe(0)
  })

  checkLaws(
    it,
    rewardLaws(
      fc.constantFrom<Reward>(exactMatch(), exactMatch({ compare: 'squad' })).map((reward) => ({
        reward,
        task: { id: 'a', query: 'Which city?', answer: 'Paris' },
        gold: 'Paris',
        candidates: ['London', 'Rome'],
        worthless: ['London', 'Par', 'Paris Paris'],
      })),
      { numRuns: 5 },
    ),
  )
})

describe('tokenF1Reward', () => {
  it('is the best F1 of the answers, a success from where it is said', () => {
    const options = { answers: () => ['the red fox', 'a quick brown fox'], solvedAt: 0.8 }
    expect(scored(tokenF1Reward(options), 'brown fox', '')).toEqual({
      reward: 0.8,
      success: true,
      parts: { f1: 0.8, match: 0 },
    })
    expect(scored(tokenF1Reward({ ...options, solvedAt: 0.9 }), 'brown fox', '').success).toBe(false)
    expect(scored(tokenF1Reward(options), 'Red Fox!', '')).toEqual({
      reward: 1,
      success: true,
      parts: { f1: 1, match: 1 },
    })
  })

  it('refuses a success that is no F1', () => {
    expect(() => tokenF1Reward({ solvedAt: 0 })).toThrow('solvedAt must be above 0 and at most 1, got 0')
  })

  checkLaws(
    it,
    rewardLaws(
      fc.constant({
        reward: tokenF1Reward(),
        task: { id: 'a', query: 'Which animal?', answer: 'the quick brown fox' },
        gold: 'quick brown fox',
        candidates: ['slow dog', 'red cat'],
        consolation: 0.99, // for some of the words
        worthless: ['dog'],
      }),
      { numRuns: 5 },
    ),
  )
})

describe('an answer in a reply that was cut off', () => {
  const cut = (reward: Reward, text: string) =>
    reward.score({
      task: { id: 'a', query: '?', answer: 'Paris' },
      history: History([message('assistant', text, { isComplete: false })]),
    }).reward

  it('is none where it is the whole reply, and counts in a closed block', () => {
    for (const reward of [exactMatch(), exactMatch({ compare: 'squad' }), tokenF1Reward()])
      expect(cut(reward, 'Paris')).toBe(0)
    for (const reward of [exactMatch({ read: 'block' }), tokenF1Reward({ read: 'block' })]) {
      expect(cut(reward, '<answer>Paris</answer> because')).toBe(1)
      expect(cut(reward, '<answer>Paris')).toBe(0)
    }
  })
})
