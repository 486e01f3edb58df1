/** Policies of services: OpenAI, OpenRouter, and the providers of LiteLLM and the AI SDK. */
import { errorMessage, type Failure, ownValue, unknownName } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { aiSDKWrapper, type LanguageModel } from './aiSDKWrapper.js'
import { missingVariable, registryFailure } from './policyKeys.js'
import {
  type FoundPolicy,
  type LanguageModelRegistry,
  type Lookup,
  type NamedPolicy,
  namedPolicy,
  serverPolicy,
} from './policyLookup.js'
import { problemsAt, readModelFile } from './policyServers.js'
import { apiAddress, servedModel } from './servedModel.js'

/** Finds `openai_MODEL`. */
export const openAi = (model: string, lookup: Lookup): FoundPolicy => {
  const { variables, envFile } = lookup
  const given = variables('OPENAI_BASE_URL')
  const apiKey = variables('OPENAI_API_KEY')
  if (apiKey === undefined && given === undefined)
    return TE.left(missingVariable('OPENAI_API_KEY', `openai_${model}`, envFile))
  if (given !== undefined && !URL.canParse(given))
    return TE.left(registryFailure('OPENAI_BASE_URL must be an address such as http://127.0.0.1:8000/v1'))
  const baseUrl = given === undefined ? 'https://api.openai.com/v1' : apiAddress(given)
  const config = { baseUrl, ...(apiKey !== undefined && { apiKey }) }
  return pipe(
    given === undefined ? TE.right(model) : servedModel(model, config),
    TE.map((name) =>
      serverPolicy(
        `openai_${model}`,
        { ...config, model: name, dialect: { limitField: 'max_completion_tokens' } },
        lookup,
      ),
    ),
  )
}

/** Finds `openrouter_MODEL`. */
export const openRouter = (model: string, lookup: Lookup): FoundPolicy => {
  const { variables, envFile } = lookup
  const apiKey = variables('OPENROUTER_API_KEY')
  return apiKey === undefined
    ? TE.left(missingVariable('OPENROUTER_API_KEY', `openrouter_${model}`, envFile))
    : TE.right(serverPolicy(`openrouter_${model}`, { model, apiKey, baseUrl: 'https://openrouter.ai/api/v1' }, lookup))
}

/**
 * Providers by their names in LiteLLM: the name of the AI SDK's package, the function that makes
 * its provider, and the variables that may hold the key, in the spellings of LiteLLM and of others.
 */
const PROVIDERS: Readonly<Record<string, readonly [name: string, create: string, ...keys: readonly string[]]>> = {
  anthropic: ['anthropic', 'createAnthropic', 'ANTHROPIC_API_KEY'],
  cerebras: ['cerebras', 'createCerebras', 'CEREBRAS_API_KEY'],
  cohere: ['cohere', 'createCohere', 'COHERE_API_KEY'],
  deepinfra: ['deepinfra', 'createDeepInfra', 'DEEPINFRA_API_KEY'],
  deepseek: ['deepseek', 'createDeepSeek', 'DEEPSEEK_API_KEY'],
  fireworks_ai: ['fireworks', 'createFireworks', 'FIREWORKS_AI_API_KEY', 'FIREWORKS_API_KEY'],
  gemini: ['google', 'createGoogleGenerativeAI', 'GEMINI_API_KEY', 'GOOGLE_API_KEY'],
  groq: ['groq', 'createGroq', 'GROQ_API_KEY'],
  mistral: ['mistral', 'createMistral', 'MISTRAL_API_KEY'],
  openai: ['openai', 'createOpenAI', 'OPENAI_API_KEY'],
  perplexity: ['perplexity', 'createPerplexity', 'PERPLEXITYAI_API_KEY', 'PERPLEXITY_API_KEY'],
  together_ai: ['togetherai', 'createTogetherAI', 'TOGETHERAI_API_KEY', 'TOGETHER_API_KEY'],
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

/** Makes the policy of a model of the AI SDK. */
const ofLanguageModel = (
  model: LanguageModel,
  name: string,
  { sampling, limits, secrets }: Pick<Lookup, 'sampling' | 'limits'> & { readonly secrets: readonly string[] },
): NamedPolicy => {
  const { timeoutSeconds } = limits
  const config = { ...sampling, ...(timeoutSeconds !== undefined && { timeoutSeconds }), model, secrets }
  return namedPolicy(aiSDKWrapper(config), name, async () => {})
}

const fromPackage = (provider: string, model: string, lookup: Lookup): FoundPolicy => {
  const name = `litellm_${provider}/${model}`
  const known = ownValue(PROVIDERS, provider)
  if (known === undefined) {
    const reason = `no package is known for the provider '${provider}'; known are ${Object.keys(PROVIDERS).join(', ')}; a LiteLLM proxy at LITELLM_BASE_URL knows more`
    return TE.left(registryFailure(`${name}: ${reason}`))
  }
  const [short, create, ...variables] = known
  const apiKey = variables.map(lookup.variables).find((value) => value !== undefined)
  if (apiKey === undefined) return TE.left(missingVariable(variables.join(' or '), name, lookup.envFile))
  const pack = `@ai-sdk/${short}`
  return pipe(
    TE.tryCatch(
      () => lookup.world.packages.load(pack),
      (): Failure => registryFailure(`${name} needs the package ${pack}: npm install ${pack}`),
    ),
    TE.chainEitherK((exports): E.Either<Failure, NamedPolicy> => {
      const made = modelOf(exports, create, { apiKey, model })
      if (made === undefined) return E.left(registryFailure(`${name}: ${pack} makes no model by ${create}`))
      return E.right(ofLanguageModel(made, name, { ...lookup, secrets: [apiKey] }))
    }),
  )
}

/** Finds a model in a registry of the AI SDK. */
const fromRegistry = (registry: LanguageModelRegistry, id: `${string}:${string}`, lookup: Lookup): FoundPolicy =>
  pipe(
    TE.fromEither(
      E.tryCatch(
        () => registry.languageModel(id),
        (error): Failure => registryFailure(`the registry has no model '${id}': ${errorMessage(error)}`),
      ),
    ),
    TE.map((model) => ofLanguageModel(model, id, { ...lookup, secrets: [] })),
  )

/** Splits `PROVIDER/MODEL`. A name without a provider is OpenAI's, as in LiteLLM. */
const providerOf = (rest: string): readonly [provider: string, model: string] => {
  const at = rest.indexOf('/')
  return at <= 0 ? ['openai', rest] : [rest.slice(0, at), rest.slice(at + 1)]
}

/** Refuses names that a list of models does not have. */
const checkListed = (rest: string, { options, variables, world }: Lookup): TE.TaskEither<Failure, void> => {
  const path = options.litellmModels ?? variables('LITELLM_MODELS_PATH')
  if (path === undefined) return TE.right(undefined)
  return pipe(
    readModelFile(path, world.files),
    TE.chainEitherK((list): E.Either<Failure, void> => {
      const names = z.array(z.string()).safeParse(list)
      if (!names.success) return E.left(problemsAt(path, names.error))
      const known = names.data.map((name) => name.replace(/^litellm_/, ''))
      return known.includes(rest)
        ? E.right(undefined)
        : E.left(registryFailure(`${unknownName('model', rest, known)} (${path} has ${known.join(', ')})`))
    }),
  )
}

/**
 * Finds `litellm_PROVIDER/MODEL`, or `litellm_MODEL` for OpenAI's: by the proxy at
 * LITELLM_BASE_URL, else by a registry of the AI SDK, else by the package of the provider.
 */
export const liteLlm = (rest: string, lookup: Lookup): FoundPolicy =>
  pipe(
    checkListed(rest, lookup),
    TE.chain(() => {
      const [provider, model] = providerOf(rest)
      const baseUrl = lookup.variables('LITELLM_BASE_URL')
      const registry = lookup.options.providers
      if (baseUrl === undefined)
        return registry === undefined
          ? fromPackage(provider, model, lookup)
          : fromRegistry(registry, `${provider}:${model}`, lookup)
      const apiKey = lookup.variables('LITELLM_API_KEY')
      const config = { model: rest, baseUrl, ...(apiKey !== undefined && { apiKey }) }
      return TE.right(serverPolicy(`litellm_${rest}`, config, lookup))
    }),
  )
