/** Chats with a checkpoint. */
import { keyFromSeed } from '@tandem-rl/base'
import type { ModelWork } from './modelDesk.js'
import type { ChatLine, CheckpointChatRequest, ProgressLine } from './modelProtocol.js'
import { promptIds, reportedSampling, tokenRow } from './modelTokens.js'

/** Yields the tokens of the model's reply as they are sampled. */
export const chatLines = ({ checkpoint, messages, maxNewTokens, temperature, seed }: CheckpointChatRequest) =>
  async function* ({ open, signal }: ModelWork): AsyncGenerator<ProgressLine | ChatLine> {
    yield { type: 'progress', message: 'opening the run' }
    const model = await open()
    const engine = await model.engineAt(checkpoint)
    const prompt = promptIds(model.text, messages)
    const room = engine.info.maxModelLength - prompt.length
    const sampling = reportedSampling({ maxTokens: Math.min(maxNewTokens, room), temperature, key: keyFromSeed(seed) })
    const request = { id: 'chat', prompt, sampling, adapter: null, cacheSalt: '' }
    for await (const event of engine.generate(request, { signal })) {
      if (event._tag === 'Failed') throw new RangeError(event.failure.reason)
      if (event._tag !== 'Tokens') continue
      for (const [i, token] of event.tokens.entries())
        yield { type: 'token', token: tokenRow(model.text, token), text: i === 0 ? event.text : '' }
    }
  }
