/** The policy suite on `tandem serve` over real sockets. */
import { keyFromSeed } from '@tandem-rl/base'
import { serveApp } from '@tandem-rl/serve'
import { afterAll, beforeAll } from 'vitest'
import { EMBEDDED_MODEL } from '../../../src/live/embeddedModel.js'
import type { LocalLLMEngine } from '../../../src/modules/generation/llmEngine.js'
import { modelEngine } from '../../../src/modules/generation/modelEngine.js'
import { useEngine } from '../../kit/engine.js'
import { engineAbilities } from '../../kit/policySubjects.js'
import { policySuite } from '../../kit/policySuite.js'
import { type PolicyWorld, policyWorld } from '../../kit/policySuiteWorld.js'
import { useServers } from '../../kit/served.js'
import {
  aiSDKSubject,
  chatAbilities,
  FAULTS,
  openAISubject,
  type ServedModel,
  vLLMSubject,
} from '../../kit/servedSubjects.js'

useEngine()
const listen = useServers()

const API_KEY = 'a key that opens'
const LIMITS = { maxModelLength: 1024, memoryBytes: 2 ** 26 }

let world: PolicyWorld
let engine: LocalLLMEngine
let served: ServedModel

beforeAll(async () => {
  world = await policyWorld(EMBEDDED_MODEL)
  const { config, params, text } = world
  engine = modelEngine({ config, params, tokenizer: text.tokenizer, limits: LIMITS })
  const app = serveApp({
    engine,
    text,
    model: { names: ['policy'], root: EMBEDDED_MODEL },
    key: keyFromSeed(0),
    access: { apiKeys: [API_KEY] },
    features: { control: 'on' },
    limits: { maxLogProbs: -1 },
  })
  const { url } = await listen(app)
  served = {
    ...{ url, model: 'policy', apiKey: API_KEY, world, maxLength: LIMITS.maxModelLength, version: 0 },
    logProbsMode: 'raw',
    tolerance: 2e-5,
    draws: 60,
    running: async () => (await engine.metrics()).running,
  }
})
afterAll(async () => {
  await engine.close()
  world.close()
})

policySuite('vLLMWrapper at tandem serve', {
  can: engineAbilities('raw'),
  faults: FAULTS,
  make: async () => vLLMSubject(served, 'generate'),
})

for (const capture of ['tokens', 'text'] as const) {
  policySuite(`OpenAIWrapper at tandem serve, ${capture}`, {
    can: chatAbilities(capture),
    faults: FAULTS,
    make: async () => openAISubject(served, capture),
  })

  policySuite(`aiSDKWrapper at tandem serve, ${capture}`, {
    can: chatAbilities(capture),
    faults: FAULTS,
    make: async () => aiSDKSubject(served, capture),
  })
}
