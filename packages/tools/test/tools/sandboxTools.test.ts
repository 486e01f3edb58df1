import { keyFromSeed, SANDBOX_LIMITS, type Sandbox, type SandboxEnd, type SandboxSession } from '@tandem-rl/base'
import fc from 'fast-check'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { afterAll, expect, it } from 'vitest'
import { leftOf, rightOf } from '../../../../test/kit/results.js'
import { describeSandboxed, describeWithPython, markedSandbox, processesWith } from '../../../../test/kit/sandboxes.js'
import { SANDBOX_FOLDER } from '../../src/sandbox/bubblewrap.js'
import { liveSandbox } from '../../src/sandbox/liveSandbox.js'
import { cellObservation } from '../../src/tools/cellObservation.js'
import type { CellTool, CellToolOptions } from '../../src/tools/cellTool.js'
import { pythonTool } from '../../src/tools/pythonTool.js'
import { shellTool } from '../../src/tools/shellTool.js'

const mark = `tools-${process.pid}`
const sandbox = markedSandbox(mark)

const OPTIONS: CellToolOptions = { sandbox, limits: { wallMs: 120_000 } }

/** A call after a state, with what it leaves. */
const call = async (
  tool: CellTool,
  code: string,
  state: unknown = tool.initial,
  signal = new AbortController().signal,
) => {
  const argument = Object.keys(tool.parameters.properties as object)[0]! // an object of arguments, by JSON schema
  return rightOf(tool.call({ [argument]: code }, { state, key: keyFromSeed(0), signal }))
}

/** The results of a conversation's calls, and the state after them. */
const conversation = async (tool: CellTool, cells: readonly string[], from: unknown = tool.initial) => {
  const said: string[] = []
  let state = from
  for (const code of cells) {
    const reply = await call(tool, code, state)
    said.push(String(reply.content))
    state = reply.state
  }
  return { said, state }
}

describeWithPython('the tool python', () => {
  const tool = pythonTool({ ...OPTIONS, memory: 'session' })

  afterAll(tool.close)

  it('returns the output of a cell, and its error', async () => {
    const cells = ['print(1)', '2 + 2', 'import sys\nprint("a"); print("b", file=sys.stderr); print("c")', '1 / 0']
    const { said } = await conversation(pythonTool(OPTIONS), cells)
    expect(said.slice(0, 3)).toEqual(['1', '[no output]', 'a\nb\nc'])
    expect(said[3]).toMatch(
      /^Traceback .*\n {2}File "<cell 1>", line 1, in <module>\n {4}1 \/ 0\n[\s\S]*ZeroDivisionError: division by zero\n\[exit code 1\]$/,
    )
  })

  it('remembers variables and files where it is asked to, and nothing otherwise', async () => {
    const cells = ['x = 20\nopen("f", "w").write("hi")', 'x += 1; print(x, open("f").read())']
    const [kept, fresh] = [await conversation(tool, cells), await conversation(pythonTool(OPTIONS), cells)]
    expect(kept).toEqual({ said: ['[no output]', '21 hi'], state: cells })
    expect(fresh.said[1]).toContain("NameError: name 'x' is not defined")
    expect(fresh.state).toBe(null)
  })

  it('goes on from any earlier state, with and without a live program of it', async () => {
    const first = await conversation(tool, ['x = [1]'])
    const left = await conversation(tool, ['x.append(2); print(x)'], first.state)
    const right = await conversation(tool, ['x.append(3); print(x)'], first.state)
    await tool.close()
    expect(tool.idle()).toBe(0)
    const later = await conversation(tool, ['print(x)'], left.state)
    expect([left.said, right.said, later.said]).toEqual([['[1, 2]'], ['[1, 3]'], ['[1, 2]']])
  })

  it('says the same to equal calls: random numbers and the order of sets begin alike', async () => {
    const cells = ['import random; print(random.random())', 'print({str(i) for i in range(20)})']
    const once = await conversation(tool, cells)
    await tool.close()
    expect(await conversation(tool, cells)).toEqual(once)
  })

  it('forgets a cell that ended the program, and keeps what was before', async () => {
    const { said, state } = await conversation(tool, ['x = 7', 'import os; os._exit(3)', 'print(x)'])
    expect(said).toEqual(['[no output]', '[stopped: it ended with exit code 3]', '7'])
    expect(state).toEqual(['x = 7', 'print(x)'])
  })

  it('begins anew, and says so, where an earlier cell does not run again', async () => {
    const { said, state } = await conversation(tool, ['print(2)', 'print(3)'], ['import os; os._exit(0)'])
    expect(said[0]).toMatch(/^\[the session is lost: its call 1 failed when it was run again/)
    expect([said[1], state]).toEqual(['3', ['print(3)']])
  })

  it('does not let a cell hurt the next one', async () => {
    const cells = [
      'import os, sys; os.close(0); os.close(1); os.close(2); sys.stdout.close()',
      'import sys; sys.stdout = None; sys.stderr = 3',
      'import sys; sys.exit("over")',
      'print(input())',
      'raise BaseException',
      'class E(Exception):\n    def __str__(self): raise ValueError\nraise E',
      'x = "\ud800"',
      'print("still here", "\\ud800", chr(0))',
    ]
    const { said } = await conversation(tool, cells)
    expect(said[2]).toBe('over\n[exit code 1]')
    expect(said[3]).toContain('EOFError')
    expect(said.at(-1)).toBe('still here \\ud800 \0')
  })

  it('keeps no program that a cell left something running in', async () => {
    const own = pythonTool({ ...OPTIONS, memory: 'session' })
    const { said } = await conversation(own, [
      'import subprocess; p = subprocess.Popen(["sleep", "1000"])',
      'print(p.poll())',
    ])
    expect([said[1], own.idle()]).toEqual(['None', 0])
  })

  it('keeps only so many programs, and none for long', async () => {
    const rings: (() => void)[] = []
    const timers = { after: (_: number, ring: () => void) => () => void rings.push(ring) }
    const bounded = pythonTool({ ...OPTIONS, memory: 'session', sessions: { maxIdle: 1, timers } })
    await conversation(bounded, ['a = 1'])
    await conversation(bounded, ['b = 1'])
    expect([bounded.idle(), rings.length]).toEqual([1, 1]) // the alarm of the evicted one is called off
    await bounded.close()
    let ring = (): void => {}
    const told = pythonTool({
      ...{ ...OPTIONS, memory: 'session' },
      sessions: {
        timers: {
          after: (_, f) => {
            ring = f
            return () => {}
          },
        },
      },
    })
    await conversation(told, ['a = 1'])
    ring()
    expect(told.idle()).toBe(0)
    await told.close()
  })

  it('ends a cell when nobody waits any more', async () => {
    const abort = new AbortController()
    const sandbox = liveSandbox()
    const abortsWhenAsked: Sandbox = {
      ...sandbox,
      open: (program) =>
        TE.map((session: SandboxSession) => ({
          ...session,
          ask: (...question: Parameters<SandboxSession['ask']>) => {
            setImmediate(() => abort.abort())
            return session.ask(...question)
          },
        }))(sandbox.open(program)),
    }
    const sleeping = pythonTool({ sandbox: abortsWhenAsked })
    const asked = call(sleeping, 'import time; time.sleep(1000)', sleeping.initial, abort.signal)
    expect((await asked).content).toBe('[stopped: the call was cancelled]')
  })

  it('refuses invalid arguments, and too many cells', async () => {
    const context = {
      state: Array.from({ length: 256 }, () => ''),
      key: keyFromSeed(0),
      signal: new AbortController().signal,
    }
    expect(await leftOf(tool.call({ source: '1' }, context))).toMatchObject({ kind: 'arguments' })
    expect(await leftOf(tool.call({ code: '1' }, context))).toMatchObject({ kind: 'failed' })
  })
})

describeSandboxed('the tool shell', () => {
  const tool = shellTool({ ...OPTIONS, memory: 'session' })

  afterAll(async () => {
    await tool.close()
    expect(processesWith(mark)).toEqual([])
  })

  it('returns the output of commands, and an exit code that is not 0', async () => {
    const { said } = await conversation(tool, [
      'echo a; echo b >&2',
      'false',
      'cat <<X\n$((6 * 7)) \\n\t\'"\nX',
      'cat',
      'if',
      'exit 4',
    ])
    expect(said.slice(0, 4)).toEqual(['a\nb', '[exit code 1]', '42 \\n\t\'"', '[no output]'])
    expect(said[4]).toContain('syntax error')
    expect(said[5]).toBe('[stopped: it ended with exit code 4]')
  })

  it('remembers its folder and variables where it is asked to', async () => {
    const cells = ['mkdir a; cd a; x=1', 'pwd; echo $x; exec >/dev/null', 'echo again']
    expect((await conversation(tool, cells)).said).toEqual(['[no output]', `${SANDBOX_FOLDER}/a\n1`, 'again'])
    expect((await conversation(shellTool(OPTIONS), cells)).said[1]).toBe(`${SANDBOX_FOLDER}\n`)
  })

  it('runs any text as it is', async () => {
    const echo = shellTool(OPTIONS)
    const text = fc.string({
      unit: fc.constantFrom('\\', 'n', '\n', '%', "'", '"', '$', '`', ' ', 'é', '0', '\r', '\t'),
      minLength: 1,
    })
    await fc.assert(
      fc.asyncProperty(text, async (words) => {
        const quoted = `'${words.replaceAll("'", `'"'"'`)}'`
        const { content } = await call(echo, `printf '%s.' ${quoted}`)
        expect(content).toBe(`${words}.`)
      }),
      { numRuns: 8 },
    )
  })
})

it('a tool whose sandbox cannot be had refuses to run anything', async () => {
  const closed = liveSandbox()
  await closed.close()
  const context = { state: null, key: keyFromSeed(0), signal: new AbortController().signal }
  expect(await leftOf(pythonTool({ sandbox: closed }).call({ code: 'print(1)' }, context))).toMatchObject({
    ...{ _tag: 'ToolFailure', tool: 'python', kind: 'infrastructure', reason: 'the sandbox is closed' },
  })
})

it('what is told of an end names the limit and how much of the output is missing', () => {
  const end: SandboxEnd = {
    _tag: 'Ended',
    code: null,
    stopped: 'wall',
    stdout: { text: 'a\n', dropped: 7 },
    stderr: { text: '', dropped: 0 },
  }
  const told = (stopped: SandboxEnd['stopped']) =>
    cellObservation({ _tag: 'Ended', end: { ...end, stopped } }, SANDBOX_LIMITS)
  expect(told('wall')).toBe('a\n[7 more bytes of output]\n[stopped: it ran longer than 10 s]')
  expect(told('memory')).toContain('more than 512 MiB of memory')
  expect(told('disk')).toContain('more than 64 MiB')
  expect(told('cpu')).toContain('10 s of processor time')
})
