/** The measured programs in TensorFlow.js. Each has its counterpart of the same name in `peer.py`. */
import { type Jitted, jit } from '@tandem-rl/tfjs-onnxruntime'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { type Body, meanSquare, type Settle, sizeOf } from './body.js'
import { modelBody } from './modelBodies.js'
import { noise } from './noise.js'
import type { Kind, Workload } from './workloads.js'

const sumOf = (values: ArrayLike<number>): number => Array.from(values).reduce((sum, x) => sum + x, 0)

const eight = (): tf.Tensor => own(tf.tensor1d(noise(8, 1))).value

const addAndRead = (workload: Workload): Body => {
  const [x, y] = [eight(), eight()]
  const once = (): number => scope(() => tf.add(x, y).dataSync()[0]!)
  return {
    value: once,
    run: () => {
      for (let i = 0; i < sizeOf(workload, 'repeats'); i++) once()
    },
  }
}

const smallOps = (workload: Workload): Body => {
  const [x, y] = [eight(), eight()]
  const operations = sizeOf(workload, 'operations')
  const once = (): number =>
    scope(() => {
      let sum = x
      for (let i = 0; i < operations; i++) sum = tf.add(sum, y)
      return sum.dataSync()[0]!
    })
  return {
    value: once,
    run: () => {
      for (let i = 0; i < sizeOf(workload, 'repeats'); i++) once()
    },
  }
}

const call = (workload: Workload): Body => {
  const x = eight()
  const f = jit(({ x }: { readonly x: tf.Tensor }) => ({ y: tf.add(x, 1) }))
  return {
    value: () => scope(() => f({ x }).y.dataSync()[0]!),
    run: () => {
      for (let i = 0; i < sizeOf(workload, 'repeats'); i++) scope(() => void f({ x }))
    },
  }
}

interface Pairs {
  readonly params: readonly tf.Tensor[]
  readonly grads: readonly tf.Tensor[]
}

const callTree = (workload: Workload): Body => {
  const matrices = (salt: number): readonly tf.Tensor[] =>
    Array.from({ length: sizeOf(workload, 'tensors') }, (_, i) => own(tf.tensor2d(noise(64, salt + i), [8, 8])).value)
  const input: Pairs = { params: matrices(1), grads: matrices(1001) }
  const f: Jitted<Pairs, readonly tf.Tensor[]> = jit(({ params, grads }) =>
    params.map((p, i) => tf.sub(p, tf.mul(grads[i]!, 0.1))),
  )
  return {
    value: () => scope(() => sumOf(f(input).map((tensor) => tensor.dataSync()[0]!))),
    run: () => {
      for (let i = 0; i < sizeOf(workload, 'repeats'); i++) scope(() => void f(input))
    },
  }
}

/** Eight operations: three unary, two with a number, three with two tensors. */
const eightOperations = (x: tf.Tensor): tf.Tensor => {
  const a = tf.add(tf.mul(x, 0.5), x)
  const b = tf.mul(tf.tanh(a), x)
  return tf.sub(tf.add(tf.exp(tf.sigmoid(b)), 1), x)
}

const chain = (workload: Workload, settle: Settle): Body => {
  const x = own(tf.tensor1d(noise(sizeOf(workload, 'elements'), 1))).value
  return {
    value: () => scope(() => meanSquare(eightOperations(x))),
    run: () =>
      scope(() => {
        const y = eightOperations(x)
        settle()
        return void y
      }),
  }
}

const REDUCTION = {
  sumLast: (x: tf.Tensor) => tf.sum(x, 1),
  sumFirst: (x: tf.Tensor) => tf.sum(x, 0),
  sumAll: (x: tf.Tensor) => tf.sum(x),
  maxLast: (x: tf.Tensor) => tf.max(x, 1),
  argMaxLast: (x: tf.Tensor) => tf.argMax(x, 1),
  softmax: (x: tf.Tensor) => tf.softmax(x),
}

const reduction = (workload: Workload, settle: Settle): Body => {
  const [rows, columns] = [sizeOf(workload, 'rows'), sizeOf(workload, 'columns')]
  const x = own(tf.tensor2d(noise(rows * columns, 1, 4), [rows, columns])).value
  const f = REDUCTION[workload.reduction!]
  return {
    value: () => scope(() => meanSquare(tf.cast(f(x), 'float32'))),
    run: () =>
      scope(() => {
        const y = f(x)
        settle()
        return void y
      }),
  }
}

const matMul = (workload: Workload, settle: Settle): Body => {
  const [batch, size] = [sizeOf(workload, 'batch'), sizeOf(workload, 'size')]
  const shape = batch === 1 ? [size, size] : [batch, size, size]
  const [a, b] = [1, 2].map((salt) => own(tf.tensor(noise(batch * size * size, salt), shape)).value) as [
    tf.Tensor, // as many as salts
    tf.Tensor,
  ]
  const f = (): tf.Tensor => tf.matMul(a, b, false, batch > 1)
  return {
    value: () => scope(() => meanSquare(f())),
    run: () =>
      scope(() => {
        const y = f()
        settle()
        return void y
      }),
  }
}

const BODIES: Readonly<Record<Kind, (workload: Workload, settle: Settle) => Body>> = {
  addAndRead,
  smallOps,
  call,
  callTree,
  chain,
  reduction,
  matMul,
  forward: modelBody,
  decode: modelBody,
  trainStep: modelBody,
  update: modelBody,
}

/** Makes the program of a workload on tfjs's active backend. Its tensors live as long as the process. */
export const makeBody = (workload: Workload, settle: Settle): Body => BODIES[workload.kind](workload, settle)
