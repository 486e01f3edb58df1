import * as T from 'tandem-rl'

const steps = Number(process.argv[2] ?? 20)
const key = T.keyFromSeed(1)
const model = await T.orThrow(T.loadPretrained(T.EMBEDDED_MODEL))

const env = T.pipe(
  T.GSM8KEnv({ source: T.wordProblems(T.child(key, 'tasks'), { split: 'rl' }), prompts: 16, repeats: 8 }),
  T.append(T.TemplateTransform(model.text)),
  T.append(T.Tokenizer(model.text)),
)
const optimizer = T.adamW({ learningRate: 1e-4 })
const learner = T.localLearner({ model, loss: T.GRPOLoss({ clipEpsilon: 0.2 }), optimizer, key })
const sampling = { maxNewTokens: 64 }
const policy = T.TransformersWrapper({ config: model.config, params: learner.weights(), sampling })
const advantage = T.MCAdvantage({ groupSize: 8 })
const updater = T.inProcessUpdater(policy)

for await (const batch of T.LLMCollector({ env, policy, key: T.child(key, 'rollouts') })) {
  const rated = advantage(batch)
  const { version } = await T.orThrow(learner.update(rated))
  await T.orThrow(updater.push(learner.weights(), version))
  const right = T.TD.get(batch, 'next', 'success').dataSync()
  console.log(`step ${version}: ${right.filter((x) => x === 1).length} of ${right.length} right`)
  if (version === steps) break
}
