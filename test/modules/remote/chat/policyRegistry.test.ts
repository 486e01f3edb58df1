/**
 * Policies by name: which there are, where their keys come from, and what is said of those that
 * cannot be had.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { type Environment, type Hub, keyFromSeed } from '@tandem-rl/base'
import { liveEnvironment } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import { History, message, textOf } from '@tandem-rl/text'
import { createProviderRegistry } from 'ai'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Data, data, type Ragged, raggedRow } from '../../../../src/data/tensorDict/leaf.js'
import { find, get, TensorDict } from '../../../../src/data/tensorDict/tensorDict.js'
import { EMBEDDED_MODEL } from '../../../../src/live/embeddedModel.js'
import type { RegistryOptions, RegistryWorld } from '../../../../src/modules/remote/chat/policyLookup.js'
import { resolvePolicy } from '../../../../src/modules/remote/chat/policyRegistry.js'
import { useEngine } from '../../../kit/engine.js'
import { leftOf, rightOf } from '../../../kit/results.js'
import { saying, served, useServers } from '../../../kit/served.js'

useEngine()
const listen = useServers()
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'registry-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const environment = (variables: Environment['variables'] = {}): Environment => ({ ...liveEnvironment, variables })

const options = (variables: Environment['variables'] = {}, more: Partial<RegistryOptions> = {}): RegistryOptions => ({
  envFile: join(folder, 'none.env'),
  sampling: { maxNewTokens: 8 },
  ...more,
  world: { environment: environment(variables), ...more.world },
})

const answerOf = async (name: string, asked: RegistryOptions): Promise<string> => {
  const policy = await rightOf(resolvePolicy(name, asked))
  expect(policy.name).toBe(name)
  const state = TensorDict({ history: { prompt: data([History([message('user', '2 + 2')])]) } }, [1])
  const action = await rightOf(policy.act(state, keyFromSeed(1)))
  await policy.close()
  return textOf(get(action, 'history', 'response').items.get(0)!)
}

describe('policies by name', () => {
  it('lists the known prefixes with an example each for any other name', async () => {
    for (const name of ['gpt-4', 'what_ever', 'constructor_x', 'vllm_']) {
      const { reason } = await leftOf(resolvePolicy(name, options()))
      for (const prefix of ['vllm_', 'hf_', 'openai_', 'litellm_', 'openrouter_', 'scripted_'])
        expect(reason).toContain(prefix)
    }
  })

  it('knows answers that are always the same', async () => {
    expect(await answerOf('scripted_four_4', options())).toBe('four_4')
  })

  it('finds servers of the registry file, and says which models it has', async () => {
    const { url } = await listen(served(saying('four')))
    const vllmModels = join(folder, 'models.json')
    await writeFile(
      vllmModels,
      JSON.stringify([{ name: 'mine', url: `${url}/v1`, served_name: 'cat' }, { name: 'other' }]),
    )
    expect(await answerOf('vllm_mine', options({}, { vllmModels }))).toBe('four')
    const unknown = await leftOf(resolvePolicy('vllm_x', options({ VLLM_MODELS_PATH: vllmModels })))
    expect(unknown.reason).toContain('has mine, other')
    expect((await leftOf(resolvePolicy('vllm_other', options({}, { vllmModels })))).reason).toContain(
      'has no url and no model_path',
    )
  })

  it('adds /v1 to an address without a path, and takes the only model of a server with another name', async () => {
    const { url } = await listen(served(saying('four')))
    const vllmModels = join(folder, 'bare.json')
    await writeFile(
      vllmModels,
      JSON.stringify([
        { name: 'mine', url },
        { name: 'slash', url: `${url}/` },
      ]),
    )
    for (const name of ['vllm_mine', 'vllm_slash'])
      expect(await answerOf(name, options({}, { vllmModels }))).toBe('four')
    for (const OPENAI_BASE_URL of [url, `${url}/v1`])
      expect(await answerOf('openai_gpt-x', options({ OPENAI_BASE_URL }))).toBe('four')
    expect((await leftOf(resolvePolicy('openai_x', options({ OPENAI_BASE_URL: 'localhost' })))).reason).toContain(
      'must be an address',
    )
  })

  it('finds an entry of the registry file by each of its names, and asks the server for the first', async () => {
    const { url } = await listen(served(saying('four')))
    const vllmModels = join(folder, 'aliases.json')
    await writeFile(vllmModels, JSON.stringify([{ name: ['cat', 'mine', 'yours'], url: `${url}/v1` }]))
    for (const name of ['vllm_cat', 'vllm_mine', 'vllm_yours'])
      expect(await answerOf(name, options({}, { vllmModels }))).toBe('four')
    const unknown = await leftOf(resolvePolicy('vllm_x', options({}, { vllmModels })))
    expect(unknown.reason).toContain('has cat, mine, yours')
    await writeFile(vllmModels, JSON.stringify([{ name: [], url }]))
    expect((await leftOf(resolvePolicy('vllm_x', options({}, { vllmModels }))))._tag).toBe('FormatFailure')
  })

  it('knows a policy by its other names, one policy for each', async () => {
    const names = { scripted_four: ['judge', 'hf_gpt2'], scripted_five: ['player_2'] }
    for (const [name, answer] of [
      ['judge', 'four'],
      ['hf_gpt2', 'four'],
      ['player_2', 'five'],
      ['scripted_four', 'four'],
    ] as const)
      expect(await answerOf(name, options({}, { names }))).toBe(answer)
    const twice = { scripted_four: ['a'], scripted_five: ['a'] }
    expect(() => resolvePolicy('a', options({}, { names: twice }))).toThrow(
      "resolvePolicy, names: 'a' is listed twice, for scripted_four and scripted_five",
    )
  })

  it.each([
    ['hf_gpt2', 'openai-community/gpt2'],
    ['hf_gpt-neo-125M', 'EleutherAI/gpt-neo-125m'],
  ])('looks for %s in its repository of the hub, unless there is a folder of that name', async (name, repo) => {
    const asked: string[] = []
    const refuse = () => TE.left({ _tag: 'HubFailure', kind: 'not-found', repo: 'gpt2', reason: 'not here' } as const)
    const hub = (): Hub => ({
      download: refuse,
      list: (wanted) => {
        asked.push(wanted.name)
        return refuse()
      },
    })
    expect((await leftOf(resolvePolicy(name, options({}, { world: { hub } })))).reason).toContain('not here')
    expect(asked).toEqual([repo])
    const files = { ...liveFiles, exists: (path: string) => TE.right(path === name.slice('hf_'.length)) }
    await leftOf(resolvePolicy(name, options({}, { world: { hub, files } })))
    expect(asked).toEqual([repo])
  })

  it('takes keys from the environment first, and else from the file', async () => {
    const { url } = await listen(served(saying('four'), { access: { apiKeys: ['right'] } }))
    const envFile = join(folder, 'keys.env')
    await writeFile(envFile, `OPENAI_BASE_URL="${url}/v1"\nOPENAI_API_KEY=right\n`)
    expect(await answerOf('openai_cat', options({}, { envFile }))).toBe('four')
    const wrong = await rightOf(resolvePolicy('openai_cat', options({ OPENAI_API_KEY: 'planted-wrong' }, { envFile })))
    const state = TensorDict({ history: { prompt: data([History([message('user', '?')])]) } }, [1])
    const failure = await leftOf(wrong.act(state, keyFromSeed(1)))
    expect(failure).toMatchObject({ kind: 'infrastructure', reason: expect.stringContaining('401') })
    expect(JSON.stringify(failure)).not.toContain('planted-wrong')
    await wrong.close()
  })

  it.each([
    ['openai_x', 'OPENAI_API_KEY'],
    ['openrouter_a/b', 'OPENROUTER_API_KEY'],
    ['litellm_groq/x', 'GROQ_API_KEY'],
    ['vllm_x', 'VLLM_MODELS_PATH'],
  ])('says for %s which variable lacks, and in which file it may stand', async (name, variable) => {
    const { reason } = await leftOf(resolvePolicy(name, options()))
    expect(reason).toContain(`needs ${variable}`)
    expect(reason).toContain('none.env')
  })

  it('asks a LiteLLM proxy where there is one', async () => {
    const { url } = await listen(served(saying('four'), { model: { names: ['groq/cat'], root: '/' } }))
    expect(await answerOf('litellm_groq/cat', options({ LITELLM_BASE_URL: `${url}/v1` }))).toBe('four')
  })

  it("else asks the provider's package, or says what to install", async () => {
    const { url } = await listen(served(saying('four')))
    const createGroq = ({ apiKey }: { readonly apiKey: string }) =>
      createOpenAICompatible({ name: 'groq', baseURL: `${url}/v1`, apiKey }).chatModel
    const packages = { load: async () => ({ createGroq }) }
    const world = { environment: environment({ GROQ_API_KEY: 'k' }), packages }
    expect(await answerOf('litellm_groq/cat', options({}, { world }))).toBe('four')
    const missing = await leftOf(resolvePolicy('litellm_groq/cat', options({ GROQ_API_KEY: 'planted-k' })))
    expect(missing.reason).toContain('npm install @ai-sdk/groq')
    expect(missing.reason).not.toContain('planted-k')
    expect((await leftOf(resolvePolicy('litellm_nobody/x', options()))).reason).toContain('together_ai')
    // A name without a provider is OpenAI's.
    expect((await leftOf(resolvePolicy('litellm_gpt-4', options()))).reason).toContain('OPENAI_API_KEY')
  })

  it.each(['TOGETHER_API_KEY', 'TOGETHERAI_API_KEY'])('takes the key of a provider from %s', async (variable) => {
    const makes: string[] = []
    const createTogetherAI = ({ apiKey }: { readonly apiKey: string }) => {
      makes.push(apiKey)
      return createOpenAICompatible({ name: 'together', baseURL: 'http://127.0.0.1:9/v1', apiKey }).chatModel
    }
    const world = {
      environment: environment({ [variable]: 'k' }),
      packages: { load: async () => ({ createTogetherAI }) },
    }
    await (await rightOf(resolvePolicy('litellm_together_ai/a/b', options({}, { world })))).close()
    expect(makes).toEqual(['k'])
  })

  it('asks a registry of the AI SDK, which may know any number of providers', async () => {
    const { url } = await listen(served(saying('four')))
    const mine = createOpenAICompatible({ name: 'mine', baseURL: `${url}/v1` })
    const providers = createProviderRegistry({ mine })
    expect(await answerOf('litellm_mine/cat', options({}, { providers }))).toBe('four')
    expect((await leftOf(resolvePolicy('litellm_nobody/x', options({}, { providers })))).reason).toContain("'nobody:x'")
  })

  it('reads registry files of YAML, with names as the seed has them', async () => {
    const { url } = await listen(served(saying('four')))
    const vllmModels = join(folder, 'models.yaml')
    await writeFile(vllmModels, `models:\n  - name: vllm_mine  # a comment\n    url: ${url}/v1\n    served_name: cat\n`)
    expect(await answerOf('vllm_mine', options({}, { vllmModels }))).toBe('four')
    await writeFile(vllmModels, 'models: [')
    expect(await leftOf(resolvePolicy('vllm_mine', options({}, { vllmModels })))).toMatchObject({
      ...{ _tag: 'FormatFailure', where: vllmModels },
    })
  })

  it('starts a server for an entry with a model_path, and ends it with the policy', async () => {
    const vllmModels = join(folder, 'paths.yaml')
    await writeFile(
      vllmModels,
      'models:\n  - name: vllm_local\n    model_path: /models/x\n    tokenizer_path: /models/t\n',
    )
    const { url } = await listen(served(saying('four'), { model: { names: ['local'], root: '/' } }))
    const told: unknown[] = []
    const startServer: RegistryWorld['startServer'] = (config) => {
      told.push(config)
      const stop = async () => void told.push('stopped')
      return TE.right({ url, stop } as never) // the registry needs nothing else
    }
    expect(await answerOf('vllm_local', options({}, { vllmModels, world: { startServer } }))).toBe('four')
    expect(told).toEqual([{ model: '/models/x', tokenizer: '/models/t', servedModelName: 'local' }, 'stopped'])
    const failing: RegistryWorld['startServer'] = () =>
      TE.left({ _tag: 'WorkerFailure', kind: 'executable', reason: 'vLLM is not installed', log: [] })
    const failure = await leftOf(
      resolvePolicy('vllm_local', options({}, { vllmModels, world: { startServer: failing } })),
    )
    expect(failure.reason).toBe('vLLM is not installed')
  })

  it('allows only the names of a list, if there is one', async () => {
    const { url } = await listen(served(saying('four'), { model: { names: ['groq/cat'], root: '/' } }))
    const litellmModels = join(folder, 'litellm.yaml')
    await writeFile(litellmModels, 'models:\n  - litellm_groq/cat\n')
    const proxy = { LITELLM_BASE_URL: `${url}/v1` }
    expect(await answerOf('litellm_groq/cat', options(proxy, { litellmModels }))).toBe('four')
    const { reason } = await leftOf(
      resolvePolicy('litellm_groq/cta', options({ ...proxy, LITELLM_MODELS_PATH: litellmModels })),
    )
    expect(reason).toContain("did you mean 'groq/cat'?")
  })

  it('scores replies with a model in this process: equal to what it samples', async () => {
    const policy = await rightOf(resolvePolicy(`hf_${EMBEDDED_MODEL}`, options()))
    const history = History([message('user', '2 + 2')])
    const scores = await rightOf(policy.scoreReplies!(history, ['4', 'four', '4']))
    expect(scores[0]).toBeCloseTo(scores[2]!, 5)
    expect(scores[0]).not.toBeCloseTo(scores[1]!, 1)
    const state = TensorDict({ history: { prompt: data([history]) } }, [1])
    const action = await rightOf(policy.act(state, keyFromSeed(4)))
    const text = textOf(get(action, 'history', 'response').items.get(0)!)
    const logProbs = find(action, ['logProbs', 'response']) as Ragged<'float32'> // of a policy over tokens
    const sampled = raggedRow(logProbs, 0).reduce((sum, each) => sum + each, 0)
    const isWhole = (find(action, 'stopReason') as Data<string>).items.get(0) === 'stop'
    if (isWhole) expect((await rightOf(policy.scoreReplies!(history, [text])))[0]).toBeCloseTo(sampled, 2)
    await policy.close()
  })

  it('loads a model into this process', async () => {
    expect(typeof (await answerOf(`hf_${EMBEDDED_MODEL}`, options()))).toBe('string')
  })
})
