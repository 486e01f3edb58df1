import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { gone, isAlive } from '../../../test/kit/resources.js'
import { leftOf, rightOf } from '../../../test/kit/results.js'
import { liveProcesses } from '../src/processes.js'

/** A shell that starts a child, prints its id, and runs until it is killed. */
const PARENT = 'sleep 1000 & echo "child $!"; echo "oops" >&2; wait'

/** Starts a shell, and waits for the id of its child. */
const withChild = async (script = PARENT) => {
  const lines: string[] = []
  let tell = (_: number): void => {}
  const child = new Promise<number>((resolve) => {
    tell = resolve
  })
  const running = await rightOf(
    liveProcesses.start({
      ...{ command: 'sh', args: ['-c', script], env: { MARK: 'here' } },
      onLine: (line) => {
        lines.push(line)
        if (line.startsWith('child ')) tell(Number(line.slice(6)))
      },
    }),
  )
  return { running, lines, child: await child }
}

describe('a process', () => {
  it('emits its lines and its end, and has the given variables', async () => {
    const lines: string[] = []
    const running = await rightOf(
      liveProcesses.start({
        ...{ command: 'sh', args: ['-c', 'echo "$MARK:$HOME"; echo bad >&2; printf rest; exit 3'] },
        env: { MARK: 'here', HOME: null },
        onLine: (line) => lines.push(line),
      }),
    )
    expect(await running.ended).toEqual({ code: 3, signal: null })
    expect([...lines].sort()).toEqual(['bad', 'here:', 'rest'])
  })

  it('has a line for each line feed or carriage return, and none for other separators', async () => {
    const lines: string[] = []
    const running = await rightOf(
      liveProcesses.start({
        ...{
          command: process.execPath,
          args: ['-e', String.raw`process.stdout.write('a\u2028b\u2029c\u0085d\r\n10 %\r20 %\r\n\n${'é'}nd')`],
        },
        onLine: (line) => lines.push(line),
      }),
    )
    expect(await running.ended).toEqual({ code: 0, signal: null })
    expect(lines).toEqual(['a\u2028b\u2029c\u0085d', '10 %', '20 %', '', 'énd'])
  })

  it('emits an endless line in parts', async () => {
    const sizes: number[] = []
    const running = await rightOf(
      liveProcesses.start({
        ...{ command: process.execPath, args: ['-e', "process.stdout.write('x'.repeat(5 * 2 ** 20))"] },
        onLine: (line) => sizes.push(line.length),
      }),
    )
    await running.ended
    expect(sizes.reduce((a, b) => a + b, 0)).toBe(5 * 2 ** 20)
    expect(Math.max(...sizes)).toBeLessThan(1.2 * 2 ** 20)
  })

  it('ends with all that it started when it is stopped', async () => {
    const { running, child } = await withChild()
    expect(await running.stop(60_000)).toEqual({ code: null, signal: 'SIGTERM' })
    await gone(child)
    expect(await running.stop(0)).toEqual({ code: null, signal: 'SIGTERM' })
  })

  it('that does not listen is ended by force after its time', async () => {
    const { running, child } = await withChild(`trap '' TERM; ${PARENT}`)
    expect(await running.stop(30)).toEqual({ code: null, signal: 'SIGKILL' })
    await gone(child)
  })

  it('that ends by itself leaves no child behind', async () => {
    const { running, child } = await withChild('sleep 1000 & echo "child $!"')
    expect(await running.ended).toEqual({ code: 0, signal: null })
    await gone(child)
  })

  it('that cannot be started is a failure', async () => {
    expect(await leftOf(liveProcesses.start({ command: '/no/such/program', args: [] }))).toMatchObject({
      ...{ _tag: 'ProcessFailure', code: 'ENOENT', reason: '/no/such/program: there is no such program' },
    })
  })

  it.each([
    ['exits', 'process.exit(0)', null],
    ['is interrupted', '', 'SIGINT'],
    ['is terminated', '', 'SIGTERM'],
    ['is killed', '', 'SIGKILL'],
  ] as const)('ends, with its children, when the one who started it %s', async (_, code, signal) => {
    const module = fileURLToPath(new URL('../src/processes.ts', import.meta.url))
    const program = `
      const { liveProcesses } = await import(${JSON.stringify(module)})
      const { right } = await liveProcesses.start({
        command: 'sh', args: ['-c', ${JSON.stringify(PARENT)}], onLine: (line) => console.log(line + ' of ' + right?.pid),
      })()
      setInterval(() => {}, 1000)
      await new Promise((go) => setTimeout(go, 50))
      console.log('parent ' + right.pid)
      process.stdin.once('data', () => { ${code} })
    `
    const owner = spawn(process.execPath, [
      '--import',
      import.meta.resolve('tsx'),
      '--input-type=module',
      '-e',
      program,
    ])
    const ids: number[] = []
    for await (const line of createInterface(owner.stdout)) {
      ids.push(...(/^(?:child|parent) (\d+)/.exec(line)?.slice(1, 2).map(Number) ?? []))
      if (ids.length === 2) break
    }
    expect(ids.map(isAlive)).toEqual([true, true])
    const over = once(owner, 'exit')
    if (signal === null) owner.stdin.write('go\n')
    else owner.kill(signal)
    const [exitCode, bySignal] = await over
    expect([exitCode, bySignal]).toEqual(signal === null ? [0, null] : [null, signal])
    await Promise.all(ids.map(gone))
  })
})

describe('a process that is talked to', () => {
  const converse = async (script: string) => {
    const said = { output: '', errors: '' }
    const decoder = new TextDecoder()
    const running = await rightOf(
      liveProcesses.converse({
        ...{ command: 'sh', args: ['-c', script], folder: '/' },
        onOutput: (bytes) => {
          said.output += decoder.decode(bytes)
        },
        onErrors: (bytes) => {
          said.errors += decoder.decode(bytes)
        },
      }),
    )
    return { running, said }
  }

  it('reads what is written to it and says what it writes, until its input is ended', async () => {
    const { running, said } = await converse('pwd; while read -r line; do echo "<$line>"; echo "!$line" >&2; done')
    await rightOf(running.write('one\n'))
    await rightOf(running.write('two\n'))
    running.endInput()
    expect(await running.ended).toEqual({ code: 0, signal: null })
    expect(said).toEqual({ output: '/\n<one>\n<two>\n', errors: '!one\n!two\n' })
    expect(await leftOf(running.write('three'))).toMatchObject({ reason: expect.stringMatching(/^sh: it/) })
  })

  it('ends with its children when it is stopped', async () => {
    const { running, said } = await converse(PARENT)
    await expect.poll(() => said.output).toMatch(/child \d+/)
    expect(await running.stop(60_000)).toEqual({ code: null, signal: 'SIGTERM' })
    await gone(Number(/\d+/.exec(said.output)?.[0]))
  })

  it('that cannot be started is a failure', async () => {
    const program = { command: '/no/such/program', args: [], onOutput: () => {}, onErrors: () => {} }
    expect(await leftOf(liveProcesses.converse(program))).toMatchObject({ code: 'ENOENT' })
  })
})

describe('a free port', () => {
  it('can be listened on; one that is taken is a failure', async () => {
    const port = await rightOf(liveProcesses.freePort())
    const server = createServer().listen(port, '127.0.0.1')
    await once(server, 'listening')
    expect(await leftOf(liveProcesses.freePort(port))).toMatchObject({ code: 'EADDRINUSE' })
    server.close()
    await once(server, 'close')
    expect(await rightOf(liveProcesses.freePort(port))).toBe(port)
  })
})
