import { keyFromSeed } from '@tandem-rl/base'
import { checkLaws, rewardLaws } from '@tandem-rl/testing'
import { History, message } from '@tandem-rl/text'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { gsm8kAnswerReward } from '../../../src/envs/rewards/gsm8k.js'
import type { Answered, Reward, RewardService, ScoreContext } from '../../../src/envs/rewards/reward.js'
import { reward } from '../../../src/envs/rewards/rewardFunction.js'
import { exactMatch, tokenF1Reward } from '../../../src/envs/rewards/textMatch.js'
import { weightedReward, weightedService } from '../../../src/envs/rewards/weightedReward.js'

const said = (reply: string, answer = '#### 4'): Answered => ({
  task: { id: 'a', query: 'What?', answer },
  history: History([message('user', 'What?'), message('assistant', reply)]),
})

const context = (): ScoreContext => ({ key: keyFromSeed(1), signal: new AbortController().signal })

const fixed = (name: string, reward: number, success = reward > 0): Reward => ({
  name,
  partNames: ['value'],
  range: [-5, 5],
  score: () => ({ reward, success, parts: { value: reward } }),
})

const service = (reward: Reward): RewardService => ({ ...reward, score: (answered) => TE.of(reward.score(answered)) })

describe('weightedReward', () => {
  it('adds up rewards by weights, and reports every part by its name', () => {
    const both = weightedReward([
      [1, gsm8kAnswerReward()],
      [0.5, fixed('style', 2)],
    ])
    expect(both.score(said('<answer>4</answer>'))).toEqual({
      reward: 2,
      success: true,
      parts: {
        'gsm8k.reward': 1,
        'gsm8k.answer': 1,
        'gsm8k.think': 0,
        'gsm8k.right': 1,
        'style.reward': 2,
        'style.value': 2,
      },
    })
    expect(both.partNames).toEqual(Object.keys(both.score(said('')).parts))
  })

  it.each([
    ['first', [1, 0], true],
    ['first', [0, 1], false],
    ['any', [0, 1], true],
    ['any', [0, 0], false],
    ['all', [1, 1], true],
    ['all', [1, 0], false],
  ] as const)('is a success by the rule %s: %j', (success, [a, b], expected) => {
    const both = weightedReward(
      [
        [1, fixed('a', a)],
        [1, fixed('b', b)],
      ],
      { success },
    )
    expect(both.score(said('')).success).toBe(expected)
  })

  it('has the range of the sum, also with negative weights, and keeps it', () => {
    const number = fc.double({ min: -5, max: 5, noNaN: true })
    fc.assert(
      fc.property(fc.array(fc.tuple(number, number), { minLength: 1, maxLength: 5 }), (pairs) => {
        const all = weightedReward(pairs.map(([weight, value], i) => [weight, fixed(`r${i}`, value)] as const))
        const { reward } = all.score(said(''))
        expect(reward >= all.range[0] && reward <= all.range[1]).toBe(true)
      }),
    )
    expect(
      weightedReward([
        [1, exactMatch()],
        [-0.5, tokenF1Reward()],
      ]).range,
    ).toEqual([-0.5, 1])
  })

  it('nests', () => {
    const inner = weightedReward([[2, fixed('a', 1)]], { name: 'inner' })
    const outer = weightedReward([[3, inner]], { name: 'outer' })
    expect(outer.score(said(''))).toEqual({
      reward: 6,
      success: true,
      parts: { 'inner.reward': 2, 'inner.a.reward': 1, 'inner.a.value': 1 },
    })
  })

  it('refuses what cannot be added up, with all that is wrong', () => {
    expect(() => weightedReward([])).toThrow('weightedReward: there must be a reward')
    expect(() =>
      weightedReward([
        [Number.NaN, fixed('a', 1)],
        [1, { ...fixed('a', 1), partNames: ['reward'] }],
      ]),
    ).toThrow(
      "weightedReward: the weight of a must be a finite number, got NaN; there are two rewards with the name 'a'; a must not have a part named 'reward'",
    )
  })

  checkLaws(
    it,
    rewardLaws(
      fc.integer({ min: 1, max: 99 }).map((n) => ({
        reward: weightedReward([
          [1, gsm8kAnswerReward()],
          [0, tokenF1Reward()],
        ]),
        task: { id: 'a', query: 'How many?', answer: `#### ${n}` },
        gold: `${n}`,
        reply: (answer: string) => `<answer>${answer}</answer>`,
        candidates: [`${n + 1}`],
        consolation: 0.1,
        worthless: [`${n}`],
      })),
      { numRuns: 3, longest: 512 },
    ),
  )
})

describe('weightedService', () => {
  it('scores as weightedReward does, whether its rewards are services or not', async () => {
    const items = [
      [1, gsm8kAnswerReward()],
      [0.5, fixed('style', 2)],
    ] as const
    const expected = weightedReward(items).score(said('<answer>4</answer>'))
    const mixed = weightedService([items[0], [0.5, service(items[1][1])]])
    expect(await mixed.score(said('<answer>4</answer>'), context())()).toEqual(E.right(expected))
    expect([mixed.name, mixed.range]).toEqual([weightedReward(items).name, weightedReward(items).range])
  })

  it('has the extras of its rewards', async () => {
    const extras = reward((() => ({ reward: 1, brevity: 2 })) as never, { extras: 'parts', name: 'own' }) // names of extras have no type
    const mixed = weightedService([[0.5, extras]])
    const parts = { 'own.reward': 1, 'own.brevity': 2 }
    expect(mixed.extras).toBe('parts')
    expect(await mixed.score(said(''), context())()).toEqual(E.right({ reward: 0.5, success: true, parts }))
    expect(weightedService([[1, fixed('a', 1)]])).not.toHaveProperty('extras')
  })

  it('fails where one of them fails, and gives each a key of its own', async () => {
    const keys: string[] = []
    const noticing = (name: string): RewardService => ({
      ...fixed(name, 1),
      score: (answered, { key }) => {
        keys.push(`${key.high}.${key.low}`)
        return TE.of(fixed(name, 1).score(answered))
      },
    })
    const failure = { _tag: 'RewardFailure', rewardName: 'c', reason: 'no' } as const
    const dead: RewardService = { ...fixed('c', 1), score: () => TE.left(failure) }
    expect(
      await weightedService([
        [1, noticing('a')],
        [1, noticing('b')],
        [1, dead],
      ]).score(said(''), context())(),
    ).toEqual(E.left(failure))
    expect(new Set(keys).size).toBe(2)
  })
})
