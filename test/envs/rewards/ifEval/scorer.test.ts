/** Our rewards against those of TorchRL's IfEvalScorer (test/golden/generate/ifEvalScorer.py). */
import { readFileSync } from 'node:fs'
import { History, message } from '@tandem-rl/text'
import { expect, it } from 'vitest'
import type { Instruction } from '../../../../src/data/datasets/ifEval.js'
import { ifEvalReward } from '../../../../src/envs/rewards/ifEval/ifEvalReward.js'
import { ifEvalTask } from '../../../kit/ifEval.js'

interface ScoredReply {
  readonly row: number
  readonly reply: string
  readonly reward: number
  readonly terminated: boolean
  readonly verdicts: readonly [
    promptStrict: readonly boolean[],
    promptLoose: readonly boolean[],
    instStrict: readonly boolean[],
    instLoose: readonly boolean[],
  ]
}

const golden: {
  readonly rows: readonly (readonly Instruction[])[]
  readonly replies: readonly ScoredReply[]
} = JSON.parse(readFileSync('test/golden/ifEval/scorer.json', 'utf8')) as never // the file of the script

const reward = ifEvalReward({ detectLanguage: () => undefined }) // no row asks for a language
const scored = ({ row, reply }: ScoredReply) =>
  reward.score({ task: ifEvalTask(...golden.rows[row]!), history: History([message('assistant', reply)]) })

const hasAnswer = ({ reply }: ScoredReply): boolean => (/<answer>(.*?)<\/answer>/s.exec(reply)?.[1] ?? '').trim() !== ''

it('verdicts and rewards are those of TorchRL on every reply that has an answer', () => {
  const replies = golden.replies.filter(hasAnswer)
  const own = replies.map((each) => {
    const { reward: worth, parts, verdicts } = scored(each)
    const { promptLevelStrict, promptLevelLoose, instLevelStrict, instLevelLoose } = verdicts
    return {
      ...each,
      reward: expect.closeTo(worth, 5),
      terminated: parts.answer === 1,
      verdicts: [[promptLevelStrict], [promptLevelLoose], instLevelStrict, instLevelLoose],
    }
  })
  expect(replies).toEqual(own)
  expect(replies.length).toBe(132)
})

it('blocks around nothing, and thoughts without an answer, are worth nothing here, and there what their tags are worth', () => {
  const replies = golden.replies.filter((each) => !hasAnswer(each))
  for (const each of replies) expect(scored(each), each.reply).toMatchObject({ reward: 0, success: false })
  expect([...new Set(replies.map((each) => each.reward))].sort()).toEqual([0, 0.05, 0.1, 0.15])
})
