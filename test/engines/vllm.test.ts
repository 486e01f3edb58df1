/** The policy suite on a real vLLM: `npm run verify -- engines`. */
import { afterAll, beforeAll } from 'vitest'
import { useEngine } from '../kit/engine.js'
import { engineTarget, runningAt } from '../kit/engineTarget.js'
import { engineAbilities } from '../kit/policySubjects.js'
import { policySuite } from '../kit/policySuite.js'
import { type PolicyWorld, policyWorld } from '../kit/policySuiteWorld.js'
import {
  aiSDKSubject,
  chatAbilities,
  FAULTS,
  openAISubject,
  type ServedModel,
  vLLMSubject,
} from '../kit/servedSubjects.js'

useEngine()

const { url, model, apiKey, folder, logProbsMode } = engineTarget()

let world: PolicyWorld
let served: ServedModel

beforeAll(async () => {
  world = await policyWorld(folder)
  served = {
    ...{ url, model, apiKey, world, maxLength: 1024, version: 0 },
    logProbsMode,
    tolerance: 1e-3,
    draws: 100,
    running: runningAt(url),
  }
})
afterAll(() => world.close())

for (const endpoint of ['generate', 'completions'] as const) {
  policySuite(`vLLMWrapper by ${endpoint}`, {
    can: engineAbilities(logProbsMode),
    faults: FAULTS,
    make: async () => vLLMSubject(served, endpoint),
  })
}

for (const capture of ['tokens', 'text'] as const) {
  policySuite(`OpenAIWrapper, ${capture}`, {
    can: chatAbilities(capture, logProbsMode),
    faults: FAULTS,
    make: async () => openAISubject(served, capture),
  })

  // The settings of aiSDKWrapper have no word for processed log-probabilities.
  if (capture === 'tokens' && logProbsMode === 'processed') continue
  policySuite(`aiSDKWrapper, ${capture}`, {
    can: chatAbilities(capture),
    faults: FAULTS,
    make: async () => aiSDKSubject(served, capture),
  })
}
