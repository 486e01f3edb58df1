/**
 * An agent by GRPO: a tiny model that mostly guesses learns to call a calculator, as a `ReactAgent`
 * or as a `CodeAgent`.
 */
import * as T from 'tandem-rl'
import { AsyncVerlConfig, AutoAgent } from 'tandem-rl/agents'
import type { AgentTask } from 'tandem-rl/datasets'
import type { ChatFormat } from 'tandem-rl/models'
import { makeParams } from 'tandem-rl/models'
import { appendMessage, History, message } from 'tandem-rl/text'
import { calculator } from 'tandem-rl/tools'

const settings = T.withDefaults(T.policySettings.omit({ model: true }), {
  ...{ steps: 8, tasks: { prompts: 16, group: 8 }, sampling: { maxNewTokens: 24 }, learner: { learningRate: 2e-3 } },
  keep: { evalTasks: 72 },
}).extend({
  agent: T.z.enum(['react', 'code']).default('react').describe('how the agent writes calls'),
  turns: T.z.number().int().positive().default(3).describe('turns per conversation'),
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

/** Texts for the tokenizer: words become tokens, and every digit is one. */
const TEXTS = [
  'What is ?\n',
  'Action: code_interpreter\nInput: ',
  'Observation: ',
  'Output: ',
  '```python\n\n```',
  'Final Answer: ',
  'It is ',
]

/** Sums whose values have two digits: every fifth of the 360 is held out for evaluation. */
const sums = Array.from({ length: 360 }, (_, i) => {
  const [a, b, c] = [4 + Math.floor(i / 60), 4 + (Math.floor(i / 10) % 6), i % 10]
  return {
    id: `${a}*${b}+${c}`,
    query: `What is ${a}*${b}+${c}?`,
    answer: String(a * b + c),
    isHeldOut: (a + b + c) % 5 === 0,
  }
})

const [heldOut, training] = [sums.filter((sum) => sum.isHeldOut), sums.filter((sum) => !sum.isHeldOut)]

/** How each agent writes a call and an answer, and what it reads after a call. */
const WRITTEN = {
  react: {
    call: (sum: string) => `Action: code_interpreter\nInput: ${sum}`,
    result: 'Observation: ',
    answer: (value: string) => `Final Answer: ${value}`,
  },
  code: {
    call: (sum: string) => `\`\`\`python\n${sum}\n\`\`\``,
    result: 'Output: ',
    answer: (value: string) => `It is ${value}`,
  },
} as const

/** A conversation for training the start model: three of five guess, the others call the tool. */
const conversationOf = ({ id, query, answer }: T.Task, chosen: Chosen, key: T.Key): History => {
  const { call, result, answer: final } = WRITTEN[chosen.agent]
  const asked = History([message('user', query)])
  if (T.uniform(key) < 0.6)
    return appendMessage(asked, message('assistant', final(String(16 + T.uniformInteger(key, 75, 1)))))
  return [
    message('assistant', call(id)),
    message('user', `${result}${answer}`),
    message('assistant', final(answer)),
  ].reduce(appendMessage, asked)
}

/** Conversations of a step of the start model's training. */
const BATCH = 32

const startModel = (chosen: Chosen, { onProgress }: T.BuildContext) => {
  const key = T.child(T.keyFromSeed(chosen.seed), 'habits')
  const warmUpSteps = Math.min(20, Math.floor(chosen.shown / BATCH / 2)) // of few steps, half
  const conversation = (i: number) =>
    conversationOf(training[T.uniformInteger(T.child(key, i), training.length, 2)]!, chosen, T.child(key, i))
  return T.orThrow(
    T.makeModel(
      {
        family: 'qwen3',
        sizes: { hiddenSize: 64, layers: 1, heads: 4 },
        tokenizer: { texts: TEXTS, vocabularySize: 420, format: FORMAT },
        key: T.child(T.keyFromSeed(chosen.seed), 'model'),
        stages: [
          { name: 'calls', conversation, conversations: chosen.shown, batch: BATCH, learningRate: 5e-3, warmUpSteps },
        ],
      },
      (event) => {
        if (event.type === 'step' && event.step % 50 === 0)
          onProgress?.(`start model: step ${event.step} of ${event.steps}, nll ${event.nll.toFixed(3)}`)
      },
    ),
  )
}

/** The agent. Its backend is the trainer's engine, or none where only its environment is played. */
const agentOf = (chosen: Chosen, backendConfig = AsyncVerlConfig()) =>
  AutoAgent.fromConfig<AgentTask>({
    ...{ agentType: chosen.agent, modelNameOrPath: 'tiny', systemPrompt: '', backendConfig },
    tools: [calculator({ name: 'code_interpreter' })],
    rewardFn: ({ prediction, answer }) => (prediction.replace(/^(?:Final Answer:|It is) /, '') === answer ? 1 : 0),
  })

export const recipe = T.defineRecipe({
  name: 'calculatorAgent',
  summary: 'Make a tiny model and train it by GRPO as an agent that calls a calculator.',
  settings,
  build: async (chosen, context) => {
    const model = await startModel(chosen, context)
    const agent = agentOf(chosen)
    const env = (source: T.TaskSource) => (tasks: T.TaskContext) =>
      agent.env({ source, ...tasks, maxTurns: chosen.turns })
    const source = T.shuffled(T.taskList('sums', training), T.child(T.keyFromSeed(chosen.seed), 'order'))
    const evaluated = T.taskList('held-out sums', heldOut)
    return T.policyRun(chosen, { model, env: env(source), heldOut: [{ env: env(evaluated) }] }, context)
  },
  agent: async (chosen, context) => {
    const { config, arrays, text } = await startModel(chosen, context)
    const { maxNewTokens, temperature } = chosen.sampling
    const engine = T.TransformersWrapper({ config, params: makeParams(arrays) })
    const agent = agentOf(chosen, AsyncVerlConfig({ engine, text, maxNewTokens, temperature }))
    return {
      agent,
      messages: (index) => ({ ...heldOut[index % heldOut.length]! }),
      maxTurns: chosen.turns,
    }
  },
})
