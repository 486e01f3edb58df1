/** Policies by name: which there are, where their keys come from, and what is said of those that cannot be had. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Environment } from '../../../../src/core/capabilities.js'
import type { Hub } from '../../../../src/core/hub.js'
import { keyFromSeed } from '../../../../src/core/key.js'
import { data } from '../../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../../src/data/tensorDict/tensorDict.js'
import { EMBEDDED_MODEL } from '../../../../src/live/embeddedModel.js'
import { liveEnvironment } from '../../../../src/live/environment.js'
import { liveFiles } from '../../../../src/live/files.js'
import { type RegistryOptions, resolvePolicy } from '../../../../src/modules/remote/chat/policyRegistry.js'
import { History, message, textOf } from '../../../../src/text/history/history.js'
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
    expect(unknown.reason).toContain("no model 'x'; it has mine, other")
    expect((await leftOf(resolvePolicy('vllm_other', options({}, { vllmModels })))).reason).toContain('has no url')
    await writeFile(vllmModels, 'models:\n  - name: mine')
    expect((await leftOf(resolvePolicy('vllm_mine', options({}, { vllmModels })))).reason).toContain('YAML is not read')
  })

  it('finds an entry of the registry file by each of its names, and asks the server for the first', async () => {
    const { url } = await listen(served(saying('four')))
    const vllmModels = join(folder, 'aliases.json')
    await writeFile(vllmModels, JSON.stringify([{ name: ['cat', 'mine', 'yours'], url: `${url}/v1` }]))
    for (const name of ['vllm_cat', 'vllm_mine', 'vllm_yours'])
      expect(await answerOf(name, options({}, { vllmModels }))).toBe('four')
    const unknown = await leftOf(resolvePolicy('vllm_x', options({}, { vllmModels })))
    expect(unknown.reason).toContain('it has cat, mine, yours')
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
    expect((await leftOf(resolvePolicy('litellm_x', options()))).reason).toContain('litellm_PROVIDER/MODEL')
  })

  it('loads a model into this process', async () => {
    expect(typeof (await answerOf(`hf_${EMBEDDED_MODEL}`, options()))).toBe('string')
  })
})
