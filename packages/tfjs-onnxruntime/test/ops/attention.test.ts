import { child, keyFromSeed, normals } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { causalBias } from '../../../../src/modules/transformer/score.js'
import { onBackend } from '../../../../test/kit/backends.js'
import { expectClose } from '../../../../test/kit/close.js'
import { BACKENDS, expectForward, expectGradients, type Operation } from '../../../../test/kit/differentiable.js'
import { useOnnxRuntime, valuesOf } from '../../../../test/kit/engine.js'
import { elementCount, floatsIn, type HostTensor, hostTensor, toTensor } from '../../../../test/kit/hostTensor.js'
import { type AttentionShape, attentionOracle } from '../../../../test/kit/oracle.js'
import { type AttentionScoring, type AttentionSource, attention, MASKED } from '../../src/ops/attention.js'

useOnnxRuntime()

const values = floatsIn(-2, 2)
const SCALE = 0.7
const SCORING = { scale: SCALE }

const size = (max: number): fc.Arbitrary<number> => fc.integer({ min: 1, max })
const attentionShapes: fc.Arbitrary<AttentionShape> = fc.record({
  p: size(2),
  k: size(2),
  g: size(3),
  r: size(2),
  t: size(3),
  d: size(3),
})

interface Source {
  readonly keys: HostTensor
  readonly values: HostTensor
  readonly bias: HostTensor | undefined
}

interface Problem {
  readonly shape: AttentionShape
  readonly queries: HostTensor
  readonly sources: readonly Source[]
  readonly softCap: number | null
}

/** Masks some of the places, and adds small numbers to the others. */
const biasElements = fc.oneof(fc.constantFrom(0, MASKED), fc.float({ min: -1, max: 1, noNaN: true }))

/**
 * A source; the first one leaves its first place open to every query, so that none is masked out
 * altogether.
 */
const sourceFor = ({ p, k, g, r, t, d }: AttentionShape, index: number): fc.Arbitrary<Source> =>
  fc.record({ shared: fc.boolean(), biased: fc.boolean(), c: size(3) }).chain(({ shared, biased, c }) => {
    const place = [p, k, shared ? 1 : g, c, d]
    const biases = hostTensor({ dtype: 'float32', element: biasElements }, [p, k, g, r, t, c])
    const open = biases.map((bias) => ({
      ...bias,
      data: bias.data.map((x, i) => (index === 0 && i % c === 0 ? 0 : x)),
    }))
    return fc.record({
      keys: hostTensor(values, place),
      values: hostTensor(values, place),
      bias: biased ? open : fc.constant(undefined),
    })
  })

const problems: fc.Arbitrary<Problem> = fc.tuple(attentionShapes, size(3)).chain(([shape, count]) =>
  fc.record({
    shape: fc.constant(shape),
    softCap: fc.constantFrom(null, 0.5, 3),
    queries: hostTensor(values, [shape.p, shape.k, shape.g, shape.r, shape.t, shape.d]),
    sources: fc.tuple(...Array.from({ length: count }, (_, i) => sourceFor(shape, i))),
  }),
)

const withBias = (keys: tf.Tensor, values: tf.Tensor, bias: tf.Tensor | undefined): AttentionSource =>
  bias === undefined ? { keys, values } : { keys, values, bias }

/** Differentiated in the queries and in the keys and values of every source. */
const operationOf = ({ shape, queries, sources, softCap }: Problem): Operation => ({
  inputs: [queries, ...sources.flatMap((source) => [source.keys, source.values])],
  shape: queries.shape,
  call: ([q, ...rest]) =>
    attention(
      q!,
      sources.map(({ bias }, i) => withBias(rest[2 * i]!, rest[2 * i + 1]!, bias && toTensor(bias))),
      { scale: SCALE, softCap },
    ),
  oracle: ([q, ...rest]) =>
    attentionOracle(
      q!,
      sources.map(({ keys, bias }, i) => ({
        keys: rest[2 * i]!,
        values: rest[2 * i + 1]!,
        groups: keys.shape[2]!,
        places: keys.shape[3]!,
        bias: bias?.data,
      })),
      { shape, scale: SCALE, softCap },
    ),
})

const sourceTensors = ({ keys, values: v, bias }: Source): AttentionSource =>
  withBias(toTensor(keys), toTensor(v), bias && toTensor(bias))

/** Values and gradients of an attention, as plain numbers. */
const evaluate = (
  q: tf.Tensor,
  sources: readonly AttentionSource[],
  scoring: AttentionScoring = SCORING,
): number[][] => {
  const inputs = [q, ...sources.flatMap(({ keys, values: v }) => [keys, v])]
  const output = attention(q, sources, scoring)
  const scalar = (...xs: tf.Tensor[]): tf.Tensor =>
    tf.sum(
      tf.square(
        attention(
          xs[0]!,
          sources.map((source, i) => ({ ...source, keys: xs[1 + 2 * i]!, values: xs[2 + 2 * i]! })),
          scoring,
        ),
      ),
    )
  return [output, ...tf.grads(scalar)(inputs)].map(valuesOf)
}

describe('attention', () => {
  it('equals the float64 oracle', () => {
    const law = fc.property(problems, (problem) => {
      expectForward(operationOf(problem))
    })
    fc.assert(law)
  })

  it('has the gradients of the oracle in queries, keys and values', () => {
    const law = fc.property(problems, (problem) => {
      expectGradients(operationOf(problem))
    })
    fc.assert(law, { numRuns: 40 })
  })

  it('over several sources equals attention over one source that is all of them', () => {
    const law = fc.property(problems, ({ queries, sources }) => {
      tf.tidy(() => {
        const q = toTensor(queries)
        const groups = q.shape[2]!
        const parts = sources.map(sourceTensors)
        const spread = (x: tf.Tensor): tf.Tensor => tf.tile(x, [1, 1, groups / x.shape[2]!, 1, 1])
        const bias = ({ bias, keys }: AttentionSource): tf.Tensor =>
          bias ?? tf.zeros([...q.shape.slice(0, 5), keys.shape[3]!])
        const whole = {
          keys: tf.concat(
            parts.map(({ keys }) => spread(keys)),
            3,
          ),
          values: tf.concat(
            parts.map((part) => spread(part.values)),
            3,
          ),
          bias: tf.concat(parts.map(bias), 5),
        }
        expectClose(valuesOf(attention(q, parts, SCORING)), valuesOf(attention(q, [whole], SCORING)), {
          absolute: 1e-5,
          relative: 1e-4,
        })
      })
    })
    fc.assert(law)
  })

  it('leaves out only masked products of a causal source: values and gradients are those of all products', () => {
    const problem = fc.record({
      p: size(2),
      g: size(2),
      r: size(2),
      t: fc.constantFrom(1, 64, 127, 128, 129, 200, 256),
      past: fc.constantFrom('none', 'own', 'shared'),
      padding: fc.integer({ min: 0, max: 3 }),
      softCap: fc.constantFrom(null, 2),
      seed: fc.nat(),
    })
    const law = fc.property(problem, ({ p, g, r, t, past, padding, softCap, seed }) => {
      tf.tidy(() => {
        const [k, d] = [2, 4]
        const random = (label: string, shape: number[]): tf.Tensor =>
          tf.tensor(normals(child(keyFromSeed(seed), label), elementCount(shape)), shape)
        const allowed = tf.tensor(
          Array.from({ length: t }, (_, c) => Number(c >= Math.min(padding, t - 1))),
          [1, 1, 1, 1, 1, t],
        )
        const own = {
          keys: random('keys', [p, k, g, t, d]),
          values: random('values', [p, k, g, t, d]),
          bias: causalBias(t, allowed),
        }
        const groups = past === 'shared' ? 1 : g
        // Open to every query, so that none is masked out altogether.
        const earlier = { keys: random('past', [p, k, groups, 3, d]), values: random('old', [p, k, groups, 3, d]) }
        const before = past === 'none' && padding === 0 ? [] : [earlier]
        const q = random('queries', [p, k, g, r, t, d])
        const scoring = { scale: SCALE, softCap }
        const all = evaluate(q, [...before, own], scoring)
        const some = evaluate(q, [...before, { ...own, reach: 'causal' }], scoring)
        for (const [i, numbers] of some.entries()) expectClose(numbers, all[i]!, { absolute: 2e-5, relative: 1e-4 })
      })
    })
    fc.assert(law, { numRuns: 12 })
  })

  it('refuses a causal source that is not as long as the queries, naming both', () => {
    tf.tidy(() => {
      const own = { keys: tf.zeros([1, 1, 1, 3, 2]), values: tf.zeros([1, 1, 1, 3, 2]), reach: 'causal' as const }
      expect(() => attention(tf.zeros([1, 1, 1, 1, 2, 2]), [own], SCORING)).toThrow(
        'attention: causal source 0 has 3 places for 2 queries, expected as many',
      )
    })
  })

  it('over a shared source equals attention over copies of it, and the gradients of the copies add up', () => {
    const law = fc.property(problems, ({ queries, sources }) => {
      tf.tidy(() => {
        const q = toTensor(queries)
        const groups = q.shape[2]!
        const own = sources.map(sourceTensors)[0]!
        const shared = {
          ...own,
          keys: tf.slice(own.keys, [0, 0, 0], [-1, -1, 1]),
          values: tf.slice(own.values, [0, 0, 0], [-1, -1, 1]),
        }
        const tiled = {
          ...own,
          keys: tf.tile(shared.keys, [1, 1, groups, 1, 1]),
          values: tf.tile(shared.values, [1, 1, groups, 1, 1]),
        }
        const [output, dq, dk, dv] = evaluate(q, [shared])
        const expected = evaluate(q, [tiled])
        const addUp = (grad: number[]): number[] => valuesOf(tf.sum(tf.tensor(grad, tiled.keys.shape), 2))
        const within = { absolute: 1e-4, relative: 1e-4 }
        expectClose(output!, expected[0]!, within)
        expectClose(dq!, expected[1]!, within)
        expectClose(dk!, addUp(expected[2]!), within)
        expectClose(dv!, addUp(expected[3]!), within)
      })
    })
    fc.assert(law, { numRuns: 50 })
  })

  it('of a batch is the attention of its rows one by one', () => {
    const law = fc.property(problems, ({ queries, sources }) => {
      tf.tidy(() => {
        const q = toTensor(queries)
        const parts = sources.map(sourceTensors)
        const rowOf = (x: tf.Tensor, i: number): tf.Tensor => tf.slice(x, [i], [1])
        const rows = Array.from({ length: q.shape[0]! }, (_, i) => {
          const own = parts.map(({ keys, values: v, bias }) =>
            withBias(rowOf(keys, i), rowOf(v, i), bias && rowOf(bias, i)),
          )
          return attention(rowOf(q, i), own, SCORING)
        })
        expectClose(valuesOf(attention(q, parts, SCORING)), valuesOf(tf.concat(rows)), { absolute: 1e-5 })
      })
    })
    fc.assert(law, { numRuns: 50 })
  })

  it('does not depend on the keys and values of masked places, whatever finite numbers they are', () => {
    const law = fc.property(problems, fc.constantFrom(-1e4, 0, 1e4), ({ queries, sources }, garbage) => {
      tf.tidy(() => {
        const q = toTensor(queries)
        const [open] = sources.map(sourceTensors)
        const junk = { keys: tf.fill(open!.keys.shape, garbage), values: tf.fill(open!.values.shape, garbage) }
        const masked = { ...junk, bias: tf.fill([...q.shape.slice(0, 5), junk.keys.shape[3]!], MASKED) }
        expectClose(valuesOf(attention(q, [open!, masked], SCORING)), valuesOf(attention(q, [open!], SCORING)), {
          absolute: 1e-6,
        })
      })
    })
    fc.assert(law)
  })

  it.each(BACKENDS)('lets a query with no open place at all look at all places alike, without NaN, on %s', (name) => {
    const law = fc.property(problems, ({ shape, queries, sources }) => {
      const { p, k, g, r, t, d } = shape
      tf.tidy(() => {
        const q = toTensor(queries)
        const masked = sources.map(sourceTensors).map(({ keys, values: v }) => ({
          keys,
          values: v,
          bias: tf.fill([p, k, g, r, t, keys.shape[3]!], MASKED),
        }))
        const spread = (x: tf.Tensor): tf.Tensor => tf.tile(x, [1, 1, g / x.shape[2]!, 1, 1])
        const mean = tf.mean(
          tf.concat(
            masked.map((part) => spread(part.values)),
            3,
          ),
          3,
        ) // [P, K, G, D]
        const expected = tf.tile(tf.reshape(mean, [p, k, g, 1, 1, d]), [1, 1, 1, r, t, 1])
        const [output, ...grads] = evaluate(q, masked)
        expectClose(output!, valuesOf(expected), { absolute: 1e-5 })
        expect(grads.flat().every(Number.isFinite)).toBe(true)
      })
    })
    onBackend(name, () => fc.assert(law, { numRuns: 40 }))
  })

  it('gives a masked place a weight that no sum shows, and that is no subnormal number', () => {
    tf.tidy(() => {
      const source = {
        keys: tf.zeros([1, 1, 1, 2, 1]),
        values: tf.tensor([0, 1], [1, 1, 1, 2, 1]),
        bias: tf.tensor([0, MASKED], [1, 1, 1, 1, 1, 2]),
      }
      const [weight] = valuesOf(attention(tf.zeros([1, 1, 1, 1, 1, 1]), [source], SCORING))
      expect(weight).toBeGreaterThan(2 ** -126)
      expect(weight).toBeLessThan(1e-17)
    })
  })

  it('frees what it does not return, also when a gradient is taken', () => {
    const q = tf.ones([1, 1, 2, 1, 2, 2])
    const [keys, v] = [tf.ones([1, 1, 1, 3, 2]), tf.ones([1, 1, 1, 3, 2])]
    const before = tf.memory().numTensors
    const grads = tf.grads((x, y, z) => tf.sum(attention(x, [{ keys: y, values: z }], { scale: 1 })))([q, keys, v])
    expect(tf.memory().numTensors).toBe(before + 3)
    tf.dispose([q, keys, v, grads])
  })
})

describe('attention refuses', () => {
  const q = [1, 2, 3, 1, 2, 4]
  const fits = [1, 2, 3, 5, 4]

  it.each([
    ['queries of another rank', [2, 3, 1, 2, 4], fits, fits, 'queries must be [P, K, G, R, T, D], got [2,3,1,2,4]'],
    ['another number of prompts', q, [2, 2, 3, 5, 4], [2, 2, 3, 5, 4], 'source 0 has keys [2,2,3,5,4]'],
    ['another number of key-value heads', q, [1, 1, 3, 5, 4], [1, 1, 3, 5, 4], 'expected [1, 2, 3 or 1, C, 4]'],
    ['a group axis of neither 1 nor G', q, [1, 2, 2, 5, 4], [1, 2, 2, 5, 4], 'expected [1, 2, 3 or 1, C, 4]'],
    ['another head size', q, [1, 2, 3, 5, 3], [1, 2, 3, 5, 3], 'expected [1, 2, 3 or 1, C, 4]'],
    ['keys of another rank', q, [1, 2, 5, 4], [1, 2, 5, 4], 'source 0 has keys [1,2,5,4]'],
    ['values that are not like the keys', q, fits, [1, 2, 3, 6, 4], 'values [1,2,3,6,4]'],
  ])('%s', (_what, queries, keys, v, message) => {
    tf.tidy(() => {
      const source = { keys: tf.ones(keys), values: tf.ones(v) }
      expect(() => attention(tf.ones(queries), [source], { scale: 1 })).toThrow(message)
    })
  })

  it('no source, and names the source that is wrong', () => {
    tf.tidy(() => {
      const [good, bad] = [
        { keys: tf.ones(fits), values: tf.ones(fits) },
        { keys: tf.ones([1]), values: tf.ones([1]) },
      ]
      expect(() => attention(tf.ones(q), [], { scale: 1 })).toThrow('at least one source')
      expect(() => attention(tf.ones(q), [good, bad], { scale: 1 })).toThrow('source 1')
    })
  })
})
