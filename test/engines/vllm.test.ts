/** What every policy does, asked of a real vLLM: `npm run test:engines`. */
import { afterAll, beforeAll } from 'vitest'
import { useEngine } from '../kit/engine.js'
import { engineTarget, runningAt } from '../kit/engineTarget.js'
import { engineAbilities } from '../kit/policySubjects.js'
import { policySuite } from '../kit/policySuite.js'
import { type PolicyWorld, policyWorld } from '../kit/policySuiteWorld.js'
import { FAULTS, openAIAbilities, openAISubject, type ServedModel, vLLMSubject } from '../kit/servedSubjects.js'

useEngine()

const { url, model, apiKey, folder, logProbsMode } = engineTarget()

let world: PolicyWorld
let served: ServedModel

beforeAll(async () => {
  world = await policyWorld(folder)
  served = {
    ...{ url, model, apiKey, world, maxLength: 1024, version: 0 },
    tolerance: 1e-3,
    draws: 400,
    running: runningAt(url),
  }
})
afterAll(() => world.close())

for (const endpoint of ['generate', 'completions'] as const) {
  policySuite(`vLLM by ${endpoint}, ${logProbsMode} log-probs`, {
    can: engineAbilities(logProbsMode),
    faults: FAULTS,
    make: async () => vLLMSubject(served, endpoint),
  })
}

if (logProbsMode === 'raw') {
  for (const capture of ['tokens', 'text'] as const) {
    policySuite(`OpenAIWrapper at vLLM, ${capture}`, {
      can: openAIAbilities(capture),
      faults: FAULTS,
      make: async () => openAISubject(served, capture),
    })
  }
}
