/**
 * The suite of policies, run on the engine of this process with the model that comes with Tandem:
 * by ids, and by conversations.
 */
import { afterAll, beforeAll } from 'vitest'
import { EMBEDDED_MODEL } from '../../../../src/live/embeddedModel.js'
import type { LocalLLMEngine } from '../../../../src/modules/generation/llmEngine.js'
import { modelEngine } from '../../../../src/modules/generation/modelEngine.js'
import { enginePolicy } from '../../../../src/modules/generation/policy/enginePolicy.js'
import { historyPolicy } from '../../../../src/modules/historyPolicy.js'
import { localClient } from '../../../../src/modules/remote/localClient.js'
import { useEngine } from '../../../kit/engine.js'
import { askHistories, engineAbilities, engineAsk, engineSampling } from '../../../kit/policySubjects.js'
import { policySuite } from '../../../kit/policySuite.js'
import type { PolicySubject } from '../../../kit/policySuiteParts.js'
import { type PolicyWorld, policyWorld } from '../../../kit/policySuiteWorld.js'

useEngine()

const limits = { maxModelLength: 512, memoryBytes: 2 ** 26 }

let world: PolicyWorld
let engine: LocalLLMEngine

beforeAll(async () => {
  world = await policyWorld(EMBEDDED_MODEL)
  const { config, params, text } = world
  engine = modelEngine({ config, params, version: 3, tokenizer: text.tokenizer, limits })
})
afterAll(async () => {
  await engine.close()
  world.close()
})

const subjectOf = (asks: Pick<PolicySubject, 'ask' | 'score'>): PolicySubject => ({
  ...asks,
  world,
  tolerance: 3e-5,
  maxLength: limits.maxModelLength,
  version: 3,
  draws: 120,
  running: async () => (await engine.metrics()).running,
  close: async () => {},
})

policySuite('the policy of an engine in this process', {
  can: engineAbilities('all'),
  make: async () => subjectOf(engineAsk(world, localClient(engine, 'in process'))),
})

policySuite('historyPolicy over an engine in this process', {
  can: { ...engineAbilities('all'), scoring: 'absent' },
  make: async () => {
    const { tokenizer, template } = world.text
    const client = localClient(engine, 'in process')
    return subjectOf({
      ask: askHistories((sampling) =>
        historyPolicy({ policy: enginePolicy({ engine: client, ...engineSampling(sampling) }), tokenizer, template }),
      ),
    })
  },
})
