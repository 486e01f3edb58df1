import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  CAPACITY_STEP,
  type PackedCompletions,
  packCompletions,
  packedBatch,
} from '../../../src/modules/transformer/pack.js'
import { useEngine, valuesOf } from '../../kit/engine.js'
import { configOf, tinyConfig } from '../../kit/models.js'
import { repeated } from '../../kit/repeated.js'

useEngine()

const ids = (minLength: number, maxLength = 20) => fc.array(fc.integer({ min: 1, max: 31 }), { minLength, maxLength })

const prompts = fc.array(ids(1), { minLength: 1, maxLength: 4 })

/** Prompts that differ from their neighbors, a group size, and as many completions. */
const grouped = fc.record({ prompts, group: fc.integer({ min: 1, max: 3 }) }).chain(({ prompts: drawn, group }) =>
  fc.record({
    prompts: fc.constant(drawn.map((prompt, i) => [...prompt, i])),
    group: fc.constant(group),
    completions: fc.array(ids(0), { minLength: drawn.length * group, maxLength: drawn.length * group }),
  }),
)

/** Row `i` of a flat array of rows. */
const rowAt = (values: ArrayLike<number>, i: number, width: number): number[] =>
  Array.from(values).slice(i * width, (i + 1) * width)

/** The prompt and completion that the packed arrays hold for a completion. */
const unpack = (packed: PackedCompletions, row: number) => {
  const { group, promptLength, completionLength } = packed
  const prompt = Math.floor(row / group)
  const real = (values: ArrayLike<number>, mask: ArrayLike<number>, i: number, width: number): number[] => {
    const kept = rowAt(mask, i, width)
    return rowAt(values, i, width).filter((_, t) => kept[t] === 1)
  }
  return {
    prompt: real(packed.promptIds, packed.promptMask, prompt, promptLength),
    promptMask: rowAt(packed.promptMask, prompt, promptLength),
    completion: real(packed.completionIds, packed.completionMask, row, completionLength),
    completionMask: rowAt(packed.completionMask, row, completionLength),
    positions: [
      ...real(packed.promptPositions, packed.promptMask, prompt, promptLength),
      ...real(packed.completionPositions, packed.completionMask, row, completionLength),
    ],
  }
}

describe('packCompletions', () => {
  it('loses no token: the masks give every prompt and completion back, with positions from 0 without a gap', () => {
    fc.assert(
      fc.property(grouped, ({ prompts, group, completions }) => {
        const packed = packCompletions({ prompts: repeated(prompts, group), completions, shared: group })
        for (const [row, completion] of completions.entries()) {
          const prompt = prompts[Math.floor(row / group)]!
          const found = unpack(packed, row)
          expect(found.prompt).toEqual(prompt)
          expect(found.completion).toEqual(completion)
          expect(found.positions).toEqual([...prompt, ...completion].map((_, t) => t))
        }
      }),
    )
  })

  it('pads prompts on the left and completions on the right, to the next multiple of the capacity step', () => {
    fc.assert(
      fc.property(grouped, ({ prompts, group, completions }) => {
        const packed = packCompletions({ prompts: repeated(prompts, group), completions, shared: group })
        const longest = (rows: readonly (readonly number[])[]): number => Math.max(1, ...rows.map((row) => row.length))
        for (const [length, needed] of [
          [packed.promptLength, longest(prompts)],
          [packed.completionLength, longest(completions)],
        ] as const) {
          expect(length % CAPACITY_STEP).toBe(0)
          expect(length - needed).toBeGreaterThanOrEqual(0)
          expect(length - needed).toBeLessThan(CAPACITY_STEP)
        }
        for (const row of completions.keys()) {
          const { promptMask, completionMask } = unpack(packed, row)
          expect(promptMask).toEqual([...promptMask].sort((a, b) => a - b))
          expect(completionMask).toEqual([...completionMask].sort((a, b) => b - a))
        }
      }),
    )
  })

  it('refuses another number of completions than prompts, and groups that do not divide it', () => {
    for (const [prompts, shared] of [
      [[[1], [2]], 1],
      [[[1], [1], [1]], 2],
    ] as const)
      expect(() => packCompletions({ prompts, completions: [[1], [1], [1]], shared })).toThrow(
        `groups of ${shared} expected, got ${prompts.length} prompts and 3 completions`,
      )
  })
})

describe('completionBatch', () => {
  it('keeps the positions of padding inside a table of learned positions, and refuses a sequence that is longer', () => {
    const gpt2 = configOf({ model_type: 'gpt2', vocab_size: 9, n_embd: 4, n_head: 1, n_layer: 1, n_positions: 20 })
    const positionsOf = (tokens: number): number[] =>
      scope(() => {
        const packed = packCompletions({ prompts: [[1, 2, 3]], completions: [new Array(tokens).fill(4)] })
        return valuesOf(packedBatch(packed, gpt2).completionPositions)
      })
    expect(positionsOf(17)).toEqual(Array.from({ length: 32 }, (_, i) => Math.min(3 + i, 19)))
    expect(() => positionsOf(18)).toThrow('a sequence has position 20, the model has embeddings of 20 positions')
  })

  it('has the packed numbers in the shapes of a batch, and a rotary table for every position', () => {
    fc.assert(
      fc.property(grouped, ({ prompts, group, completions }) => {
        const packed = packCompletions({ prompts: repeated(prompts, group), completions, shared: group })
        const { prompts: p, group: g, promptLength, completionLength } = packed
        scope(() => {
          const batch = packedBatch(packed, tinyConfig())
          expect(batch.promptIds.shape).toEqual([p, promptLength])
          expect(batch.completionIds.shape).toEqual([p, g, completionLength])
          expect(valuesOf(batch.promptMask)).toEqual(Array.from(packed.promptMask))
          expect(valuesOf(batch.completionIds)).toEqual(Array.from(packed.completionIds))
          expect(batch.rotary.global!.cos.shape[0]).toBeGreaterThan(Math.max(...valuesOf(batch.completionPositions)))
        })
      }),
      { numRuns: 25 },
    )
  })
})
