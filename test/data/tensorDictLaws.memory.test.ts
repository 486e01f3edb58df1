/** The kit of memory finds operations that break its laws. */
import { anyTensorDict } from '@tandem-rl/testing'
import { tensorsOf } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { anyBatchShape } from '../../packages/testing/src/arbitraries.js'
import { mapLeaves } from '../../src/data/tensorDict/leaves.js'
import { TensorDictError } from '../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../kit/engine.js'
import { memoryLaws, type TensorDictStep } from './tensorDictLaws/memory.js'

useEngine()

const samples = anyTensorDict(anyBatchShape.map((shape) => [2, ...shape.slice(0, 1)]))

describe('the kit of memory', () => {
  const broken: Readonly<Record<string, TensorDictStep>> = {
    'frees its input': (td) => {
      for (const tensor of tensorsOf(td)) tensor.dispose()
      return td
    },
    'leaves a kept tensor': (td) => {
      leaks.push(tf.keep(tf.scalar(1)))
      return td
    },
    'leaves a tensor when it refuses': (td) => {
      tf.scalar(1)
      throw new TensorDictError('mine', [], `no ${td.batchShape.join()}`)
    },
  }
  const leaks: tf.Tensor[] = []
  const failures = (step: TensorDictStep): number =>
    memoryLaws(samples, { steps: [step] }).filter(({ check }) => {
      try {
        check()
        return false
      } catch {
        return true
      }
    }).length

  it.each(Object.entries(broken))('finds an operation that %s', (_, step) => {
    expect(failures(step)).toBeGreaterThan(0)
    tf.dispose(leaks)
  })

  it('finds nothing wrong with an operation that makes tensors of the enclosing scope', () => {
    expect(failures((td) => mapLeaves(td, (leaf) => (leaf instanceof tf.Tensor ? tf.clone(leaf) : leaf)))).toBe(0)
  })
})
