/** Runners of resources: programs, containers by a stand-in for docker, sandboxes, and sessions of a service. */
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { orThrow } from '../../../src/core/failure.js'
import { keyFromSeed } from '../../../src/core/key.js'
import type { ResourceSpec } from '../../../src/core/resource.js'
import { get } from '../../../src/data/tensorDict/tensorDict.js'
import { own } from '../../../src/engine/scope.js'
import { DatasetChatEnv } from '../../../src/envs/datasetChatEnv.js'
import { resourcePool } from '../../../src/envs/resources/resourcePool.js'
import { worldReward } from '../../../src/envs/rewards/worldReward.js'
import { rollout } from '../../../src/envs/rollout.js'
import { remoteWorldTool } from '../../../src/envs/tools/remoteWorldTool.js'
import { SimpleToolTransform } from '../../../src/envs/tools/simpleToolTransform.js'
import { ToolRegistry } from '../../../src/envs/tools/toolRegistry.js'
import { rewardTransform } from '../../../src/envs/transforms/rewardTransform.js'
import { append } from '../../../src/envs/transforms/transform.js'
import { shopSolution, shopTasks, shopWorld } from '../../../src/envs/worlds/shop.js'
import { worldService } from '../../../src/envs/worlds/worldService.js'
import type { LineProcess } from '../../../src/live/resources/lineProcess.js'
import {
  containerResource,
  processResource,
  sandboxResource,
  serviceResource,
} from '../../../src/live/resources/runners.js'
import { liveSandbox } from '../../../src/live/sandbox/liveSandbox.js'
import { liveTransport } from '../../../src/live/transport/liveTransport.js'
import { scriptedHistoryPolicy } from '../../../src/testing/scriptedPolicy.js'
import { message } from '../../../src/text/history/history.js'
import { useEngine } from '../../kit/engine.js'
import { useTemporaryFolder } from '../../kit/runs.js'
import { describeSandboxed, processesWith } from '../../kit/sandboxes.js'
import { callOf } from '../../kit/tools.js'

useEngine()
const at = useTemporaryFolder()

const limitMs = 20_000

/** Answers each line with itself and its process; dies of the word `die`, and is silent at `hang`. */
const ECHO = `
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  if (line === '"die"') { console.error('out of luck'); process.exit(3) }
  if (line !== '"hang"') console.log(JSON.stringify([JSON.parse(line), process.pid]))
})`

const echo = { name: 'echo', command: process.execPath, args: ['-e', ECHO], graceMs: 2000 }

const pidOf = (line: string): number => (JSON.parse(line) as readonly [unknown, number])[1]

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

const leasedFrom = async <R>(spec: ResourceSpec<R>) => {
  const pool = resourcePool(spec, { limit: 2 })
  return { pool, lease: orThrow(await pool.acquire({ args: undefined })()) }
}

describe('processResource', () => {
  it('answers line by line, and is gone when its lease ends', async () => {
    const { lease, pool } = await leasedFrom(processResource(echo))
    const answer = orThrow(await lease.resource.ask({ a: 1 }, { limitMs }))
    expect(JSON.parse(answer)).toMatchObject([{ a: 1 }, expect.any(Number)])
    await lease.end()
    expect([isAlive(pidOf(answer)), pool.stats().ended]).toEqual([false, 1])
  })

  it('names the end of a program that dies, and one that does not exist', async () => {
    const { lease } = await leasedFrom(processResource(echo))
    expect(await lease.resource.ask('die', { limitMs })).toMatchObject({
      left: { kind: 'dead', reason: "the resource 'echo': it ended with code 3: out of luck" },
    })
    expect(lease.resource.isAlive()).toBe(false)
    await lease.end()
    const none = resourcePool(processResource({ ...echo, command: 'no-such-program' }))
    expect(await none.acquire({ args: undefined })()).toMatchObject({
      left: { kind: 'start', reason: expect.stringContaining('there is no such program') },
    })
  })

  it('ends a program whose caller leaves', async () => {
    const { lease } = await leasedFrom(processResource(echo))
    const pid = pidOf(orThrow(await lease.resource.ask(1, { limitMs })))
    const controller = new AbortController()
    const asked = lease.resource.ask('hang', { limitMs, signal: controller.signal })
    controller.abort()
    expect(await asked).toMatchObject({ left: { kind: 'cancelled' } })
    expect(isAlive(pid)).toBe(false)
  })
})

/** Docker as far as the runner uses it: a container is a process, and a file has what was asked. */
const fakeDocker = (): { readonly runtime: string; readonly log: () => readonly string[] } => {
  const [runtime, log, program] = [at('docker'), at('log'), at('echo.cjs')]
  writeFileSync(program, ECHO)
  const script = `#!/bin/sh
echo "$*" >> ${log}
case "$1" in
  run) exec "${process.execPath}" ${program} ;;
  ps) echo "dead0 999999999"; echo "mine0 ${process.pid}" ;;
esac
`
  writeFileSync(runtime, script)
  chmodSync(runtime, 0o755)
  return { runtime, log: () => readFileSync(log, 'utf8').trim().split('\n') }
}

describe('containerResource', () => {
  it('runs a container with its limits, removes it at its end, and sweeps those of dead processes', async () => {
    const { runtime, log } = fakeDocker()
    const options = { name: 'py', image: 'python:3', command: ['serve'], memory: '512m', cpus: 1, runtime }
    const { lease } = await leasedFrom<LineProcess>(
      containerResource({ ...options, env: { A: '1' }, mounts: { '/data': '/srv' } }),
    )
    expect(JSON.parse(orThrow(await lease.resource.ask([1], { limitMs })))).toMatchObject([[1], expect.any(Number)])
    await lease.end()
    const [list, swept, run, removed] = log()
    expect(list).toContain('ps --all --filter label=tandem.owner')
    expect(swept).toBe('rm --force dead0')
    expect(run).toMatch(
      /^run --rm --interactive --init --name tandem-\S+ --label tandem.owner=\d+ --network none --memory 512m --cpus 1 --env A=1 --volume \/srv:\/data:ro python:3 serve$/,
    )
    expect(removed).toBe(`rm --force ${/--name (\S+)/.exec(run!)?.[1]}`)
  })

  it('says what to install where there is no runtime', async () => {
    const path = process.env.PATH
    process.env.PATH = ''
    try {
      const started = await containerResource({ name: 'py', image: 'x' }).start(
        undefined,
        new AbortController().signal,
      )()
      expect(started).toMatchObject({ left: { reason: expect.stringContaining('neither docker nor podman') } })
    } finally {
      process.env.PATH = path
    }
  })
})

describeSandboxed('sandboxResource', () => {
  it('keeps a program of the sandbox, and leaves no process', async () => {
    const mark = `marked-${process.pid}-runner`
    const { lease } = await leasedFrom(
      sandboxResource('cat', liveSandbox(), { command: 'sh', args: ['-c', 'cat', mark] }),
    )
    const said = orThrow(await lease.resource.ask('hello.', '.')())
    expect(said).toMatchObject({ _tag: 'Said', said: { text: 'hello' } })
    await lease.end()
    expect(processesWith(mark)).toEqual([])
  })
})

describe('serviceResource', () => {
  const service = worldService(shopWorld())
  const server = createServer(getRequestListener(service.handle))
  let url = ''
  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  afterAll(() => new Promise((resolve) => server.close(resolve)))

  it('plays a world of a service as the embedded one plays it, and ends its sessions', async () => {
    const transport = liveTransport({ url })
    const shop = remoteWorldTool({ name: 'shop', description: 'A shop.', transport, poolSize: 2 })
    const source = shopTasks(keyFromSeed(2))
    const env = pipe(
      DatasetChatEnv({ source, prompts: 1, keep: 'task' }),
      append(SimpleToolTransform({ registry: ToolRegistry([shop]) })),
      append(rewardTransform({ reward: worldReward({ tool: 'shop' }) })),
    )
    const answers = shopSolution(orThrow(source.at(0))).map((action) =>
      message('assistant', '', { toolCalls: [callOf('shop', { action })] }),
    )
    const policy = scriptedHistoryPolicy({ answers })
    const steps = own(orThrow(await rollout(env, policy, { steps: 9, key: keyFromSeed(1) })()))
    expect([...get(steps.value, 'next', 'reward').dataSync()]).toEqual([0, 0, 0, 0, 1])
    steps.release()
    await shop.close?.()
    expect(service.sessions()).toBe(0)
    await transport.close()
  })

  it('names a service that is gone, and a request that it refuses', async () => {
    const transport = liveTransport({ url })
    const pool = resourcePool(serviceResource('shop', transport))
    const lease = orThrow(await pool.acquire({ args: undefined })())
    expect(await lease.resource.post('act', { action: 'x' })()).toMatchObject({ left: { kind: 'dead' } })
    expect(lease.resource.isAlive()).toBe(false)
    await lease.end()
    await transport.close()
    expect(await pool.acquire({ args: undefined })()).toMatchObject({ left: { kind: 'start' } })
    expect(service.sessions()).toBe(0)
    expect(E.isLeft(shopWorld().start(null))).toBe(true)
  })
})
