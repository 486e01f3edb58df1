import { pipe } from 'fp-ts/lib/function.js'
import * as T from 'tandem-rl'

const steps = Number(process.argv[2] ?? 20)
const key = T.keyFromSeed(1)
const { config, text, arrays } = await T.orThrow(T.loadPretrained(T.EMBEDDED_MODEL))

const env = pipe(
  T.GSM8KEnv({ source: T.wordProblems(T.child(key, 'tasks'), { split: 'rl' }), prompts: 16, repeats: 8 }),
  T.append(T.TemplateTransform({ template: text.template, endOfTurn: text.endOfTurn })),
  T.append(T.Tokenizer({ tokenizer: text.tokenizer })),
)
const first = T.scope(() => T.own(T.makeParams(arrays)))
const policy = T.TransformersWrapper({ config, params: first.value, sampling: { maxNewTokens: 64 } })
const collector = T.LLMCollector({ env, policy, key: T.child(key, 'rollouts') })
const advantages = T.groupGatherer({ groupSize: 8 })
const learner = T.trainStep({ config, optimizer: T.adamW(), loss: { clipEpsilon: [0.2, 0.2] } })
const updater = T.inProcessUpdater(policy)

let state = T.own(T.scope(() => learner.init(first.value)))
let version = 0
for await (const batch of collector) {
  const rows = T.trainingRows(batch, T.groupRows(batch, advantages))
  const update = learner.update(state.value, rows, 1e-4)
  state.release()
  state = update.state
  await T.orThrow(updater.push(state.value.params, ++version))
  const right = T.get(batch, 'next', 'success').dataSync()
  console.log(`step ${version}: ${right.filter((x) => x === 1).length} of ${right.length} right`)
  if (version === steps) break
}
