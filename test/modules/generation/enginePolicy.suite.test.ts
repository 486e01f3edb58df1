/** What every policy does, asked of the engine of this process with the model that comes with Tandem. */
import { EMBEDDED_MODEL } from '../../../src/live/embeddedModel.js'
import { modelEngine } from '../../../src/modules/generation/modelEngine.js'
import { localClient } from '../../../src/modules/remote/localClient.js'
import { useEngine } from '../../kit/engine.js'
import { engineAbilities, engineAsk } from '../../kit/policySubjects.js'
import { policySuite } from '../../kit/policySuite.js'
import { policyWorld } from '../../kit/policySuiteWorld.js'

useEngine()

policySuite('the policy of an engine in this process', {
  can: engineAbilities('all'),
  make: async () => {
    const world = await policyWorld(EMBEDDED_MODEL)
    const { config, params, text } = world
    const limits = { maxModelLength: 512, memoryBytes: 2 ** 26 }
    const engine = modelEngine({ config, params, version: 3, tokenizer: text.tokenizer, limits })
    return {
      world,
      ...engineAsk(world, localClient(engine, 'in process')),
      tolerance: 2e-5,
      maxLength: limits.maxModelLength,
      version: 3,
      draws: 240,
      running: async () => (await engine.metrics()).running,
      close: async () => {
        await engine.close()
        world.close()
      },
    }
  },
})
