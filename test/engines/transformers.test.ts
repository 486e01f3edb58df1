/** The policy suite on a real `transformers serve`: `npm run verify -- engines`. */
import { useEngine } from '../kit/engine.js'
import { engineTarget } from '../kit/engineTarget.js'
import { policySuite } from '../kit/policySuite.js'
import { policyWorld } from '../kit/policySuiteWorld.js'
import { chatAbilities, openAISubject } from '../kit/servedSubjects.js'

useEngine()

const { url, model, apiKey, folder } = engineTarget()

policySuite('OpenAIWrapper at transformers serve', {
  can: {
    ...chatAbilities('text'),
    // It knows OpenAI's fields only, answers others with 422, and leaves out a part of those it knows without a word.
    ...{ topK: 'refused', minP: 'refused', allowedTokens: 'refused', minTokens: 'refused', penalties: 'refused' },
    contextLimit: 'absent',
  },
  faults: ['unknown model', 'dead server'],
  make: async () => {
    const world = await policyWorld(folder)
    const server = { url, model, apiKey, world, maxLength: world.config.maxPositions, version: 0 }
    const subject = openAISubject({ ...server, logProbsMode: 'raw', tolerance: 1e-3, draws: 60 }, 'text')
    return {
      ...subject,
      stopText: 'kept',
      close: async () => {
        await subject.close()
        world.close()
      },
    }
  },
})
