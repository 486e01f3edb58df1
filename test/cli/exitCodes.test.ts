/** The exit code of every command that a signal ends while it works. */
import { writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { noRedis, type RedisServer, redisServer } from '../kit/redisServer.js'
import { type CommandResult, gsm8kLines, tandem, useTemporaryFolder, writeAnsweringModel } from '../kit/runs.js'
import { startServe } from '../kit/serveProcess.js'

const path = useTemporaryFolder()
const cwd = path('.')

/** A Ray cluster whose only job runs without end. */
const rayCluster = (): Server =>
  createServer((request, response) => {
    const answer = request.url?.endsWith('/logs')
      ? { logs: 'step:1 - reward:0.5\n' }
      : { submission_id: 'job', status: 'RUNNING', entrypoint: 'run' }
    request.resume().on('end', () => response.end(JSON.stringify(answer)))
  })

const cluster = rayCluster()

/** A server of the model, and one of queues. */
let engine: Awaited<ReturnType<typeof startServe>>
let redis: RedisServer | undefined

beforeAll(async () => {
  await writeAnsweringModel(path('model'))
  engine = await startServe(path('model'), 'policy')
  if (noRedis === undefined) redis = await redisServer()
  writeFileSync(path('games.yaml'), GAMES)
  writeFileSync(path('rows.jsonl'), gsm8kLines(4))
  await new Promise<void>((listens) => cluster.listen(0, '127.0.0.1', listens))
})

afterAll(async () => {
  cluster.closeAllConnections()
  cluster.close()
  await engine.stop()
  await redis?.close()
})

/** A tournament that would go on for ever. */
const GAMES = `env_configs:
  - game_name: kuhn_poker
num_episodes: 1000000
agents:
  player_0: { type: random }
  player_1: { type: random }
`

const MODEL = ['--model', 'model', '--max-new-tokens', '8', '--threads', '1']
const STEPS = ['--prompts', '2', '--group', '2', '--eval-tasks', '4']

/** A command that would go on for ever, and the output by which it works. */
interface Work {
  readonly args: () => readonly string[]
  readonly works: RegExp
}

const INTERRUPTED: Readonly<Record<string, Work>> = {
  train: {
    args: () => ['train', ...MODEL, ...STEPS, '--steps', '100000', '--json'],
    works: /"type":"step"/,
  },
  calibration: {
    args: () => ['train', ...MODEL, ...STEPS, '--calibrate'],
    works: /calibrating threads/,
  },
  eval: {
    args: () => ['eval', 'wordProblems', ...MODEL, '--eval-tasks', '100000', '--json'],
    works: /"type":"result"/,
  },
  bench: {
    args: () => ['bench', 'wordProblems', ...MODEL, '--prompts', '2', '--group', '2', '--measured', '100000'],
    works: /step 1 of/,
  },
  agent: {
    args: () => ['agent', 'run', 'calculatorAgent', '--shown', '64', '--threads', '1', '--chains', '1000', '--json'],
    works: /"type":"chain_start"/,
  },
  capture: {
    args: () => ['capture', '--port', '0', '--threads', '1'],
    works: /^capturing /m,
  },
  arena: {
    args: () => ['arena', 'games.yaml', '--out', `games-${process.hrtime.bigint()}`, '--json'],
    works: /"type":"game"/,
  },
  launch: {
    args: () => {
      const { port } = cluster.address() as AddressInfo // it listens on a port
      return ['launch', '--url', `http://127.0.0.1:${port}`, '--entrypoint', 'run']
    },
    works: /step 1/,
  },
}

/** Commands that wait for another process, by a queue. */
const QUEUED: Readonly<Record<string, Work>> = {
  'trainer without workers': {
    args: () => [
      ...['train', 'gsm8k', '--dataset', 'rows.jsonl', '--eval-dataset', 'rows.jsonl', ...MODEL, ...STEPS],
      ...[
        '--steps',
        '9',
        '--engine',
        engine.url,
        '--queue',
        redis!.url,
        '--queue-name',
        'a',
        '--shared-tasks',
        'allow',
      ],
    ],
    works: /no worker/,
  },
  'worker without a trainer': {
    args: () => ['worker', ...MODEL, '--on', engine.url, '--queue', redis!.url, '--queue-name', 'b'],
    works: /waiting/,
  },
}

/** Commands that a signal ends as it should: a server has no other end. */
const SERVERS: Readonly<Record<string, Work>> = {
  serve: { args: () => ['serve', '--port', '0', '--threads', '1'], works: /^serving /m },
  tinker: { args: () => ['serve', '--tinker', '--port', '0', '--threads', '1'], works: /^serving /m },
  environment: {
    args: () => ['serve', '--env', 'numberGuessing', '--port', '0', '--threads', '1'],
    works: /^serving /m,
  },
  view: { args: () => ['view', '.', '--port', '0'], works: /^viewing /m },
}

const interrupted = async ({ args, works }: Work, signal: NodeJS.Signals): Promise<CommandResult> => {
  let isSent = false
  const once = (text: string): NodeJS.Signals | undefined => {
    if (isSent || !works.test(text)) return undefined
    isSent = true
    return signal
  }
  return tandem(args(), { cwd, onLine: once, onSaid: once })
}

const SIGNALS = [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const

describe.each(SIGNALS)('after %s, the exit code', (signal, code) => {
  it.each(Object.entries(INTERRUPTED))(`of interrupted work is ${code}: %s`, async (_, work) => {
    const { stderr, ...ended } = await interrupted(work, signal)
    expect(ended, stderr).toMatchObject({ code, signal: null })
    expect(stderr).not.toMatch(/^tandem: /m)
  })

  it.skipIf(noRedis !== undefined).each(Object.entries(QUEUED))(
    `of a wait is ${code}: %s${noRedis ?? ''}`,
    async (_, work) => {
      const { stderr, ...ended } = await interrupted(work, signal)
      expect(ended, stderr).toMatchObject({ code, signal: null })
    },
  )

  it.each(Object.entries(SERVERS))('of a server is 0: %s', async (_, work) => {
    const { stderr, ...ended } = await interrupted(work, signal)
    expect(ended, stderr).toMatchObject({ code: 0, signal: null })
  })
})
