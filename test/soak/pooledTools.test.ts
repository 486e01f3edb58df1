/** Chains with pooled tools and injected faults leave no process, socket, folder or lease. */
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getRequestListener } from '@hono/node-server'
import { child, keyFromSeed, type ResourceSpec, resourceFailure, uniformInteger } from '@tandem-rl/base'
import { liveTransport } from '@tandem-rl/host'
import { scriptedHistoryPolicy } from '@tandem-rl/testing'
import { message } from '@tandem-rl/text'
import {
  type LineProcess,
  processResource,
  remoteWorldTool,
  SimpleToolTransform,
  shopTasks,
  shopWorld,
  ToolRegistry,
  tool,
  toolEnvironment,
  toolFailure,
  worldService,
} from '@tandem-rl/tools'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { LLMCollector } from '../../src/collectors/llmCollector.js'
import { DatasetChatEnv } from '../../src/envs/datasetChatEnv.js'
import { reward } from '../../src/envs/rewards/rewardFunction.js'
import { rewardTransform } from '../../src/envs/transforms/rewardTransform.js'
import { append } from '../../src/envs/transforms/transform.js'
import { useEngine } from '../kit/engine.js'
import { settle } from '../kit/manualTime.js'
import { processesWith } from '../kit/sandboxes.js'
import { callOf } from '../kit/tools.js'

useEngine()

const CHAINS = process.env.LEARNING === 'short' ? 300 : 10_000
const MARK = `pooled-tools-${process.pid}`

/** Echoes lines, and dies or falls silent on demand. */
const PROGRAM = `
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  if (line.includes('die')) process.exit(1)
  if (!line.includes('hang')) console.log(line)
})`

/** A program with a folder of its own; one start in thirty fails. */
const programs = (folder: string): ResourceSpec<{ readonly program: LineProcess; readonly folder: string }> => {
  const spec = processResource({ name: 'echo', command: process.execPath, args: ['-e', PROGRAM, MARK], graceMs: 1000 })
  let starts = 0
  return {
    name: 'echo',
    start: (args, signal) => async () => {
      if (++starts % 30 === 0) return E.left(resourceFailure('echo', 'start', 'no luck'))
      const own = join(folder, `${starts}`)
      const started = await spec.start(args, signal)()
      if (E.isRight(started)) mkdirSync(own)
      return E.map((program: LineProcess) => ({ program, folder: own }))(started)
    },
    end: async ({ program, folder: own }) => {
      await spec.end(program)
      rmSync(own, { recursive: true })
    },
    isAlive: ({ program }) => program.isAlive(),
    reset: () => async () => E.right(undefined),
  }
}

/** Lists the resources of this process: sockets, pipes and children. */
const held = (): number =>
  process.getActiveResourcesInfo().filter((kind) => /Wrap$/.test(kind) && kind !== 'TTYWrap').length

it(`${CHAINS} chains leave nothing behind`, { timeout: 3_600_000 }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tandem-pooled-'))
  const before = held()
  const service = worldService(shopWorld())
  const server = createServer(getRequestListener(service.handle))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const transport = liveTransport({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })

  const environment = toolEnvironment(programs(folder), { poolSize: 16 })
  const echo = tool({
    ...{ name: 'echo', description: 'Echoes.', parameters: { text: z.string() }, initial: null, environment },
    run:
      ({ text }, { environment: { program }, signal }) =>
      async () => {
        const said = await program.ask(text, { limitMs: 10_000, signal })
        if (E.isLeft(said)) return E.left(toolFailure('echo', 'infrastructure', said.left.reason))
        return E.right({ content: said.right, state: null })
      },
  })
  const shop = remoteWorldTool({ name: 'shop', description: 'A shop.', transport, poolSize: 16 })
  const judge = reward(
    async ({ environment: { program }, prediction, signal }) => {
      if (prediction.includes('unlucky')) throw new Error('an unlucky reward')
      return E.isRight(await program.ask('reward', { limitMs: 10_000, signal })) ? 1 : 0
    },
    { environment },
  )

  const key = keyFromSeed(5)
  /** The calls of a chain in a turn: most succeed, some fail. */
  const say = (draw: number) => {
    if (draw < 2) return message('assistant', '', { toolCalls: [callOf('echo', { text: 'die' })] })
    if (draw < 4) return message('assistant', '', { toolCalls: [callOf('echo', { text: 'hang' })] })
    if (draw < 6) return message('assistant', 'an unlucky answer')
    if (draw < 45) return message('assistant', '', { toolCalls: [callOf('echo', { text: 'hello' })] })
    if (draw < 70) return message('assistant', '', { toolCalls: [callOf('shop', { action: 'search[mug]' })] })
    return message('assistant', 'done')
  }
  const collector = LLMCollector({
    env: (task) =>
      pipe(
        DatasetChatEnv({ source: shopTasks(key), prompts: 1, start: task, keep: 'task' }),
        append(SimpleToolTransform({ registry: ToolRegistry([echo, shop]), limits: { timeoutMs: 1000 } })),
        append(rewardTransform({ reward: judge })),
      ),
    policy: scriptedHistoryPolicy({
      answers: (_, turn) => say(uniformInteger(turn, 100)),
      faults: (call) => (call % 97 === 96 ? { _tag: 'Throw', error: new Error('the policy broke') } : undefined),
    }),
    key: child(key, 'chains'),
    concurrent: { tasks: CHAINS, maxInFlight: 16, onFailure: { retry: 1, pauseMs: 1 }, maxFailureShare: 1 },
  })
  let played = 0
  for await (const batch of collector) {
    void batch
    played++
  }
  await settle()
  const { leased, waiting, starting } = environment.pool.stats()
  expect([leased, waiting, starting]).toEqual([0, 0, 0])
  expect(played).toBeGreaterThan(CHAINS / 2)

  await Promise.all([environment.close(), shop.close?.()])
  expect([environment.pool.stats().idle, service.sessions()]).toEqual([0, 0])
  expect([processesWith(MARK), readdirSync(folder)]).toEqual([[], []])
  await transport.close()
  await new Promise((resolve) => server.close(resolve))
  await rm(folder, { recursive: true })
  await settle()
  expect(held()).toBeLessThanOrEqual(before)
  const { started, failed, ended } = environment.pool.stats()
  console.log(`${CHAINS} chains, ${played} whole; programs started ${started}, failed ${failed}, ended ${ended}`)
})
