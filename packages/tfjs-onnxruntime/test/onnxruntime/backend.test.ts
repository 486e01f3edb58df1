import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { onBackend } from '../../../../test/kit/backends.js'
import { expectClose } from '../../../../test/kit/close.js'
import { useOnnxRuntime, valuesOf } from '../../../../test/kit/engine.js'
import { inputsOf, type Program, programs, runProgram } from '../../../../test/kit/program.js'

const { backend } = useOnnxRuntime()

/** onnxruntime fuses what it sees in one graph, so that rounding depends on the graph. */
const rounding = { absolute: 1e-5, relative: 1e-4 }

/** All values of a program, computed in one run at the end unless `after` flushes. */
const evaluate = (program: Program, after?: (step: number) => void): number[][] => {
  const inputs = inputsOf(program)
  const values = runProgram(program, inputs, after)
  const results = values.map(valuesOf)
  tf.dispose(values)
  return results
}

const expectAllClose = (actual: readonly (readonly number[])[], expected: readonly (readonly number[])[]): void => {
  expect(actual.length).toBe(expected.length)
  for (const [i, values] of actual.entries()) expectClose(values, expected[i]!, rounding)
}

const shuffledIndices = (size: number): fc.Arbitrary<number[]> =>
  fc.shuffledSubarray(
    Array.from({ length: size }, (_, i) => i),
    { minLength: size },
  )

describe('recording', () => {
  it('recorded and run at once, a program gives what it gives step by step', () => {
    const law = fc.property(programs(), (program) => {
      expectAllClose(evaluate(program), evaluate(program, backend().flush))
    })
    fc.assert(law)
  })

  it('a flush in the middle changes nothing', () => {
    const law = fc.property(programs(), fc.nat(9), (program, place) => {
      const flushed = evaluate(program, (step) => {
        if (step === place % program.steps.length) backend().flush()
      })
      expectAllClose(flushed, evaluate(program))
    })
    fc.assert(law)
  })

  it('results do not depend on which of them is read first', () => {
    const law = fc.property(
      programs().chain((program) => fc.tuple(fc.constant(program), shuffledIndices(program.steps.length + 2))),
      ([program, order]) => {
        const values = runProgram(program, inputsOf(program))
        const results = new Array<number[]>(values.length)
        for (const i of order) results[i] = valuesOf(values[i]!)
        expect(results).toEqual(evaluate(program))
        tf.dispose(values)
      },
    )
    fc.assert(law)
  })

  it("a program gives what it gives on tfjs's cpu backend, and so do its gradients", () => {
    const all = (program: Program): number[][] => {
      const inputs = inputsOf(program)
      const grads = tf.grads((...xs: tf.Tensor[]) => tf.sum(runProgram(program, xs).at(-1)!))(inputs)
      const results = [...evaluate(program), ...grads.map(valuesOf)]
      tf.dispose([inputs, grads])
      return results
    }
    // The last value must depend on both inputs, or tfjs has no gradient to give.
    const connected = programs().map(({ inputs, steps }) => ({
      inputs,
      steps: [
        ...steps,
        { name: 'add', left: 0, right: 1 } as const,
        { name: 'add', left: steps.length + 1, right: steps.length + 2 } as const,
      ],
    }))
    const law = fc.property(connected, (program) => {
      expectAllClose(
        all(program),
        onBackend('cpu', () => all(program)),
      )
    })
    fc.assert(law)
  })

  it('a loop that never reads stays bounded and right', () => {
    let x: tf.Tensor = tf.tensor1d(Array<number>(300).fill(1)) // more than are computed at once
    const before = backend().stats().runs
    for (let i = 0; i < 10_000; i++) {
      const next = tf.add(x, 1)
      x.dispose()
      x = next
    }
    expect(backend().stats().runs).toBe(before + 1) // 8,192 recorded operations run on their own
    expect(new Set(valuesOf(x))).toEqual(new Set([10_001]))
    x.dispose()
  })

  it('a kernel with several results that starts a run by itself gives all of them', () => {
    let x: tf.Tensor = tf.tensor1d([1, 2])
    for (let i = 0; i < 8192; i++) {
      const next = tf.add(x, 1)
      x.dispose()
      x = next
    }
    const parts = tf.tidy(() => tf.split(tf.mul(x, 2), 2))
    expect(parts.map(valuesOf)).toEqual([[2 * 8193], [2 * 8194]])
    tf.dispose([x, parts])
  })

  it('what is disposed before a run is not computed', () => {
    const [a, b] = [tf.tensor1d([7], 'int32'), tf.tensor1d([3])]
    const [dead, alive] = tf.tidy(() => [tf.gather(b, tf.abs(a)), tf.neg(b)] as const) // there is no row 7: a run would fail
    dead.dispose()
    backend().flush()
    const { compiles, runs } = backend().stats()
    expect(valuesOf(alive)).toEqual([-3])
    backend().flush()
    expect(backend().stats()).toMatchObject({ compiles, runs })
    tf.dispose([a, b, alive])
  })
})

describe('memory', () => {
  it('disposing in any order, with a run anywhere between, leaves nothing', () => {
    const cases = programs().chain((program) =>
      fc.tuple(fc.constant(program), shuffledIndices(program.steps.length + 2), fc.nat(12)),
    )
    const law = fc.property(cases, ([program, order, flushAt]) => {
      const before = tf.memory()
      const values = runProgram(program, inputsOf(program))
      expect(tf.memory().numTensors).toBe(before.numTensors + values.length)
      for (const [i, index] of order.entries()) {
        if (i === flushAt) backend().flush()
        values[index]!.dispose()
      }
      backend().flush()
      expect(tf.memory()).toMatchObject({
        numTensors: before.numTensors,
        numDataBuffers: before.numDataBuffers,
        numBytes: before.numBytes,
      })
    })
    fc.assert(law)
  })

  it('a value stays readable after everything it was computed from is gone', () => {
    const law = fc.property(programs(), (program) => {
      const values = runProgram(program, inputsOf(program))
      const last = values.pop()!
      tf.dispose(values)
      expectClose(valuesOf(last), evaluate(program).at(-1)!, rounding)
      last.dispose()
    })
    fc.assert(law)
  })

  it('tensors that share data are freed when the last of them goes', () => {
    const before = tf.memory().numDataBuffers // a call that the cpu backend refuses leaves one
    const x = tf.tensor1d([1, 2, 3, 4])
    const [copy, square] = [tf.clone(x), tf.reshape(x, [2, 2])]
    expect(tf.memory().numDataBuffers).toBe(before + 1)
    x.dispose()
    copy.dispose()
    expect(valuesOf(square)).toEqual([1, 2, 3, 4])
    square.dispose()
    expect(tf.memory().numDataBuffers).toBe(before)
  })

  it('mutating the typed array that a tensor was made from does not change the tensor', () => {
    const arrays = [new Float32Array([1, 2]), new Int32Array([1, 2]), new Uint8Array([1, 0])] as const
    const tensors = arrays.map((array, i) => tf.tensor(array, [2], (['float32', 'int32', 'bool'] as const)[i]!))
    const doubled = tf.mul(tensors[0]!, 2)
    for (const array of arrays) array.fill(7)
    expect(tensors.map(valuesOf)).toEqual([
      [1, 2],
      [1, 2],
      [1, 0],
    ])
    expect(valuesOf(doubled)).toEqual([2, 4])
    tf.dispose([tensors, doubled])
  })

  it('adopt shares the array: what is written to it is what the next run reads', () => {
    const data = new Float32Array([1, 2])
    const x = backend().adopt(data, [2], 'float32')
    data[0] = 5
    const y = tf.add(x, 1)
    expect(valuesOf(x)).toEqual([5, 2])
    expect(valuesOf(y)).toEqual([6, 3])
    tf.dispose([x, y])
  })

  it('adopt refuses an array that does not fit the shape, and a dtype that is not a number', () => {
    expect(() => backend().adopt(new Float32Array(3), [2], 'float32')).toThrow('3 elements given, shape [2] needs 2')
    expect(() => backend().adopt(new Float32Array(2), [2], 'string')).toThrow(TypeError)
  })
})

describe('compiling', () => {
  it('an identical step hits the cache, also with other values and another learning rate', () => {
    const step = (values: number[], rate: number): number[] => {
      const results: number[] = []
      tf.tidy(() => {
        const w = tf.tensor2d(values, [2, 2])
        const { value, grads } = tf.variableGrads(
          () => tf.tidy(() => tf.sum(tf.square(tf.matMul(w, v)))) as tf.Scalar,
          [v],
        ) // exact
        results.push(...valuesOf(value), ...valuesOf(tf.sub(v, tf.mul(grads[v.name]!, rate))))
      })
      return results
    }
    const ones = tf.ones([2, 2])
    const v = tf.variable(ones)
    step([1, 2, 3, 4], 0.1)
    const { compiles, runs, cacheHits } = backend().stats()
    expect(step([1, 0, 0, 1], 0.5)).toEqual([4, 0, 0, 0, 0])
    const after = backend().stats()
    expect(after.compiles).toBe(compiles)
    expect(after.cacheHits - cacheHits).toBe(after.runs - runs)
    tf.dispose([ones, v])
  })

  it('another shape, dtype or constant compiles another graph', () => {
    const compilesOf = (f: () => tf.Tensor): number => {
      const before = backend().stats().compiles
      tf.tidy(() => void f().dataSync())
      return backend().stats().compiles - before
    }
    const sum = (x: tf.Tensor, axis: number): tf.Tensor => tf.sum(tf.neg(tf.neg(tf.neg(x))), axis)
    const f32 = (...shape: number[]): tf.Tensor => tf.randomUniform(shape)
    expect(compilesOf(() => sum(f32(2, 3), 0))).toBe(1)
    expect(compilesOf(() => sum(f32(2, 3), 0))).toBe(0)
    expect(compilesOf(() => sum(f32(2, 3), 1))).toBe(1)
    expect(compilesOf(() => sum(f32(3, 2), 0))).toBe(1)
    expect(
      compilesOf(() =>
        sum(
          tf.tensor2d(
            [
              [1, 2, 3],
              [4, 5, 6],
            ],
            undefined,
            'int32',
          ),
          0,
        ),
      ),
    ).toBe(1)
  })

  it('regression: a constant -0 and a constant 0 are different graphs', () => {
    const [negative, positive] = [tf.fill([2], -0), tf.fill([2], 0)]
    expect(valuesOf(negative)).toEqual([-0, -0])
    expect(valuesOf(positive)).toEqual([0, 0])
    tf.dispose([negative, positive])
  })

  it('regression: a run that fails leaves other values readable, and fails again for its own', () => {
    const [table, places] = [tf.tensor1d([1, 2, 3]), tf.tensor1d([7], 'int32')]
    const [bad, good] = tf.tidy(() => [tf.gather(table, tf.abs(places)), tf.neg(table)] as const)
    expect(() => valuesOf(bad)).toThrow('Gather')
    expect(valuesOf(good)).toEqual([-1, -2, -3])
    expect(() => valuesOf(bad)).toThrow('Gather')
    tf.dispose([table, places, bad, good])
  })
})
