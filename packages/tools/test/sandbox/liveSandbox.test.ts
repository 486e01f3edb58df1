import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { SandboxProgram } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { leftOf, rightOf } from '../../../../test/kit/results.js'
import { describeSandboxed, processesWith, temporaryFolders } from '../../../../test/kit/sandboxes.js'
import { liveSandbox } from '../../src/sandbox/liveSandbox.js'

const shell = (script: string, more: Partial<SandboxProgram> = {}): SandboxProgram => ({
  ...{ command: 'sh', args: ['-c', script] },
  ...more,
  limits: { wallMs: 120_000, ...more.limits },
})

const NOTHING = { text: '', dropped: 0 }

describeSandboxed('a program in bubblewrap', () => {
  const sandbox = liveSandbox()

  it('has its input, its files and its variables, and tells both outputs and its code', async () => {
    const program = shell('cat; cat a/b.txt; echo "$MARK:$HOME" >&2; exit 3', {
      ...{ stdin: 'in ', files: { 'a/b.txt': 'file' }, env: { MARK: 'here' } },
    })
    expect(await rightOf(sandbox.run(program))).toEqual({
      ...{ _tag: 'Ended', code: 3, stopped: null },
      ...{ stdout: { text: 'in file', dropped: 0 }, stderr: { text: 'here:/tmp\n', dropped: 0 } },
    })
  })

  it('finds nothing of an earlier one', async () => {
    const once = shell('ls -A "$HOME" .; echo x >kept')
    expect(await rightOf(sandbox.run(once))).toEqual(await rightOf(sandbox.run(once)))
  })

  it('reads folders of this machine that it was given, and does not write to them', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'given-'))
    chmodSync(folder, 0o755) // programs are nobody where this is root
    writeFileSync(join(folder, 'a'), 'given')
    try {
      const program = shell(`cat ${folder}/a; echo x >${folder}/b || echo no`, { readOnly: [folder] })
      const hidden = await rightOf(sandbox.run(shell(`ls ${folder}`)))
      expect(hidden.code).not.toBe(0)
      expect((await rightOf(sandbox.run(program))).stdout.text).toBe('givenno\n')
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it('keeps the beginning of an output, without half a character, and counts the rest', async () => {
    const program = shell('printf "ab\\303\\251cd"; printf "12345" >&2', { limits: { outputBytes: 3 } })
    const { stdout, stderr } = await rightOf(sandbox.run(program))
    expect([stdout, stderr]).toEqual([
      { text: 'ab', dropped: 3 },
      { text: '123', dropped: 2 },
    ])
  })

  it('is ended when the caller is gone, and never started without one', async () => {
    const abort = new AbortController()
    const ended = rightOf(sandbox.run(shell('sleep 1000'), { signal: abort.signal }))
    abort.abort()
    expect(await ended).toMatchObject({ code: null, stopped: 'cancelled' })
    expect(await rightOf(sandbox.run(shell('echo begun'), { signal: abort.signal }))).toMatchObject({
      ...{ stopped: 'cancelled', stdout: NOTHING },
    })
  })

  it('is ended in whatever moment it is called off, also while it is made', async () => {
    const mark = `moment-${process.pid}`
    const runs = Array.from({ length: 30 }, async (_, i) => {
      const abort = new AbortController()
      setTimeout(() => abort.abort(), 2 * i)
      const program = { command: 'sh', args: ['-c', 'sleep 1000', mark], limits: { wallMs: 120_000 } }
      return rightOf(sandbox.run(program, { signal: abort.signal }))
    })
    expect(new Set((await Promise.all(runs)).map(({ stopped }) => stopped))).toEqual(new Set(['cancelled']))
    expect(processesWith(mark)).toEqual([])
  })

  it('is refused with all that is wrong with it', () => {
    const wrong = { ...shell('true'), files: { '../x': '', '/y': '' }, limits: { wallMs: 0, processes: 1.5 } }
    expect(() => sandbox.run(wrong)).toThrow(
      'Sandbox: the limit wallMs must be a positive integer, got 0; the limit processes must be a positive integer, got 1.5; ' +
        'a file must have a relative path inside the folder, got "../x"; a file must have a relative path inside the folder, got "/y"',
    )
    expect(() => sandbox.run(shell('a\0b'))).toThrow('a command must not contain the character 0')
    expect(() => sandbox.run(shell('a'.repeat(1e6)))).toThrow('a command must have at most 100000 characters')
  })

  it('that does not exist is a failure', async () => {
    expect(await leftOf(sandbox.run({ command: 'no-such-program', args: [] }))).toMatchObject({
      ...{ _tag: 'SandboxFailure', kind: 'missing' },
    })
  })

  it('has no more than this process may have', async () => {
    const program = shell('cat /proc/self/limits', { limits: { openFiles: 2 ** 30, processes: 5, cpuSeconds: 3 } })
    const { code, stdout } = await rightOf(sandbox.run(program))
    const hard = (name: string) => Number(new RegExp(`^${name} +\\d+ +(\\d+)`, 'm').exec(stdout.text)?.[1])
    expect([code, hard('Max processes'), hard('Max cpu time')]).toEqual([0, 6, 4])
    expect(hard('Max open files')).toBeLessThan(2 ** 30)
  })

  it.each([
    ['is interrupted', 'SIGINT'],
    ['is killed', 'SIGKILL'],
  ] as const)('ends when the one who started it %s', async (_, signal) => {
    const module = fileURLToPath(new URL('../../src/sandbox/liveSandbox.ts', import.meta.url))
    const mark = `owner-${process.pid}-${signal}`
    const program = `
      const { liveSandbox } = await import(${JSON.stringify(module)})
      const session = (await liveSandbox().open({ command: 'sh', args: ['-c', 'setsid sleep 1000 & echo up; sleep 1000', '${mark}'] })()).right
      await session.ask('', 'up', { wallMs: 120000 })()
      console.log('up')
      setInterval(() => {}, 1000)
    `
    const args = ['--import', import.meta.resolve('tsx'), '--input-type=module', '-e', program]
    const owner = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    for await (const line of createInterface(owner.stdout)) {
      expect(line).toBe('up')
      break
    }
    expect(processesWith(mark).length).toBeGreaterThan(1)
    const over = once(owner, 'exit')
    owner.kill(signal)
    await over
    await expect.poll(() => processesWith(mark)).toEqual([])
  })
})

describeSandboxed('a session', () => {
  const ECHO = shell('while read -r line; do echo "<$line>."; done', { limits: { outputBytes: 5 } })

  it('answers one question after the other, with a part of long answers', async () => {
    const sandbox = liveSandbox()
    const session = await rightOf(sandbox.open(ECHO))
    expect(await rightOf(session.ask('a\nb\n', '.\n'))).toMatchObject({
      _tag: 'Said',
      output: { text: '<a>', dropped: 0 },
    })
    expect(await rightOf(session.ask('', '.\n'))).toMatchObject({ output: { text: '<b>', dropped: 0 }, running: 0 })
    expect(await rightOf(session.ask('1234567\n', '.\n'))).toMatchObject({ output: { text: '<1234', dropped: 4 } })
    expect(session.isAlive()).toBe(true)
    await session.close()
    expect(session.isAlive()).toBe(false)
    expect(await rightOf(session.ask('c\n', '.'))).toMatchObject({ _tag: 'Ended', stopped: 'cancelled' })
  })

  it('that does not answer in time is ended, and so is one whose answer nobody awaits', async () => {
    const sandbox = liveSandbox()
    const slow = await rightOf(sandbox.open(ECHO))
    expect(await rightOf(slow.ask('a\n', 'never', { wallMs: 300 }))).toMatchObject({ stopped: 'wall' })
    const left = await rightOf(sandbox.open(ECHO))
    const abort = new AbortController()
    const asked = rightOf(left.ask('a\n', 'never', { signal: abort.signal }))
    abort.abort()
    expect(await asked).toMatchObject({ stopped: 'cancelled' })
  })

  it('ends with its sandbox, which then takes no more', async () => {
    const sandbox = liveSandbox()
    const session = await rightOf(sandbox.open(ECHO))
    await sandbox.close()
    expect(session.isAlive()).toBe(false)
    expect(await leftOf(sandbox.run(shell('true')))).toMatchObject({ kind: 'closed' })
    expect(await leftOf(sandbox.open(ECHO))).toMatchObject({ kind: 'closed' })
  })
})

describe('where there is no bubblewrap', () => {
  afterEach(() => {
    vi.unstubAllEnvs()
  })

  it('nothing is run, and the failure names the package and the alternative', async () => {
    vi.stubEnv('PATH', '/nowhere')
    const refused = { kind: process.platform === 'linux' ? 'missing' : 'refused' }
    const failure = await leftOf(liveSandbox().run(shell('echo ran')))
    expect(failure).toMatchObject({ _tag: 'SandboxFailure', ...refused })
    expect(failure.reason).toContain("isolation: 'unsafe-host'")
    if (refused.kind === 'missing') expect(failure.reason).toContain('apt-get install bubblewrap')
    expect(await leftOf(liveSandbox().open(shell('echo ran')))).toEqual(failure)
  })

  it('a bubblewrap without permission for namespaces reports it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'refusing-'))
    chmodSync(folder, 0o755) // it is run by nobody where this is root
    const program = '#!/bin/sh\necho "bwrap: No permissions to create new namespace" >&2; exit 1\n'
    writeFileSync(join(folder, 'bwrap'), program, { mode: 0o755 })
    vi.stubEnv('PATH', `${folder}:${process.env.PATH}`)
    try {
      const end = await liveSandbox().run(shell('echo ran'))()
      expect(end).toMatchObject({ _tag: 'Left', left: { kind: 'refused' } })
      if (E.isLeft(end)) expect(end.left.reason).toMatch(/No permissions to create new namespace|needs Linux/)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})

describe('a program in unsafe mode', () => {
  const sandbox = liveSandbox({ isolation: 'unsafe-host' })

  it('has limits, a folder that is gone afterwards, and none of the variables of this process', async () => {
    vi.stubEnv('SECRET_OF_THE_TEST', 'visible')
    const before = temporaryFolders()
    const program = shell('cat a/b; env | grep -c SECRET_OF; sleep 1000 & ulimit -n', {
      ...{ files: { 'a/b': 'file ' }, limits: { openFiles: 50 } },
    })
    const end = await rightOf(sandbox.run(program))
    vi.unstubAllEnvs()
    expect(end).toMatchObject({ code: 0, stdout: { text: 'file 0\n50\n' } })
    expect(temporaryFolders()).toEqual(before)
  })

  it('is ended at its limit with its children', async () => {
    const mark = `unsafe-${process.pid}`
    const program = { command: 'sh', args: ['-c', 'sleep 1000 & sleep 1000', mark], limits: { wallMs: 300 } }
    expect(await rightOf(sandbox.run(program))).toMatchObject({ code: null, stopped: 'wall' })
    expect(processesWith(mark)).toEqual([])
  })

  it('has an end, whoever it leaves behind to hold its outputs', async () => {
    const { stdout } = await rightOf(sandbox.run(shell('setsid sleep 20 & echo "$!"')))
    process.kill(Number(stdout.text), 'SIGKILL')
  })

  it('reports its signal as a shell does', async () => {
    expect(await rightOf(sandbox.run(shell('kill -9 $$')))).toMatchObject({ code: 137, stopped: null })
    expect(await rightOf(sandbox.run(shell('while :; do :; done', { limits: { cpuSeconds: 1 } })))).toMatchObject({
      ...{ code: null, stopped: 'cpu' },
    })
  })
})
