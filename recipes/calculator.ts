/**
 * Tool use by GRPO: over several turns, a model that mostly guesses learns to call a calculator.
 * Needs the package `@tandem-rl/tools`.
 */
import { appendMessage, History, message, toolResult } from '@tandem-rl/text'
import { calculator, SimpleToolTransform, ToolRegistry } from '@tandem-rl/tools'
import * as T from 'tandem-rl'
import { envOfTask } from 'tandem-rl/envs'
import { trainModel } from 'tandem-rl/run'

/**
 * Generates sums and products. The numbers have an even sum for training, an odd one for
 * evaluation.
 */
const sumAt = (key: T.Key, index: number, use: 'training' | 'evaluation' = 'training') => {
  const at = T.child(key, index)
  const a = 10 + T.uniformInteger(at, 90, 0)
  const b = 10 + 2 * T.uniformInteger(at, 45, 1) + ((a + (use === 'training' ? 0 : 1)) % 2)
  const [sign, value] = T.uniform(at, 2) < 0.5 ? ['*', a * b] : ['+', a + b]
  return { id: `${a} ${sign} ${b}`, query: `What is ${a} ${sign} ${b}?`, answer: `#### ${value}` }
}

/**
 * A conversation for training the start model: three of five guess, the others call the calculator.
 */
const conversationOf = ({ id, query, answer }: T.Task, key: T.Key): History => {
  const asked = History([message('user', query)])
  if (T.uniform(key) < 0.6)
    return appendMessage(asked, message('assistant', `<answer>${20 + T.uniformInteger(key, 5000, 1)}</answer>`))
  const call = { name: 'calculator', arguments: { expression: id } }
  const value = answer.replace('#### ', '')
  return [
    message('assistant', `<tool_call>${JSON.stringify(call)}</tool_call>`),
    toolResult(call, value),
    message('assistant', `<answer>${value}</answer>`),
  ].reduce(appendMessage, asked)
}

const SUMS = T.child(T.keyFromSeed(0), 'sums')
const training = T.endlessTasks('sums', (i) => sumAt(SUMS, i))
const heldOut = T.endlessTasks('held-out sums', (i) => sumAt(SUMS, i, 'evaluation'))

const tools = { registry: ToolRegistry([calculator()]), format: 'hermes', limits: { rounds: 3 } } as const
const env = (source: T.TaskSource) => (tasks: T.TaskContext) =>
  T.pipe(T.DatasetChatEnv({ source, ...tasks }), T.append(SimpleToolTransform(tools)), T.append(T.GSM8KRewardParser()))

export const recipe = T.defineRecipe({
  name: 'calculator',
  summary: 'Show a model how to call a calculator, then train it by GRPO to use it.',
  settings: T.withDefaults(T.policySettings, { steps: 12, sampling: { maxNewTokens: 80 } }).extend({
    shown: T.z.number().int().positive().default(12_800).describe('conversations for training the start model'),
    batch: T.z.number().int().positive().default(64).describe('conversations per step of that training'),
  }),
  envOfTask: () => envOfTask(env),
  tasks: () => training,
  build: async (settings, context) => {
    const key = T.keyFromSeed(settings.seed)
    const pretrained = await T.orThrow(T.loadPretrained(settings.model))
    const conversation = (i: number) => conversationOf(sumAt(SUMS, i), T.child(T.child(key, 'habits'), i))
    const stage = { name: 'calls', conversation, conversations: settings.shown, batch: settings.batch }
    const warmUpSteps = Math.min(20, Math.ceil(settings.shown / settings.batch) - 1)
    const stages = [{ ...stage, learningRate: 2e-3, warmUpSteps }]
    const model = await T.orThrow(
      trainModel({ model: pretrained, stages }, (event) => {
        if (event.type === 'step' && event.step % 10 === 0)
          context.onProgress?.(`start model: step ${event.step} of ${event.steps}, nll ${event.nll.toFixed(3)}`)
      }),
    )
    return T.defineRun(T.grpoParts(settings, { model, env: env(training), heldOut: [{ env: env(heldOut) }] }), context)
  },
})
