/**
 * Checkpoints of a custom loop: bit-exact resume, and rejection of damaged files by name.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { child, keyFromSeed, describe as sentence } from '@tandem-rl/base'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { describe, expect, it } from 'vitest'
import { LLMCollector } from '../../src/collectors/llmCollector.js'
import { inProcessUpdater } from '../../src/collectors/weightSync.js'
import { GSM8KEnv } from '../../src/envs/gsm8kEnv.js'
import { tokenEnv } from '../../src/envs/tokenEnv.js'
import { localLearner } from '../../src/learners/localLearner.js'
import { loadPretrained, type Pretrained } from '../../src/modules/pretrained/pretrained.js'
import { sharedParams } from '../../src/modules/pretrained/sharedParams.js'
import { TransformersWrapper } from '../../src/modules/transformersWrapper.js'
import { MCAdvantage } from '../../src/objectives/advantages/mcAdvantage.js'
import { GRPOLoss } from '../../src/objectives/grpoLoss.js'
import { adamW } from '../../src/objectives/updates/adamW.js'
import { loadCheckpoint, saveCheckpoint } from '../../src/run/store/loopCheckpoint.js'
import { tasks } from '../kit/conversation.js'
import { useEngine } from '../kit/engine.js'
import { smallModel } from '../kit/learners.js'
import { leftOf, rightOf } from '../kit/results.js'
import { useTemporaryFolder } from '../kit/runs.js'

useEngine()

const path = useTemporaryFolder()
const key = keyFromSeed(5)

let made = 0
const fresh = (): string => path(`checkpoints${made++}`)

const parts = (model: Pretrained) => {
  using shared = sharedParams(model)
  const sampling = { maxNewTokens: 6 }
  const policy = TransformersWrapper({ config: model.config, params: shared.value, sampling })
  const env = tokenEnv(GSM8KEnv({ source: tasks(9), prompts: 1, repeats: 2 }), model.text)
  const learner = localLearner({
    ...{ model, key: child(key, 'learner') },
    loss: GRPOLoss({ clipEpsilon: 0.2 }),
    optimizer: adamW({ learningRate: 1e-2 }),
  })
  const collector = LLMCollector({ env, policy, key: child(key, 'rollouts') })
  const close = async (): Promise<void> => {
    await learner.close()
    policy.release()
  }
  return { learner, policy, collector, close }
}

/** A loop as a user writes it: to so many steps, with a checkpoint after each. */
const loop = async (model: Pretrained, folder: string, steps: number) => {
  const { learner, policy, collector, close } = parts(model)
  const updater = inProcessUpdater(policy)
  const advantage = MCAdvantage({ groupSize: 2 })
  let { step, position } = await rightOf(loadCheckpoint(folder, { learner, position: collector.start }))
  const first = step
  if (step > 0) await rightOf(updater.push(learner.weights(), learner.version()))
  for (; step < steps; step++) {
    const collected = await rightOf(collector.collect(position))
    using batch = collected.batch
    using rated = own(scope(() => advantage(batch.value)))
    const { version } = await rightOf(learner.update(rated.value))
    await rightOf(updater.push(learner.weights(), version))
    position = collected.position
    await rightOf(saveCheckpoint(folder, { learner, step: step + 1, position }))
  }
  const files = learner.files()
  await close()
  return { files, position, first }
}

describe('saveCheckpoint and loadCheckpoint', () => {
  it('a resumed loop ends with the weights, optimizer and position of an uninterrupted one', async () => {
    const model = await smallModel()
    const whole = await loop(model, fresh(), 4)
    const folder = fresh()
    await loop(model, folder, 2)
    const resumed = await loop(model, folder, 4)
    expect([whole.first, resumed.first]).toEqual([0, 2])
    expect(resumed.position).toEqual(whole.position)
    expect(Object.keys(resumed.files)).toEqual(Object.keys(whole.files))
    for (const [name, contents] of Object.entries(whole.files)) expect(resumed.files[name], name).toEqual(contents)
    expect(readdirSync(folder)).toEqual(['step-000003', 'step-000004']) // the newest two
  })

  it('a checkpoint is a model that loadPretrained reads, and can be named by its own path', async () => {
    const [model, folder] = [await smallModel(), fresh()]
    const { learner, close } = parts(model)
    const saved = await rightOf(saveCheckpoint(folder, { learner, step: 7, position: null }))
    await rightOf(saveCheckpoint(folder, { learner, step: 8, position: { at: 8 } }))
    const { config, arrays } = await rightOf(loadPretrained(saved))
    expect([config.architecture, [...arrays.keys()]]).toEqual([model.config.architecture, [...model.arrays.keys()]])
    expect(await rightOf(loadCheckpoint(folder, { learner, position: { at: 0 } }))).toEqual({
      step: 8,
      position: { at: 8 },
    })
    expect(await rightOf(loadCheckpoint(saved, { learner, position: null }))).toEqual({ step: 7, position: null })
    await close()
  })

  it('a file that was changed is refused by its name, and the learner stays as it is', async () => {
    const [model, folder] = [await smallModel(), fresh()]
    const { learner, close } = parts(model)
    const before = learner.files()
    const saved = await rightOf(saveCheckpoint(folder, { learner, step: 1, position: null }))
    const file = `${saved}/optimizer.safetensors`
    const bytes = readFileSync(file)
    bytes[bytes.length - 1]! ^= 1
    writeFileSync(file, bytes)
    const failure = await leftOf(loadCheckpoint(folder, { learner, position: null }))
    expect(sentence(failure)).toMatch(/step-000001.*optimizer\.safetensors.*not those that were saved/)
    expect(learner.files()).toEqual(before)
    await close()
  })

  it('is refused for another model, and for what is not a step, a position or a number to keep', async () => {
    const folder = fresh()
    const [small, other] = [parts(await smallModel()), parts(await rightOf(loadPretrained('embedded')))]
    await rightOf(saveCheckpoint(folder, { learner: small.learner, step: 1, position: null }))
    const failure = await leftOf(loadCheckpoint(folder, { learner: other.learner, position: null }))
    expect(sentence(failure)).toMatch(/step-000001 cannot be used: the weights: .* is \[512,8\], expected \[512,128\]/)
    const save = (changes: object) => () =>
      saveCheckpoint(folder, { ...{ learner: small.learner, step: 1, position: null }, ...changes })
    expect(save({ step: -1 })).toThrow('saveCheckpoint: step must be a count of steps, got -1')
    expect(save({ keep: 0 })).toThrow('keep must be a positive integer, got 0')
    expect(save({ position: { at: new Date(0) } })).toThrow('position must be JSON data')
    for (const { close } of [small, other]) await close()
  })
})
