import { requireLeft, requireRight } from '@tandem-rl/testing'
import type { SamplingParams } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  checkSampling,
  DEFAULT_SAMPLING,
  type SamplingLimits,
  samplingParams,
} from '../../../../src/modules/generation/sampling/params.js'

const reasonOf = (partial: object): string => requireLeft(samplingParams(partial), 'GenerationFailure').reason

describe('sampling parameters', () => {
  it('are the defaults where nothing is given', () => {
    expect(requireRight(samplingParams({}))).toEqual(DEFAULT_SAMPLING)
  })

  it('keep what is given, and undefined is not given', () => {
    const partial: object = { topP: 0.5, stop: ['a'], minP: undefined }
    expect(requireRight(samplingParams(partial))).toEqual({ ...DEFAULT_SAMPLING, topP: 0.5, stop: ['a'] })
  })

  it.each([
    [{ temperature: 0.001 }, { temperature: 0.01 }],
    [{ temperature: 0 }, { temperature: 0 }],
    [{ temperature: 5 }, { temperature: 5 }],
    [{ topK: -1 }, { topK: 0 }],
    [
      { minTokens: 4, maxTokens: 4 },
      { minTokens: 4, maxTokens: 4 },
    ],
    [{ repetitionPenalty: 3 }, { repetitionPenalty: 3 }],
    [{ logitBias: new Map([[3, -500]]) }, { logitBias: new Map([[3, -500]]) }],
  ])('%o become %o', (partial, expected) => {
    expect(requireRight(samplingParams(partial))).toMatchObject(expected)
  })

  it.each([
    [{ n: 0 }, 'n must be an integer from 1 to 16384, got 0'],
    [{ n: 16385 }, 'n must be an integer from 1 to 16384, got 16385'],
    [{ n: 1.5 }, 'n must be an integer from 1 to 16384, got 1.5'],
    [{ n: 2, temperature: 0 }, 'n must be 1 at temperature 0, where all completions are equal, got 2'],
    [{ maxTokens: 0 }, 'maxTokens must be an integer of at least 1, or null, got 0'],
    [{ minTokens: -1 }, 'minTokens must be an integer of at least 0, got -1'],
    [{ minTokens: 3, maxTokens: 2 }, 'minTokens must be at most maxTokens, which is 2, got 3'],
    [{ temperature: -1 }, 'temperature must be a finite number of at least 0, got -1'],
    [{ temperature: Number.NaN }, 'temperature must be a finite number of at least 0, got NaN'],
    [{ temperature: Infinity }, 'temperature must be a finite number of at least 0, got Infinity'],
    [{ temperature: '1' }, 'temperature must be a finite number of at least 0, got "1"'],
    [{ temperature: null }, 'temperature must be a finite number of at least 0, got null'],
    [{ topK: -2 }, 'topK must be an integer of at least 1, or 0 or -1 for all tokens, got -2'],
    [{ topP: 0 }, 'topP must be a finite number in (0, 1], got 0'],
    [{ topP: 1.1 }, 'topP must be a finite number in (0, 1], got 1.1'],
    [{ minP: -0.1 }, 'minP must be a finite number in [0, 1], got -0.1'],
    [{ repetitionPenalty: 0 }, 'repetitionPenalty must be a finite number above 0, got 0'],
    [{ presencePenalty: 2.1 }, 'presencePenalty must be a finite number in [-2, 2], got 2.1'],
    [{ frequencyPenalty: -3 }, 'frequencyPenalty must be a finite number in [-2, 2], got -3'],
    [{ logitBias: { 3: 1 } }, 'logitBias must be a Map of token ids to finite numbers, got an object'],
    [
      { logitBias: new Map([[3, Number.NaN]]) },
      'logitBias must be a Map of token ids to finite numbers, got Map [3 => NaN]',
    ],
    [{ logitBias: new Map([[-3, 1]]) }, 'logitBias must be a Map of token ids to finite numbers, got Map [-3 => 1]'],
    [{ allowedTokens: [] }, 'allowedTokens must be a list of token ids, not empty, or null, got []'],
    [{ stop: ['a', ''] }, 'stop must be a list of texts, none empty, of whole characters, got ["a", ""]'],
    [{ stop: 'a' }, 'stop must be a list of texts, none empty, of whole characters, got "a"'],
    [{ stop: ['\ud800'] }, 'stop must be a list of texts, none empty, of whole characters, got ["\\ud800"]'],
    [{ stopText: 'cut' }, `stopText must be 'exclude' or 'include', got "cut"`],
    [{ stopTokens: [1.5] }, 'stopTokens must be a list of token ids, got [1.5]'],
    [{ stopTokens: [10n] }, 'stopTokens must be a list of token ids, got [10]'],
    [{ endTokens: true }, `endTokens must be 'stop' or 'ignore', got true`],
    [{ key: 7 }, 'key must be a Key, got 7'],
    [{ topLogProbs: -1 }, 'topLogProbs must be an integer of at least 0, or null, got -1'],
    [{ promptLogProbs: 0.5 }, 'promptLogProbs must be an integer of at least 0, or null, got 0.5'],
    [{ logProbsMode: 'logits' }, `logProbsMode must be 'raw' or 'tempered' or 'processed', got "logits"`],
    [{ top_p: 0.5 }, 'top_p is not a sampling parameter'],
    [{ toString: 1 }, 'toString is not a sampling parameter'],
  ])('%o are refused', (partial, reason) => {
    expect(reasonOf(partial)).toBe(reason)
  })

  it('are refused with all problems at once, long values cut', () => {
    const reason = reasonOf({ topP: 2, minP: 2, stop: Array.from({ length: 1000 }, () => '') })
    expect(reason).toMatch(/^topP must .* got 2; minP must .* got 2; stop must .*, \.\.\.\]$/)
    expect(reason.length).toBeLessThan(400)
  })

  it('are refused in a few words where a value contains itself', () => {
    const loop: unknown[] = ['a']
    loop.push(loop, { toJSON: 1 })
    expect(reasonOf({ stop: loop })).toBe(
      'stop must be a list of texts, none empty, of whole characters, got ["a", an object, an object]',
    )
  })

  it('are never anything that a value of another kind could break', () => {
    const names = fc.constantFrom(...Object.keys(DEFAULT_SAMPLING))
    const law = fc.property(fc.dictionary(names, fc.anything({ withBigInt: true, withMap: true })), (partial) => {
      const result = samplingParams(partial)
      if (result._tag === 'Right') expect(samplingParams(result.right)).toEqual(result)
      else expect(result.left).toMatchObject({ _tag: 'GenerationFailure', kind: 'invalid' })
    })
    fc.assert(law, { numRuns: 500 })
  })
})

describe('sampling parameters for a model', () => {
  const limits: SamplingLimits = { vocabularySize: 8, endTokens: [7], text: 'decoded' }
  const checked = (some: Partial<SamplingParams>, others: Partial<SamplingLimits> = {}) =>
    checkSampling(requireRight(samplingParams(some)), { ...limits, ...others })

  it('are themselves where the model has everything', () => {
    const params = requireRight(
      samplingParams({
        logitBias: new Map([[7, 1]]),
        allowedTokens: [0, 7],
        stopTokens: [7],
        topLogProbs: 8,
        stop: ['a'],
      }),
    )
    expect(requireRight(checkSampling(params, limits))).toBe(params)
  })

  it.each([
    [{ logitBias: new Map([[8, 1]]) }, {}, 'logitBias must have ids below the vocabulary size 8, got [8]'],
    [{ allowedTokens: [1, 9] }, {}, 'allowedTokens must have ids below the vocabulary size 8, got [9]'],
    [
      { stopTokens: [8, 9, 10, 11, 12, 13, 14] },
      {},
      'stopTokens must have ids below the vocabulary size 8, got [8, 9, 10, 11, 12, ...]',
    ],
    [{ topLogProbs: 9 }, {}, 'topLogProbs must be at most the vocabulary size 8, got 9'],
    [{ promptLogProbs: 9 }, {}, 'promptLogProbs must be at most the vocabulary size 8, got 9'],
    [{ stop: ['a'] }, { text: 'absent' }, 'stop must be empty, because the engine has no tokenizer, got ["a"]'],
    [
      { minTokens: 1, allowedTokens: [3, 7], stopTokens: [3] },
      {},
      'minTokens must be 0, because every allowed token ends the completion, got 1',
    ],
    [
      { minTokens: 2 },
      { vocabularySize: 2, endTokens: [0, 1] },
      'minTokens must be 0, because every allowed token ends the completion, got 2',
    ],
  ] as const)('%o are refused', (some, others, reason) => {
    expect(requireLeft(checked(some, others)).reason).toBe(reason)
  })
})
