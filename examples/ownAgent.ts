import { capture } from '@tandem-rl/serve'
import * as T from 'tandem-rl'
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
  agent: capture({ run: ask }),
  tasks: ({ key }) => T.wordProblems(key, { split: 'rl' }),
  reward: gsm8kAnswerReward(),
  heldOut: T.heldOutProblems(),
})
