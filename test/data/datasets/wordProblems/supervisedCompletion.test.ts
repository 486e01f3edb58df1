import { keyFromSeed } from '@tandem-rl/base'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { rationale, supervisedCompletion } from '../../../../src/data/datasets/wordProblems/supervisedCompletion.js'
import { wordProblems } from '../../../../src/data/datasets/wordProblems/wordProblems.js'
import { gsm8kReward } from '../../../../src/envs/rewards/gsm8k.js'
import { taskAt } from './taskAt.js'

describe('rationale', () => {
  it.each([
    [
      'Tom had 12 + 7 = <<12+7=19>>19 apples.\nThen he had 19 - 4 = <<19-4=15>>15 apples.\n#### 15',
      '12 + 7 = 19 ; 19 - 4 = 15',
    ],
    ['<<16-3-4=9>>9 eggs and <<9*2=18>>18 dollars', '16 - 3 - 4 = 9 ; 9 * 2 = 18'],
    ['<<(3+4)*.5=3.5>>', '(3 + 4) * .5 = 3.5'],
    ['<<5 - -3 = 8>> <<2-5=-3>> <<10%*4=0.4>>', '5 - -3 = 8 ; 2 - 5 = -3 ; 10% * 4 = 0.4'],
    ['no annotation\n#### 3', ''],
  ])('reads %j', (answer, expected) => {
    expect(rationale(answer)).toBe(expected)
  })
})

describe('supervisedCompletion', () => {
  const task = { id: 'a-1', query: '?', answer: 'Tom had 12 + 7 = <<12+7=19>>19 apples.\n#### 19' }

  it('is the think block and the answer block, or the answer block alone', () => {
    expect(supervisedCompletion(task, 'rationale')).toBe('<think>12 + 7 = 19</think><answer>19</answer>')
    expect(supervisedCompletion(task, 'bare')).toBe('<answer>19</answer>')
  })

  it('gets the full reward', () => {
    const source = wordProblems(keyFromSeed(5), { operations: ['add', 'subtract', 'multiply'] })
    fc.assert(
      fc.property(fc.nat(10_000), fc.constantFrom('rationale', 'bare'), (index, style) => {
        const problem = taskAt(source, index)
        const score = gsm8kReward(supervisedCompletion(problem, style), problem.answer)
        expect(score).toEqual({ reward: 1, answer: 1, think: style === 'rationale' ? 1 : 0, right: 1 })
      }),
    )
  })

  it('refuses what is not a GSM8K answer', () => {
    expect(() => supervisedCompletion({ ...task, answer: '19' }, 'bare')).toThrow(
      "supervisedCompletion: the answer of task 'a-1': '#### ' does not occur",
    )
  })
})
