import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { compiled } from '../../../test/kit/compiled.js'
import { leftOf, rightOf } from '../../../test/kit/results.js'
import { useTemporaryFolder } from '../../../test/kit/runs.js'
import { liveLocks, lockState } from '../src/lock.js'

const at = useTemporaryFolder()

/** A process that takes a lock and holds it until it is killed. */
const holding = async (path: string) => {
  const code = `
    const { liveLocks } = await import(${JSON.stringify(compiled('packages/host/src/lock.ts'))})
    console.log((await liveLocks.take(${JSON.stringify(path)})())._tag)
    setInterval(() => {}, 1000)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [said] = (await once(child.stdout, 'data')) as [Buffer] // the data of a pipe
  return {
    pid: child.pid!,
    said: said.toString().trim(),
    kill: async () => {
      child.kill('SIGKILL')
      await once(child, 'close')
    },
  }
}

/** Writes the lock that another process would have written, with some fields changed. */
const changed = async (path: string, changes: object): Promise<void> => {
  const mine = await rightOf(liveLocks.take(path))
  const holder = JSON.parse(readFileSync(path, 'utf8')) as object // written by the line above
  await mine.release()
  writeFileSync(path, JSON.stringify({ ...holder, ...changes }))
}

describe('a lock', () => {
  it('is refused to a second process, by name and with the way out, and is free after kill -9', async () => {
    const path = at('killed.lock')
    const holder = await holding(path)
    expect(holder.said).toBe('Right')
    const { reason } = await leftOf(liveLocks.take(path))
    expect(reason).toMatch(new RegExp(`in use by process ${holder.pid} on .* since .*remove ${path}`))
    await holder.kill()
    expect(existsSync(path)).toBe(true)
    const mine = await rightOf(liveLocks.take(path))
    await mine.release()
    expect(readdirSync(at('.')).filter((name) => name.startsWith('killed.lock'))).toEqual([])
  })

  it('is refused to the process that holds it, and can be taken again after its release', async () => {
    const path = at('own.lock')
    const mine = await rightOf(liveLocks.take(path))
    expect(E.isLeft(await liveLocks.take(path)())).toBe(true)
    await mine.release()
    await (await rightOf(liveLocks.take(path))).release()
  })

  it.each([
    ['of an earlier start of the machine', { boot: 'another' }, 'Right'],
    ['of a process whose id another one has now', { started: '1' }, 'Right'],
    ['of a process that does not exist', { pid: 2 ** 22 + 1 }, 'Right'],
    ['of another machine, whose processes cannot be seen', { host: 'elsewhere' }, 'Left'],
    ['of another container, likewise', { namespace: 'pid:[1]' }, 'Left'],
  ] as const)('%s: %o is %s', async (_, changes, tag) => {
    const path = at(`${JSON.stringify(changes).replace(/\W/g, '')}.lock`)
    await changed(path, changes)
    const taken = await liveLocks.take(path)()
    expect(taken._tag).toBe(tag)
    if (E.isRight(taken)) await taken.right.release()
  })

  it('is given to one of many that find it stale at once', async () => {
    const path = at('many.lock')
    await changed(path, { pid: 2 ** 22 + 1 })
    const all = await Promise.all(Array.from({ length: 16 }, () => liveLocks.take(path)()))
    const won = all.filter(E.isRight)
    expect(won).toHaveLength(1)
    await won[0]!.right.release()
  })

  it('has a state that can be read without taking it', async () => {
    const path = at('state.lock')
    expect(await lockState(path)).toBe('free')
    const mine = await rightOf(liveLocks.take(path))
    expect(await lockState(path)).toBe('held')
    await mine.release()
    await changed(path, { pid: 2 ** 22 + 1 })
    expect(await lockState(path)).toBe('stale')
    writeFileSync(path, 'mine')
    expect(await lockState(path)).toBe('held')
  })

  it('that is no lock file is never removed', async () => {
    const path = at('foreign.lock')
    writeFileSync(path, 'mine')
    expect((await leftOf(liveLocks.take(path))).reason).toContain('an unknown process')
    expect(readFileSync(path, 'utf8')).toBe('mine')
  })
})
