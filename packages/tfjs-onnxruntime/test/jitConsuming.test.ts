import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { useOnnxRuntime } from '../../../test/kit/engine.js'
import { adoptTensor, jit } from '../src/jit.js'
import { jitConsuming } from '../src/jitConsuming.js'
import { own, scope } from '../src/scope.js'

const { backend } = useOnnxRuntime()

interface State {
  readonly weights: readonly tf.Tensor[]
  readonly means: readonly tf.Tensor[]
  readonly step: tf.Tensor
}

interface Input {
  readonly state: State
  readonly grads: readonly tf.Tensor[]
}

const SIZES = [300, 257, 300, 3]

/** An update like that of an optimizer. */
const update = ({ state, grads }: Input): State => {
  const step = tf.add(state.step, 1)
  const means = state.means.map((mean, i) => tf.add(tf.mul(mean, 0.9), tf.mul(grads[i]!, 0.1)))
  const weights = state.weights.map((weight, i) => tf.sub(weight, tf.div(means[i]!, tf.add(step, tf.abs(weight)))))
  return { weights, means, step }
}

const numbers = (size: number, seed: number): tf.Tensor =>
  tf.reshape(tf.sin(tf.add(tf.range(0, size * size), seed)), [size, size])

const inputOf = (seed: number): Input => ({
  state: {
    weights: SIZES.map((size, i) => tf.mul(numbers(size, seed + i), 1)),
    means: SIZES.map((size, i) => tf.mul(numbers(size, seed + 10 + i), 1)),
    step: tf.scalar(seed),
  },
  grads: SIZES.map((size, i) => tf.mul(numbers(size, seed + 20 + i), 1)),
})

const read = ({ weights, means, step }: State): readonly (readonly number[])[] =>
  [...weights, ...means, step].map((tensor) => Array.from(tensor.dataSync()))

describe('a consuming function', () => {
  it('returns what a compiled function returns, call after call, and frees what it consumes', () => {
    const [kept, consuming] = [jit(update), jitConsuming(update)]
    for (const seed of [1, 2, 3]) {
      const expected = scope(() => read(kept(inputOf(seed))))
      const found = scope(() => {
        const input = inputOf(seed)
        backend().flush()
        const result = consuming(input, [input.state.weights, input.grads])
        expect([...input.state.weights, ...input.grads].every(({ isDisposed }) => isDisposed)).toBe(true)
        expect([...input.state.means, input.state.step].some(({ isDisposed }) => isDisposed)).toBe(false)
        return read(result)
      })
      expect(found).toEqual(expected)
    }
    kept.release()
    consuming.release()
  })

  it('writes into the arrays of consumed tensors, and never into one that was read, given, or shared', () => {
    const f = jitConsuming(({ x }: { readonly x: readonly tf.Tensor[] }) => x.map((each) => tf.add(each, 1)))
    const size = 2 ** 16
    const given = new Float32Array(size).fill(5)
    scope(() => {
      const made = [1, 2, 3, 4].map((value) => tf.fill([size], value))
      backend().flush()
      const seen = made[0]!.dataSync()
      const other = tf.reshape(made[1]!, [2, size / 2])
      const x = [...made, adoptTensor(given, [size], 'float32')]
      const more = scope(() => [f({ x }, x), f({ x: [tf.fill([size], 7), tf.fill([size], 8)] }, [])])
      expect(more.map((list) => list.map((each) => each.dataSync()[size - 1]))).toEqual([
        [2, 3, 4, 5, 6],
        [8, 9],
      ])
      expect([seen[0], other.dataSync()[0], given[0]]).toEqual([1, 2, 5])
    })
    f.release()
  })

  it('keeps numbers that two tensors have, whichever way they came to have them', () => {
    const size = 2 ** 16
    const twice = jit(({ x }: { readonly x: tf.Tensor }) => {
      const y = tf.add(x, 1)
      return [y, y] // one result for two tensors
    })
    const f = jitConsuming(({ x, y }: { readonly x: tf.Tensor; readonly y: tf.Tensor }) => {
      const sum = tf.add(x, y)
      return [sum, tf.mul(x, 2), sum]
    })
    const makers: readonly ((x: tf.Tensor) => readonly [tf.Tensor, tf.Tensor])[] = [
      (x) => twice({ x }) as [tf.Tensor, tf.Tensor],
      (x) => [x, tf.reshape(x, [size / 4, 4])],
      (x) => [x, tf.clone(x)],
      (x) => [x, tf.sum(tf.reshape(x, [size, 1]), 1)],
      (x) => [x, tf.concat([x])],
      (x) => [x, tf.tile(x, [1])],
      (x) => [x, tf.cast(x, 'float32')],
    ]
    for (const make of makers) {
      scope(() => {
        const x = tf.add(tf.fill([size], 3), 0)
        backend().flush()
        const [first, second] = make(x)
        backend().flush()
        const expected = make === makers[0] ? [4, 4] : [3, 3]
        const results = scope(() => f({ x: first, y: first }, [first]))
        const more = f({ x: tf.fill([size], 100), y: tf.fill([size], 200) }, [])
        expect(Array.from(second.dataSync().slice(0, 2))).toEqual(expected)
        const value = expected[0]!
        expect(results.map((each) => each.dataSync()[size - 1])).toEqual([2 * value, 2 * value, 2 * value])
        expect(more.map((each) => each.dataSync()[0])).toEqual([300, 200, 300])
      })
    }
    twice.release()
    f.release()
  })

  it('does not free a tensor that a further owner has', () => {
    const f = jitConsuming(({ x }: { readonly x: tf.Tensor }) => tf.add(x, 1))
    const first = own(tf.ones([2]))
    const second = own(first.value)
    scope(() => void f({ x: first.value }, first.value))
    expect(Array.from(second.value.dataSync())).toEqual([1, 1])
    first.release()
    scope(() => void f({ x: second.value }, second.value))
    expect(second.value.isDisposed).toBe(true)
    second.release()
    f.release()
  })
})
