/** The work of an engine: requests of mixed lengths, a number of them at a time. */
import { keyFromSeed } from '@tandem-rl/base'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { modelEngine } from '../../src/modules/generation/modelEngine.js'
import type { DecoderConfig } from '../../src/modules/transformer/config.js'
import { initialParams } from '../../src/modules/transformer/params.js'
import { mixedRequests, runLoad } from '../shared/engineLoad.js'
import type { TimedRun } from '../shared/settings.js'

/** Requests for each one at a time. */
const TURNS = 2

/** Makes a load on the active backend. Every run has requests of its own. */
export const serveWork = (config: DecoderConfig, { atATime }: { readonly atATime: number }): TimedRun => {
  const params = own(scope(() => initialParams(config, keyFromSeed(0))))
  const engine = modelEngine({ config, params: params.value })
  const mix = { shortest: 8, longest: 255, seed: 0, vocabulary: config.vocabularySize }
  let runs = 0
  return async () => (await runLoad(engine, mixedRequests(`${runs++}`, TURNS * atATime, mix), atATime)).seconds
}
