import { pipe } from 'fp-ts/lib/function.js'
import * as T from 'tandem-rl'

/** `npx tsx examples/calculator.ts [steps] [conversations]`: a small model first sees how a calculator is called, and then learns that it pays. */
const [steps, shown] = [Number(process.argv[2] ?? 12), Number(process.argv[3] ?? 6400)]
const key = T.keyFromSeed(1)
const model = await T.orThrow(T.loadPretrained(T.EMBEDDED_MODEL))
const { text } = model

/** Sums and products that the model cannot do in its head. Even indices are for learning, odd ones for tests. */
const sumAt = (index: number): T.Task => {
  const at = T.child(T.child(key, 'sums'), index)
  const [a, b] = [10 + T.uniformInteger(at, 90, 0), 10 + T.uniformInteger(at, 90, 1)]
  const [sign, value] = T.uniform(at, 2) < 0.5 ? ['*', a * b] : ['+', a + b]
  return { id: `${a} ${sign} ${b}`, query: `What is ${a} ${sign} ${b}?`, answer: `#### ${value}` }
}
const sums = (split: 'rl' | 'heldOut') => T.endlessTasks(split, (i) => sumAt(2 * i + (split === 'rl' ? 0 : 1)))

const registry = T.ToolRegistry([T.calculator()])
const env = (source: T.TaskSource, prompts: number, repeats: number) =>
  pipe(
    T.DatasetChatEnv({ source, prompts, repeats }),
    T.append(T.SimpleToolTransform({ registry, format: 'hermes', limits: { rounds: 3 } })),
    T.append(T.GSM8KRewardParser()),
    T.append(T.TemplateTransform({ template: text.template, endOfTurn: text.endOfTurn })),
    T.append(T.Tokenizer({ tokenizer: text.tokenizer })),
  )

/** What the model is shown: three of five conversations guess, the others call the calculator. */
const conversationAt = (index: number): T.History => {
  const { id, query, answer } = sumAt(2 * index)
  const asked = T.History([T.message('user', query)])
  const at = T.child(T.child(key, 'habits'), index)
  if (T.uniform(at) < 0.6) {
    const guess = 20 + T.uniformInteger(at, 5000, 1)
    return T.appendMessage(asked, T.message('assistant', `<answer>${guess}</answer>`))
  }
  const call = { name: 'calculator', arguments: { expression: id } }
  const value = answer.replace('#### ', '')
  return [
    T.message('assistant', `<tool_call>${JSON.stringify(call)}</tool_call>`),
    T.toolResult(call, value),
    T.message('assistant', `<answer>${value}</answer>`),
  ].reduce(T.appendMessage, asked)
}

const stage = { name: 'calls', conversation: conversationAt, conversations: shown, learningRate: 2e-3 }
const taught = await T.orThrow(
  T.trainModel(
    { model, stages: shown === 0 ? [] : [{ ...stage, warmUpSteps: Math.min(20, shown / 64 - 1) }] },
    (event) => {
      if (event.type === 'step' && event.step % 10 === 1)
        console.log(`shown ${64 * event.step}: nll ${event.nll.toFixed(3)}`)
    },
  ),
)

const loss = T.GRPOLoss({ clipEpsilon: 0.2 })
const learner = T.localLearner({ model: taught, loss, optimizer: T.adamW({ learningRate: 1e-4 }), key })
const policy = T.TransformersWrapper({ config: taught.config, params: learner.weights(), sampling: { maxNewTokens: 80 } })

/** Share of held-out sums that are answered right, and of those that are answered after a call. */
const test = async (): Promise<string> => {
  const collector = T.LLMCollector({ env: env(sums('heldOut'), 200, 1), policy, key: T.child(key, 'test') })
  const collected = T.orThrow(await collector.collect(collector.start)())
  using batch = collected.batch
  const share = (rows: ArrayLike<number>): string => (Array.from(rows).reduce((a, b) => a + b, 0) / 200).toFixed(3)
  const right = share(T.get(batch.value, 'next', 'success').dataSync())
  const calling = T.get(batch.value, 'turn').items.filter((turn) => turn === 1).size / 200
  return `right ${right}, after a call ${calling.toFixed(3)}`
}
console.log(`before: ${await test()}`)

const collector = T.LLMCollector({ env: env(sums('rl'), 16, 8), policy, key: T.child(key, 'rollouts') })
const advantage = T.MCAdvantage({ groupSize: 8 })
const updater = T.inProcessUpdater(policy)
if (steps > 0)
  for await (const batch of collector) {
    const { version } = await T.orThrow(learner.update(advantage(batch)))
    await T.orThrow(updater.push(learner.weights(), version))
    const right = T.trajectoryReturns(batch).filter((each) => each.return === 1).length
    console.log(`step ${version}: ${right} of 128 right`)
    if (version === steps) break
  }
console.log(`after: ${await test()}`)
