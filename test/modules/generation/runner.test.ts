import { keyFromSeed } from '@tandem-rl/base'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type {
  Decoding,
  KeyValues,
  Lane,
  ModelRunner,
  NextToken,
  StepWeights,
} from '../../../src/modules/generation/runner/modelRunner.js'
import { makeRunner } from '../../../src/modules/generation/runner/runner.js'
import { initialParams, type Params } from '../../../src/modules/transformer/params.js'
import { makeScorer } from '../../../src/modules/transformer/scorer.js'
import { expectClose } from '../../kit/close.js'
import { useOnnxRuntime } from '../../kit/engine.js'
import { tinyConfig } from '../../kit/models.js'

useOnnxRuntime()

const config = tinyConfig({ vocabularySize: 24, maxPositions: 96 })
const V = config.vocabularySize

const scorer = makeScorer(config)

const token = fc.integer({ min: 0, max: V - 1 })
const row = fc.array(token, { minLength: 3, maxLength: 40 })

/**
 * log p(token | what came before) at every place but the first, by the scorer that training uses.
 */
const expectedLogProbs = (params: Params, ids: readonly number[], temperature = 1): Float32Array => {
  const [scores] = scorer.score(params, {
    prompts: [ids.slice(0, 1)],
    completions: [ids.slice(1)],
    temperature,
  })
  return scores!
}

const logProbOf = (next: NextToken, id: number): number => next.logits[id]! - next.logNormalizer

interface Decoded {
  readonly runner: ModelRunner
  readonly decoding: Decoding
  readonly lane: Lane
  readonly params: Params
}

/**
 * Feeds a row to a runner in a prompt, cut into `parts`, and then token by token; gives the
 * log-probability of each later token.
 */
const walk = (
  { runner, decoding, lane, params }: Decoded,
  ids: readonly number[],
  cuts: readonly number[],
): { readonly logProbs: readonly number[]; readonly slot: number } => {
  const logProbs: number[] = []
  const past: KeyValues[] = []
  const bounds = [0, ...cuts]
  for (const [i, end] of cuts.entries()) {
    const [result] = runner.prefill(
      params,
      [{ tokens: Int32Array.from(ids.slice(bounds[i], end)), past: [...past], inverseTemperature: 1, scores: 'last' }],
      'fed',
    )
    past.push(result!.keyValues)
    logProbs.push(logProbOf(result!.next, ids[end]!))
  }
  const slot = lane.insert(past)
  for (let t = cuts.at(-1)!; t < ids.length - 1; t++) {
    const [next] = decoding.step(params, [{ lane, rows: [{ slot, token: ids[t]!, inverseTemperature: 1 }] }])
    logProbs.push(logProbOf(next!, ids[t + 1]!))
  }
  return { logProbs, slot }
}

describe('makeRunner', () => {
  let params: Owned<Params>
  let runner: ModelRunner
  beforeAll(() => {
    params = own(scope(() => initialParams(config, keyFromSeed(3), 0.3)))
    runner = makeRunner(config)
  })
  afterAll(() => {
    scorer.release()
    runner.release()
    params.release()
  })

  it.each(['fed', 'constant'] as const)(
    'finds the log-probabilities that scoring finds, wherever the prompt is cut, with weights that are %s',
    (weights) => {
      const law = fc.property(
        row.chain((ids) =>
          fc.tuple(fc.constant(ids), fc.subarray(ids.map((_, i) => i).slice(1, -1), { minLength: 1 })),
        ),
        ([ids, cuts]) => {
          const [lane, decoding] = [runner.makeLane(), runner.makeDecoding(weights)]
          const { logProbs } = walk({ runner, decoding, lane, params: params.value }, ids, cuts)
          const expected = expectedLogProbs(params.value, ids)
          const places = [...cuts, ...ids.map((_, i) => i).slice(cuts.at(-1)! + 1)]
          for (const [i, place] of places.entries())
            expect(Math.abs(logProbs[i]! - expected[place - 1]!)).toBeLessThan(1e-5)
          lane.release()
          decoding.release()
        },
      )
      fc.assert(law, { numRuns: 25 })
    },
  )

  it.each(['fed', 'constant'] as const)(
    'computes prompts together as alone, with and without a past, with weights that are %s',
    (weights) => {
      const law = fc.property(fc.array(fc.tuple(row, fc.boolean()), { minLength: 1, maxLength: 6 }), (given) => {
        const items = given.map(([ids, cached]) => {
          const all = Int32Array.from(ids)
          const half = cached ? Math.floor(ids.length / 2) : 0
          const item = { inverseTemperature: cached ? 0.5 : 1, scores: 'last' } as const
          const past =
            half === 0
              ? []
              : runner
                  .prefill(params.value, [{ ...item, tokens: all.subarray(0, half), past: [] }], weights)
                  .map(({ keyValues }) => keyValues)
          return { ...item, tokens: all.subarray(half), past }
        })
        const together = runner.prefill(params.value, items, weights).map(({ next, keyValues }) => ({
          logProbs: Float32Array.from(next.logits, (x) => x - next.logNormalizer),
          tempered: next.temperedLogNormalizer,
          keyValues,
        }))
        for (const [i, item] of items.entries()) {
          const [alone] = runner.prefill(params.value, [item], weights)
          const { next, keyValues } = alone!
          const { logProbs, tempered } = together[i]!
          for (let id = 0; id < V; id++) expect(Math.abs(logProbs[id]! - logProbOf(next, id))).toBeLessThan(1e-5)
          expect(tempered).toBeCloseTo(next.temperedLogNormalizer, 4)
          expect(keyValues.length).toBe(item.tokens.length)
          for (const [l, { keys, values }] of keyValues.layers.entries()) {
            for (const [k, x] of keys.entries()) expect(together[i]!.keyValues.layers[l]!.keys[k]).toBeCloseTo(x, 4)
            for (const [k, x] of values.entries()) expect(together[i]!.keyValues.layers[l]!.values[k]).toBeCloseTo(x, 4)
          }
        }
      })
      fc.assert(law, { numRuns: 20 })
    },
  )

  it('uses other constant weights as soon as they are given', () => {
    using other = own(scope(() => initialParams(config, keyFromSeed(4), 0.3)))
    const decodings = (['fed', 'constant'] as const).map(runner.makeDecoding)
    const lanes = decodings.map(() => runner.makeLane())
    const [start] = runner.prefill(
      params.value,
      [{ tokens: Int32Array.from([5, 1, 7]), past: [], inverseTemperature: 1, scores: 'last' }],
      'fed',
    )
    const slots = lanes.map((lane) => lane.insert([start!.keyValues]))
    for (const weights of [params.value, params.value, other.value, params.value]) {
      const [fed, constant] = lanes.map((lane, i) => {
        const rows = [{ slot: slots[i]!, token: 2, inverseTemperature: 1 }]
        const [next] = decodings[i]!.step(weights, [{ lane, rows }])
        return Array.from({ length: V }, (_, id) => logProbOf(next!, id))
      })
      expectClose(constant!, fed!, { absolute: 1e-5, relative: 0 })
    }
    for (const owner of [...lanes, ...decodings]) owner.release()
  })

  it('gives scores after every token of a prompt where they are asked for', () => {
    const ids = Int32Array.from([5, 1, 7, 7, 2, 9])
    const [result] = runner.prefill(
      params.value,
      [{ tokens: ids, past: [], inverseTemperature: 1, scores: 'all' }],
      'fed',
    )
    const logits = Float32Array.from(result!.logits!)
    expect(logits).toHaveLength(ids.length * V)
    const expected = expectedLogProbs(params.value, [...ids])
    for (let t = 0; t + 1 < ids.length; t++) {
      const line = logits.subarray(t * V, (t + 1) * V)
      const normalizer = Math.log(line.reduce((sum, x) => sum + Math.exp(x), 0))
      expect(line[ids[t + 1]!]! - normalizer).toBeCloseTo(expected[t]!, 4)
    }
    expect(Array.from(result!.next.logits)).toEqual(Array.from(logits.subarray((ids.length - 1) * V)))
  })

  it('rows come, go and stand still without touching each other', () => {
    const law = fc.property(
      fc.array(row, { minLength: 2, maxLength: 5 }),
      fc.array(fc.tuple(fc.nat(4), fc.constantFrom('step', 'remove')), { minLength: 5, maxLength: 60 }),
      (rows, acts) => {
        const [lane, decoding] = [runner.makeLane(), runner.makeDecoding('fed')]
        const alone = rows.map((ids) => expectedLogProbs(params.value, ids))
        const state = rows.map((ids) => {
          const tokens = Int32Array.from(ids.slice(0, 2))
          const [result] = runner.prefill(
            params.value,
            [{ tokens, past: [], inverseTemperature: 1, scores: 'last' }],
            'fed',
          )
          return { ids, at: 2, slot: lane.insert([result!.keyValues]), open: true }
        })
        for (const [which, act] of acts) {
          const chosen = state.filter(({ open }, i) => open && (act === 'remove' ? i === which : i % 2 === which % 2))
          if (act === 'remove') {
            for (const item of chosen) {
              lane.remove(item.slot)
              item.open = false
            }
            continue
          }
          const ready = chosen.filter(({ ids, at }) => at < ids.length - 1)
          if (ready.length === 0) continue
          const given = ready.map(({ slot, ids, at }) => ({ slot, token: ids[at]!, inverseTemperature: 1 }))
          const next = decoding.step(params.value, [{ lane, rows: given }])
          for (const [i, item] of ready.entries()) {
            const expected = alone[state.indexOf(item)]![item.at]!
            expect(Math.abs(logProbOf(next[i]!, item.ids[item.at + 1]!) - expected)).toBeLessThan(1e-5)
            item.at++
            expect(lane.length(item.slot)).toBe(item.at)
          }
        }
        expect(lane.rows()).toBe(state.filter(({ open }) => open).length)
        lane.release()
        expect(lane.bytes()).toBe(0)
      },
    )
    fc.assert(law, { numRuns: 15 })
  })

  describe('of a row in company', () => {
    const prompts = Array.from({ length: 9 }, (_, i) =>
      Int32Array.from({ length: 3 + 4 * i }, (_, t) => (t * 5 + i) % V),
    )
    /** The scores of rows after their prompts and twelve steps; `laneOf` gives the lane of each. */
    const logitsOf = (
      { model, weights }: { readonly model: ModelRunner; readonly weights: StepWeights },
      which: readonly number[],
      laneOf: (i: number) => number = () => 0,
      given: readonly number[] = [],
    ): readonly (readonly number[])[] => {
      const decoding = model.makeDecoding(weights)
      const results = model.prefill(
        params.value,
        which.map((i) => ({ tokens: prompts[i]!, past: [], inverseTemperature: 1, scores: 'last' })),
        weights,
      )
      const numbers = results.map(({ next }) => Array.from(next.logits))
      const lanes = new Map(which.map((i) => [laneOf(i), model.makeLane()]))
      const slots = results.map(({ keyValues }, j) => lanes.get(laneOf(which[j]!))!.insert([keyValues]))
      for (let step = 0; step < 12; step++) {
        const parts = [...lanes].map(([name, lane]) => ({
          lane,
          places: which.flatMap((i, j) => (laneOf(i) === name ? [j] : [])),
        }))
        const scores = decoding.step(
          params.value,
          parts.map(({ lane, places }) => ({
            lane,
            rows: places.map((j) => ({
              ...{ slot: slots[j]!, token: given[step] ?? (which[j]! + 3 * step) % V, inverseTemperature: 1 },
            })),
          })),
        )
        for (const [k, j] of parts.flatMap(({ places }) => places).entries()) numbers[j]!.push(...scores[k]!.logits)
      }
      for (const owner of [...lanes.values(), decoding]) owner.release()
      return numbers
    }

    it.each(['fed', 'constant'] as const)(
      'the numbers are the same bit for bit, with weights that are %s',
      (weights) => {
        const together = logitsOf({ model: runner, weights }, [...prompts.keys()])
        const law = fc.property(
          fc.shuffledSubarray([...prompts.keys()], { minLength: 1 }),
          fc.array(fc.nat(9), { minLength: 9, maxLength: 9 }),
          (which, lanes) => {
            const found = logitsOf({ model: runner, weights }, which, (i) => lanes[i]!)
            for (const [j, numbers] of found.entries()) expect(numbers).toEqual(together[which[j]!])
          },
        )
        fc.assert(law, { numRuns: 20 })
      },
    )

    it.each(['fed', 'constant'] as const)(
      'the numbers are the same while lanes come and go, with weights that are %s',
      (weights) => {
        const law = fc.property(
          fc.array(fc.integer({ min: 1, max: prompts.length }), { minLength: 2, maxLength: 6 }),
          (counts) => {
            const decoding = runner.makeDecoding(weights)
            const lanes = prompts.map((tokens) => {
              const item = { tokens, past: [], inverseTemperature: 1, scores: 'last' } as const
              const lane = runner.makeLane()
              return { lane, slot: lane.insert([runner.prefill(params.value, [item], weights)[0]!.keyValues]) }
            })
            const stepOf = (use: typeof lanes) =>
              decoding
                .step(
                  params.value,
                  use.map(({ lane, slot }) => ({ lane, rows: [{ slot, token: 3, inverseTemperature: 1 }] })),
                )
                .map(({ logits }) => Array.from(logits))
            const taken = prompts.map(() => 0)
            for (const count of counts) {
              const together = stepOf(lanes.slice(0, count))
              for (const [i, numbers] of together.entries()) {
                const steps = logitsOf({ model: runner, weights }, [i], () => 0, Array(12).fill(3))
                expect(numbers).toEqual(steps.at(0)!.slice((1 + taken[i]!) * V, (2 + taken[i]!) * V))
                taken[i]!++
              }
            }
            for (const owner of [...lanes.map(({ lane }) => lane), decoding]) owner.release()
          },
        )
        fc.assert(law, { numRuns: 5 })
      },
    )

    it('the numbers differ by rounding where rounding is free', () => {
      const together = logitsOf({ model: runner, weights: 'fed' }, [2, 5])
      const free = makeRunner(config, { rounding: 'free' })
      for (const [j, numbers] of logitsOf({ model: free, weights: 'fed' }, [2, 5]).entries())
        for (const [i, x] of numbers.entries()) expect(x).toBeCloseTo(together[j]![i]!, 4)
      free.release()
    })
  })

  it('keys and values read back from a slot continue a row elsewhere', () => {
    const [lane, decoding] = [runner.makeLane(), runner.makeDecoding('fed')]
    const ids = Array.from({ length: 30 }, (_, i) => (i * 7) % V)
    const { slot } = walk({ runner, decoding, lane, params: params.value }, ids, [10])
    const whole = lane.keyValues(slot, 0, ids.length - 1)
    const parts = [lane.keyValues(slot, 0, 16), lane.keyValues(slot, 16, ids.length - 1)]
    const step = (past: readonly KeyValues[]): number => {
      const at = lane.insert(past)
      const rows = [{ slot: at, token: ids.at(-1)!, inverseTemperature: 1 }]
      const [next] = decoding.step(params.value, [{ lane, rows }])
      const result = logProbOf(next!, 3)
      lane.remove(at)
      return result
    }
    expect(step([whole])).toBeCloseTo(step(parts), 6)
    expect(step([whole])).toBeCloseTo(expectedLogProbs(params.value, [...ids, 3]).at(-1)!, 5)
    lane.release()
  })

  /** Inserts the keys and values of a prompt of `length` tokens. */
  const insertAt = (lane: Lane, length: number): number => {
    const tokens = Int32Array.from({ length }, (_, i) => (i * 5 + length) % V)
    const [start] = runner.prefill(params.value, [{ tokens, past: [], inverseTemperature: 1, scores: 'last' }], 'fed')
    return lane.insert([start!.keyValues])
  }

  it('a row has the numbers of a fresh lane after other rows left and positions were added', () => {
    const decoding = runner.makeDecoding('fed')
    const logits = (lane: Lane, slot: number): readonly number[] => {
      const rows = [{ slot, token: 4, inverseTemperature: 1 }]
      return [...decoding.step(params.value, [{ lane, rows }])[0]!.logits]
    }
    const [used, fresh] = [runner.makeLane(), runner.makeLane()]
    const slots = Array.from({ length: 12 }, () => insertAt(used, 40))
    for (const slot of slots.slice(7)) used.remove(slot)
    const late = [insertAt(used, 70), insertAt(used, 70)] // 96 positions: old rows start inside of new ones
    const expected = logits(fresh, insertAt(fresh, 70))
    for (const slot of late) expect(logits(used, slot)).toEqual(expected)
    used.release()
    fresh.release()
  })

  it('block masses and normalizers are those of the logits, raw and tempered', () => {
    const [lane, decoding] = [runner.makeLane(), runner.makeDecoding('fed')]
    const tokens = Int32Array.from([1, 2, 3])
    const [start] = runner.prefill(params.value, [{ tokens, past: [], inverseTemperature: 2, scores: 'last' }], 'fed')
    const slots = [lane.insert([start!.keyValues]), lane.insert([start!.keyValues])]
    for (const inverse of [1, 0.25, 4]) {
      const rows = slots.map((slot, i) => ({ slot, token: 4, inverseTemperature: i === 0 ? 1 : inverse }))
      const results = decoding.step(params.value, [{ lane, rows }])
      for (const [i, next] of results.entries()) {
        const factor = i === 0 ? 1 : inverse
        const max = next.logits.reduce((a, b) => Math.max(a, b))
        expect(next.logits[next.argMax]).toBe(max)
        const masses = Array.from({ length: V / next.blockSize }, (_, b) =>
          next.logits
            .subarray(b * next.blockSize, (b + 1) * next.blockSize)
            .reduce((sum, x) => sum + Math.exp((x - max) * factor), 0),
        )
        for (const [b, mass] of masses.entries()) expect(next.blockMasses[b]).toBeCloseTo(mass, 4)
        const total = (f: number): number => Math.log(next.logits.reduce((sum, x) => sum + Math.exp((x - max) * f), 0))
        expect(next.logNormalizer).toBeCloseTo(total(1) + max, 5)
        expect(next.temperedLogNormalizer).toBeCloseTo(total(factor) + max * factor, 5)
      }
    }
    lane.release()
  })

  it('counts bytes, and says what more rows would take', () => {
    const lane = runner.makeLane()
    const [start] = runner.prefill(
      params.value,
      [{ tokens: Int32Array.from([1, 2, 3]), past: [], inverseTemperature: 1, scores: 'last' }],
      'fed',
    )
    const promised = lane.bytesWith(1, 3)
    const slot = lane.insert([start!.keyValues])
    expect(lane.bytes()).toBe(promised)
    expect(lane.bytes()).toBeGreaterThanOrEqual(4 * runner.bytesPerToken)
    expect(() => lane.length(slot + 1)).toThrow(`lane: slot ${slot + 1} is not in use`)
    lane.remove(slot)
    expect(() => lane.remove(slot)).toThrow(`lane: slot ${slot} is not in use`)
    expect(lane.bytes()).toBe(0)
  })
})
