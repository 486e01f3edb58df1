import * as T from 'tandem-rl'
import { capture } from 'tandem-rl/agents'
import { gsm8kAnswerReward } from 'tandem-rl/rewards'

/** Your agent, unchanged: it sends its requests to the address that it is given. */
const ask = async ({ query }: T.Task, { baseUrl }: { readonly baseUrl: string }): Promise<string> => {
  const body = JSON.stringify({ model: 'gpt-4o-mini', messages: [{ role: 'user', content: query }] })
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${baseUrl}/chat/completions`, { method: 'POST', headers, body })
  const { choices } = (await response.json()) as { choices: { message: { content: string } }[] } // as the API answers
  return choices[0]!.message.content
}

export const recipe = T.defineRecipe({
  name: 'ownAgent',
  summary: 'Train an agent of my own by GRPO.',
  settings: T.withDefaults(T.policySettings, { steps: 20 }),
  build: async (settings, context) => {
    const model = await T.orThrow(T.loadPretrained(settings.model))
    const tasks = T.wordProblems(T.child(T.keyFromSeed(settings.seed), 'tasks'), { split: 'rl' })
    const heldOut = [{ tasks: T.heldOutProblems() }]
    const reward = gsm8kAnswerReward()
    return T.policyRun(settings, { model, agent: capture({ run: ask }), tasks, reward, heldOut }, context)
  },
})
