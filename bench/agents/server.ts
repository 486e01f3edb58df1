/**
 * A scripted server with OpenAI's chat protocol, as a process of its own: it answers a conversation without a tool's result with a call of
 * `add`, and one with a result with an answer. `ms` is how long it waits before it answers.
 *
 * Started by `fork`; its only message is the port.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const ms = Number(process.argv[2])

const bodyOf = (message: object, reason: string): string =>
  JSON.stringify({
    ...{ id: 'scripted', object: 'chat.completion', created: 1, model: 'scripted' },
    choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: reason, logprobs: null }],
    usage: { prompt_tokens: 40, completion_tokens: 20, total_tokens: 60 },
  })

const CALL = { id: 'call_1', type: 'function', function: { name: 'add', arguments: '{"a": 17, "b": 25}' } }
const [asking, answering] = [
  bodyOf({ content: null, tool_calls: [CALL] }, 'tool_calls'),
  bodyOf({ content: 'The sum is 42.' }, 'stop'),
]

const server = createServer((request, response) => {
  const pieces: Buffer[] = []
  request.on('data', (piece: Buffer) => pieces.push(piece))
  request.on('end', () => {
    const hasResult = /"role":\s*"tool"/.test(Buffer.concat(pieces).toString())
    const answer = (): void => {
      response.setHeader('content-type', 'application/json')
      response.end(hasResult ? answering : asking)
    }
    if (ms > 0) setTimeout(answer, ms)
    else answer()
  })
})

server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port)) // it listens on a port
process.on('disconnect', () => process.exit())
