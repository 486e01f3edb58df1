import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { gradientsOf } from '../../src/data/gradients.js'
import { data, meta } from '../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { useEngine, valuesOf } from '../kit/engine.js'

useEngine()

const paramsOf = () =>
  TensorDict(
    {
      layer: { w: tf.tensor1d([1, 2]), b: tf.scalar(3) },
      unused: tf.tensor1d([5]),
      ids: tf.tensor1d([1, 2], 'int32'),
      note: meta('x'),
      empty: {},
    },
    [],
  )

describe('gradientsOf', () => {
  it('gives the value, and gradients at the paths of the float leaves', () => {
    scope(() => {
      const { value, grads } = gradientsOf(paramsOf(), (td) => ({
        value: tf.sum(tf.mul(get(td, 'layer', 'w'), get(td, 'layer', 'b'))),
        aux: [],
      }))
      expect(valuesOf(value)).toEqual([9])
      expect(valuesOf(get(grads, 'layer', 'w'))).toEqual([3, 3])
      expect(valuesOf(get(grads, 'layer', 'b'))).toEqual([3])
      expect(valuesOf(get(grads, 'unused'))).toEqual([0])
      expect([...grads.entries.keys()]).toEqual(['layer', 'unused', 'empty'])
    })
  })

  it('gives aux back: its tensors, its TensorDicts with all their leaves, in their places', () => {
    scope(() => {
      const { aux } = gradientsOf(paramsOf(), (td) => {
        const doubled = tf.mul(get(td, 'layer', 'w'), 2)
        return {
          value: tf.sum(doubled),
          aux: {
            td: TensorDict({ doubled, texts: data(['a', 'b']) }, [2]),
            list: [tf.scalar(7), { params: td }] as const,
          },
        }
      })
      expect(valuesOf(get(aux.td, 'doubled'))).toEqual([2, 4])
      expect(get(aux.td, 'texts').items.toArray()).toEqual(['a', 'b'])
      expect(valuesOf(aux.list[0])).toEqual([7])
      expect(valuesOf(get(aux.list[1].params, 'ids'))).toEqual([1, 2])
    })
  })

  it('counts a tensor that is at two paths once for each', () => {
    scope(() => {
      const x = tf.scalar(3)
      const { grads } = gradientsOf(TensorDict({ a: x, b: x }, []), (td) => ({
        value: tf.mul(tf.square(get(td, 'a')), get(td, 'b')),
        aux: [],
      }))
      expect([valuesOf(get(grads, 'a')), valuesOf(get(grads, 'b'))]).toEqual([[18], [9]])
    })
  })

  it('leaves nothing alive if the loss throws, and the parameters as they were', () => {
    scope(() => {
      const params = paramsOf()
      const before = tf.memory().numTensors
      const loss = (td: typeof params): never => {
        tf.sin(tf.exp(get(td, 'layer', 'w')))
        throw new Error('mine')
      }
      expect(() => gradientsOf(params, loss)).toThrow('mine')
      expect(tf.memory().numTensors).toBe(before)
      expect(valuesOf(get(params, 'layer', 'w'))).toEqual([1, 2])
    })
  })
})
