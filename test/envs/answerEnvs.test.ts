/** MATHEnv and CountdownEnv: single turns with a reward of an answer. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { checkLaws, envLaws } from '@tandem-rl/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { taskList } from '../../src/data/task.js'
import { nextRequest } from '../../src/envs/base/env.js'
import { CountdownEnv } from '../../src/envs/countdownEnv.js'
import { MATHEnv } from '../../src/envs/mathEnv.js'
import { countdownTasks } from '../../src/envs/rewards/countdown.js'
import { answered, empty, freeing, itemsAt, numbersAt, replies } from '../kit/conversation.js'
import { useEngine } from '../kit/engine.js'

useEngine()

const key = keyFromSeed(4)

const source = taskList('problems', [
  { id: 'half', query: 'What is 2 divided by 4?', answer: '\\frac{1}{2}' },
  { id: 'roots', query: 'What solves x^2 = 2?', answer: '\\pm\\sqrt{2}' },
])

describe('MATHEnv', () => {
  it('rewards each answer against the one of its task, and ends the episode', () =>
    freeing(async (keep) => {
      const env = MATHEnv({ source, prompts: 2, repeats: 2 })
      const state = keep(await answered(env.reset(empty(4), key)))
      expect(itemsAt(state, 'taskId')).toEqual(['half', 'half', 'roots', 'roots'])
      const said = replies('\\boxed{0.5}', 'One half.', '<answer>\\sqrt2, -\\sqrt2</answer>', '\\boxed{\\sqrt2}')
      const next = keep(await answered(env.step(state, said)))
      expect(numbersAt(next, 'reward')).toEqual(Array.from(Float32Array.of(1, 0, 1, 0.1)))
      expect(numbersAt(next, 'rewardAnswer')).toEqual([1, 0, 1, 1])
      expect(numbersAt(next, 'rewardRight')).toEqual([1, 0, 1, 0])
      expect(numbersAt(next, 'success')).toEqual([1, 0, 1, 0])
      expect(numbersAt(next, 'terminated')).toEqual([1, 0, 1, 1])
      expect(numbersAt(next, 'done')).toEqual([1, 1, 1, 1])
    }))

  it('passes the options of the reward on', () =>
    freeing(async (keep) => {
      const env = MATHEnv({ source, prompts: 1, reward: { places: ['phrase'], correctReward: 3 } })
      const state = keep(await answered(env.reset(empty(1), key)))
      const next = keep(await answered(env.step(state, replies('The answer is 1/2.'))))
      expect(numbersAt(next, 'reward')).toEqual([3])
    }))

  const samples = fc.constantFrom('\\boxed{1/2}', 'no', '<answer>1</answer>').map((text) => ({
    env: MATHEnv({ source, prompts: 1, repeats: 2 }),
    act: () => replies(text, 'x'),
    steps: 1,
  }))
  checkLaws(it, envLaws(samples, 5))
})

describe('CountdownEnv', () => {
  const sizes = { numCount: 3, maxNumber: 9, maxTarget: 50 }
  const options = { key, prompts: 2, repeats: 2, ...sizes }
  const rows = countdownTasks(key, sizes)
  const solution = (index: number): string => orThrow(rows.at(index)).row.solution

  it('asks puzzle after puzzle of its key, and rewards what solves them', () =>
    freeing(async (keep) => {
      const env = CountdownEnv(options)
      const state = keep(await answered(env.reset(empty(4), key)))
      expect(itemsAt(state, 'query')).toEqual([0, 0, 1, 1].map((i) => orThrow(rows.at(i)).query))
      const said = replies(
        `<answer>${solution(0)}</answer>`,
        '<answer>1</answer>',
        `<answer>${solution(1)}</answer>`,
        '',
      )
      const next = keep(await answered(env.step(state, said)))
      expect(numbersAt(next, 'reward')).toEqual(Array.from(Float32Array.of(1, 0.1, 1, 0)))
      const again = keep(await answered(env.reset(nextRequest(next), key)))
      expect(itemsAt(again, 'taskId')).toEqual(['countdown-2', 'countdown-2', 'countdown-3', 'countdown-3'])
    }))

  it('begins where it is told', () =>
    freeing(async (keep) => {
      const state = keep(await answered(CountdownEnv({ ...options, start: 7 }).reset(empty(4), key)))
      expect(itemsAt(state, 'taskId')[0]).toBe('countdown-7')
    }))

  const samples = fc.nat({ max: 3 }).map((start) => ({
    env: CountdownEnv({ ...options, start }),
    act: () => replies(`<answer>${solution(start)}</answer>`, 'x', '<answer>2 + 2</answer>', ''),
    steps: 1,
  }))
  checkLaws(it, envLaws(samples, 5))
})
