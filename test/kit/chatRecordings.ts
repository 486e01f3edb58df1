/** Requests to every recorded chat server: texts of answers, and errors. */
import { keyFromSeed, type Transport } from '@tandem-rl/base'
import { History, type Message, message } from '@tandem-rl/text'
import { data } from '../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import type { Capture } from '../../src/modules/remote/chat/chatAction.js'
import type { OpenAIWrapperOptions } from '../../src/modules/remote/chat/clientConfig.js'
import { OpenAIWrapper } from '../../src/modules/remote/chat/openAIWrapper.js'

const HELLO = [message('user', 'Hi')]
const RULES = [message('system', 'Be brief.'), message('user', '7 7 7')]

interface Step {
  readonly rows: readonly (readonly Message[])[]
  readonly config?: Partial<OpenAIWrapperOptions<Capture>>
}

const STEPS: Readonly<Record<string, Step>> = {
  greedy: { rows: [HELLO, RULES], config: { temperature: 0, maxNewTokens: 6 } },
  'several answers to one question': { rows: [HELLO, HELLO, HELLO] },
  'to its end': { rows: [RULES], config: { temperature: 0, maxNewTokens: 64 } },
  'a stop string': { rows: [HELLO], config: { temperature: 0, stop: ['\u0001', '7'], maxNewTokens: 16 } },
  'a bias': { rows: [HELLO], config: { temperature: 0, extraBody: { logit_bias: { 65: 99.5 } } } },
  'refused: a field that is not of OpenAI': { rows: [HELLO], config: { extraBody: { min_p: 0.1 } } },
  'refused: tokens': { rows: [HELLO], config: { capture: 'tokens' } },
  'refused: no such model': { rows: [HELLO], config: { model: 'nobody' } },
}

/** Sends all requests through `OpenAIWrapper`, and returns the results, step by step. */
export const runChatScenario = async (
  transport: Transport,
  model: string,
): Promise<Readonly<Record<string, unknown>>> => {
  const results: Record<string, unknown> = {}
  for (const [name, { rows, config }] of Object.entries(STEPS)) {
    const policy = OpenAIWrapper<Capture>({ model, maxNewTokens: 4, ...config, transport })
    const prompt = TensorDict({ history: { prompt: data(rows.map((messages) => History(messages))) } }, [rows.length])
    const acted = await policy.act(prompt, keyFromSeed(9))()
    results[name] =
      acted._tag === 'Left'
        ? { kind: acted.left.kind, reason: acted.left.reason }
        : get(acted.right, 'history', 'response')
            .items.toArray()
            .map((response, i) => ({
              content: response.content,
              isComplete: response.isComplete,
              stopReason: get(acted.right, 'stopReason').items.get(i),
              answer: get(acted.right, 'answer').items.get(i),
            }))
  }
  return results
}
