/** Real batches of a collector: the learner takes the steps that rows and step functions take. */
import { pipe } from 'fp-ts/lib/function.js'
import { expect, it } from 'vitest'
import { groupRows, trainingRows } from '../../../src/collectors/groups.js'
import { localLearner } from '../../../src/collectors/learners/localLearner.js'
import { LLMCollector } from '../../../src/collectors/llmCollector.js'
import { trainStep } from '../../../src/collectors/trainStep.js'
import { inProcessUpdater } from '../../../src/collectors/weightSync.js'
import { keyFromSeed } from '../../../src/core/key.js'
import { wordProblems } from '../../../src/data/datasets/wordProblems/wordProblems.js'
import { own, scope } from '../../../src/engine/scope.js'
import { GSM8KEnv } from '../../../src/envs/gsm8kEnv.js'
import { tokenEnv } from '../../../src/envs/tokenEnv.js'
import { PolicyVersion } from '../../../src/envs/transforms/policyVersion.js'
import { append } from '../../../src/envs/transforms/transform.js'
import { hostArrays } from '../../../src/modules/pretrained.js'
import { sharedParams } from '../../../src/modules/sharedParams.js'
import { TransformersWrapper } from '../../../src/modules/transformersWrapper.js'
import { groupGatherer } from '../../../src/objectives/advantages/groupGatherer.js'
import { MCAdvantage } from '../../../src/objectives/advantages/mcAdvantage.js'
import { GRPOLoss } from '../../../src/objectives/grpoLoss.js'
import { adamW } from '../../../src/objectives/updates/adamW.js'
import { useEngine } from '../../kit/engine.js'
import { rightOf } from '../../kit/results.js'
import { answeringModel } from '../../kit/runs.js'

useEngine({ threads: 1 })
const key = keyFromSeed(3)

it('three steps on word problems: the same weights, bit for bit', async () => {
  const model = await answeringModel()
  const { config, text } = model
  using shared = sharedParams(model)
  const policy = TransformersWrapper({ config, params: shared.value, sampling: { maxNewTokens: 8 } })
  const problems = tokenEnv(GSM8KEnv({ source: wordProblems(key, { split: 'rl' }), prompts: 3, repeats: 4 }), text)
  const collector = LLMCollector({ env: pipe(problems, append(PolicyVersion())), policy, key })

  const learner = localLearner({ model, loss: GRPOLoss(), optimizer: adamW({ learningRate: 1e-2 }), key })
  const advantage = MCAdvantage({ groupSize: 4 })
  const updater = inProcessUpdater(policy)
  const step = trainStep({ config, optimizer: adamW(), loss: GRPOLoss() })
  let state = own(scope(() => step.init(shared.value)))

  let position = collector.start
  let moved = 0
  for (let n = 1; n <= 3; n++) {
    const collected = await rightOf(collector.collect(position))
    using batch = collected.batch
    position = collected.position
    using rated = own(scope(() => advantage(batch.value)))
    const { metrics } = await rightOf(learner.update(rated.value))

    const grouped = groupRows(batch.value, groupGatherer({ groupSize: 4 }))
    const next = step.update(state.value, trainingRows(batch.value, grouped), 1e-2)
    state.release()
    state = next.state
    expect(metrics).toEqual(next.metrics)
    expect(hostArrays(learner.weights())).toEqual(hostArrays(state.value.params))
    moved += metrics.gradNorm
    await rightOf(updater.push(learner.weights(), n))
  }
  expect(moved).toBeGreaterThan(0) // there was something to learn
  await learner.close()
  state.release()
  step.release()
  policy.release()
})
