import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type RotaryTableOptions, rotaryTables } from '../../../src/modules/transformer/rotaryTables.js'
import { expectClose } from '../../kit/close.js'
import { anySmallConfig } from '../../kit/configs.js'
import { useEngine, valuesOf } from '../../kit/engine.js'
import { configOf } from '../../kit/models.js'

useEngine()

interface Table {
  readonly cos: number[]
  readonly sin: number[]
}

/** A Llama with heads of 8 features. */
const llamaWith = (rope_parameters: object, maxPositions = 32) =>
  configOf({
    model_type: 'llama',
    vocab_size: 8,
    hidden_size: 8,
    intermediate_size: 8,
    num_hidden_layers: 1,
    num_attention_heads: 1,
    max_position_embeddings: maxPositions,
    rope_parameters,
  })

const tableOf = (rope: object, length: number, options: RotaryTableOptions = {}): Table =>
  scope(() => {
    const { cos, sin } = rotaryTables(llamaWith(rope), length, options).global!
    return { cos: valuesOf(cos), sin: valuesOf(sin) }
  })

const plain = (length: number): Table => tableOf({ rope_type: 'default' }, length)
const WIDTH = 4

const positionsOf = (table: readonly number[], every: number): number[] =>
  table.filter((_, i) => Math.floor(i / WIDTH) % every === 0)

describe('rotaryTables', () => {
  it('has a table of every rotary embedding of a model: one pair of features a column, one position a row', () => {
    const law = fc.property(anySmallConfig, fc.integer({ min: 1, max: 20 }), (config, length) => {
      scope(() => {
        const tables = rotaryTables(config, length)
        expect(Object.keys(tables)).toEqual(Object.keys(config.rotary))
        for (const [name, { cos, sin }] of Object.entries(tables)) {
          const { width, attentionFactor } = config.rotary[name]!
          expect([cos.shape, sin.shape]).toEqual([
            [length, width / 2],
            [length, width / 2],
          ])
          const [c, s] = [valuesOf(cos), valuesOf(sin)]
          expectClose(
            c.map((x, i) => x * x + s[i]! * s[i]!),
            c.map(() => attentionFactor ** 2),
            { absolute: 1e-5 },
          )
        }
      })
    })
    fc.assert(law, { numRuns: 60 })
  })

  it('has angles of position / theta^(2 i / width) without scaling', () => {
    const expected = Array.from(
      { length: 5 * WIDTH },
      (_, i) => Math.floor(i / WIDTH) / 10_000 ** ((i % WIDTH) / WIDTH),
    )
    expectClose(plain(5).cos, expected.map(Math.cos), { absolute: 1e-6 })
    expectClose(plain(5).sin, expected.map(Math.sin), { absolute: 1e-6 })
  })

  it('linear: position factor * p turns as position p did', () => {
    const scaled = tableOf({ rope_type: 'linear', factor: 4 }, 17)
    expectClose(positionsOf(scaled.cos, 4), plain(5).cos, { absolute: 1e-6 })
  })

  it('dynamic: nothing changes up to the trained length; beyond it the slowest pair is stretched by the growth', () => {
    const rope = { rope_type: 'dynamic', factor: 2 }
    expect(tableOf(rope, 32)).toEqual(plain(32))
    expect(tableOf(rope, 48, { sequenceLength: 32 }).cos.slice(0, 32 * WIDTH)).toEqual(plain(32).cos)
    // growth 2 * 64 / 32 - 1 = 3: the lowest frequency becomes a third
    const grown = tableOf(rope, 64)
    const lowest = (table: Table, position: number): number => table.sin[position * WIDTH + WIDTH - 1]!
    expectClose([lowest(grown, 63)], [lowest(plain(22), 21)], { relative: 1e-4 })
    expect(grown.cos[WIDTH]).toBe(plain(2).cos[WIDTH]) // the fastest pair is never stretched
  })

  it('llama3: short waves are left, long ones are divided by the factor', () => {
    const rope = { rope_type: 'llama3', factor: 8, low_freq_factor: 1, high_freq_factor: 4 }
    const table = tableOf({ ...rope, original_max_position_embeddings: 64 }, 9)
    const column = (values: readonly number[], i: number, row: number): number => values[row * WIDTH + i]!
    expect(column(table.sin, 0, 8)).toBe(column(plain(9).sin, 0, 8)) // wave of 6 positions
    expectClose([column(table.sin, 3, 8)], [column(plain(9).sin, 3, 1)], { relative: 1e-4 }) // wave of 6283 positions
  })

  it('yarn: fast pairs are left, slow ones are divided by the factor, and both are made longer', () => {
    const table = tableOf(
      { rope_type: 'yarn', factor: 4, original_max_position_embeddings: 8, attention_factor: 1.5 },
      9,
    )
    const column = (values: readonly number[], i: number, row: number): number => values[row * WIDTH + i]!
    expectClose([column(table.sin, 3, 8) / 1.5], [column(plain(9).sin, 3, 2)], { relative: 1e-4 })
    expect(table.cos.slice(0, WIDTH)).toEqual([1.5, 1.5, 1.5, 1.5])
    const computed = tableOf({ rope_type: 'yarn', factor: 4, original_max_position_embeddings: 8 }, 1)
    expectClose([computed.cos[0]!], [0.1 * Math.log(4) + 1], { absolute: 1e-6 })
  })

  it.each([{ factor: null }, {}])('yarn: without a factor, %j, it follows from the two lengths', (given) => {
    const { sin } = tableOf({ rope_type: 'yarn', original_max_position_embeddings: 8, ...given }, 2)
    // `inv_freq` and `attention_scaling` of Transformers 5.17, with a factor of null; it refuses a missing one
    const [frequencies, scaling] = [[1, 0.025, 0.0025, 0.00025], 1.138629436111989]
    expectClose(
      sin.slice(WIDTH),
      frequencies.map((angle) => Math.sin(angle) * scaling),
      { relative: 1e-6 },
    )
  })

  it('longrope: each frequency has a divisor, another one beyond the trained length', () => {
    const rope = { rope_type: 'longrope', short_factor: [1, 1, 1, 1], long_factor: [2, 2, 2, 2], attention_factor: 1 }
    const scaled = { ...rope, original_max_position_embeddings: 8 }
    expect(tableOf(scaled, 8)).toEqual(plain(8))
    expectClose(positionsOf(tableOf(scaled, 9).cos, 2), plain(5).cos, { absolute: 1e-6 })
    // a sequence that grows past the trained length would have to be computed anew, so the model is
    // not meant for it
    expect(llamaWith(scaled).maxPositions).toBe(8)
  })
})
