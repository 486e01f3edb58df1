/** One step of GRPO in a worker: the program that the test bundles. */

import { engineReport, selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import {
  adamW,
  child,
  GRPOLoss,
  GSM8KEnv,
  keyFromSeed,
  LLMCollector,
  loadPretrained,
  localLearner,
  MCAdvantage,
  orThrow,
  TransformersWrapper,
  tokenEnv,
  wordProblems,
} from 'tandem-rl'

const FILES = ['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja']

/** Copies the model from the server into the browser's files. */
const copyModel = async () => {
  const root = await navigator.storage.getDirectory()
  const folder = await root.getDirectoryHandle('model', { create: true })
  for (const name of FILES) {
    const answer = await fetch(new URL(`/model/${name}`, globalThis.location.origin))
    const writer = await (await folder.getFileHandle(name, { create: true })).createWritable()
    await writer.write(await answer.arrayBuffer())
    await writer.close()
  }
}

const trainOnce = async () => {
  await selectBackend({ backend: 'onnxruntime' })
  await copyModel()
  const key = keyFromSeed(1)
  const model = orThrow(await loadPretrained('model')())
  const source = wordProblems(child(key, 'tasks'), { split: 'rl' })
  const env = tokenEnv(GSM8KEnv({ source, prompts: 1, repeats: 2 }), model.text)
  const optimizer = adamW({ learningRate: 1e-4 })
  const learner = localLearner({ model, loss: GRPOLoss({ clipEpsilon: 0.2 }), optimizer, key })
  const sampling = { maxNewTokens: 16 }
  const policy = TransformersWrapper({ config: model.config, params: learner.weights(), sampling })
  const collector = LLMCollector({ env, policy, key })
  const { batch } = orThrow(await collector.collect(collector.start)())
  const { version, metrics } = orThrow(await learner.update(MCAdvantage({ groupSize: 2 })(batch.value))())
  return { engine: engineReport().version, version, gap: metrics.maxLogProbGap, tokens: metrics.tokens }
}

trainOnce().then(
  (result) => globalThis.postMessage(result),
  (error) => globalThis.postMessage({ problem: String(error.stack) }),
)
