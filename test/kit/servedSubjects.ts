/** Policies of a server, as `policySuite` asks them: over vLLM's protocol and over OpenAI's. */
import type { SamplingParams } from '../../src/data/generation.js'
import type { Capture } from '../../src/modules/remote/chat/chatAction.js'
import { OpenAIWrapper } from '../../src/modules/remote/chat/openAIWrapper.js'
import { vLLMClient } from '../../src/modules/remote/vllm/client.js'
import { askHistories, engineAsk } from './policySubjects.js'
import type { PolicyAbilities, PolicySubject, SuiteAsk, SuiteFault, SuiteSampling } from './policySuiteParts.js'
import type { PolicyWorld } from './policySuiteWorld.js'

/** A server of a checkpoint. */
export interface ServedModel {
  readonly url: string
  readonly model: string
  readonly apiKey: string
  readonly world: PolicyWorld
  readonly maxLength: number
  readonly version: number
  readonly tolerance: number
  readonly draws: number
  readonly running: () => Promise<number>
}

/** An address where nobody listens. */
const DEAD_URL = 'http://127.0.0.1:9'
const WRONG_KEY = 'sk-this-is-the-wrong-key'

/** The same policy with something wrong about the server. */
const faultyOf = (
  { url, model, apiKey }: ServedModel,
  make: (server: Pick<ServedModel, 'url' | 'model' | 'apiKey'>) => (ask: SuiteAsk) => ReturnType<PolicySubject['ask']>,
): NonNullable<PolicySubject['faulty']> => ({
  'unknown model': (ask) => make({ url, model: 'nobody-knows-it', apiKey })(ask),
  'wrong key': (ask) => make({ url, model, apiKey: WRONG_KEY })(ask),
  'dead server': (ask) => make({ url: DEAD_URL, model, apiKey })(ask),
})

export const FAULTS: readonly SuiteFault[] = ['unknown model', 'wrong key', 'dead server']

/** The subject of `vLLMClient`, over either of its endpoints. */
export const vLLMSubject = (
  served: ServedModel,
  endpoint: 'generate' | 'completions',
): Omit<PolicySubject, 'close'> & { readonly close: () => Promise<void> } => {
  const { url, model, apiKey, world } = served
  const client = vLLMClient({ url, model, apiKey, endpoint })
  return {
    ...served,
    ...engineAsk(world, client),
    secret: WRONG_KEY,
    faulty: faultyOf(served, (server) => async (ask) => {
      const other = vLLMClient({ ...server, endpoint })
      try {
        return await engineAsk(world, other).ask(ask)
      } finally {
        await other.close()
      }
    }),
    close: client.close,
  }
}

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

/** What `OpenAIWrapper` must do. Fields that change what is drawn from go with `text`, where no log-probabilities are told. */
export const openAIAbilities = (capture: Capture): PolicyAbilities => {
  const tokens = capture === 'tokens' ? 'yes' : 'absent'
  const drawn = capture === 'tokens' ? 'refused' : 'yes'
  return {
    ids: tokens,
    logProbs: tokens,
    temperature: drawn,
    topK: drawn,
    topP: 'yes',
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

/** The subject of `OpenAIWrapper`. */
export const openAISubject = (served: ServedModel, capture: Capture): PolicySubject => {
  const askAt =
    (server: Pick<ServedModel, 'url' | 'model' | 'apiKey'>) =>
    async (ask: SuiteAsk): ReturnType<PolicySubject['ask']> => {
      const closing: (() => Promise<void>)[] = []
      const answer = await askHistories((sampling) => {
        const { temperature, maxTokens, topP, stop } = sampling
        const policy = OpenAIWrapper<Capture>({
          ...{ model: server.model, apiKey: server.apiKey, baseUrl: `${server.url}/v1`, capture, temperature },
          maxNewTokens: maxTokens,
          maxRequestsPerMinute: 1e6,
          ...(topP !== undefined && { topP }),
          ...(stop !== undefined && { stop }),
          extraBody: extraFields(sampling),
        })
        closing.push(policy.close)
        return policy
      })(ask)
      await Promise.all(closing.map((close) => close()))
      return answer
    }
  return {
    ...served,
    secret: WRONG_KEY,
    ask: askAt(served),
    faulty: faultyOf(served, askAt),
    close: async () => {},
  }
}
