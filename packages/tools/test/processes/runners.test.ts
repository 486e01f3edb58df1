/**
 * Runners of resources: programs, containers by a stand-in for docker, sandboxes, and sessions of a
 * service.
 */
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { orThrow, type ResourceSpec } from '@tandem-rl/base'
import { describe, expect, it } from 'vitest'
import { useEngine } from '../../../../test/kit/engine.js'
import { isAlive } from '../../../../test/kit/resources.js'
import { useTemporaryFolder } from '../../../../test/kit/runs.js'
import { describeSandboxed, processesWith } from '../../../../test/kit/sandboxes.js'
import type { LineProcess } from '../../src/processes/lineProcess.js'
import { containerResource, processResource, sandboxResource } from '../../src/processes/runners.js'
import { resourcePool } from '../../src/resources/resourcePool.js'
import { liveSandbox } from '../../src/sandbox/liveSandbox.js'

useEngine()
const at = useTemporaryFolder()

const limitMs = 20_000

/**
 * Answers each line with itself and its process; dies of the word `die`, and is silent at `hang`.
 */
const ECHO = `
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  if (line === '"die"') { console.error('out of luck'); process.exit(3) }
  if (line !== '"hang"') console.log(JSON.stringify([JSON.parse(line), process.pid]))
})`

const echo = { name: 'echo', command: process.execPath, args: ['-e', ECHO], graceMs: 2000 }

const pidOf = (line: string): number => (JSON.parse(line) as readonly [unknown, number])[1]

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

  it('names the package to install without a runtime', async () => {
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
    expect(said).toMatchObject({ _tag: 'Said', output: { text: 'hello' } })
    await lease.end()
    expect(processesWith(mark)).toEqual([])
  })
})
