/** The work of a training step: forward and backward pass of next-token cross-entropy. */
import { keyFromSeed } from '@tandem-rl/base'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import type { DecoderConfig } from '../../src/modules/transformer/config.js'
import { initialParams } from '../../src/modules/transformer/params.js'
import { rotaryTables } from '../../src/modules/transformer/rotaryTables.js'
import { makeTrainStep } from '../engine/model.js'
import { randomIds, type TimedRun } from '../shared/settings.js'

/** Makes a step on the active backend. */
export const trainWork = (
  config: DecoderConfig,
  { batch, length }: { readonly batch: number; readonly length: number },
): TimedRun => {
  const step = makeTrainStep(config)
  const params = own(scope(() => initialParams(config, keyFromSeed(0))))
  const ids = randomIds(1, batch * length, config.vocabularySize)
  return async () => {
    const started = performance.now()
    scope(() => {
      const rotary = rotaryTables(config, length)
      const { loss } = step({ params: params.value, ids: tf.tensor3d(ids, [batch, 1, length], 'int32'), rotary })
      return loss.dataSync()
    })
    return (performance.now() - started) / 1000
  }
}
