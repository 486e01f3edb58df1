/** Forward and backward pass of next-token cross-entropy on random tokens: the counterpart of the peers' train_step.py. */
import * as tf from '@tensorflow/tfjs'
import { keyFromSeed } from '../src/core/key.js'
import { jit } from '../src/engine/jit.js'
import { gatherLogProbs } from '../src/engine/ops/logProbs.js'
import { own, scope } from '../src/engine/scope.js'
import { selectBackend } from '../src/engine/select.js'
import { valueAndGrad } from '../src/engine/valueAndGrad.js'
import { forwardSegment, logitsOf, rotaryTable } from '../src/modules/transformer/forward.js'
import { initialParams, type Params, parameterCount } from '../src/modules/transformer/params.js'
import { beforeBias } from '../src/modules/transformer/score.js'
import { benchConfig, randomIds, readOptions, runBench } from './settings.js'

const { settings, mode } = readOptions('Trains on random tokens: forward and backward pass.', {
  batch: 16,
  length: 128,
})
const { batch, length } = settings
const config = benchConfig(settings)
await selectBackend({ threads: settings.threads })

const step = jit(
  (input: { readonly params: Params; readonly ids: tf.Tensor; readonly cos: tf.Tensor; readonly sin: tf.Tensor }) => {
    const positions = tf.tile(tf.reshape(tf.range(0, length, 1, 'int32'), [1, 1, length]), [batch, 1, 1])
    const { value, grads } = valueAndGrad(input.params, (params) => {
      const { hidden } = forwardSegment(params, config, {
        ids: input.ids,
        positions,
        beforeBias: beforeBias(length),
        past: [],
        rotary: { cos: input.cos, sin: input.sin },
      })
      const width = config.hiddenSize
      const predicting = tf.slice(tf.reshape(hidden, [batch, length, width]), [0, 0, 0], [batch, length - 1, width])
      const targets = tf.slice(input.ids, [0, 0, 1], [batch, 1, length - 1])
      const logits = logitsOf(params, config, tf.reshape(predicting, [batch * (length - 1), width]))
      return { value: tf.neg(tf.mean(gatherLogProbs(logits, tf.reshape(targets, [-1])))), aux: {} }
    })
    return { loss: value, grads }
  },
)

const params = own(scope(() => initialParams(config, keyFromSeed(0))))
const ids = randomIds(1, batch * length, config.vocabularySize)

const run = async (): Promise<number> => {
  const started = performance.now()
  scope(() => {
    const { cos, sin } = rotaryTable(config, length)
    const { loss } = step({ params: params.value, ids: tf.tensor3d(ids, [batch, 1, length], 'int32'), cos, sin })
    return loss.dataSync()
  })
  return (performance.now() - started) / 1000
}

await runBench(
  {
    program: 'train_step',
    settings,
    parameters: parameterCount(config),
    work: { name: 'tokens_per_second', amount: batch * length },
    peerProgram: 'train_step.py',
    peerArguments: { batch, length },
  },
  run,
  mode,
)
