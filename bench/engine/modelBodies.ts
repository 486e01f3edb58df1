/** The measured programs that run the model. */
import { discard, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import type { DecoderConfig } from '../../src/modules/transformer/config.js'
import type { LayerCache } from '../../src/modules/transformer/forward.js'
import { type Params, parameterShapes } from '../../src/modules/transformer/params.js'
import { rotaryTables } from '../../src/modules/transformer/rotaryTables.js'
import { benchConfig } from '../shared/settings.js'
import { type Body, meanSquare, type Settle, sizeOf } from './body.js'
import { initialState, makeDecode, makeForward, makeTrainStep, makeUpdate } from './model.js'
import { noise, noiseIds, saltOf } from './noise.js'
import type { Workload } from './workloads.js'

const configOf = (workload: Workload): DecoderConfig =>
  benchConfig({
    hidden: sizeOf(workload, 'hidden'),
    layers: sizeOf(workload, 'layers'),
    heads: sizeOf(workload, 'heads'),
    kvHeads: sizeOf(workload, 'kvHeads'),
    vocab: sizeOf(workload, 'vocab'),
  })

/** Width of the even distribution whose standard deviation is 0.02. */
const SCALE = 0.02 * Math.sqrt(12)

/** Norms 1, biases 0, weights that depend on name and place alone. */
const fixedParams = (config: DecoderConfig): Params =>
  Object.fromEntries(
    [...parameterShapes(config)].map(([name, shape]) => {
      if (name.endsWith('norm.weight')) return [name, tf.ones([...shape])]
      if (name.endsWith('.bias')) return [name, tf.zeros([...shape])]
      const count = shape.reduce((n, m) => n * m, 1)
      return [name, tf.tensor(noise(count, saltOf(name), SCALE), [...shape])]
    }),
  )

/** Ids of a batch as a program gets them: from an array, anew in each run. */
const batchOf = (workload: Workload, config: DecoderConfig) => {
  const [batch, length] = [sizeOf(workload, 'batch'), sizeOf(workload, 'length')]
  const ids = noiseIds(batch * length, 7, config.vocabularySize - 3)
  return () => ({
    ids: tf.tensor3d(ids, [batch, 1, length], 'int32'),
    rotary: rotaryTables(config, length),
  })
}

const forward = (workload: Workload, settle: Settle): Body => {
  const config = configOf(workload)
  const params = own(scope(() => fixedParams(config))).value
  const [step, batch] = [makeForward(config), batchOf(workload, config)]
  return {
    value: () => scope(() => meanSquare(step({ params, ...batch() }).logits)),
    run: () =>
      scope(() => {
        const { logits } = step({ params, ...batch() })
        settle()
        return void logits
      }),
  }
}

const trainStep = (workload: Workload): Body => {
  const config = configOf(workload)
  const params = own(scope(() => fixedParams(config))).value
  const [step, batch] = [makeTrainStep(config), batchOf(workload, config)]
  return {
    value: () =>
      scope(() => {
        const { loss, grads } = step({ params, ...batch() })
        const squares = Object.values(grads).map((g) => meanSquare(g) * g.size)
        return loss.dataSync()[0]! + Math.sqrt(squares.reduce((sum, x) => sum + x, 0))
      }),
    run: () => scope(() => void step({ params, ...batch() }).loss.dataSync()),
  }
}

const LEARNING_RATE = 1e-3

const update = (workload: Workload): Body => {
  const config = configOf(workload)
  const [step, batch] = [makeUpdate(config), batchOf(workload, config)]
  let current = own(
    scope(() => {
      const params = fixedParams(config)
      return { params, state: initialState(params) }
    }),
  )
  const once = (): number => {
    const { loss, params, state } = scope(() =>
      step({ ...current.value, ...batch(), learningRate: tf.scalar(LEARNING_RATE) }),
    )
    current.release()
    current = own({ params, state })
    const read = loss.dataSync()[0]!
    discard(loss)
    return read
  }
  return { value: () => once() + once(), run: () => void once() }
}

/** Keys and values of the cached positions, `[B, K, 1, C, H]` for each layer. */
const filledCache = (workload: Workload, config: DecoderConfig): readonly LayerCache[] => {
  const shape = [sizeOf(workload, 'batch'), config.keyValueHeads, 1, sizeOf(workload, 'past'), config.headSize]
  const size = shape.reduce((n, m) => n * m, 1)
  return Array.from({ length: config.layers }, (_, layer) => ({
    keys: tf.tensor(noise(size, 100 + layer), shape),
    values: tf.tensor(noise(size, 200 + layer), shape),
  }))
}

/** Each run computes the position after the cached ones, and its keys and values. */
const decode = (workload: Workload): Body => {
  const config = configOf(workload)
  const [batch, past] = [sizeOf(workload, 'batch'), sizeOf(workload, 'past')]
  const step = makeDecode(config)
  const fixed = own(
    scope(() => ({
      params: fixedParams(config),
      mask: tf.ones([past]),
      rotary: rotaryTables(config, past + 1),
      layers: filledCache(workload, config),
    })),
  ).value
  const ids = noiseIds(batch, 7, config.vocabularySize - 3)
  const positions = new Int32Array(batch).fill(past)
  const once = () =>
    step({
      ...fixed,
      ids: tf.tensor3d(ids, [batch, 1, 1], 'int32'),
      positions: tf.tensor3d(positions, [batch, 1, 1], 'int32'),
    })
  return {
    value: () => scope(() => meanSquare(once().logits)),
    run: () =>
      scope(() => {
        const { logits, layers } = once()
        for (const result of [logits, ...layers.flatMap(({ keys, values }) => [keys, values])]) result.dataSync()
      }),
  }
}

/** The program of a workload that runs the model. */
export const modelBody = (workload: Workload, settle: Settle): Body => {
  switch (workload.kind) {
    case 'forward':
      return forward(workload, settle)
    case 'trainStep':
      return trainStep(workload)
    case 'update':
      return update(workload)
    case 'decode':
      return decode(workload)
    default:
      throw new Error(`${workload.name} does not run the model`)
  }
}
