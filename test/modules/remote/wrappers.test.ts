/** `vLLMWrapper` over real sockets. */
import { keyFromSeed } from '@tandem-rl/base'
import { requireLeft, requireRight } from '@tandem-rl/testing'
import type { GenerationRequest } from '@tandem-rl/text'
import { afterAll, describe, expect, it } from 'vitest'
import { raggedRows } from '../../../src/data/tensorDict/leaf.js'
import { get } from '../../../src/data/tensorDict/tensorDict.js'
import { enginePolicy } from '../../../src/modules/generation/policy/enginePolicy.js'
import { samplingOf } from '../../../src/modules/remote/generateOptions.js'
import { localClient } from '../../../src/modules/remote/localClient.js'
import { vLLMWrapper } from '../../../src/modules/remote/vllm/vLLMWrapper.js'
import { eventEngine } from '../../kit/eventEngine.js'
import { leftOf, rightOf } from '../../kit/results.js'
import { saying, served, useServers } from '../../kit/served.js'
import { tokenPrompt } from '../../kit/small.js'

const serve = useServers()
const key = keyFromSeed(4)
const PROMPTS = [[5, 6, 7], [5, 6, 7], [9]]

const closing: { readonly close: () => Promise<void> }[] = []
afterAll(() => Promise.all(closing.map((policy) => policy.close())))

const wrapped = (options: Parameters<typeof vLLMWrapper>[0]) => {
  const policy = vLLMWrapper(options)
  closing.push(policy)
  return policy
}

/** Requests for rows: the client's own probes ask for one token. */
const sampledBy = ({ seen }: { readonly seen: readonly GenerationRequest[] }) =>
  seen.filter(({ sampling }) => sampling.maxTokens !== 1)

describe('vLLMWrapper', () => {
  it('answers over a socket what the engine of the server says, with its log-probabilities and version', async () => {
    const engine = saying('ok')
    const server = await serve(served(engine))
    const policy = wrapped({ url: server.url, model: 'cat', generateKwargs: { maxNewTokens: 4 } })
    const action = await rightOf(policy.act(tokenPrompt(PROMPTS), key))
    const here = await rightOf(
      enginePolicy({ engine: localClient(saying('ok'), 'here'), sampling: { maxTokens: 4 } }).act(
        tokenPrompt(PROMPTS),
        key,
      ),
    )
    expect(raggedRows(get(action, 'tokens', 'response'))).toEqual(raggedRows(get(here, 'tokens', 'response')))
    expect(get(action, 'stopReason')).toEqual(get(here, 'stopReason'))
    for (const row of raggedRows(get(action, 'logProbs', 'response')))
      for (const x of row) expect(x).toBeLessThanOrEqual(0)
    expect(sampledBy(engine).map(({ sampling }) => sampling.n)).toEqual([2, 1])
    expect(policy.name).toBe('vLLMWrapper')
  })

  it('refuses temperatures that a server of raw log-probabilities cannot tell, and tells whose failure a failure is', async () => {
    const server = await serve(served(saying('ok')))
    const policy = wrapped({ url: server.url, model: 'cat', sampling: { temperature: 0.5 } })
    expect(await leftOf(policy.act(tokenPrompt(PROMPTS), key))).toMatchObject({ kind: 'asked', policy: 'vLLMWrapper' })
    const stranger = wrapped({ url: server.url, model: 'dog' })
    expect(await leftOf(stranger.act(tokenPrompt(PROMPTS), key))).toMatchObject({
      kind: 'asked',
      reason: expect.stringContaining('dog'),
    })
    const dead = wrapped({ url: 'http://127.0.0.1:9', model: 'cat' })
    expect(await leftOf(dead.act(tokenPrompt(PROMPTS), key))).toMatchObject({ kind: 'infrastructure' })
  })

  it('continues with the available replicas', async () => {
    const engines = [saying('ok'), saying('ok')]
    const servers = await Promise.all(engines.map((engine) => serve(served(engine))))
    const policy = wrapped({
      ...{ url: [...servers.map(({ url }) => url), 'http://127.0.0.1:9'], model: 'cat' },
      ...{ generateKwargs: { maxNewTokens: 3 }, pool: { deadlineMs: 60_000 } },
    })
    const rows = Array.from({ length: 8 }, (_, i) => [i + 1])
    const action = await rightOf(policy.act(tokenPrompt(rows), key))
    expect(raggedRows(get(action, 'tokens', 'response'))).toHaveLength(8)
    expect(engines.map((engine) => sampledBy(engine).length)).toEqual([4, 4])
    expect(policy.pool?.members().map(({ withdrawn }) => withdrawn?.by ?? null)).toEqual([null, null, 'failure'])
    expect(policy.clients).toHaveLength(3)
  })

  it('is a mistake with options that cannot be', () => {
    const client = { ...localClient(saying('ok'), 'x'), ...eventEngine(() => []) }
    expect(() => vLLMWrapper({ clients: [client], generateKwargs: { numBeams: 4 } })).toThrow(
      'vLLMWrapper: numBeams must be 1',
    )
    expect(() => vLLMWrapper({ clients: [] })).toThrow('at least one')
  })
})

describe("TorchRL's options of generation", () => {
  it('are settings of a policy', () => {
    const given = {
      maxNewTokens: 8,
      temperature: 0.5,
      topP: 0.9,
      topK: 5,
      repetitionPenalty: 1.1,
      stopSequences: ['x'],
    }
    expect(requireRight(samplingOf({ ...given, doSample: true, numReturnSequences: 1, logprobs: true }))).toEqual({
      ...{ maxTokens: 8, temperature: 0.5, topP: 0.9, topK: 5, repetitionPenalty: 1.1, stop: ['x'] },
    })
    expect(requireRight(samplingOf({ doSample: false }))).toEqual({ temperature: 0 })
    expect(requireRight(samplingOf({}))).toEqual({})
  })

  it('that policies do not have are refused, all at once', () => {
    const wrong = {
      numReturnSequences: 4,
      numBeams: 2,
      logprobs: false,
      doSample: false,
      temperature: 1,
      lengthPenalty: 1,
    }
    const reason = requireLeft(samplingOf(wrong))
    for (const word of [
      'lengthPenalty is not a generation option',
      'numReturnSequences',
      'numBeams',
      'logprobs',
      'doSample false',
    ]) {
      expect(reason).toContain(word)
    }
    expect(requireLeft(samplingOf({ doSample: true, temperature: 0 }))).toContain('above 0')
  })
})
