/** The server over the real engine on its thread, with the model that comes with Tandem. */
import { keyFromSeed } from '@tandem-rl/base'
import type { LLMEngine } from '@tandem-rl/text'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { EMBEDDED_MODEL } from '../../../src/live/embeddedModel.js'
import { LLMOnDevice } from '../../../src/modules/generation/onDevice.js'
import { loadText } from '../../../src/modules/pretrained/pretrained.js'
import { checkCrowd } from '../../../test/kit/crowd.js'
import { rightOf } from '../../../test/kit/results.js'
import { useServers } from '../../../test/kit/served.js'
import { type ServeApp, serveApp } from '../src/app.js'

const listen = useServers()
const module = new URL('../../../src/modules/generation/folderEngine.ts', import.meta.url).href

describe('a server over the real engine', () => {
  let engine: LLMEngine
  let app: ServeApp

  beforeAll(async () => {
    const options = { folder: EMBEDDED_MODEL, threads: 1 }
    engine = await rightOf(LLMOnDevice({ module, exportName: 'folderEngine', options }))
    const { text } = await rightOf(loadText(EMBEDDED_MODEL))
    app = serveApp({ engine, model: { names: ['word-problems'], root: EMBEDDED_MODEL }, text, key: keyFromSeed(0) })
  })
  afterAll(() => engine.close())

  it('serves a crowd of which a tenth drops: everybody else gets everything, and every slot comes back', async () => {
    await checkCrowd({ engine, app, listen })
  })

  it("answers OpenAI's client: the same tokens whole, streamed and as log-probabilities", async () => {
    const { url } = await listen(app)
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none' })
    const asked = {
      model: 'word-problems',
      messages: [
        { role: 'user' as const, content: 'Tom has 3 apples and buys 4 more. How many apples does Tom have?' },
      ],
      max_tokens: 32,
      seed: 5,
      temperature: 0.7,
    }
    const whole = await client.chat.completions.create({ ...asked, logprobs: true })
    const [choice] = whole.choices
    let streamed = ''
    for await (const part of await client.chat.completions.create({ ...asked, stream: true })) {
      streamed += part.choices[0]?.delta.content ?? ''
    }
    expect(streamed).toBe(choice!.message.content)
    expect(choice!.logprobs!.content!.length).toBe(whole.usage!.completion_tokens)
    for (const { logprob } of choice!.logprobs!.content!) expect(logprob).toBeLessThanOrEqual(0)
  })
})
