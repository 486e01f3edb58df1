/** One collector for policies of conversations and of tokens: scripted and over real protocols. */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { agentPolicy, MultiAgentEnv, roundRobin } from '@tandem-rl/agents'
import { keyFromSeed } from '@tandem-rl/base'
import { serveApp } from '@tandem-rl/serve'
import { scriptedHistoryPolicy } from '@tandem-rl/testing'
import { appendMessage as appended, type LLMEngine, textOf } from '@tandem-rl/text'
import { liveTensors, ownedCount } from '@tandem-rl/tfjs-onnxruntime/scope'
import { pipe } from 'fp-ts/lib/function.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { encodeRollout, rolloutVersion } from '../../packages/cluster/src/workers/rolloutBytes.js'
import { LLMCollector } from '../../src/collectors/llmCollector.js'
import { trajectoryReturns } from '../../src/collectors/rollouts/turnRows.js'
import { wordProblems } from '../../src/data/datasets/wordProblems/wordProblems.js'
import type { HistoryAction, HistoryPrompt, Policy } from '../../src/data/policy.js'
import { raggedRows } from '../../src/data/tensorDict/leaf.js'
import { find, get, type TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { DatasetChatEnv } from '../../src/envs/datasetChatEnv.js'
import { GSM8KEnv } from '../../src/envs/gsm8kEnv.js'
import { tokenEnv } from '../../src/envs/tokenEnv.js'
import { DataLoadingPrimer } from '../../src/envs/transforms/dataLoadingPrimer.js'
import { StepCounter } from '../../src/envs/transforms/stepCounter.js'
import { append } from '../../src/envs/transforms/transform.js'
import { EMBEDDED_MODEL } from '../../src/live/embeddedModel.js'
import { LLMOnDevice } from '../../src/modules/generation/onDevice.js'
import { loadText, type ModelText } from '../../src/modules/pretrained/pretrained.js'
import { aiSDKWrapper } from '../../src/modules/remote/chat/aiSDKWrapper.js'
import { OpenAIWrapper } from '../../src/modules/remote/chat/openAIWrapper.js'
import { vLLMWrapper } from '../../src/modules/remote/vllm/vLLMWrapper.js'
import { replies, rowsAt, tasks } from '../kit/conversation.js'
import { useEngine } from '../kit/engine.js'
import { rightOf } from '../kit/results.js'
import { useServers } from '../kit/served.js'

useEngine()
const listen = useServers()
const key = keyFromSeed(7)

/** Conversations of so many turns, in groups of two. */
const chats = (turns: number) =>
  pipe(DatasetChatEnv({ source: tasks(4), prompts: 2, repeats: 2 }), append(StepCounter({ maxSteps: turns })))

describe('a policy of conversations', () => {
  it('gives a batch with messages, conversations and texts, and no tokens', async () => {
    const policy = scriptedHistoryPolicy({ answers: ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'] })
    const collector = LLMCollector({ env: chats(2), policy, key })
    using batch = (await rightOf(collector.collect(collector.start))).batch
    const td = batch.value
    expect(get(td, 'text', 'response').items.toArray()).toEqual(['a', 'e', 'b', 'f', 'c', 'g', 'd', 'h'])
    const [prompts, said] = [get(td, 'history', 'prompt').items, get(td, 'history', 'response').items]
    for (const [row, full] of get(td, 'history', 'full').items.entries()) {
      expect(full).toEqual(appended(prompts.get(row)!, said.get(row)!))
      expect(get(td, 'next', 'history', 'prompt').items.get(row)).toEqual(full)
    }
    expect(get(td, 'turn').items.toArray()).toEqual([0, 1, 0, 1, 0, 1, 0, 1])
    expect(new Set(get(td, 'trajectoryId').items).size).toBe(4)
    expect(new Set(get(td, 'groupId').items).size).toBe(2)
    for (const absent of ['tokens', 'logProbs', 'masks', 'policyVersion'])
      expect(find(td as TensorDict, [absent])).toBeUndefined()
  })

  it('is played each rollout by itself too, with the same rows in whole groups', async () => {
    const policy = (): Policy<HistoryPrompt, HistoryAction> => ({
      name: 'counting',
      act: (td) => async () => ({
        _tag: 'Right',
        right: replies(...get(td, 'history', 'prompt').items.map((history) => `${history.messages.size}`)),
      }),
    })
    const env = (task: number) =>
      pipe(
        DatasetChatEnv({ source: tasks(4), prompts: 1, repeats: 2, start: task }),
        append(StepCounter({ maxSteps: 2 })),
      )
    const collector = LLMCollector({ env, policy: policy(), key, concurrent: { tasks: 2, maxInFlight: 4 } })
    const seen: string[] = []
    for await (const batch of collector) {
      seen.push(...get(batch, 'text', 'response').items)
      expect(get(batch, 'turn').items.toArray()).toEqual([0, 1, 0, 1])
      expect(new Set(get(batch, 'groupId').items).size).toBe(1)
    }
    expect(seen.length).toBe(8)
    const run = collector.begin()
    const taken = await rightOf(run.next)
    if (taken._tag === 'End') throw new Error('expected a batch')
    using batch = taken.batch
    expect(rolloutVersion(batch.value)).toBe(0)
    expect(encodeRollout({ rows: batch, turns: 4, isCut: false }).length).toBeGreaterThan(0)
    await run.close()
  })

  it('of several agents is dispatched by agentPolicy', async () => {
    const speak = (name: string) => scriptedHistoryPolicy({ answers: () => name })
    const policies = { ann: speak('I am ann'), bob: speak('I am bob'), cat: speak('I am cat') }
    const agents = [{ name: 'ann' }, { name: 'bob' }, { name: 'cat' }]
    const env = pipe(
      MultiAgentEnv({ batchSize: 2, agents, order: roundRobin({ rounds: 2 }) }),
      append(DataLoadingPrimer({ source: tasks(2), batchSize: 2, repeats: 2 })),
    )
    const collector = LLMCollector({ env, policy: agentPolicy({ policies }), key })
    using batch = (await rightOf(collector.collect(collector.start))).batch
    expect(get(batch.value, 'text', 'response').items.toArray()).toEqual(
      get(batch.value, 'agent')
        .items.toArray()
        .map((agent) => `I am ${agent}`),
    )
  })
})

describe('over the protocols of a server of the project', () => {
  const source = wordProblems(key, { split: 'rl' })
  let engine: LLMEngine
  let text: ModelText
  let url = ''

  beforeAll(async () => {
    const module = new URL('../../src/modules/generation/folderEngine.ts', import.meta.url).href
    const options = { folder: EMBEDDED_MODEL, threads: 1 }
    engine = await rightOf(LLMOnDevice({ module, exportName: 'folderEngine', options }))
    text = (await rightOf(loadText(EMBEDDED_MODEL))).text
    const app = serveApp({ engine, model: { names: ['policy'], root: EMBEDDED_MODEL }, text, key: keyFromSeed(0) })
    url = (await listen(app)).url
  })
  afterAll(() => engine.close())

  const asked = { maxNewTokens: 24, temperature: 1 }
  const env = () => GSM8KEnv({ source, prompts: 2, repeats: 2, systemPrompt: '' })

  it('OpenAIWrapper: a batch of GSM8KEnv has conversations, texts and rewards', async () => {
    const policy = OpenAIWrapper({ model: 'policy', baseUrl: `${url}/v1`, ...asked })
    const collector = LLMCollector({ env: env(), policy, key })
    using batch = (await rightOf(collector.collect(collector.start))).batch
    const td = batch.value
    expect(td.batchShape).toEqual([4])
    expect(get(td, 'history', 'response').items.map(textOf)).toEqual(get(td, 'text', 'response').items)
    expect(trajectoryReturns(td).every((each) => Number.isFinite(each.return))).toBe(true)
    expect(find(td as TensorDict, ['tokens'])).toBeUndefined()
    await policy.close()
  })

  it('OpenAIWrapper that captures tokens: ids and log-probabilities besides, with their masks', async () => {
    const policy = OpenAIWrapper({ model: 'policy', baseUrl: `${url}/v1`, capture: 'tokens', ...asked })
    const collector = LLMCollector({ env: env(), policy, key })
    using batch = (await rightOf(collector.collect(collector.start))).batch
    const td = batch.value
    const [prompts, said] = [raggedRows(get(td, 'tokens', 'prompt')), raggedRows(get(td, 'tokens', 'response'))]
    expect(raggedRows(get(td, 'tokens', 'full'))).toEqual(prompts.map((ids, i) => [...ids, ...said[i]!]))
    expect(raggedRows(get(td, 'masks', 'assistant'))).toEqual(
      prompts.map((ids, i) => [...ids.map(() => 0), ...said[i]!.map(() => 1)]),
    )
    expect(
      raggedRows(get(td, 'logProbs', 'response'))
        .flat()
        .every((x) => x <= 0),
    ).toBe(true)
    await policy.close()
  })

  it('vLLMWrapper: a batch of tokens has the conversations and texts that the environment read in them', async () => {
    const policy = vLLMWrapper({ url, model: 'policy', sampling: { maxTokens: 24 } })
    const collector = LLMCollector({ env: tokenEnv(GSM8KEnv({ source, prompts: 2, repeats: 2 }), text), policy, key })
    using batch = (await rightOf(collector.collect(collector.start))).batch
    const td = batch.value
    const said = raggedRows(get(td, 'tokens', 'response')).map((ids) => text.tokenizer.decode([...ids], 'keep'))
    expect(get(td, 'text', 'response').items.toArray()).toEqual(said)
    expect(get(td, 'text', 'full').items.toArray()).toEqual(
      get(td, 'text', 'prompt')
        .items.map((prompt, i) => prompt + said[i]!)
        .toArray(),
    )
    for (const [row, full] of get(td, 'history', 'full').items.entries()) {
      expect(get(td, 'next', 'history', 'prompt').items.get(row)).toEqual(full)
      expect(said[row]).toContain(textOf(get(td, 'history', 'response').items.get(row)!))
    }
    expect(
      rowsAt(td as TensorDict, 'logProbs', 'response')
        .flat()
        .every((x) => x <= 0),
    ).toBe(true)
    await policy.close()
  })

  it('a model of the AI SDK, each rollout by itself', async () => {
    const model = createOpenAICompatible({ name: 'local', baseURL: `${url}/v1` }).chatModel('policy')
    const policy = aiSDKWrapper({ model, ...asked })
    const before = [liveTensors().count, ownedCount()]
    const collector = LLMCollector({
      env: (task) => GSM8KEnv({ source, prompts: 1, repeats: 2, systemPrompt: '', start: task }),
      ...{ policy, key, concurrent: { tasks: 2, maxInFlight: 4, order: 'drawn' }, batches: { dialogTurnsPerBatch: 4 } },
    })
    for await (const batch of collector) {
      expect(batch.batchShape).toEqual([4])
      expect(get(batch, 'text', 'response').items.every((said) => said.length > 0)).toBe(true)
    }
    expect([liveTensors().count, ownedCount()]).toEqual(before)
  })
})
