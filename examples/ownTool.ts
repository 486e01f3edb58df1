import { SimpleToolTransform, ToolRegistry, tool } from '@tandem-rl/tools'
import * as T from 'tandem-rl'

const add = tool({
  name: 'add',
  description: 'Adds two numbers.',
  parameters: { a: T.z.number(), b: T.z.number() },
  run: async ({ a, b }) => ({ content: String(a + b), state: null }),
  initial: null,
})
const tools = { registry: ToolRegistry([add]), format: 'hermes', limits: { rounds: 3 } } as const
const sum = (n: number) => ({ id: `${n}`, query: `What is ${n} + ${3 * n}?`, answer: `#### ${4 * n}` })
const sums = (from: number) => (tasks: T.TaskContext) =>
  T.pipe(
    T.DatasetChatEnv({ source: T.endlessTasks('sums', (i) => sum(from + 2 * i)), ...tasks }),
    T.append(SimpleToolTransform(tools)),
    T.append(T.GSM8KRewardParser()),
  )
export const recipe = T.defineRecipe({
  name: 'sums',
  summary: 'Train a model by GRPO to add with a tool.',
  defaults: { sampling: { maxNewTokens: 80 } },
  env: sums(1000),
  heldOut: sums(1001),
})
