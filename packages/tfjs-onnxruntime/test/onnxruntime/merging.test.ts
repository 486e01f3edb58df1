import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { useOnnxRuntime } from '../../../../test/kit/engine.js'
import { mergeEqual } from '../../src/onnxruntime/merging.js'

const { backend } = useOnnxRuntime()

type Step = readonly [name: 'add' | 'mul' | 'tanh' | 'sum', a: number, b: number]

const steps = fc.array(fc.tuple(fc.constantFrom('add', 'mul', 'tanh', 'sum'), fc.nat(1000), fc.nat(1000)), {
  minLength: 1,
  maxLength: 30,
})

/** A random program on two arguments, with its last values as results. */
const program =
  (list: readonly Step[], count: number) =>
  ([x, y]: readonly tf.Tensor[]): readonly tf.Tensor[] => {
    const values = [x!, y!]
    for (const [name, i, j] of list) {
      const [a, b] = [values[i % values.length]!, values[j % values.length]!]
      if (name === 'add') values.push(tf.add(a, tf.mul(b, 0.5)))
      else if (name === 'mul') values.push(tf.mul(tf.tanh(a), tf.tanh(b)))
      else if (name === 'tanh') values.push(tf.tanh(a))
      else values.push(tf.add(a, tf.sum(b)))
    }
    return values.slice(Math.max(2, values.length - count))
  }

const recorded = (list: readonly Step[], count: number) =>
  backend().trace(
    [
      { shape: [3], dtype: 'float32' },
      { shape: [3], dtype: 'float32' },
    ],
    program(list, count),
    'fixed',
  )

describe('merging', () => {
  it('changes no result of random programs, and leaves no two equal operations beside the roots', () => {
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 4 }), (list, count) => {
        const { graph, feedParameters } = recorded([...list, ...list], count) // with repetitions
        const merged = mergeEqual(graph)
        const given = [Float32Array.of(0.5, -1, 2), Float32Array.of(1, 0.25, -3)]
        const feeds = feedParameters.map((i) => ({ data: given[i]!, shape: [3] }))
        const results = [graph, merged.graph].map((one) => {
          const compiled = backend().compile(one)
          const data = compiled.run(feeds).map((tensor) => ('data' in tensor ? [...tensor.data] : []))
          compiled.release()
          return data
        })
        expect(results[1]).toEqual(results[0])
        const roots = new Set(merged.graph.roots)
        const keys = merged.graph.operations
          .filter(({ outputs }) => !outputs.some((output) => roots.has(output)))
          .map(({ signature, inputs }) => `${signature} ${inputs.map((input) => input && idOf(input)).join()}`)
        expect(new Set(keys).size).toBe(keys.length)
      }),
      { numRuns: 40 },
    )
  })

  it('keeps a root for each result, also for equal ones', () => {
    const { graph } = backend().trace(
      [{ shape: [2], dtype: 'float32' }],
      ([x]) => [tf.exp(x!), tf.exp(x!), tf.sin(tf.exp(x!))],
      'fixed',
    )
    const { graph: merged } = mergeEqual(graph)
    expect(graph.operations).toHaveLength(4)
    expect(merged.operations).toHaveLength(3)
    expect(new Set(merged.roots).size).toBe(3)
  })
})

const ids = new Map<object, number>()
const idOf = (value: object): number => {
  const id = ids.get(value) ?? ids.size
  ids.set(value, id)
  return id
}
