import * as T from 'tandem-rl'

const [steps, folder] = [Number(process.argv[2] ?? 20), process.argv[3] ?? 'runs/first']
const key = T.keyFromSeed(1)
const model = await T.orThrow(T.loadPretrained(T.EMBEDDED_MODEL))
const optimizer = T.adamW({ learningRate: 1e-4 })
const learner = T.localLearner({ model, loss: T.GRPOLoss({ clipEpsilon: 0.2 }), optimizer, key })
const sampling = { maxNewTokens: 64 }
const policy = T.TransformersWrapper({ config: model.config, params: learner.weights(), sampling })
const source = T.wordProblems(T.child(key, 'tasks'), { split: 'rl' })
const heldOut = T.heldOutProblems()

const run = T.defineRun({
  env: T.tokenEnv(T.GSM8KEnv({ source, prompts: 16, repeats: 8 }), model.text),
  policy,
  advantage: T.MCAdvantage({ groupSize: 8 }),
  learner,
  evaluate: [
    T.evaluator({
      env: ({ groups, start }) => T.tokenEnv(T.GSM8KEnv({ source: heldOut, prompts: groups, start }), model.text),
      policy: policy.withSampling({ temperature: 0 }),
      tasks: 200,
    }),
  ],
})
for await (const event of T.train(run, { steps, store: T.runFolder(folder) })) console.log(T.describeEvent(event))
