import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type BackendName, onBackend } from '../../../test/kit/backends.js'
import { take, useOnnxRuntime, using1d, valuesOf } from '../../../test/kit/engine.js'
import { adoptTensor, jit } from '../src/jit.js'
import { registerOnnxRuntime } from '../src/register.js'

const { backend } = useOnnxRuntime()

const BACKENDS: readonly BackendName[] = ['onnxruntime', 'cpu']

describe('jit compiles', () => {
  it('once for each combination of shapes, dtypes and structure, and never again for other values', () => {
    const f = jit((tree: { readonly x: tf.Tensor; readonly y?: tf.Tensor }) => tf.add(tree.x, tree.y ?? tree.x))
    const compilesOf = (call: () => tf.Tensor): number => {
      const before = f.compiles()
      tf.tidy(() => void call())
      return f.compiles() - before
    }
    const vector = (...values: number[]): tf.Tensor => tf.tensor1d(values)
    expect(compilesOf(() => f({ x: vector(1, 2) }))).toBe(1)
    expect(compilesOf(() => f({ x: vector(3, 4) }))).toBe(0)
    expect(compilesOf(() => f({ x: vector(1, 2, 3) }))).toBe(1)
    expect(compilesOf(() => f({ x: tf.tensor1d([1, 2], 'int32') }))).toBe(1)
    expect(compilesOf(() => f({ x: tf.tensor2d([[1, 2]]) }))).toBe(1)
    expect(compilesOf(() => f({ x: vector(1, 2), y: vector(1, 2) }))).toBe(1)
    expect(compilesOf(() => f({ x: vector(5, 6) }))).toBe(0)
    f.release()
  })

  it('keeps at most cacheSize graphs and drops the least recently used', () => {
    const law = fc.property(
      fc.integer({ min: 1, max: 4 }),
      fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 10, maxLength: 25 }),
      (cacheSize, sizes) => {
        const f = jit((x: tf.Tensor) => tf.mul(x, 2), { cacheSize })
        let recent: number[] = []
        for (const size of sizes) {
          const before = f.compiles()
          const values = Array.from({ length: size }, (_, i) => i)
          using1d([values], (x) => {
            expect(take(f(x!))).toEqual([values.map((n) => 2 * n)])
          })
          expect(f.compiles() - before).toBe(recent.includes(size) ? 0 : 1)
          recent = [...recent.filter((n) => n !== size), size].slice(-cacheSize)
        }
        f.release()
      },
    )
    fc.assert(law, { numRuns: 50 })
  })

  it.each([0, -1, Number.NaN])('refuses to keep %d graphs', (cacheSize) => {
    expect(() => jit((x: tf.Tensor) => x, { cacheSize })).toThrow('cacheSize must be at least 1')
  })

  it('works again after release, which may be called twice', () => {
    const f = jit((x: tf.Tensor) => tf.neg(x))
    using1d([[1, 2]], (x) => {
      expect(take(f(x!))).toEqual([[-1, -2]])
      f.release()
      f.release()
      expect(take(f(x!))).toEqual([[-1, -2]])
      expect(f.compiles()).toBe(2)
    })
    f.release()
  })

  it('nothing in the cache of recorded graphs, and falls back on no kernel', () => {
    const f = jit((x: tf.Tensor) => tf.softmax(tf.matMul(x, x)))
    const x = tf.ones([3, 3])
    backend().flush()
    const { cachedSessions, fallbacks } = backend().stats()
    f(x).dispose()
    expect(backend().stats()).toMatchObject({ cachedSessions, fallbacks })
    x.dispose()
    f.release()
  })
})

describe('jit refuses', () => {
  const refused = (f: (x: tf.Tensor) => tf.Tensor, message: string): void => {
    const compiled = jit(f)
    using1d([[1, 2]], (x) => {
      expect(() => compiled(x!)).toThrow(message)
      expect(backend().isTracing()).toBe(false)
    })
  }

  it('a captured tensor, whether it is computed or only recorded', () => {
    using1d([[3, 4]], (captured) => {
      refused((x) => tf.add(x, captured!), 'not among its arguments')
      refused(() => captured!, 'not among its arguments')
      const recorded = tf.neg(captured!)
      refused((x) => tf.add(x, recorded), 'not among its arguments')
      recorded.dispose()
    })
  })

  it('reading a value inside', () => {
    refused((x) => tf.scalar(tf.sum(x).dataSync()[0]!), 'read inside a compiled function')
  })

  it('a kernel without an ONNX form, by name', () => {
    refused((x) => tf.unique(x).values, 'kernel Unique')
    refused((x) => tf.abs(tf.complex(x, x)), 'kernel Complex')
  })

  it('regression: strings as arguments or results, and is not stuck in a trace afterwards', () => {
    const f = jit((x: tf.Tensor) => x)
    const words = tf.tensor1d(['a'])
    expect(() => f(words)).toThrow('dtype string')
    words.dispose()
    refused(() => tf.tensor1d(['a']), 'dtype string')
    expect(backend().isTracing()).toBe(false)
  })
})

describe('jit over empty tensors', () => {
  it('passes them through and computes them', () => {
    const [pass, cut] = [jit((x: tf.Tensor) => x), jit((x: tf.Tensor) => tf.slice(x, [0], [0]))]
    using1d([[], [1, 2]], (empty, full) => {
      expect(take(pass(empty!), cut(full!))).toEqual([[], []])
    })
    pass.release()
    cut.release()
  })
})

describe('jit when the backend is registered again', () => {
  it('compiles anew and frees what it compiled for the old one', () => {
    const f = jit((x: tf.Tensor) => tf.neg(x))
    using1d([[1]], (x) => f(x!).dispose())
    registerOnnxRuntime({ threads: 1, spinning: 'off' })
    tf.setBackend('onnxruntime')
    using1d([[2]], (x) => {
      expect(take(f(x!))).toEqual([[-2]])
    })
    expect(f.compiles()).toBe(2)
    f.release()
  })
})

describe('adoptTensor', () => {
  it('shares the array on onnxruntime: a loop may update it between calls of a compiled function', () => {
    const data = new Float32Array([1, 2])
    const x = adoptTensor(data, [2], 'float32')
    const f = jit((a: tf.Tensor) => tf.mul(a, 10))
    expect(take(f(x))).toEqual([[10, 20]])
    data.set([3, 4])
    expect(take(f(x))).toEqual([[30, 40]])
    x.dispose()
    f.release()
  })

  it.each(BACKENDS)('on %s has the values, the shape and the dtype, and refuses a shape that does not fit', (name) => {
    onBackend(name, () => {
      const x = adoptTensor(new Int32Array([1, 2, 3, 4]), [2, 2], 'int32')
      expect([x.dtype, x.shape, valuesOf(x)]).toEqual(['int32', [2, 2], [1, 2, 3, 4]])
      expect(() => adoptTensor(new Int32Array(3), [2, 2], 'int32')).toThrow()
      x.dispose()
    })
  })
})
