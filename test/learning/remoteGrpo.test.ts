/**
 * GRPO whose policy is `tandem serve` in another process, against the same run with the engine in
 * this one.
 */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { vLLMUpdater } from '../../src/collectors/updaters/vLLMUpdater.js'
import type { EngineClient } from '../../src/data/engineClient.js'
import { get } from '../../src/doors/tensordict.js'
import * as T from '../../src/index.js'
import { EMBEDDED_MODEL } from '../../src/live/embeddedModel.js'
import { modelEngine } from '../../src/modules/generation/modelEngine.js'
import { loadPretrained, makeParams, type Pretrained } from '../../src/modules/pretrained/pretrained.js'
import { localClient } from '../../src/modules/remote/localClient.js'
import { vLLMClient } from '../../src/modules/remote/vllm/client.js'
import { vLLMWrapper } from '../../src/modules/remote/vllm/vLLMWrapper.js'
import { requestSeed } from '../../src/modules/remote/vllm/wireRequest.js'
import { useEngine } from '../kit/engine.js'
import { useTemporaryFolder } from '../kit/runs.js'
import { startServe } from '../kit/serveProcess.js'

useEngine()

const at = useTemporaryFolder()
const STEPS = 4
const GROUP = 8

/** Draws as a server does, from a seed instead of a key. */
const seededLikeServers = (client: EngineClient): EngineClient => ({
  ...client,
  generate: ({ sampling, firstCompletion, ...request }, options) => {
    const key = keyFromSeed(requestSeed(sampling.key, firstCompletion))
    return client.generate({ ...request, sampling: { ...sampling, key } }, options)
  },
})

interface Curve {
  /** Of each step, the share of completions that are right. */
  readonly rewards: readonly number[]
  /**
   * The largest difference between a sampled token's log-probability there and the trainer's, over
   * all steps.
   */
  readonly worstGap: number
  readonly versions: readonly number[]
}

/**
 * Some steps of GRPO: each batch is sampled by the client, and each step's weights are pushed into
 * it.
 */
const learn = async (model: Pretrained, client: EngineClient, how: 'adapter' | 'full'): Promise<Curve> => {
  const { config, text } = model
  const key = keyFromSeed(1)
  const env = pipe(
    T.GSM8KEnv({ source: T.wordProblems(T.child(key, 'tasks'), { split: 'rl' }), prompts: 8, repeats: GROUP }),
    T.append(T.TemplateTransform({ template: text.template, endOfTurn: text.endOfTurn })),
    T.append(T.Tokenizer({ tokenizer: text.tokenizer })),
  )
  const stopTokens = [text.tokenizer.idOf(text.endOfTurn)!]
  const policy = vLLMWrapper({ clients: [client], sampling: { maxTokens: 64, stopTokens } })
  const updater = vLLMUpdater({ clients: [client], how, model: { config, checkpoints: { folder: at('.'), text } } })
  const learner = T.localLearner({
    ...{ model, key, loss: T.GRPOLoss({ clipEpsilon: [0.2, 0.2] }) },
    optimizer: T.adamW({ learningRate: how === 'full' ? 1e-4 : 1e-3 }),
    ...(how === 'adapter' && { lora: { rank: 8, alpha: 32 } }),
  })
  const advantage = T.MCAdvantage({ groupSize: GROUP })
  const rewards: number[] = []
  const versions: number[] = []
  let worstGap = 0
  for await (const batch of T.LLMCollector({ env, policy, key: T.child(key, 'rollouts') })) {
    const right = get(batch, 'next', 'success').dataSync()
    rewards.push(right.filter((x) => x === 1).length / right.length)
    using rated = own(scope(() => advantage(batch)))
    const { metrics } = orThrow(await learner.update(rated.value)())
    worstGap = Math.max(worstGap, metrics.maxLogProbGap)
    versions.push(orThrow(await updater.push(learner.weights(), rewards.length)()))
    if (rewards.length === STEPS) break
  }
  await learner.close()
  updater.release()
  return { rewards, worstGap, versions }
}

describe('GRPO with the policy on tandem serve', () => {
  it.each(['adapter', 'full'] as const)('%s: the rewards are those of the run in one process', async (how) => {
    const model = orThrow(await loadPretrained(EMBEDDED_MODEL)())
    const server = await startServe(EMBEDDED_MODEL, 'policy')
    const remote = vLLMClient({ url: server.url, model: 'policy', sharedFolder: at('.') })
    const there = await learn(model, remote, how)
    await remote.close()
    await server.stop()
    const engine = scope(() => modelEngine({ config: model.config, params: makeParams(model.arrays) }))
    const local = localClient(engine, 'here')
    const here = await learn(model, seededLikeServers(local), how)
    await local.close()
    expect(there.versions).toEqual([1, 2, 3, 4])
    expect(there.rewards).toEqual(here.rewards)
    expect(there.worstGap).toBeLessThan(3e-5) // the worst token of 256 completions: 2.1e-5 with attention by products of one row
  })
})
