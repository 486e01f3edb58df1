/**
 * Rollouts by two real workers on a real Redis and one real engine; one of them is killed in the
 * middle.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { orThrow } from '@tandem-rl/base'
import { collectFromQueue, ledger, openRolloutQueue, redisQueueLog } from '@tandem-rl/cluster'
import { liveProcesses } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import { expect, it } from 'vitest'
import { LLMCollector } from '../../src/collectors/llmCollector.js'
import type { TokenPrompt } from '../../src/data/policy.js'
import { raggedRows } from '../../src/data/tensorDict/leaf.js'
import { get } from '../../src/data/tensorDict/tensorDict.js'
import { EMBEDDED_MODEL } from '../../src/live/embeddedModel.js'
import { loadText } from '../../src/modules/pretrained/pretrained.js'
import { vLLMWrapper } from '../../src/modules/remote/vllm/vLLMWrapper.js'
import { compiled, fromCompiledFolder } from '../kit/compiled.js'
import { useEngine } from '../kit/engine.js'
import { noRedis, redisServer } from '../kit/redisServer.js'
import {
  gsm8kLines,
  parseJsonLines,
  tandem,
  tandemOk,
  useTemporaryFolder,
  withFlags,
  writeAnsweringModel,
} from '../kit/runs.js'
import { startServe } from '../kit/serveProcess.js'
import { wordProblemRun } from '../kit/trainingRuns.js'

useEngine()
const at = useTemporaryFolder()

/** The prompts of the workers' tasks. */
type WordProblems = TokenPrompt

const TASKS = 12
const GROUP = 4

/** The queue and the engine of a worker, and the arguments that choose its recipe. */
interface WorkerPlace {
  readonly redis: string
  readonly engine: string
  readonly recipe: readonly string[]
}

/** `tandem worker` as a process of its own, and the lines that it writes. */
const startWorker = async (name: string, { redis, engine, recipe }: WorkerPlace) => {
  const lines: string[] = []
  const running = orThrow(
    await liveProcesses.start({
      command: process.execPath,
      args: [
        ...[...fromCompiledFolder(), compiled('src/cli/main.ts'), 'worker', ...recipe, '--name', name],
        ...['--queue', redis, '--queue-name', 'run', '--on', engine, '--slots', '3', '--threads', '1'],
      ],
      onLine: (line) => lines.push(line),
    })(),
  )
  return { ...running, lines, delivered: () => lines.filter((line) => line.includes('"type":"delivered"')).length }
}

/** Adds the reason to the title of a test that is skipped without Redis. */
const titled = (title: string): string => (noRedis === undefined ? title : `${title} (skipped: ${noRedis})`)

it.skipIf(noRedis !== undefined)(
  titled(
    'two workers, one killed with rollouts in its hands: every task is learned from once, as if one process had played all',
  ),
  async () => {
    const redis = await redisServer()
    const engine = await startServe(EMBEDDED_MODEL, 'policy')
    const log = redisQueueLog({ url: redis.url, name: 'run' })
    const settings = { groupSize: GROUP, capacity: TASKS, leaseMs: 6000, maxAttempts: 100, order: 'task' } as const
    const queue = orThrow(await openRolloutQueue(log, { settings, name: 'trainer' })())
    const collector = orThrow(
      await collectFromQueue<WordProblems>({
        queue,
        tasks: (ticket) => (ticket < TASKS ? { ticket } : undefined),
        groups: 3,
      })(),
    )
    const first = collector.next(0)()
    const place = { redis: redis.url, engine: engine.url, recipe: ['--group', String(GROUP)] }
    const [doomed, other] = await Promise.all(['doomed', 'other'].map((name) => startWorker(name, place)))
    const held = async (name: string): Promise<number> =>
      [...orThrow(await queue.look()).pending.values()]
        .flatMap(({ places }) => places)
        .filter((place) => place._tag === 'Leased' && place.worker.startsWith(name)).length
    await expect
      .poll(async () => doomed!.delivered() > 0 && (await held('doomed')) > 0, { interval: 1, timeout: 250_000 })
      .toBe(true)
    process.kill(doomed!.pid, 'SIGKILL')
    await doomed!.ended
    const learned: (readonly [ticket: number, tokens: readonly number[]][])[] = []
    for (let taken = orThrow(await first); taken._tag === 'Batch'; taken = orThrow(await collector.next(0)())) {
      using batch = taken.batch
      const { tickets } = taken
      const rows = raggedRows(get(batch.value, 'tokens', 'full')).map((row) => [...row])
      learned.push(
        tickets.flatMap((ticket, i) =>
          rows.slice(i * GROUP, (i + 1) * GROUP).map((row) => [ticket, row] as [number, number[]]),
        ),
      )
      collector.end(tickets.map((ticket) => ({ ticket, how: { _tag: 'Trained', step: learned.length } })))
      orThrow(await collector.stored(collector.position())())
    }
    const { drawn, trained } = ledger(orThrow(await queue.look()))
    expect([drawn, trained, collector.position()]).toEqual([TASKS, TASKS, { trained: TASKS, ends: [] }])
    expect(orThrow(await log.rolloutNames())).toEqual([])
    process.kill(other!.pid, 'SIGINT')
    expect(await other!.ended).toMatchObject({ code: 130 })
    expect(JSON.parse(other!.lines.at(-1)!)).toMatchObject({ type: 'end', delivered: other!.delivered() })

    const { text } = orThrow(await loadText(EMBEDDED_MODEL)())
    const alike = await wordProblemRun(withFlags({}, { group: GROUP }), { memory: 'ignore' })
    const { env, key } = alike.groups!
    const policy = vLLMWrapper({
      ...{ url: engine.url, model: 'policy' },
      sampling: { maxTokens: 64, temperature: 1, stopTokens: [text.tokenizer.idOf(text.endOfTurn)!] },
    })
    const run = LLMCollector({
      env,
      ...{ policy, key, concurrent: { tasks: TASKS, maxInFlight: 8, order: 'drawn' } },
    }).begin()
    const alone: (readonly [ticket: number, tokens: readonly number[]])[] = []
    for (let taken = await run.next(); E.isRight(taken) && taken.right._tag === 'Batch'; taken = await run.next()) {
      const { tasks, batch: owned } = taken.right
      using batch = owned
      const rows = raggedRows(get(batch.value, 'tokens', 'full')).map((row) => [...row])
      alone.push(...rows.map((row, i) => [tasks[Math.floor(i / GROUP)]!, row] as const))
    }
    expect(learned.flat()).toEqual(alone)
    await policy.close()
    await alike.close()
    await queue.close()
    await engine.stop()
    await redis.close()
  },
)

it.skipIf(noRedis !== undefined)(
  titled('tandem train --queue learns from tandem worker, is killed and resumed, and learns from every task once'),
  async () => {
    const redis = await redisServer()
    const model = await writeAnsweringModel(at('model'))
    // More rows than tickets can be drawn: a worker that is far ahead makes groups stale, and
    // others take their place.
    writeFileSync(at('rows.jsonl'), gsm8kLines(2000))
    const engine = await startServe(model, 'policy')
    const sizes = [
      'tasks.prompts=2',
      'tasks.group=2',
      'sampling.maxNewTokens=8',
      'keep.checkpointEvery=2',
      'keep.evalTasks=4',
    ]
    const recipe = [
      'gsm8k',
      '--model',
      model,
      '--dataset',
      at('rows.jsonl'),
      ...sizes.flatMap((text) => ['--set', text]),
    ]
    const queue = ['--queue', redis.url, '--queue-name', 'run']
    const common = [...queue, '--threads', '1', '--json']
    const [cwd, out] = [at('.'), at('queued')]
    const first = tandem(['train', ...recipe, '--engine', engine.url, '--steps', '6', '--out', out, ...common], {
      cwd,
      // the next step has begun when the line of a step arrives
      onLine: (line) => (line.includes('"type":"step","step":3,') ? 'SIGKILL' : undefined),
    })
    const log = redisQueueLog({ url: redis.url, name: 'run' })
    const isMade = async () => (await openRolloutQueue(log, { name: 'look' })())._tag
    await expect.poll(isMade, { timeout: 120_000 }).toBe('Right') // by the trainer
    const worker = await startWorker('worker', { redis: redis.url, engine: engine.url, recipe })
    expect((await first).signal).toBe('SIGKILL')
    const { stdout } = await tandemOk(['train', '--resume', out, ...common], { cwd })
    expect(stdout).toContain('"type":"start","firstStep":3')
    const look = orThrow(await openRolloutQueue(log, { name: 'look' })())
    const counts = ledger(orThrow(await look.look()))
    await look.close()
    process.kill(worker.pid, 'SIGINT')
    expect(await worker.ended).toMatchObject({ code: 130 })
    const shown = parseJsonLines(readFileSync(at('queued/trajectories.jsonl'), 'utf8'))
    expect(new Set(shown.map(({ query }) => query)).size).toBe(12) // two tasks in each of six steps, none twice
    expect(counts.trained).toBe(12)
    await engine.stop()
    await redis.close()
  },
)
