/**
 * A scripted server with vLLM's protocol, as a process of its own: so many requests at a time, so many milliseconds for each token, the others
 * wait. It adds up how busy it is, and sends the sum to its parent on request.
 *
 * Started by `fork`; the first message out is the port, each message in starts a new sum and is answered with the last one.
 */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

const slots = Number(process.argv[2])
const msPerToken = Number(process.argv[3])

/** A message from the parent. */
export interface SlotReport {
  /** Share of the time in which a slot had a request, over all slots. */
  readonly busy: number
  readonly requests: number
  /** Requests in slots and waiting, over the time. */
  readonly meanInFlight: number
  readonly largestInFlight: number
  readonly seconds: number
  readonly cpuSeconds: number
}

interface Waiting {
  readonly tokens: number
  readonly response: ServerResponse
}

const queue: Waiting[] = []
let active = 0
let sum = { start: performance.now(), last: performance.now(), busy: 0, flight: 0, largest: 0, requests: 0 }
let cpu = process.cpuUsage()

/** To be called before anything changes. */
const passed = (): void => {
  const now = performance.now()
  const flight = active + queue.length
  sum.busy += active * (now - sum.last)
  sum.flight += flight * (now - sum.last)
  sum.largest = Math.max(sum.largest, flight)
  sum.last = now
}

const ITEM = '{"token_id":7,"logprob":-0.5,"rank":1}'

const answer = (tokens: number): string => {
  const ids = `7${',7'.repeat(tokens - 1)}`
  const content = `${ITEM}${`,${ITEM}`.repeat(tokens - 1)}`
  const span = `{"version":"default","start":0,"end":${tokens}}`
  const choice = `{"index":0,"token_ids":[${ids}],"logprobs":{"content":[${content}]},"finish_reason":"length","stop_reason":null,"weight_versions":[${span}]}`
  return `{"request_id":"r","model":"scripted","created":1,"choices":[${choice}],"usage":null,"prompt_logprobs":null}`
}

const next = (): void => {
  while (active < slots && queue.length > 0) {
    const { tokens, response } = queue.shift()!
    active++
    setTimeout(() => {
      passed()
      active--
      sum.requests++
      response.setHeader('content-type', 'application/json')
      response.end(answer(tokens))
      next()
    }, tokens * msPerToken)
  }
}

const PAGES: Readonly<Record<string, unknown>> = {
  '/health': {},
  '/version': { version: '0.32.0' },
  '/v1/models': { object: 'list', data: [{ id: 'scripted', object: 'model', max_model_len: 1_000_000 }] },
  '/weight_info': { weight_version: 'default' },
  '/server_info': { vllm_config: { model_config: { logprobs_mode: 'raw_logprobs' } } },
  '/is_paused': { is_paused: false },
}

const server = createServer((request, response) => {
  const path = request.url!.split('?')[0]!
  if (path !== '/inference/v1/generate') {
    const page = PAGES[path]
    response.statusCode = page === undefined ? 404 : 200
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(page ?? { error: { message: 'Not Found' } }))
    return
  }
  const pieces: Buffer[] = []
  request.on('data', (piece: Buffer) => pieces.push(piece))
  request.on('end', () => {
    const text = Buffer.concat(pieces).toString()
    const tokens = Number(/"max_tokens":\s*(\d+)/.exec(text)?.[1] ?? 0)
    if (tokens < 1) {
      response.statusCode = 400
      response.end(JSON.stringify({ error: { message: 'max_tokens is missing' } }))
      return
    }
    passed()
    queue.push({ tokens, response })
    next()
  })
})

server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port)) // it listens on a port

process.on('message', () => {
  passed()
  const elapsed = sum.last - sum.start
  const used = process.cpuUsage(cpu)
  const report: SlotReport = {
    busy: sum.busy / (elapsed * slots),
    requests: sum.requests,
    meanInFlight: sum.flight / elapsed,
    largestInFlight: sum.largest,
    seconds: elapsed / 1000,
    cpuSeconds: (used.user + used.system) / 1e6,
  }
  sum = { start: sum.last, last: sum.last, busy: 0, flight: 0, largest: 0, requests: 0 }
  cpu = process.cpuUsage()
  process.send!(report)
})
process.on('disconnect', () => process.exit())
