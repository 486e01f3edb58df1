/**
 * Policies of a server, as `policySuite` asks them: over vLLM's protocol, over OpenAI's, and
 * through a provider of the AI SDK.
 */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import type { SamplingParams } from '@tandem-rl/text'
import { aiSDKWrapper } from '../../src/modules/remote/chat/aiSDKWrapper.js'
import type { Capture } from '../../src/modules/remote/chat/chatAction.js'
import { OpenAIWrapper } from '../../src/modules/remote/chat/openAIWrapper.js'
import { type ClientPolicy, vLLMWrapper } from '../../src/modules/remote/vllm/vLLMWrapper.js'
import { askHistories, askTokens, engineSampling, scoreTokens } from './policySubjects.js'
import type { PolicyAbilities, PolicySubject, SuiteFault, SuiteSampling } from './policySuiteParts.js'
import type { PolicyWorld } from './policySuiteWorld.js'

/** A server of a checkpoint. */
export interface ServedModel {
  readonly url: string
  readonly model: string
  readonly apiKey: string
  readonly world: PolicyWorld
  readonly maxLength: number
  readonly version: number
  /** The distribution whose log-probabilities the server reports. */
  readonly logProbsMode: 'raw' | 'processed'
  readonly tolerance: number
  readonly draws: number
  /** Absent where the server does not tell. */
  readonly running?: () => Promise<number>
}

/** An address without a listener. */
const DEAD_URL = 'http://127.0.0.1:9'
const WRONG_KEY = 'sk-this-is-the-wrong-key'

/** The address and name of a policy's model. */
type Address = Pick<ServedModel, 'url' | 'model' | 'apiKey'>

/** A policy that is asked once, and closed. */
type AskAt = (server: Address) => PolicySubject['ask']

/** The same policy with something wrong about the server. */
const faultyOf = ({ url, model, apiKey }: ServedModel, askAt: AskAt): NonNullable<PolicySubject['faulty']> => ({
  'unknown model': askAt({ url, model: 'nobody-knows-it', apiKey }),
  'wrong key': askAt({ url, model, apiKey: WRONG_KEY }),
  'dead server': askAt({ url: DEAD_URL, model, apiKey }),
})

export const FAULTS: readonly SuiteFault[] = ['unknown model', 'wrong key', 'dead server']

/**
 * The subject of policies of engine clients: one for all that is asked, others for what only the
 * making of a policy decides.
 */
const clientSubject = (
  served: ServedModel,
  make: (server: Address, options: Partial<ReturnType<typeof engineSampling>>) => ClientPolicy,
): PolicySubject => {
  const policy = make(served, {})
  const askOnce: AskAt = (server) => async (ask) => {
    const once = make(server, engineSampling(ask.sampling))
    const answer = await askTokens(served.world, () => once)(ask)
    await once.close()
    return answer
  }
  const askAgain = askTokens(served.world, ({ keepLast: _, ...sampling }) => policy.withSampling(sampling))
  return {
    ...served,
    secret: WRONG_KEY,
    ask: (ask) => (ask.sampling.keepLast === undefined ? askAgain(ask) : askOnce(served)(ask)),
    score: scoreTokens(policy),
    faulty: faultyOf(served, askOnce),
    close: policy.close,
  }
}

/** The subject of `vLLMWrapper`, over either of its endpoints. */
export const vLLMSubject = (served: ServedModel, endpoint: 'generate' | 'completions'): PolicySubject =>
  clientSubject(served, ({ url, model, apiKey }, options) =>
    vLLMWrapper({ url, model, apiKey, server: { endpoint }, ...options }),
  )

/** Settings that OpenAI's format has no field for, as vLLM names them. */
const extraFields = (sampling: SuiteSampling): Readonly<Record<string, unknown>> => {
  const names: Readonly<Partial<Record<keyof SamplingParams | 'keepLast', string>>> = {
    topK: 'top_k',
    minP: 'min_p',
    presencePenalty: 'presence_penalty',
    frequencyPenalty: 'frequency_penalty',
    repetitionPenalty: 'repetition_penalty',
    allowedTokens: 'allowed_token_ids',
    minTokens: 'min_tokens',
    stopTokens: 'stop_token_ids',
    keepLast: 'truncate_prompt_tokens',
  }
  const given = Object.entries(names).flatMap(([name, field]) => {
    const value = sampling[name as keyof SuiteSampling] // a key of `names`
    return value === undefined ? [] : [[field, value] as const]
  })
  const { logitBias } = sampling
  return { ...Object.fromEntries(given), ...(logitBias && { logit_bias: Object.fromEntries(logitBias) }) }
}

/**
 * The required abilities of a chat server's policy. With `text`, which has no log-probabilities,
 * fields may change the sampled distribution; with `tokens` the server's log-probabilities decide.
 */
export const chatAbilities = (capture: Capture, served: ServedModel['logProbsMode'] = 'raw'): PolicyAbilities => {
  const tokens = capture === 'tokens' ? 'yes' : 'absent'
  const drawn = capture === 'tokens' ? 'refused' : 'yes'
  return {
    ids: tokens,
    logProbs: tokens,
    temperature: served === 'processed' ? 'yes' : drawn,
    topK: drawn,
    topP: served === 'processed' ? drawn : 'yes',
    minP: drawn,
    penalties: drawn,
    logitBias: drawn,
    allowedTokens: drawn,
    minTokens: drawn,
    stopStrings: 'yes',
    stopTokens: tokens,
    seeds: 'yes',
    scoring: 'absent',
    contextLimit: 'yes',
    truncation: 'absent',
    cancel: 'yes',
    versions: tokens,
  }
}

/** The subject of a policy of conversations that is made for what is asked of it. */
const chatSubject = (served: ServedModel, askAt: AskAt): PolicySubject => ({
  ...served,
  secret: WRONG_KEY,
  ask: askAt(served),
  faulty: faultyOf(served, askAt),
  close: async () => {},
})

/** Settings that every policy of conversations has. */
const chatSettings = ({ temperature, maxTokens, topP, stop }: SuiteSampling) => ({
  temperature,
  maxNewTokens: maxTokens,
  ...(topP !== undefined && { topP }),
  ...(stop !== undefined && { stop }),
})

/** The subject of `OpenAIWrapper`. */
export const openAISubject = (served: ServedModel, capture: Capture): PolicySubject =>
  chatSubject(served, ({ url, model, apiKey }) => async (ask) => {
    const closing: (() => Promise<void>)[] = []
    const answer = await askHistories((sampling) => {
      const policy = OpenAIWrapper<Capture>({
        ...{ model, apiKey, baseUrl: `${url}/v1`, capture, ...chatSettings(sampling) },
        maxRequestsPerMinute: 1e6,
        dialect: { logProbs: served.logProbsMode },
        extraBody: extraFields(sampling),
      })
      closing.push(policy.close)
      return policy
    })(ask)
    await Promise.all(closing.map((close) => close()))
    return answer
  })

/** The subject of `aiSDKWrapper`, through the provider of OpenAI-compatible servers. */
export const aiSDKSubject = (served: ServedModel, capture: Capture): PolicySubject =>
  chatSubject(served, ({ url, model, apiKey }) => {
    const provider = createOpenAICompatible({ name: 'engine', baseURL: `${url}/v1`, apiKey })
    return askHistories((sampling) =>
      aiSDKWrapper<Capture>({
        ...{ model: provider.chatModel(model), capture, ...chatSettings(sampling) },
        attempts: 2,
        providerOptions: { engine: extraFields(sampling) },
        secrets: [apiKey],
      }),
    )
  })
