import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { onBackend } from '../../../../test/kit/backends.js'
import { expectClose } from '../../../../test/kit/close.js'
import { BACKENDS, expectForward, expectGradients, type Operation } from '../../../../test/kit/differentiable.js'
import { useOnnxRuntime, valuesOf } from '../../../../test/kit/engine.js'
import { floatsIn, hostTensor, intsIn } from '../../../../test/kit/hostTensor.js'
import { entropyOracle, gatherLogProbsOracle } from '../../../../test/kit/oracle.js'
import { entropy, gatherLogProbs, tokenScores } from '../../src/ops/logProbs.js'

useOnnxRuntime()

const size = (min: number, max: number): fc.Arbitrary<number> => fc.integer({ min, max })

const gathers: fc.Arbitrary<Operation> = fc.tuple(size(1, 5), size(2, 6)).chain(([rows, vocabulary]) =>
  fc
    .tuple(hostTensor(floatsIn(-20, 20), [rows, vocabulary]), hostTensor(intsIn(0, vocabulary - 1), [rows]))
    .map(([logits, { data: ids }]) => ({
      inputs: [logits],
      shape: [rows],
      call: ([x]) => gatherLogProbs(x!, tf.tensor1d([...ids], 'int32')),
      oracle: ([x]) => gatherLogProbsOracle(x!, ids),
    })),
)

const entropies: fc.Arbitrary<Operation> = fc.tuple(size(1, 5), size(1, 6)).chain(([rows, vocabulary]) =>
  hostTensor(floatsIn(-10, 10), [rows, vocabulary]).map((logits) => ({
    inputs: [logits],
    shape: [rows],
    call: ([x]) => entropy(x!),
    oracle: ([x]) => entropyOracle(x!, vocabulary),
  })),
)

describe('gatherLogProbs', () => {
  it('equals the float64 oracle', () => {
    const law = fc.property(gathers, (gather) => {
      expectForward(gather)
    })
    fc.assert(law)
  })

  it('has the gradient of the oracle', () => {
    const law = fc.property(gathers, (gather) => {
      expectGradients(gather)
    })
    fc.assert(law, { numRuns: 50 })
  })

  it('does not change when a number is added to a row of logits', () => {
    const law = fc.property(gathers, fc.integer({ min: -50, max: 50 }), ({ inputs, call }, shift) => {
      tf.tidy(() => {
        const logits = tf.tensor([...inputs[0]!.data], [...inputs[0]!.shape])
        expectClose(valuesOf(call([tf.add(logits, shift)])), valuesOf(call([logits])), { absolute: 1e-4 })
      })
    })
    fc.assert(law)
  })

  it.each(BACKENDS)('is NaN, with a gradient of NaN, in a row that has NaN or +Infinity anywhere, on %s', (name) => {
    onBackend(name, () => {
      tf.tidy(() => {
        const size = 37 // more than one step of vectorized code
        for (const bad of [Number.NaN, Number.POSITIVE_INFINITY]) {
          const logits = tf.tensor2d(
            Array.from({ length: size }, (_, at) => Array.from({ length: size }, (_, i) => (i === at ? bad : -i))),
          )
          const ids = tf.fill([size], 3, 'int32')
          expect(valuesOf(gatherLogProbs(logits, ids)).every(Number.isNaN)).toBe(true)
          expect(valuesOf(tokenScores(logits, ids).entropy).every(Number.isNaN)).toBe(true)
          const [slope] = tf.grads((x) => tf.sum(gatherLogProbs(x, ids)))([logits])
          expect(valuesOf(slope!).every(Number.isNaN)).toBe(true)
        }
      })
    })
  })

  it('exponentials over the vocabulary sum to 1', () => {
    const law = fc.property(
      fc.array(fc.float({ min: -20, max: 20, noNaN: true }), { minLength: 1, maxLength: 8 }),
      (row) => {
        tf.tidy(() => {
          const logits = tf.tensor2d(row.map(() => row))
          const logProbs = gatherLogProbs(logits, tf.range(0, row.length, 1, 'int32'))
          expectClose(valuesOf(tf.sum(tf.exp(logProbs))), [1])
        })
      },
    )
    fc.assert(law)
  })

  it.each(BACKENDS)('stays finite for huge logits, and exact for a certain token, on %s', (name) => {
    onBackend(name, () => {
      tf.tidy(() => {
        const logits = tf.tensor2d([
          [1e4, -1e4, 0],
          [-1e4, -1e4, -1e4],
        ])
        const ids = tf.tensor1d([0, 2], 'int32')
        expectClose(valuesOf(gatherLogProbs(logits, ids)), [0, -Math.log(3)])
        const grad = tf.grad((x) => tf.sum(gatherLogProbs(x, ids)))(logits)
        expectClose(valuesOf(grad), [0, 0, 0, -1 / 3, -1 / 3, 2 / 3])
      })
    })
  })

  it.each([
    [[2, 3], [3]],
    [[6], [6]],
    [
      [2, 3],
      [2, 1],
    ],
    [[1, 2, 3], [1]],
  ])('refuses logits %j with ids %j, naming both', (logits, ids) => {
    tf.tidy(() => {
      expect(() => gatherLogProbs(tf.zeros(logits), tf.zeros(ids, 'int32'))).toThrow(
        `gatherLogProbs: logits [${logits.join()}] and ids [${ids.join()}] do not fit [N, V] and [N]`,
      )
    })
  })

  it('refuses more logits than int32 reaches', () => {
    tf.tidy(() => {
      const logits = tf.fill([2 ** 16, 2 ** 15], 0) // recorded, never computed
      expect(() => gatherLogProbs(logits, tf.fill([2 ** 16], 0, 'int32'))).toThrow(RangeError)
    })
  })
})

describe('entropy', () => {
  it('equals the float64 oracle', () => {
    const law = fc.property(entropies, (given) => {
      expectForward(given)
    })
    fc.assert(law)
  })

  it('has the gradient of the oracle', () => {
    const law = fc.property(entropies, (given) => {
      expectGradients(given)
    })
    fc.assert(law, { numRuns: 50 })
  })

  it('of equal logits is log V, of a certain token 0', () => {
    tf.tidy(() => {
      expectClose(valuesOf(entropy(tf.zeros([2, 7]))), [Math.log(7), Math.log(7)])
      expectClose(valuesOf(entropy(tf.tensor2d([[1e4, 0, -1e4]]))), [0])
    })
  })
})

/** Logits with ids, and both scores as one list: log-probabilities, then entropies. */
const scored = (mode: 'metric' | 'differentiable'): fc.Arbitrary<Operation> =>
  fc.tuple(size(1, 5), size(2, 6)).chain(([rows, vocabulary]) =>
    fc
      .tuple(hostTensor(floatsIn(-8, 8), [rows, vocabulary]), hostTensor(intsIn(0, vocabulary - 1), [rows]))
      .map(([logits, { data: ids }]) => ({
        inputs: [logits],
        shape: [2 * rows],
        call: ([x]) => {
          const scores = tokenScores(x!, tf.tensor1d([...ids], 'int32'), { entropy: mode })
          return tf.concat([scores.logProbs, scores.entropy])
        },
        oracle: ([x]) => [...gatherLogProbsOracle(x!, ids), ...entropyOracle(x!, vocabulary)],
      })),
  )

describe('tokenScores', () => {
  it('equals the float64 oracle', () => {
    const law = fc.property(scored('metric'), (scores) => {
      expectForward(scores)
    })
    fc.assert(law)
  })

  it('has the gradients of the oracle, those of the entropy included', () => {
    const law = fc.property(scored('differentiable'), (scores) => {
      expectGradients(scores, { absolute: 1e-4, relative: 1e-3 })
    })
    fc.assert(law, { numRuns: 50 })
  })

  it('gives the log-probabilities of gatherLogProbs bit for bit', () => {
    const law = fc.property(gathers, ({ inputs }) => {
      tf.tidy(() => {
        const [rows, vocabulary] = inputs[0]!.shape as [number, number] // by `gathers`
        const logits = tf.tensor2d([...inputs[0]!.data], [rows, vocabulary])
        const ids = tf.zeros([rows], 'int32')
        expect(valuesOf(tokenScores(logits, ids).logProbs)).toEqual(valuesOf(gatherLogProbs(logits, ids)))
      })
    })
    fc.assert(law)
  })

  it('as a metric, the entropy passes no gradient', () => {
    tf.tidy(() => {
      const logits = tf.tensor2d([[1, 2, 4]])
      const gradient = tf.grad((x) => tf.sum(tokenScores(x, tf.tensor1d([1], 'int32')).entropy))(logits)
      expect(valuesOf(gradient).map(Math.abs)).toEqual([0, 0, 0])
    })
  })
})
