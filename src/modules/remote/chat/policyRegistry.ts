/** Policies by name, as configurations of games and agents name them. */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import type { Environment, Files, Packages } from '../../../core/capabilities.js'
import type { Failure } from '../../../core/failure.js'
import type { Hub } from '../../../core/hub.js'
import { parseJson } from '../../../core/json.js'
import { aRecord, aText, checkOptions, type OptionKinds } from '../../../core/options.js'
import type { HistoryAction, HistoryPrompt, Policy } from '../../../data/policy.js'
import { data } from '../../../data/tensorDict/leaf.js'
import { TensorDict } from '../../../data/tensorDict/tensorDict.js'
import { scope } from '../../../engine/scope.js'
import { liveEnvironment, livePackages } from '../../../live/environment.js'
import { liveFiles } from '../../../live/files.js'
import { liveHub } from '../../../live/hub.js'
import { message } from '../../../text/history/history.js'
import { problemsOf } from '../../../text/history/historyJson.js'
import { historyPolicy } from '../../historyPolicy.js'
import type { FallbackFormat } from '../../pretrained/chatFormats.js'
import { loadPretrained, makeParams } from '../../pretrained/pretrained.js'
import { TransformersWrapper } from '../../transformersWrapper.js'
import { aiSDKWrapper, type LanguageModel } from './aiSDKWrapper.js'
import type { OpenAIWrapperOptions } from './clientConfig.js'
import { OpenAIWrapper } from './openAIWrapper.js'
import { missingVariable, readVariables, registryFailure, type Variables } from './policyKeys.js'

/** A policy that was made for a name. `close` frees what it holds: connections, or a model in this process. */
export interface NamedPolicy extends Policy<HistoryPrompt, HistoryAction> {
  readonly close: () => Promise<void>
}

export interface RegistryOptions {
  /** How models are sampled. */
  readonly sampling?: Pick<OpenAIWrapperOptions, 'temperature' | 'maxNewTokens' | 'topP'>
  /**
   * JSON file with entries `{ name, url, served_name?, description? }` of `vllm_` names. `name` is one
   * name or a list of names, and `served_name` defaults to the first. Default: VLLM_MODELS_PATH.
   */
  readonly vllmModels?: string
  /** Policies and their other names, such as `{ openai_gpt-4.1-mini: ['judge', 'player_2'] }`. */
  readonly names?: Readonly<Record<string, readonly string[]>>
  /** The chat format of base models in this process, such as GPT-2. Default: they are refused. */
  readonly fallbackFormat?: FallbackFormat
  /** Default `.env`. */
  readonly envFile?: string
  readonly world?: Partial<RegistryWorld>
}

/** What names are looked up with. */
export interface RegistryWorld {
  readonly files: Files
  readonly environment: Environment
  readonly packages: Packages
  readonly hub: () => Hub
}

interface Lookup {
  readonly sampling: NonNullable<RegistryOptions['sampling']>
  readonly options: RegistryOptions
  readonly envFile: string
  readonly world: RegistryWorld
  readonly variables: Variables
}

type Found = TE.TaskEither<Failure, NamedPolicy>

const named = (
  policy: Policy<HistoryPrompt, HistoryAction>,
  name: string,
  close: () => Promise<void>,
): NamedPolicy => ({
  name,
  act: policy.act,
  close,
})

const server = (name: string, config: OpenAIWrapperOptions<'text'>): NamedPolicy => {
  const policy = OpenAIWrapper(config)
  return named(policy, name, policy.close)
}

const openAi = (model: string, { variables, sampling, envFile }: Lookup): Found => {
  const baseUrl = variables('OPENAI_BASE_URL')
  const apiKey = variables('OPENAI_API_KEY')
  if (apiKey === undefined && baseUrl === undefined)
    return TE.left(missingVariable('OPENAI_API_KEY', `openai_${model}`, envFile))
  return TE.right(
    server(`openai_${model}`, {
      ...sampling,
      model,
      baseUrl: baseUrl ?? 'https://api.openai.com/v1',
      ...(apiKey !== undefined && { apiKey }),
      dialect: { limitField: 'max_completion_tokens' },
    }),
  )
}

const openRouter = (model: string, { variables, sampling, envFile }: Lookup): Found => {
  const apiKey = variables('OPENROUTER_API_KEY')
  return apiKey === undefined
    ? TE.left(missingVariable('OPENROUTER_API_KEY', `openrouter_${model}`, envFile))
    : TE.right(server(`openrouter_${model}`, { ...sampling, model, apiKey, baseUrl: 'https://openrouter.ai/api/v1' }))
}

/** Provider, as LiteLLM names it -> the SDK's package, what makes its provider, and the variable with its key. */
const PROVIDERS: Readonly<Record<string, readonly [name: string, create: string, key: string]>> = {
  anthropic: ['anthropic', 'createAnthropic', 'ANTHROPIC_API_KEY'],
  cerebras: ['cerebras', 'createCerebras', 'CEREBRAS_API_KEY'],
  cohere: ['cohere', 'createCohere', 'COHERE_API_KEY'],
  deepinfra: ['deepinfra', 'createDeepInfra', 'DEEPINFRA_API_KEY'],
  deepseek: ['deepseek', 'createDeepSeek', 'DEEPSEEK_API_KEY'],
  fireworks_ai: ['fireworks', 'createFireworks', 'FIREWORKS_AI_API_KEY'],
  gemini: ['google', 'createGoogleGenerativeAI', 'GEMINI_API_KEY'],
  groq: ['groq', 'createGroq', 'GROQ_API_KEY'],
  mistral: ['mistral', 'createMistral', 'MISTRAL_API_KEY'],
  openai: ['openai', 'createOpenAI', 'OPENAI_API_KEY'],
  perplexity: ['perplexity', 'createPerplexity', 'PERPLEXITYAI_API_KEY'],
  together_ai: ['togetherai', 'createTogetherAI', 'TOGETHERAI_API_KEY'],
  xai: ['xai', 'createXai', 'XAI_API_KEY'],
}

const isModel = (value: unknown): value is LanguageModel =>
  typeof value === 'object' &&
  value !== null &&
  'doGenerate' in value &&
  typeof value.doGenerate === 'function' &&
  'modelId' in value &&
  'provider' in value &&
  'specificationVersion' in value

/** A model of a provider's package. */
const modelOf = (
  exports: Readonly<Record<string, unknown>>,
  create: string,
  { apiKey, model }: { readonly apiKey: string; readonly model: string },
): LanguageModel | undefined => {
  const make = exports[create]
  const provider: unknown = typeof make === 'function' ? make({ apiKey }) : undefined
  const made: unknown = typeof provider === 'function' ? provider(model) : undefined
  return isModel(made) ? made : undefined
}

const fromPackage = (provider: string, model: string, lookup: Lookup): Found => {
  const name = `litellm_${provider}/${model}`
  const known = PROVIDERS[provider]
  if (known === undefined) {
    const reason = `no package is known for the provider '${provider}'; known are ${Object.keys(PROVIDERS).join(', ')}; a LiteLLM proxy at LITELLM_BASE_URL knows more`
    return TE.left(registryFailure(`${name}: ${reason}`))
  }
  const [short, create, variable] = known
  const apiKey = lookup.variables(variable)
  if (apiKey === undefined) return TE.left(missingVariable(variable, name, lookup.envFile))
  const pack = `@ai-sdk/${short}`
  return pipe(
    TE.tryCatch(
      () => lookup.world.packages.load(pack),
      (): Failure => registryFailure(`${name} needs the package ${pack}: npm install ${pack}`),
    ),
    TE.chainEitherK((exports): E.Either<Failure, NamedPolicy> => {
      const made = modelOf(exports, create, { apiKey, model })
      if (made === undefined) return E.left(registryFailure(`${name}: ${pack} makes no model by ${create}`))
      return E.right(named(aiSDKWrapper({ ...lookup.sampling, model: made, secrets: [apiKey] }), name, async () => {}))
    }),
  )
}

const liteLlm = (rest: string, lookup: Lookup): Found => {
  const [, provider, model] = /^([^/]+)\/(.+)$/.exec(rest) ?? []
  if (provider === undefined || model === undefined)
    return TE.left(
      registryFailure(`litellm_${rest}: expected litellm_PROVIDER/MODEL, such as litellm_groq/llama-3.1-8b-instant`),
    )
  const baseUrl = lookup.variables('LITELLM_BASE_URL')
  if (baseUrl === undefined) return fromPackage(provider, model, lookup)
  const apiKey = lookup.variables('LITELLM_API_KEY')
  const config = { ...lookup.sampling, model: rest, baseUrl, ...(apiKey !== undefined && { apiKey }) }
  return TE.right(server(`litellm_${rest}`, config))
}

const entries = z.array(
  z.looseObject({
    name: z.union([z.string().transform((name) => [name]), z.array(z.string()).min(1)]),
    url: z.string().optional(),
    served_name: z.string().optional(),
  }),
)

/** The entries of a file: a list, or an object with the list in `models`. */
const readEntries = (path: string, text: string): E.Either<Failure, z.infer<typeof entries>> => {
  const json = parseJson(text)
  if (E.isLeft(json)) return E.left({ _tag: 'FormatFailure', reason: `${path}: ${json.left} (YAML is not read)` })
  const list =
    typeof json.right === 'object' && json.right !== null && 'models' in json.right ? json.right.models : json.right
  const parsed = entries.safeParse(list)
  return parsed.success ? E.right(parsed.data) : E.left({ ...problemsOf('list of models', parsed.error), where: path })
}

const vllm = (wanted: string, { options, world, variables, sampling, envFile }: Lookup): Found => {
  const path = options.vllmModels ?? variables('VLLM_MODELS_PATH')
  if (path === undefined) return TE.left(missingVariable('VLLM_MODELS_PATH', `vllm_${wanted}`, envFile))
  return pipe(
    world.files.readText(path),
    TE.mapLeft((failure): Failure => failure),
    TE.chainEitherK((text) => readEntries(path, text)),
    TE.chainEitherK((models): E.Either<Failure, NamedPolicy> => {
      const entry = models.find(({ name }) => name.includes(wanted))
      if (entry === undefined) {
        return E.left(
          registryFailure(`${path} has no model '${wanted}'; it has ${models.flatMap(({ name }) => name).join(', ')}`),
        )
      }
      if (entry.url === undefined) {
        return E.left(
          registryFailure(`the model '${wanted}' of ${path} has no url: start a server for it, and say where it is`),
        )
      }
      if (!URL.canParse(entry.url)) return E.left(registryFailure(`the url of '${wanted}' in ${path} is no address`))
      return E.right(
        server(`vllm_${wanted}`, { ...sampling, model: entry.served_name ?? entry.name[0]!, baseUrl: entry.url }),
      )
    }),
  )
}

/** Repositories and their short names, which Transformers takes, too. */
const SHORT_NAMES: Readonly<Record<string, readonly string[]>> = {
  'openai-community/gpt2': ['gpt2'],
  'distilbert/distilgpt2': ['distilgpt2'],
  'EleutherAI/gpt-neo-125m': ['gpt-neo-125m', 'gpt-neo-125M'],
}

/** Returns the name under which others list a name, or the name itself. */
const listedAs = (names: Readonly<Record<string, readonly string[]>>, name: string): string =>
  Object.entries(names).find(([, others]) => others.includes(name))?.[0] ?? name

/** A folder that exists comes before a short name. */
const modelNamed = (id: string, { files }: RegistryWorld): TE.TaskEither<Failure, string> =>
  pipe(
    files.exists(id),
    TE.bimap(
      (failure): Failure => failure,
      (exists) => (exists ? id : listedAs(SHORT_NAMES, id)),
    ),
  )

const inProcess = (id: string, { world, sampling, options: { fallbackFormat } }: Lookup): Found =>
  pipe(
    modelNamed(id, world),
    TE.chainW((model) =>
      loadPretrained(model, world.files, { hub: world.hub(), ...(fallbackFormat !== undefined && { fallbackFormat }) }),
    ),
    TE.map(({ config, arrays, text }) => {
      const { topP, ...rest } = sampling
      const model = scope(() =>
        TransformersWrapper({
          config,
          params: makeParams(arrays),
          sampling: { ...rest, ...(topP !== undefined && topP < 1 && { topP }) },
        }),
      )
      const policy = historyPolicy({ policy: model, tokenizer: text.tokenizer, template: text.template })
      return named(policy, `hf_${id}`, async () => model.release())
    }),
  )

const scripted = (answer: string): Found => {
  const policy: Policy<HistoryPrompt, HistoryAction> = {
    name: `scripted_${answer}`,
    act: (td) =>
      TE.right(
        TensorDict(
          {
            history: {
              response: data(Array.from({ length: td.batchShape[0] ?? 0 }, () => message('assistant', answer))),
            },
          },
          td.batchShape,
        ),
      ),
  }
  return TE.right(named(policy, policy.name, async () => {}))
}

/** Prefix -> how the rest of a name is looked up, and an example. */
const PREFIXES: Readonly<Record<string, readonly [example: string, find: (rest: string, lookup: Lookup) => Found]>> = {
  vllm: ['vllm_policy', vllm],
  hf: ['hf_Qwen/Qwen2.5-0.5B-Instruct', inProcess],
  openai: ['openai_gpt-4.1-mini', openAi],
  litellm: ['litellm_groq/llama-3.1-8b-instant', liteLlm],
  openrouter: ['openrouter_meta-llama/llama-3.1-8b-instruct', openRouter],
  scripted: ['scripted_4', scripted],
}

const RESOLVE_OPTIONS: OptionKinds<RegistryOptions> = {
  sampling: aRecord,
  vllmModels: aText,
  names: aRecord,
  fallbackFormat: aRecord,
  envFile: aText,
  world: aRecord,
}

const checkNames = (names: Readonly<Record<string, readonly string[]>>): void => {
  const all = Object.values(names).flat()
  const twice = all.find((name, i) => all.indexOf(name) !== i)
  if (twice === undefined) return
  const policies = Object.keys(names).filter((policy) => names[policy]!.includes(twice))
  throw new RangeError(`resolvePolicy, names: '${twice}' is listed twice, for ${policies.join(' and ')}`)
}

/**
 * The policy that a name stands for: `PREFIX_MODEL`.
 *
 * `vllm_`: a server of the registry file. `hf_`: a folder or a repository of the hub, in this process. `openai_`, `openrouter_`: these services, or
 * the server at OPENAI_BASE_URL. `litellm_PROVIDER/MODEL`: the LiteLLM proxy at LITELLM_BASE_URL, else the provider's package of the AI SDK, if it is
 * installed. `scripted_`: always this answer. A policy may have other names (`names`), and GPT-2, DistilGPT-2 and GPT-Neo 125M have the short
 * names of Transformers: `hf_gpt2`.
 *
 * Errors   `Left` for an unknown prefix (with all known ones), a missing key (with the variable's name), a missing package (with what to install),
 *          a model that cannot be loaded. Keys are in no failure. Throws RangeError for a name of two policies.
 * Effects  reads the registry file and `.env`; downloads a model of the hub into its cache; `close` of the policy frees what it holds.
 * Source   Game Reasoning Arena's registry.
 */
export const resolvePolicy = (name: string, options: RegistryOptions = {}): TE.TaskEither<Failure, NamedPolicy> => {
  checkOptions('resolvePolicy', options, RESOLVE_OPTIONS)
  const { names = {} } = options
  checkNames(names)
  const [, prefix = '', rest = ''] = /^([a-z]+)_(.+)$/s.exec(listedAs(names, name)) ?? []
  const found = Object.hasOwn(PREFIXES, prefix) ? PREFIXES[prefix] : undefined
  if (found === undefined) {
    const known = Object.entries(PREFIXES).map(([each, [example]]) => `${each}_ (${example})`)
    return TE.left(registryFailure(`'${name}' begins with none of ${known.join(', ')}`))
  }
  const { envFile = '.env', sampling = {} } = options
  const world: RegistryWorld = {
    files: liveFiles,
    environment: liveEnvironment,
    packages: livePackages,
    hub: () => liveHub(),
    ...options.world,
  }
  return pipe(
    readVariables({ files: world.files, environment: world.environment, envFile }),
    TE.chain((variables) => found[1](rest, { sampling, options, envFile, world, variables })),
    TE.map((policy) => ({ ...policy, name })),
  )
}
