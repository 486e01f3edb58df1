/**
 * Records the responses of a server to the scenario of the tests: `npm run make -- exchanges URL
 * MODEL FILE` for one of vLLM's protocol, with the server's name after that for one that knows
 * only chats.
 *
 * The server must run in development mode and have no other users, because it is paused. Names of
 * the machine and secrets are left out.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { orThrow } from '@tandem-rl/base'
import { liveTransport } from '@tandem-rl/host'
import { vLLMClient } from '../../src/modules/remote/vllm/client.js'
import { runChatScenario } from '../../test/kit/chatRecordings.js'
import { type Exchange, recordingTransport, runScenario } from '../../test/kit/recordings.js'

const [url, model, file, chatServer] = process.argv.slice(2)
if (url === undefined || model === undefined || file === undefined) {
  throw new Error('usage: npm run make -- exchanges URL MODEL FILE [NAME OF A CHAT SERVER]')
}

/** Folders of this machine. */
const clean = (text: string): string =>
  text.replaceAll(/\/(?:work|root|home|tmp|Users)\/[^"'\\\s,}]*/g, '/models/policy')

/** Of the server's whole configuration only what a client reads. */
const shortened = (exchange: Exchange): Exchange => {
  if (!exchange.path.startsWith('/server_info') || exchange.answer._tag !== 'Whole') return exchange
  const { vllm_config: config } = JSON.parse(exchange.answer.text) // vLLM's own form
  const { logprobs_mode, max_logprobs } = config.model_config
  const { max_num_seqs } = config.scheduler_config
  const told = { vllm_config: { model_config: { logprobs_mode, max_logprobs }, scheduler_config: { max_num_seqs } } }
  return { ...exchange, answer: { _tag: 'Whole', text: JSON.stringify(told) } }
}

const real = liveTransport({ url })
const { transport, exchanges } = recordingTransport(real, clean)
const run = chatServer === undefined ? runScenario : runChatScenario
const results = JSON.parse(clean(JSON.stringify(await run(transport, model)).replaceAll(url, 'http://engine')))
const server = chatServer ?? orThrow(await vLLMClient({ transport: real, model }).connect()).server
writeFileSync(file, `${JSON.stringify({ server, exchanges: exchanges.map(shortened), results }, undefined, 1)}\n`)
await real.close()
console.log(`${exchanges.length} exchanges with ${server}, ${readFileSync(file).length} bytes`)
