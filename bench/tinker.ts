/**
 * Measures the cost of a driver of a Tinker server: requests, bytes, processor time and memory of
 * a step, by the number of rollouts in flight. A scripted server in another process gives fixed
 * answers: it holds the results of all rollouts until every one of them was requested.
 */
import { fork } from 'node:child_process'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { cpus, loadavg } from 'node:os'
import { fileURLToPath } from 'node:url'
import { orThrow } from '@tandem-rl/base'
import { floatTensor, integerTensor, tinkerClient } from '@tandem-rl/tinker'

/** Tokens of a prompt and of a completion. */
const [PROMPT, COMPLETION] = [256, 256]

const COUNTS = process.argv.slice(2).map(Number)
const ROLLOUTS = COUNTS.length > 0 ? COUNTS : [10, 1000, 10_000]

const numbers = (length: number, from: (i: number) => number): readonly number[] =>
  Array.from({ length }, (_, i) => from(i))
const LOG_PROBS = numbers(COMPLETION, (i) => -(i % 17) / 7)
const TOKENS = numbers(COMPLETION, (i) => 1000 + 97 * i)

const SAMPLE = JSON.stringify({
  type: 'sample',
  sequences: [{ stop_reason: 'length', tokens: TOKENS, logprobs: LOG_PROBS }],
})

/** Answers of the server by path. Results of samples wait until `total` were requested. */
const serve = (): void => {
  let [ids, asked, total] = [0, 0, 0]
  const held: ServerResponse[] = []
  const result = (id: string): object => {
    if (id.startsWith('loss')) {
      const row = {
        logprobs: {
          data: numbers(PROMPT + COMPLETION - 1, () => -1.25),
          dtype: 'float32',
          shape: [PROMPT + COMPLETION - 1],
        },
      }
      const rows = Array.from({ length: Number(id.split('-')[2]) }, () => row)
      return { loss_fn_output_type: 'ArrayRecord', loss_fn_outputs: rows, metrics: { 'loss:sum': 1 } }
    }
    return id.startsWith('model') ? { model_id: 'm', type: 'create_model' } : { metrics: {} }
  }
  const promised = (kind: string, rest = ''): string => JSON.stringify({ request_id: `${kind}-${ids++}${rest}` })
  const submitted = (path: string, body: Record<string, never>): string => {
    if (path.endsWith('/create_session')) return '{"session_id":"s"}'
    if (path.endsWith('/create_sampling_session')) return '{"sampling_session_id":"p"}'
    if (path.endsWith('/create_model')) return promised('model')
    if (path.endsWith('/asample')) return promised('sample')
    if (path.endsWith('/optim_step')) return promised('step')
    if (!path.endsWith('/forward_backward')) return '{}'
    const { data } = body.forward_backward_input as unknown as { readonly data: readonly unknown[] } // as the client sends it
    return promised('loss', `-${data.length}`)
  }
  const answer = (path: string, text: string, response: ServerResponse): void => {
    const body = JSON.parse(text || '{}') as Record<string, never> // sent by the client
    const id = String(body.request_id)
    const isSample = path.endsWith('/retrieve_future') && id.startsWith('sample')
    response.setHeader('content-type', 'application/json')
    if (path === '/total') [asked, total] = [0, Number(body.total)]
    if (!isSample) response.end(path.endsWith('/retrieve_future') ? JSON.stringify(result(id)) : submitted(path, body))
    else held.push(response)
    if (isSample && ++asked === total) for (const each of held.splice(0)) each.end(SAMPLE)
  }
  const server = createServer((incoming, response) => {
    const parts: Buffer[] = []
    incoming
      .on('data', (part: Buffer) => parts.push(part))
      .on('end', () => answer(incoming.url ?? '', Buffer.concat(parts).toString(), response))
  })
  server.keepAliveTimeout = 60_000
  server.listen({ port: 0, host: '127.0.0.1', backlog: 16_384 }, () =>
    process.send?.((server.address() as AddressInfo).port),
  ) // a TCP server
}

/** Measures a phase of a step: seconds, processor seconds, requests and bytes. */
const measured = async (
  counts: () => { requests: number; sentBytes: number; receivedBytes: number },
  run: () => Promise<void>,
) => {
  const [before, used, start] = [counts(), process.cpuUsage(), performance.now()]
  await run()
  const [after, { user, system }] = [counts(), process.cpuUsage(used)]
  return {
    seconds: (performance.now() - start) / 1000,
    cpuMs: (user + system) / 1000,
    requests: after.requests - before.requests,
    sent: after.sentBytes - before.sentBytes,
    received: after.receivedBytes - before.receivedBytes,
  }
}

type Phase = Awaited<ReturnType<typeof measured>>

const line = (
  name: string,
  rollouts: number,
  { seconds, cpuMs, requests, sent, received }: Phase,
  peakBytes: number,
): string =>
  [
    ...[name.padEnd(8), String(rollouts).padStart(7), `${(cpuMs / rollouts).toFixed(3)} CPU ms per rollout`],
    ...[`${(requests / rollouts).toFixed(2)} requests`, `${Math.round(sent / rollouts)} B sent`],
    ...[
      `${Math.round(received / rollouts)} B received`,
      `${seconds.toFixed(2)} s`,
      `${(peakBytes / 2 ** 20).toFixed(0)} MiB`,
    ],
  ].join('  ')

const step = async (url: string, rollouts: number): Promise<void> => {
  const client = tinkerClient({ url })
  const session = orThrow(await client.session()())
  const sampler = orThrow(await session.sampler({ baseModel: 'm' })())
  const trainer = orThrow(await session.trainer({ baseModel: 'm', lora: { rank: 8 } })())
  await fetch(`${url}/total`, { method: 'POST', body: JSON.stringify({ total: rollouts }) })
  let peak = process.memoryUsage.rss()
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage.rss())
  }, 50)
  const prompt = numbers(PROMPT, (i) => 500 + 31 * i)
  const rows: { readonly tokens: readonly number[]; readonly logProbs: readonly number[] }[] = []
  const sampling = await measured(client.counts, async () => {
    const one = async (seed: number): Promise<void> => {
      const { sequences } = orThrow(await sampler.sample(prompt, { maxTokens: COMPLETION, seed })())
      rows.push({ tokens: Array.from(sequences[0]!.tokens), logProbs: Array.from(sequences[0]!.logProbs ?? []) })
    }
    await Promise.all(numbers(rollouts, (i) => i).map(one))
  })
  const sampledPeak = peak
  const training = await measured(client.counts, async () => {
    const zeros = numbers(PROMPT - 1, () => 0)
    const data = rows.map(({ tokens, logProbs }) => ({
      tokens: [...prompt, ...tokens.slice(0, -1)],
      inputs: {
        target_tokens: integerTensor([...prompt.slice(1), ...tokens]),
        logprobs: floatTensor([...zeros, ...logProbs]),
        advantages: floatTensor([...zeros, ...logProbs.map(() => 0.5)]),
      },
    }))
    const loss = orThrow(await trainer.forwardBackward({ data, lossFn: 'importance_sampling' })())
    const stepped = orThrow(await trainer.optimStep({ learning_rate: 1e-4 })())
    orThrow(await loss.result())
    orThrow(await stepped.result())
  })
  clearInterval(watch)
  process.stdout.write(
    `${line('sampling', rollouts, sampling, sampledPeak)}\n${line('training', rollouts, training, peak)}\n`,
  )
  await session.close()
  await client.close()
}

const main = async (): Promise<void> => {
  const server = fork(fileURLToPath(import.meta.url), ['serve'])
  const port = await new Promise<number>((resolve) => server.once('message', (message) => resolve(Number(message))))
  process.stdout.write(
    `${cpus()[0]?.model}, Node ${process.version}, load ${loadavg()[0]!.toFixed(1)}, ${PROMPT} + ${COMPLETION} tokens\n`,
  )
  try {
    for (const rollouts of ROLLOUTS) await step(`http://127.0.0.1:${port}`, rollouts)
  } finally {
    server.kill()
  }
}

if (process.argv[2] === 'serve') serve()
else await main()
