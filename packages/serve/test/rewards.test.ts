/** Rewards over HTTP in OpenRLHF's format, without sockets. */
import { keyFromSeed } from '@tandem-rl/base'
import { liveTensors } from '@tandem-rl/tfjs-onnxruntime/scope'
import { describe, expect, it } from 'vitest'
import { envOfTask } from '../../../src/envs/envOfTask.js'
import { GSM8KEnv } from '../../../src/envs/gsm8kEnv.js'
import { MultiTurnEnv } from '../../../src/envs/multiTurnEnv.js'
import { useEngine } from '../../../test/kit/engine.js'
import { type RewardServerOptions, rewardApp } from '../src/rewards/app.js'

useEngine()

const gsm8k = envOfTask((source) => (tasks) => GSM8KEnv({ source, ...tasks }))

const app = (changes: Partial<RewardServerOptions> = {}) => rewardApp({ env: gsm8k, key: keyFromSeed(1), ...changes })

const post = async (
  body: unknown,
  { server = app(), headers = {} }: { readonly server?: ReturnType<typeof app>; readonly headers?: object } = {},
) => {
  const init = { method: 'POST', headers: { 'content-type': 'application/json', ...headers } }
  const response = await server.fetch(
    new Request('http://localhost/get_reward', { ...init, body: JSON.stringify(body) }),
  )
  return { status: response.status, body: (await response.json()) as Readonly<Record<string, unknown>> } // always an object
}

const PROMPT = '<|im_start|>user\nWhat is 2 + 2?<|im_end|>\n<|im_start|>assistant\n'
const RIGHT = '<think>2 + 2 is 4.</think><answer>4</answer>'
const WRONG = '<think>2 + 2 is 5.</think><answer>5</answer>'

describe('the reward server', () => {
  it('scores completions after their prompts, without end tokens', async () => {
    const { count } = liveTensors()
    const query = [`<s>${PROMPT}${RIGHT}<|im_end|>\n<|endoftext|>`, `${PROMPT}${WRONG}`]
    const { status, body } = await post({
      query,
      prompts: [PROMPT, PROMPT],
      labels: ['#### 4', '{"answer": "#### 4"}'],
    })
    expect(status).toBe(200)
    const [right, wrong] = body.rewards as readonly [number, number]
    expect(right).toBeGreaterThan(wrong)
    expect(body.scores).toEqual(body.rewards)
    expect(body.extra_logs).toEqual({ success: [1, 0] })
    expect(liveTensors().count).toBe(count)
  })

  it.each([
    [{ query: ['a'], prompts: [], labels: [] }, 422, 'equal lengths'],
    [{ query: 'a', prompts: ['a'], labels: ['a'] }, 422, 'query'],
    [{ query: ['a'], prompts: ['b'], labels: ['4'] }, 422, 'does not contain'],
    [{ query: ['a', 'a'], prompts: ['a', 'a'], labels: ['4', '4'] }, 413, 'at most 1'],
    [{ query: ['a'], prompts: ['a'], labels: ['{"answer": 4}'] }, 422, 'must be a string'],
    [{ query: ['a'], prompts: ['a'], labels: ['{"answer": "", "id": 12345678901234567890}'] }, 422, 'safe integer'],
    [{ query: ['a'], prompts: ['a'], labels: [2 ** 60] }, 422, 'safe integer'],
  ])('refuses %j', async (body, status, reason) => {
    const answer = await post(body, { server: app({ maxRows: 1 }) })
    expect(answer.status).toBe(status)
    expect(JSON.stringify(answer.body)).toContain(reason)
  })

  it('reports a failed environment as an error, never as a reward', async () => {
    const env = envOfTask(
      (source) => (tasks) =>
        MultiTurnEnv({
          ...{ source, ...tasks, maxTurns: 1 },
          reply: () => {
            throw new Error('the judge is gone')
          },
        }),
    )
    const { status, body } = await post({ query: ['ab'], prompts: ['a'], labels: ['b'] }, { server: app({ env }) })
    expect(status).toBe(500)
    expect(JSON.stringify(body)).toContain('the judge is gone')
  })

  it('refuses environments of several turns', async () => {
    const env = envOfTask((source) => (tasks) => MultiTurnEnv({ source, ...tasks, maxTurns: 2, reply: () => 'Go on.' }))
    const { status, body } = await post({ query: ['ab'], prompts: ['a'], labels: ['b'] }, { server: app({ env }) })
    expect(status).toBe(422)
    expect(JSON.stringify(body)).toContain('several turns')
  })

  it('requires an API key if it has one', async () => {
    const server = app({ access: { apiKeys: ['secret'] } })
    const body = { query: [`${PROMPT}${RIGHT}`], prompts: [PROMPT], labels: ['#### 4'] }
    expect((await post(body, { server })).status).toBe(401)
    expect((await post(body, { server, headers: { authorization: 'Bearer secret' } })).status).toBe(200)
  })
})
