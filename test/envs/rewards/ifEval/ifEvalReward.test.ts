import { checkLaws, rewardLaws } from '@tandem-rl/testing'
import { appendMessage, History, message } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { InstructionId } from '../../../../src/data/datasets/ifEvalInstructions.js'
import {
  type IfEvalReading,
  type IfEvalRewardOptions,
  ifEvalReward,
  weightedIfEval,
} from '../../../../src/envs/rewards/ifEval/ifEvalReward.js'
import { ifEvalTask, inBlocks, KIND_SAMPLES, type KindSample, loadedDetector } from '../../../kit/ifEval.js'

const detectLanguage = await loadedDetector()
const NO_COMMA = { id: 'punctuation:no_comma', kwargs: {} }
const QUOTED = { id: 'startend:quotation', kwargs: {} }
const task = ifEvalTask(NO_COMMA, QUOTED)

const scored = (reply: string, options: Partial<IfEvalRewardOptions> = {}, details = {}) =>
  ifEvalReward({ detectLanguage, ...options }).score({
    task,
    history: appendMessage(History([message('user', task.query)]), message('assistant', reply, details)),
  })

/**
 * A second instruction, which no hostile text keeps by chance: many kinds forbid, and a text about
 * nothing keeps those.
 */
const RARE = { id: 'keywords:existence', kwargs: { keywords: ['quokka 4711'] } }
const RARE_ONLY = ['length_constraints:number_words', 'detectable_format:json_format', 'change_case:english_capital']
const together = (id: InstructionId, reply: string): string =>
  id === 'combination:repeat_prompt' || id === 'length_constraints:nth_paragraph_first_word'
    ? `${reply} quokka 4711`
    : id === 'change_case:english_lowercase'
      ? `${reply} the quokka 4711 lives there.`
      : id === 'startend:quotation'
        ? `"quokka 4711 ${reply.slice(1)}`
        : `quokka 4711 is here. ${reply}`

describe('as a reward, on every kind of instruction', () => {
  // The cast is right: the keys are the ids.
  const kinds = (Object.entries(KIND_SAMPLES) as readonly (readonly [InstructionId, KindSample])[]).filter(
    ([id]) =>
      !RARE_ONLY.includes(id) && id !== 'language:response_language' && id !== 'detectable_format:number_bullet_lists',
  )
  const samples = fc.constantFrom(...kinds).map(([id, { kwargs, keeps }]) => ({
    reward: ifEvalReward({ detectLanguage }),
    task: ifEvalTask({ id, kwargs }, RARE),
    gold: together(id, keeps[0]!),
    reply: inBlocks,
    consolation: 0.36,
    worthless: [
      '<answer></answer>',
      '<answer> \n </answer>',
      '<think>x</think>',
      inBlocks(''),
      'quokka 4711',
      '<answer>quokka 4711',
    ],
  }))
  checkLaws(it, rewardLaws(samples, { numRuns: 25 }))
})

describe('the reward', () => {
  it('is 1.15 for a reply in both blocks that keeps everything, and that is the top of its range', () => {
    expect(scored(inBlocks('"a"'))).toMatchObject({ reward: expect.closeTo(1.15, 12), success: true })
    expect(scored(inBlocks('"a"')).reward).toBe(ifEvalReward({ detectLanguage }).range[1])
  })

  it.each([
    ['', 0],
    ['"a"', 0],
    ['<answer>"a"</answer>', 1.1],
    ['<answer>"a"</answer><answer>"b"</answer>', 1],
    ['<think></think><think></think><answer>"a"</answer>', 1.1],
    ['<answer>a</answer>', 0.15 + 0.05 + 0.1], // the half of strict and of loose instructions
    ['<answer>Sure:\n"a"</answer>', 0.15 + 0.2 + 0.1 + 0.1],
    ['<answer>a, b</answer>', 0.1],
    ['<think>x</think><answer></answer>', 0],
    ['<think>x</think>"a"', 0],
  ])('of %j is %d', (reply, reward) => {
    expect(scored(reply).reward).toBeCloseTo(reward, 12)
  })

  it('of a reply that is judged as a whole has no part for blocks, and tags are part of the reply', () => {
    expect(scored('"a"', { judged: 'reply' })).toMatchObject({ reward: expect.closeTo(1, 12), success: true })
    expect(scored('<answer>"a"</answer>', { judged: 'reply' }).success).toBe(false)
    expect(ifEvalReward({ detectLanguage, judged: 'reply' }).range).toEqual([0, expect.closeTo(1, 12)])
  })

  it('returns every verdict, as parts and one by one', () => {
    expect(scored('<think>x</think><answer>Sure:\n"a"</answer>')).toMatchObject({
      parts: {
        answer: 1,
        think: 1,
        promptLevelStrict: 0,
        instLevelStrict: 0.5,
        promptLevelLoose: 1,
        instLevelLoose: 1,
      },
      verdicts: { instLevelStrict: [true, false], instLevelLoose: [true, true] },
    })
  })

  it('is what an aggregate of the caller makes of the verdicts, the blocks and the end of the reply', () => {
    const readings: IfEvalReading[] = []
    const aggregate = {
      range: [0, 7] as const,
      reward: (reading: IfEvalReading) => {
        readings.push(reading)
        return 7
      },
    }
    expect(
      scored('<think>1</think><answer>2</answer><answer>3</answer>', { aggregate }, { isComplete: false }).reward,
    ).toBe(7)
    expect(readings).toMatchObject([{ thinkBlocks: ['1'], answerBlocks: ['2', '3'], isComplete: false }])
    expect(() => scored('x', { aggregate: { ...aggregate, reward: () => Number.NaN } })).toThrow('is NaN')
  })

  it('refuses weights that are no weights, all of them at once', () => {
    expect(() => weightedIfEval({ answerBlock: -1, thinkBlock: Number.NaN })).toThrow(
      'answerBlock = -1, thinkBlock = NaN',
    )
  })

  it('of the last message counts, and none is worth nothing', () => {
    const reward = ifEvalReward({ detectLanguage })
    expect(reward.score({ task, history: History([message('user', inBlocks('"a"'))]) }).reward).toBe(0)
  })
})
