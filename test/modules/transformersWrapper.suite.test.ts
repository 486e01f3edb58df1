/** The policy suite on the in-process generator with the embedded model. */
import { EMBEDDED_MODEL } from '../../src/live/embeddedModel.js'
import type { GenerationOptions } from '../../src/modules/generation/generator.js'
import { TransformersWrapper } from '../../src/modules/transformersWrapper.js'
import { useEngine } from '../kit/engine.js'
import { askTokens, scoreTokens } from '../kit/policySubjects.js'
import { policySuite } from '../kit/policySuite.js'
import type { SuiteSampling } from '../kit/policySuiteParts.js'
import { policyWorld } from '../kit/policySuiteWorld.js'

useEngine()

const settings = ({ maxTokens, minTokens, ...sampling }: SuiteSampling): Omit<GenerationOptions, 'stopTokens'> => ({
  ...sampling,
  maxNewTokens: maxTokens,
  ...(minTokens !== undefined && { minNewTokens: minTokens }),
})

policySuite('TransformersWrapper', {
  can: {
    ids: 'yes',
    logProbs: 'yes',
    temperature: 'yes',
    topK: 'yes',
    topP: 'yes',
    minP: 'absent',
    penalties: 'absent',
    logitBias: 'absent',
    allowedTokens: 'absent',
    minTokens: 'yes',
    stopStrings: 'absent',
    stopTokens: 'absent',
    seeds: 'yes',
    scoring: 'yes',
    contextLimit: 'yes',
    truncation: 'absent',
    cancel: 'absent',
    versions: 'yes',
  },
  make: async () => {
    const world = await policyWorld(EMBEDDED_MODEL)
    const { config, params } = world
    const policy = TransformersWrapper({ config, params })
    return {
      world,
      ask: askTokens(world, (sampling) => policy.withSampling(settings(sampling))),
      score: scoreTokens(policy),
      tolerance: 3e-5,
      maxLength: config.maxPositions,
      version: 0,
      draws: 240,
      close: async () => {
        policy.release()
        world.close()
      },
    }
  },
})
