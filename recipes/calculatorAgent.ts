/** A tiny model learns by GRPO to call a calculator. Needs the package `@tandem-rl/agents`. */
import { type AgentOptions, AsyncVerlConfig, AutoAgent, agentMonitor } from '@tandem-rl/agents'
import { History, message } from '@tandem-rl/text'
import { calculator } from '@tandem-rl/tools'
import * as T from 'tandem-rl'
import type { AgentTask } from 'tandem-rl/datasets'
import { type ChatFormat, makeParams } from 'tandem-rl/models'

const settings = T.withDefaults(T.policySettings.omit({ model: true }), {
  ...{ steps: 8, tasks: { prompts: 16, group: 8 }, sampling: { maxNewTokens: 24 }, learner: { learningRate: 1e-3 } },
  keep: { evalTasks: 72 },
}).extend({
  agent: T.z.enum(['react', 'code']).default('react').describe('how the agent writes calls'),
  shown: T.z.number().int().positive().default(12_800).describe('conversations for training the start model'),
})
type Chosen = T.z.output<typeof settings>

/** A chat format whose only marker is the end of the model's turn. */
const FORMAT: ChatFormat = {
  template:
    "{% for message in messages %}{{ message.content }}{% if message.role == 'assistant' %}<|end|>{% else %}{{ '\\n' }}{% endif %}{% endfor %}",
  specialTokens: ['<|pad|>', '<|end|>'],
  endOfTurn: '<|end|>',
  padToken: '<|pad|>',
}

/** Sums whose values have two digits: every fifth of the 360 is held out for evaluation. */
const sums = Array.from({ length: 360 }, (_, i) => {
  const [a, b, c] = [4 + Math.floor(i / 60), 4 + (Math.floor(i / 10) % 6), i % 10]
  const id = `${a}*${b}+${c}`
  return { id, query: `What is ${id}?`, answer: String(a * b + c), isHeldOut: (a + b + c) % 5 === 0 }
})
const [heldOut, training] = [sums.filter((sum) => sum.isHeldOut), sums.filter((sum) => !sum.isHeldOut)]

/** The format of a call, and the prefixes of its result and of the answer, by agent. */
const WRITTEN = {
  react: { call: 'Action: code_interpreter\nInput: {}', result: 'Observation: ', final: 'Final Answer: ' },
  code: { call: '```python\n{}\n```', result: 'Output: ', final: 'It is ' },
}

/** A conversation for training the start model: three of five guess, the others call the tool. */
const conversationOf = ({ id, query, answer }: T.Task, chosen: Chosen, key: T.Key): History => {
  const [{ call, result, final }, asked] = [WRITTEN[chosen.agent], message('user', query)]
  if (T.uniform(key) < 0.6)
    return History([asked, message('assistant', `${final}${16 + T.uniformInteger(key, 75, 1)}`)])
  const called = [message('assistant', call.replace('{}', id)), message('user', `${result}${answer}`)]
  return History([asked, ...called, message('assistant', final + answer)])
}

/** Words and digits become tokens. The model learns positions, to copy from fixed places. */
const texts = Object.values(WRITTEN).flatMap((written) => ['What is ?\n', ...Object.values(written)])

const startModel = (chosen: Chosen, { onProgress }: T.BuildContext) => {
  const key = T.child(T.keyFromSeed(chosen.seed), 'habits')
  const conversation = (i: number) =>
    conversationOf(training[T.uniformInteger(T.child(key, i), training.length, 2)]!, chosen, T.child(key, i))
  const stage = { name: 'calls', conversation, conversations: chosen.shown, batch: 32, learningRate: 5e-3 }
  const options = {
    ...{ family: 'gpt2' as const, sizes: { hiddenSize: 64, layers: 1, heads: 4, maxPositions: 256 } },
    tokenizer: { texts, vocabularySize: 420, format: FORMAT },
    key: T.child(T.keyFromSeed(chosen.seed), 'model'),
    stages: [{ ...stage, warmUpSteps: Math.min(20, Math.ceil(chosen.shown / 32) - 1) }],
  }
  const made = T.makeModel(options, (event) => {
    if (event.type === 'step' && event.step % 50 === 0)
      onProgress?.(`start model: step ${event.step} of ${event.steps}, nll ${event.nll.toFixed(3)}`)
  })
  return T.orThrow(made)
}

/** The agent. Its backend is the trainer's engine, or none where only its environment is played. */
const agentOf = (chosen: Chosen, { backendConfig = AsyncVerlConfig(), ...given }: Partial<AgentOptions<AgentTask>>) =>
  AutoAgent.fromConfig<AgentTask>({
    ...{ agentType: chosen.agent, modelNameOrPath: 'tiny', systemPrompt: '', backendConfig, ...given },
    tools: [calculator({ name: 'code_interpreter' })],
    rewardFn: ({ prediction, answer }) => (prediction.replace(/^(?:Final Answer:|It is) /, '') === answer ? 1 : 0),
  })

export const recipe = T.defineRecipe({
  name: 'calculatorAgent',
  summary: 'Make a tiny model and train it by GRPO as an agent that calls a calculator.',
  settings,
  build: async (chosen, context) => {
    const { metrics, ...toolOptions } = agentMonitor() // `onCall`, for training alone
    const env = (source: T.TaskSource, given: Partial<AgentOptions<AgentTask>>) => (tasks: T.TaskContext) =>
      agentOf(chosen, given).env({ source, ...tasks, maxTurns: 3 })
    const source = T.shuffled(T.taskList('sums', training), T.child(T.keyFromSeed(chosen.seed), 'order'))
    const held = [{ env: env(T.taskList('held-out sums', heldOut), {}) }]
    const parts = { metrics, env: env(source, { toolOptions }), heldOut: held }
    return T.defineRun(T.grpoParts(chosen, { model: await startModel(chosen, context), ...parts }), context)
  },
  agent: async (chosen, context) => {
    const { config, arrays, text } = await startModel(chosen, context)
    const { maxNewTokens, temperature } = chosen.sampling
    const engine = T.TransformersWrapper({ config, params: makeParams(arrays) })
    const agent = agentOf(chosen, { backendConfig: AsyncVerlConfig({ engine, text, maxNewTokens, temperature }) })
    return { agent, messages: (i) => ({ ...heldOut[i % heldOut.length]! }), maxTurns: 3 }
  },
})
