/**
 * Our side of `bench/agentChains.ts`: a line on standard input is a number of chains, and a line of JSON answers it when they are over.
 * Arguments: the server's address, chains at a time.
 */
import { createInterface } from 'node:readline'
import { ClientConfig, HFAgent } from '@tandem-rl/agents'
import { tool } from '@tandem-rl/tools'
import { z } from 'zod'

const [url, concurrent] = [process.argv[2]!, Number(process.argv[3])]

const add = tool({
  name: 'add',
  description: 'Adds two numbers.',
  parameters: { a: z.int(), b: z.int() },
  initial: null,
  run: async ({ a, b }) => ({ content: String(a + b), state: null }),
})

const agent = HFAgent({
  modelNameOrPath: 'scripted',
  tools: [add],
  rewardFn: ({ prediction }) => (prediction.includes('42') ? 1 : 0),
  backendConfig: ClientConfig({ baseUrl: `${url}/v1`, maxRequestsPerMinute: 100_000_000, maxNewTokens: 64 }),
})

for await (const line of createInterface({ input: process.stdin })) {
  const [cpu, started] = [process.cpuUsage(), performance.now()]
  const messages = [{ role: 'user', content: 'What is 17 + 25?' }] as const
  const run = { messages, maxTurns: 4, numChains: Number(line), maxConcurrentChains: concurrent }
  const result = await agent.run(run)()
  const seconds = (performance.now() - started) / 1000
  if (result._tag === 'Left') throw new Error(JSON.stringify(result.left))
  const { trajectories } = result.right
  const { user, system } = process.cpuUsage(cpu)
  console.log(
    JSON.stringify({
      ...{ seconds, cpuSeconds: (user + system) / 1e6, peakMiB: process.resourceUsage().maxRSS / 1024 },
      correct: trajectories.filter(({ reward, messages: all }) => reward === 1 && all.length === 4).length,
    }),
  )
}
await agent.close()
