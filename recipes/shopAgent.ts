/** A tiny model learns by GRPO to buy what was asked for. Needs the package `@tandem-rl/agents`. */
import { AsyncVerlConfig, AutoAgent } from '@tandem-rl/agents'
import { History, type Message, message, textOf } from '@tandem-rl/text'
import * as S from '@tandem-rl/tools'
import * as T from 'tandem-rl'
import { BARE_CHAT, makeParams } from 'tandem-rl/models'
import { worldReward } from 'tandem-rl/rewards'

const settings = T.withDefaults(T.policySettings.omit({ model: true }), {
  ...{ steps: 16, tasks: { prompts: 16, group: 8 }, sampling: { maxNewTokens: 24 }, learner: { learningRate: 1e-3 } },
  keep: { evalTasks: 32 },
}).extend({
  agent: T.z.enum(['react', 'code']).default('react').describe('how the agent writes calls'),
  shown: T.z.number().int().positive().default(16_000).describe('visits for training the start model'),
})
type Chosen = T.z.output<typeof settings>
/** Eight kinds of things, four of each, in four colors. */
const options = { color: ['red', 'blue', 'green', 'black'] }
const catalogue = S.shopCatalogue({ types: 8, products: 4 }).map((product) => ({ ...product, options }))
const world = S.shopWorld(catalogue)

/** The goals of the shop, each once: every fourth is held out for evaluation. */
const drawn = Array.from({ length: 1000 }, (_, i) => T.orThrow(S.shopTasks(T.keyFromSeed(0), catalogue).at(i)))
const goals = [...new Map(drawn.map((goal) => [goal.query, goal])).values()]
const [heldOut, training] = [goals.filter((_, i) => i % 4 === 0), goals.filter((_, i) => i % 4 > 0)]

/** The format of an action and the prefix of its result, by agent. */
const WRITTEN = {
  react: { call: 'Action: code_interpreter\nInput: {}', result: 'Observation: ' },
  code: { call: '```python\n{}\n```', result: 'Output: ' },
}

/** The state at the beginning of a visit. */
const opened = ({ goal }: S.ShopTask): S.ShopState => ({ goal, page: { _tag: 'Search' } })

/** The actions of a careless visitor, who often takes any product that was found, or red. */
const careless = (task: S.ShopTask, key: T.Key): readonly string[] => {
  const [search, product, color, buy] = S.shopSolution(task) as readonly [string, string, string, string] // one option
  const results = world.act(opened(task), search).actions.slice(0, -1)
  const any = results[T.uniformInteger(key, results.length, 0)]!
  return [search, T.uniform(key, 1) < 0.25 ? any : product, T.uniform(key, 2) < 0.55 ? 'click[red]' : color, buy]
}

/** A visit for training the start model: actions and the pages that they lead to. */
const visitOf = (task: S.ShopTask, chosen: Chosen, key: T.Key): History => {
  const { call, result } = WRITTEN[chosen.agent]
  const messages: Message[] = [message('user', task.query)]
  let state = opened(task)
  for (const action of careless(task, key)) {
    const view = world.act(state, action)
    state = view.state
    messages.push(message('assistant', call.replace('{}', action)))
    if (!view.done) messages.push(message('user', `${result}${view.observation}`))
  }
  return History(messages)
}

const startModel = async (chosen: Chosen) => {
  const key = T.child(T.keyFromSeed(chosen.seed), 'visits')
  const conversation = (i: number) =>
    visitOf(training[T.uniformInteger(T.child(key, i), training.length, 9)]!, chosen, T.child(key, i))
  const texts = Array.from({ length: 200 }, (_, i) => conversation(i).messages.map(textOf).join('\n'))
  const warmUp = { batch: 32, warmUpSteps: Math.min(20, Math.ceil(chosen.shown / 32) - 1) }
  const made = T.makeModel({
    ...{ family: 'gpt2', sizes: { hiddenSize: 64, layers: 1, heads: 4, maxPositions: 512 } },
    tokenizer: { texts, vocabularySize: 600, format: BARE_CHAT },
    key: T.child(T.keyFromSeed(chosen.seed), 'model'),
    stages: [{ name: 'visits', conversations: chosen.shown, learningRate: 5e-3, ...warmUp, conversation }],
  })
  return T.orThrow(await made())
}

/** The agent. Its backend is the trainer's engine, or none where only its environment is played. */
const agentOf = (chosen: Chosen, backendConfig = AsyncVerlConfig()) =>
  AutoAgent.fromConfig({
    ...{ agentType: chosen.agent, modelNameOrPath: 'tiny', systemPrompt: '', backendConfig },
    tools: [S.worldTool(world, { name: 'code_interpreter' })],
    rewardFn: worldReward({ tool: 'code_interpreter' }),
  })

export const recipe = T.defineRecipe({
  name: 'shopAgent',
  summary: 'Make a tiny model and train it by GRPO as an agent that buys what was asked for in a small shop.',
  settings,
  build: async (chosen, context) => {
    const env = (source: T.TaskSource) => (part: T.TaskContext) => agentOf(chosen).env({ source, ...part, maxTurns: 5 })
    const source = T.shuffled(T.taskList('goals', training), T.child(T.keyFromSeed(chosen.seed), 'order'))
    const evaluated = [{ env: env(T.taskList('held-out goals', heldOut)) }]
    const parts = T.grpoParts(chosen, { model: await startModel(chosen), env: env(source), heldOut: evaluated })
    return T.defineRun(parts, context)
  },
  agent: async (chosen) => {
    const { config, arrays, text } = await startModel(chosen)
    const { maxNewTokens, temperature } = chosen.sampling
    const engine = T.TransformersWrapper({ config, params: makeParams(arrays) })
    const agent = agentOf(chosen, AsyncVerlConfig({ engine, text, maxNewTokens, temperature }))
    return { agent, messages: (i) => ({ ...heldOut[i % heldOut.length]! }), maxTurns: 5 }
  },
})
