/**
 * Every command without one of its resources: it ends with a message, and does not wait. Waiting is
 * measured as time in which the process does nothing, so a busy machine does not count.
 */
import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ALL_COMMANDS } from '../kit/commands.js'
import { compiled } from '../kit/compiled.js'
import { watchIdle } from '../kit/idleTime.js'
import { noRedis, type RedisServer, redisServer } from '../kit/redisServer.js'
import { gsm8kLines, tandemOk, useTemporaryFolder, writeAnsweringModel } from '../kit/runs.js'
import { startServe } from '../kit/serveProcess.js'

const path = useTemporaryFolder()
const cwd = path('.')

/** A port that a server occupies. */
let taken = 0
let occupant: Server

/** A server of the model, and one of queues. */
let engine: Awaited<ReturnType<typeof startServe>>
let redis: RedisServer | undefined

/** Addresses at which nothing listens. */
let dead = ''
let deadRedis = ''

/** A server on a free port. */
const listening = async (): Promise<Server> => {
  const server = createServer((_, response) => response.end('{}'))
  await new Promise<void>((listens) => server.listen(0, '127.0.0.1', listens))
  return server
}

const portOf = (server: Server): number => (server.address() as AddressInfo).port // it listens on a port

beforeAll(async () => {
  await writeAnsweringModel(path('model'))
  mkdirSync(path('empty'))
  writeFileSync(path('file'), 'a file')
  writeFileSync(path('rows.jsonl'), gsm8kLines(4))
  writeFileSync(path('job.yaml'), 'entrypoint: run\n')
  const small = ['--max-new-tokens', '4', '--prompts', '2', '--group', '2', '--eval-tasks', '2', '--threads', '1']
  await tandemOk(['train', '--model', 'model', ...small, '--steps', '1', '--out', 'run'], { cwd })
  engine = await startServe(path('model'), 'policy')
  if (noRedis === undefined) redis = await redisServer()
  const closed = await listening()
  dead = `http://127.0.0.1:${portOf(closed)}`
  deadRedis = `redis://127.0.0.1:${portOf(closed)}`
  closed.close()
  occupant = await listening()
  taken = portOf(occupant)
})

afterAll(async () => {
  occupant.closeAllConnections()
  occupant.close()
  await engine.stop()
  await redis?.close()
})

interface Ended {
  readonly code: number | 'waits'
  readonly stderr: string
}

/** The most that a command may wait for something that is missing. */
const LIMIT_MS = 5000

const run = (args: readonly string[]): Promise<Ended> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [compiled('src/cli/main.ts'), ...args], {
      ...{ cwd, stdio: ['ignore', 'ignore', 'pipe'] as const },
      env: { ...process.env, HF_ENDPOINT: dead, HF_HUB_CACHE: path('hub') },
    })
    let stderr = ''
    let waits = false
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
    })
    const unwatch = watchIdle(child.pid!, LIMIT_MS, () => {
      waits = true
      child.kill('SIGKILL')
    })
    child.on('error', reject)
    child.on('close', (code) => {
      unwatch()
      resolve({ code: waits ? 'waits' : (code ?? -1), stderr })
    })
  })

const SHORT = ['--model', 'model', '--max-new-tokens', '4', '--threads', '1']
const TRAIN = [...SHORT, '--prompts', '2', '--group', '2', '--eval-tasks', '2', '--steps', '1']
const GSM8K = ['gsm8k', '--dataset', 'rows.jsonl', '--eval-dataset', 'rows.jsonl']
const WORKER = ['--model', 'model', '--engine', 'http://127.0.0.1:9', '--queue-name', 'none', '--threads', '1']

/** A resource of a command, and the command line in which it is missing. */
type Missing = Readonly<Record<string, () => readonly string[]>>

const MISSING: Readonly<Record<string, Missing>> = {
  train: {
    recipe: () => ['train', 'noSuchRecipe'],
    'recipe file': () => ['train', './none.ts'],
    'settings file': () => ['train', '--config', 'none.yaml'],
    model: () => ['train', '--model', 'none'],
    'model of the hub': () => ['train', '--model', 'owner/none'],
    'folder that holds no model': () => ['train', '--model', 'empty'],
    dataset: () => ['train', ...TRAIN, '--dataset', 'none.jsonl'],
    'dataset of the hub': () => ['train', ...TRAIN, '--dataset', 'hub:owner/none'],
    'held-out dataset': () => ['train', ...TRAIN, '--dataset', 'rows.jsonl', '--eval-dataset', 'none.jsonl'],
    'run folder': () => ['train', '--resume', 'none'],
    'run folder that is a file': () => ['train', '--resume', 'file'],
    'place for a run folder': () => ['train', ...TRAIN, '--out', 'file/run'],
    'place for a run folder outside of disks': () => ['train', ...TRAIN, '--out', '/proc/none'],
    'server of the engine': () => ['train', ...GSM8K, ...TRAIN, '--engine', dead],
    'server of the queue': () => ['train', ...GSM8K, ...TRAIN, '--engine', engine.url, '--queue', deadRedis],
    'server of the learner': () => ['train', ...TRAIN, '--learner', 'tinker', '--url', dead, '--base-model', 'model'],
    'port for metrics': () => ['train', ...TRAIN, '--out', 'metrics', '--metrics-port', String(taken)],
  },
  eval: {
    recipe: () => ['eval', 'noSuchRecipe'],
    'run folder': () => ['eval', './none'],
    model: () => ['eval', 'wordProblems', '--model', 'none'],
    dataset: () => ['eval', 'wordProblems', ...SHORT, '--eval-dataset', 'none.jsonl'],
  },
  bench: {
    recipe: () => ['bench', 'noSuchRecipe'],
    model: () => ['bench', 'wordProblems', '--model', 'none'],
    'other recipe': () => ['bench', 'wordProblems', ...SHORT, '--against', './none.ts'],
    'folder of the picture': () => ['bench', 'wordProblems', ...SHORT, '--picture', 'none/a.svg'],
  },
  agent: {
    recipe: () => ['agent', 'run', 'noSuchRecipe'],
    model: () => ['agent', 'run', 'calculatorAgent', '--model', 'none'],
  },
  sample: {
    recipe: () => ['sample', '--recipe', 'noSuchRecipe'],
    model: () => ['sample', '--model', 'none'],
    'model of a recipe': () => ['sample', '--recipe', 'wordProblems', '--model', 'none'],
    'setting for a model': () => ['sample', '--recipe', 'numberGuessing', '--model', 'none'],
  },
  replay: {
    'run folder': () => ['replay', 'none', '1'],
    step: () => ['replay', 'run', '99'],
    batch: () => ['replay', 'run', 'none/step-000001'],
  },
  worker: {
    recipe: () => ['worker', 'noSuchRecipe', ...WORKER, '--queue', deadRedis, '--on', dead],
    dataset: () => ['worker', 'gsm8k', '--dataset', 'none.jsonl', ...WORKER, '--queue', deadRedis, '--on', dead],
    engine: () => ['worker', ...GSM8K, ...WORKER, '--queue', deadRedis, '--on', dead],
    'model on the engine': () => [
      ...['worker', ...GSM8K, ...WORKER, '--queue', deadRedis, '--on', engine.url, '--served-model', 'other'],
    ],
    'server of the queue': () => ['worker', ...GSM8K, ...WORKER, '--queue', deadRedis, '--on', engine.url],
    'socket of the queue': () => [
      ...['worker', ...GSM8K, ...WORKER, '--queue', `unix:${path('none.sock')}`, '--on', engine.url],
    ],
    ...(noRedis === undefined && {
      queue: () => ['worker', ...GSM8K, ...WORKER, '--queue', redis!.url, '--on', engine.url, '--wait-seconds', '1'],
    }),
  },
  serve: {
    model: () => ['serve', 'none'],
    port: () => ['serve', 'model', '--port', String(taken), '--threads', '1'],
    address: () => ['serve', 'model', '--host', '192.0.2.1', '--threads', '1'],
    'recipe of the environment': () => ['serve', '--env', 'noSuchRecipe'],
    'port of the environment': () => ['serve', '--env', 'numberGuessing', '--port', String(taken), '--threads', '1'],
    'model to train': () => ['serve', 'none', '--tinker'],
    'port of the trainer': () => ['serve', 'model', '--tinker', '--port', String(taken), '--threads', '1'],
  },
  capture: {
    'upstream server': () => ['capture', '--upstream', dead, '--port', '0'],
    model: () => ['capture', '--model-folder', 'none', '--port', '0'],
    port: () => ['capture', '--model-folder', 'model', '--port', String(taken), '--threads', '1'],
    'place for the file': () => ['capture', '--model-folder', 'model', '--out', 'file/calls.jsonl', '--port', '0'],
  },
  tinker: {
    server: () => ['tinker', 'check', dead],
  },
  launch: {
    cluster: () => ['launch', 'job.yaml', '--url', dead],
    'job file': () => ['launch', 'none.yaml', '--url', dead],
    'run folder': () => ['launch', '--resume', 'none'],
    'run folder to stop': () => ['launch', '--stop', 'none'],
  },
  arena: {
    configuration: () => ['arena', 'none.yaml'],
    'tournament to continue': () => ['arena', '--resume', 'none'],
    'place for the tournament': () => ['arena', '--out', 'file/games', '--override', 'num_episodes=1'],
    model: () => ['arena', '--override', 'agents.player_0.model=hf_none/none', 'num_episodes=1', '--out', 'games'],
  },
  view: {
    'run folder': () => ['view', 'none'],
    port: () => ['view', 'run', '--port', String(taken)],
    'place for the page': () => ['view', 'run', '--export', 'file/page.html'],
  },
  runs: {
    folder: () => ['runs', 'none'],
  },
  compare: {
    'run folders': () => ['compare', 'none', 'empty'],
  },
  report: {
    'run folder': () => ['report', 'none'],
  },
  merge: {
    model: () => ['merge', 'none', 'merged'],
    adapter: () => ['merge', 'model', 'merged', '--adapter', 'none'],
    'new folder': () => ['merge', 'model', 'empty', '--adapter', 'run'],
  },
  doctor: {
    model: () => ['doctor', '--model', 'none'],
  },
  init: {
    'empty folder': () => ['init', 'model'],
    'place for the folder': () => ['init', 'file/project'],
  },
  complete: {
    shell: () => ['complete', 'noSuchShell'],
  },
}

it('covers every command', () => {
  expect(Object.keys(MISSING).sort()).toEqual(ALL_COMMANDS.map(({ name }) => name).sort())
})

describe.each(Object.entries(MISSING))('tandem %s ends with a message without', (_, missing) => {
  it.each(Object.entries(missing))('its %s', async (_, args) => {
    const { code, stderr } = await run(args())
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^(tandem|error): /m) })
    expect(stderr).not.toMatch(/^ +at /m) // no stack
  })
})
