/** Forward and backward pass of next-token cross-entropy on random tokens: the counterpart of the peers' train_step.py. */
import * as tf from '@tensorflow/tfjs-core'
import { keyFromSeed } from '../src/core/key.js'
import { own, scope } from '../src/engine/scope.js'
import { selectBackend } from '../src/engine/select.js'
import { initialParams, parameterCount } from '../src/modules/transformer/params.js'
import { rotaryTables } from '../src/modules/transformer/rotaryTables.js'
import { makeTrainStep } from './engine/model.js'
import { benchConfig, randomIds, readOptions, runBench } from './settings.js'

const { settings, mode } = readOptions('Trains on random tokens: forward and backward pass.', {
  batch: 16,
  length: 128,
})
const { batch, length } = settings
const config = benchConfig(settings)
await selectBackend({ threads: settings.threads })

const step = makeTrainStep(config)
const params = own(scope(() => initialParams(config, keyFromSeed(0))))
const ids = randomIds(1, batch * length, config.vocabularySize)

const run = async (): Promise<number> => {
  const started = performance.now()
  scope(() => {
    const rotary = rotaryTables(config, length)
    const { loss } = step({ params: params.value, ids: tf.tensor3d(ids, [batch, 1, length], 'int32'), rotary })
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
