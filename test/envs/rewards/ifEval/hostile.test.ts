/**
 * Hostile replies that could hang a check. test/learning/ifEvalHostile.test.ts reads a megabyte.
 */
import { History, message } from '@tandem-rl/text'
import { describe, expect, it } from 'vitest'
import type { InstructionId } from '../../../../src/data/datasets/ifEvalInstructions.js'
import { ifEvalReward } from '../../../../src/envs/rewards/ifEval/ifEvalReward.js'
import { ifEvalScore } from '../../../../src/envs/rewards/ifEval/ifEvalScore.js'
import { hostileTexts, ifEvalTask, KIND_SAMPLES, type KindSample, loadedDetector } from '../../../kit/ifEval.js'

const context = { detectLanguage: await loadedDetector() }
// The cast is right: the keys are the ids.
const kinds = Object.entries(KIND_SAMPLES) as readonly (readonly [InstructionId, KindSample])[]

const TEXTS = hostileTexts(5000)

describe('a long text of anything', () => {
  it.each(kinds)('has a verdict on %s', (id, { kwargs }) => {
    for (const text of TEXTS) {
      const score = ifEvalScore(text, [{ id, kwargs }], context)
      expect(score.instLevelStrict).toHaveLength(1)
    }
  })
})

it('keywords that would hang as patterns are texts', () => {
  const text = `${'a'.repeat(50_000)}!`
  for (const keyword of ['(a+)+$', '(a|a)*b', '(.*)*x', 'a{1,1000}{1,1000}', '[', '\\', 'C++', `${'a'.repeat(255)}b`]) {
    const found = (reply: string) =>
      ifEvalScore(reply, [{ id: 'keywords:existence', kwargs: { keywords: [keyword] } }], context)
    expect(found(text).promptLevelStrict).toBe(false)
    expect(found(`So: ${keyword.toUpperCase()}`).promptLevelStrict).toBe(true)
    const forbidden = [{ id: 'keywords:forbidden_words', kwargs: { forbidden_words: [keyword] } }]
    expect(ifEvalScore(`So: ${keyword} `, forbidden, context).promptLevelStrict).toBe(false)
  }
})

it('JSON that is nested a hundred thousand deep is JSON', () => {
  const text = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
  expect(ifEvalScore(text, [{ id: 'detectable_format:json_format', kwargs: {} }], context).promptLevelStrict).toBe(true)
})

it('a long text of tags is no answer', () => {
  const reward = ifEvalReward(context)
  const task = ifEvalTask({ id: 'punctuation:no_comma', kwargs: {} })
  for (const text of TEXTS)
    expect(reward.score({ task, history: History([message('assistant', text)]) }).reward).toBe(0)
})
