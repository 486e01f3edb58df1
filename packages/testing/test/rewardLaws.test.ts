/**
 * The kit of rewards accepts good ones and rejects each kind of fault, by the law that names it.
 */
import { type History, textOf } from '@tandem-rl/text'
import fc from 'fast-check'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type Answered, gsm8kAnswerReward, type Reward, type RewardService, type Scored } from 'tandem-rl/rewards'
import { describe, expect, it } from 'vitest'
import { brokenLaws } from '../../../test/kit/conversation.js'
import { checkLaws } from '../src/law.js'
import { hostileReplies, rewardLaws } from '../src/rewardLaws.js'

const replyIn = ({ messages }: History): string =>
  messages
    .filter(({ role }) => role === 'assistant')
    .map(textOf)
    .join('')

const fair = gsm8kAnswerReward()

const laws = (reward: Reward | RewardService) =>
  rewardLaws(
    fc.integer({ min: 1, max: 99 }).map((n) => ({
      reward,
      task: { id: 'a', query: 'How many?', answer: `#### ${n}` },
      reply: (answer: string) => `<answer>${answer}</answer>`,
      gold: `${n}`,
      candidates: [`${n + 1}`],
      consolation: 0.1,
      worthless: [`${n}`, `#### ${n}`],
    })),
    { numRuns: 5, longest: 512 },
  )

const broken = (reward: Reward | RewardService): Promise<readonly string[]> => brokenLaws(laws(reward))

const changed = (change: (score: Scored, answered: Answered) => Partial<Scored>): Promise<readonly string[]> =>
  broken({
    ...fair,
    score: (answered: Answered) => {
      const score = fair.score(answered)
      return { ...score, ...change(score, answered) }
    },
  })

describe('rewardLaws', () => {
  describe('of a service', () => {
    const service: RewardService = { ...fair, score: (answered) => TE.of(fair.score(answered)) }
    checkLaws(it, laws(service))
  })

  it('find nothing wrong with the reward of GSM8K', async () => {
    expect(await broken(fair)).toEqual([])
  })

  it('reject a service that fails', async () => {
    const failure = { _tag: 'RewardFailure', rewardName: 'gsm8k', reason: 'no' } as const
    expect(await broken({ ...fair, score: () => TE.left(failure) })).toHaveLength(8)
  })

  it('reject a running baseline', async () => {
    let last = 0
    const baseline = changed((score) => {
      const reward = score.reward - last
      last = score.reward
      return { reward }
    })
    expect(await baseline).toEqual(expect.arrayContaining(['determinism', 'gold']))
  })

  it('reject a reward that finds the number anywhere', async () => {
    const isIn = ({ task, history }: Answered): boolean => replyIn(history).includes(task.answer.slice(5))
    const loose = await changed((_, answered) => ({ reward: isIn(answered) ? 1 : 0, success: isIn(answered) }))
    expect(loose).toEqual(['nothing', 'hostile'])
  })

  it('reject a reward that reads the question as an answer', async () => {
    const echo = await changed((score, { task, history }) =>
      replyIn(history).includes(task.query) ? { reward: 1, success: true } : score,
    )
    expect(echo).toEqual(['hostile'])
  })

  it('reject rewards above full marks, below nothing, and that are no number', async () => {
    expect(await changed(({ reward }) => ({ reward: 2 * reward }))).toEqual(['range', 'gold', 'hostile'])
    expect(await changed(({ reward }) => ({ reward: reward || -1 }))).toEqual(['range', 'nothing'])
    expect(await changed(() => ({ reward: Number.NaN }))).toEqual(['range', 'gold', 'nothing', 'hostile'])
  })

  it('reject parts that are missing, too many, or no number', async () => {
    expect(await changed(() => ({ parts: {} }))).toEqual(['parts'])
    expect(await changed(({ parts }) => ({ parts: { ...parts, more: 1 } }))).toEqual(['parts'])
    expect(await changed(({ parts }) => ({ parts: { ...parts, think: Number.POSITIVE_INFINITY } }))).toEqual(['parts'])
  })
})

describe('hostileReplies', () => {
  it('are texts, the question, and all candidates at once, in the form of an answer and without', () => {
    const sample = { task: { id: 'a', query: 'How many?', answer: '4' }, gold: '4', candidates: ['5', '6'] }
    const replies = hostileReplies({ ...sample, reply: (answer) => `<answer>${answer}</answer>` })
    expect(replies).toEqual(
      expect.arrayContaining(['How many?', '<answer>How many?</answer>', '<answer>4, 5, 6</answer>']),
    )
    expect(replies.includes('4')).toBe(false)
  })
})
