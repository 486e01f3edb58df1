/**
 * Every kind of instruction of IFEval reads a megabyte of what a policy might write to hang a
 * check.
 */
import { describe, expect, it } from 'vitest'
import type { InstructionId } from '../../src/data/datasets/ifEvalInstructions.js'
import { ifEvalScore } from '../../src/envs/rewards/ifEval/ifEvalScore.js'
import { hostileTexts, KIND_SAMPLES, type KindSample, loadedDetector } from '../kit/ifEval.js'

const context = { detectLanguage: await loadedDetector() }

// The cast is right: the keys are the ids.
const kinds = Object.entries(KIND_SAMPLES) as readonly (readonly [InstructionId, KindSample])[]

describe('a megabyte of anything', () => {
  it.each(kinds)('has a verdict on %s', (id, { kwargs }) => {
    for (const text of hostileTexts(1_000_000)) {
      expect(ifEvalScore(text, [{ id, kwargs }], context).instLevelStrict).toHaveLength(1)
    }
  })
})
