/** Rewards of tool use, of thoughts, and of a group that a judge compares. */
import { keyFromSeed } from '@tandem-rl/base'
import { scriptedHistoryPolicy } from '@tandem-rl/testing'
import { History, message, toolResult } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { rankingReward } from '../../../src/envs/rewards/ranking.js'
import { exactMatch } from '../../../src/envs/rewards/textMatch.js'
import { thinkReward, toolUseReward } from '../../../src/envs/rewards/toolUse.js'
import { manualTime, settle } from '../../kit/manualTime.js'
import { callOf } from '../../kit/tools.js'

const task = { id: 'a', query: 'Q', answer: '42' }
const said = (reply: string, results = 0) => ({
  task,
  history: History([
    message('user', 'Q'),
    ...Array.from({ length: results }, () => toolResult(callOf('t'), 'r')),
    message('assistant', reply),
  ]),
})

describe('toolUseReward and thinkReward', () => {
  it('pay 1 for a right answer, 0.1 for a wrong one, and nothing where no tool was used', () => {
    const reward = toolUseReward(exactMatch())
    const scores = [said('42', 1), said('7', 1), said('42'), said('7')].map((each) => reward.score(each))
    expect(scores.map((score) => score.reward)).toEqual([1, 0.1, 0, 0])
    expect(scores.map(({ parts }) => parts.tool)).toEqual([1, 1, 0, 0])
    expect(scores.map(({ success }) => success)).toEqual([true, false, false, false])
  })

  it('ask for so many calls, and pay a right answer without them if they are told so', () => {
    expect(toolUseReward(exactMatch(), { calls: 2 }).score(said('42', 1)).reward).toBe(0)
    expect(toolUseReward(exactMatch(), { otherwise: 'reward' }).score(said('42')).reward).toBe(1)
  })

  it('ask for a thought in the reply', () => {
    const reward = thinkReward(exactMatch({ compare: 'squad' }), { partial: 0.2 })
    const thinking = { ...said('<think>so</think>'), finish: '42' }
    expect([reward.score(thinking).reward, reward.score(said('42')).reward]).toEqual([1, 0])
    expect(reward.score(said('<think>so</think> 7')).reward).toBe(0.2)
  })
})

describe('rankingReward', () => {
  const judgeOf = (verdict: string) => scriptedHistoryPolicy({ answers: () => verdict })
  const context = (chain: string, signal = new AbortController().signal) => ({
    ...{ key: keyFromSeed(1), signal, episode: { chain, group: 'g', task } },
  })
  const rankAll = (judge: ReturnType<typeof judgeOf>) => {
    const reward = rankingReward({ judge, groupSize: 2 })
    return Promise.all([reward.score(said('one'), context('a'))(), reward.score(said('two'), context('b'))()])
  }

  it('asks the judge once for a group, and gives each member its score', async () => {
    const judge = judgeOf('```json\n[{"id": "2", "score": 0.25}, {"id": "1", "score": 1}]\n```')
    expect(await rankAll(judge)).toEqual([
      E.right({ reward: 1, success: true, parts: { score: 1 } }),
      E.right({ reward: 0.25, success: false, parts: { score: 0.25 } }),
    ])
    expect(judge.calls()).toHaveLength(1)
  })

  it.each([
    ['no JSON', 'the first is better', 'the judge gave no verdict'],
    ['a score above 1', '[{"id": "1", "score": 2}, {"id": "2", "score": 0}]', 'the judge gave no verdict'],
    ['too few scores', '[{"id": "1", "score": 1}]', 'the judge scored the trajectories 1 of 2'],
  ])('is a failure of all members for %s', async (_, verdict, reason) => {
    const failure = { left: { rewardName: 'ranking', reason: expect.stringContaining(reason) } }
    expect(await rankAll(judgeOf(verdict))).toMatchObject([failure, failure])
  })

  it('fails those who wait when a member does not come in time, or is called off', async () => {
    const time = manualTime()
    const reward = rankingReward({ judge: judgeOf('[]'), groupSize: 3, waitMs: 1000, timers: time })
    const late = reward.score(said('one'), context('a'))()
    await settle()
    time.pass(1000)
    expect(await late).toMatchObject({ left: { reason: 'the group was not complete within 1000 ms' } })
    const controller = new AbortController()
    const both = [
      reward.score(said('one'), context('a'))(),
      reward.score(said('two'), context('b', controller.signal))(),
    ]
    await settle()
    controller.abort()
    expect(await Promise.all(both)).toMatchObject([
      { left: { reason: 'a conversation of the group was cancelled' } },
      { left: { reason: 'the conversation was cancelled' } },
    ])
  })

  it('refuses a group of one, and calls outside of environments', async () => {
    expect(() => rankingReward({ judge: judgeOf(''), groupSize: 1 })).toThrow(
      'groupSize must be an integer of at least 2',
    )
    const alone = rankingReward({ judge: judgeOf(''), groupSize: 2 })
    const { episode: _, ...without } = context('a')
    expect(await alone.score(said('one'), without)()).toMatchObject({
      left: { reason: expect.stringContaining('but has none') },
    })
  })
})
