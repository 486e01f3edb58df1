/**
 * Training of an agent as it is: a program that asks a chat API. Put yours in the place of `agent`.
 */
import { capture } from '@tandem-rl/serve'
import * as T from 'tandem-rl'
import { gsm8kAnswerReward } from 'tandem-rl/rewards'

const answerSchema = T.z.object({
  choices: T.z.tuple([T.z.object({ message: T.z.object({ content: T.z.string().nullable() }) })]),
})

/** The agent: any program that sends its requests to `baseUrl`. Returns its answer. */
const agent = async ({ query }: T.Task, { baseUrl }: { readonly baseUrl: string }): Promise<string> => {
  const response = await fetch(`${baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'gpt-4o-mini', messages: [{ role: 'user', content: query }] }),
  })
  return answerSchema.parse(await response.json()).choices[0].message.content ?? ''
}

export const recipe = T.defineRecipe({
  name: 'captured',
  summary: 'Train an agent as it is, by GRPO: a program that asks a chat API, which the run serves.',
  defaults: { steps: 16, keep: { evalEvery: 4 } },
  settings: {
    timeout: T.z.number().positive().default(60).describe('time limit of an attempt in seconds'),
  },
  agent: ({ settings }) => capture({ name: 'agent', run: agent, timeoutMs: 1000 * settings.timeout }),
  tasks: ({ key }) => T.wordProblems(key, { split: 'rl' }),
  reward: gsm8kAnswerReward(),
  heldOut: T.heldOutProblems(),
})
