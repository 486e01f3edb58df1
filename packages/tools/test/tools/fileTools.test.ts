/** Files of a conversation in the sandbox: each tool, its limits, and what is left behind. */
import { keyFromSeed } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { afterAll, expect, it } from 'vitest'
import { settle } from '../../../../test/kit/manualTime.js'
import { describeWithPython, markedSandbox, processesWith } from '../../../../test/kit/sandboxes.js'
import { fileTools } from '../../src/tools/fileTools.js'

const MARK = `file-tools-${process.pid}`

describeWithPython('fileTools', () => {
  const { tools, environment } = fileTools({
    sandbox: markedSandbox(MARK),
    files: () => ({
      'src/sum.py': 'def sum(a, b):\n    return a - b\n',
      'main.py': 'from src.sum import sum\nprint(sum(2, 3))\n',
    }),
    maxLength: 200,
  })
  afterAll(environment.close)
  const byName = new Map(tools.map((each) => [each.name, each]))

  /** Calls tools of one conversation, one after the other. */
  const conversation = async (
    chain: string,
    ...calls: readonly (readonly [string, Readonly<Record<string, never>>])[]
  ) => {
    const episode = { chain, group: chain, task: undefined }
    const heard: unknown[] = []
    for (const [name, args] of calls) {
      const context = { state: null, key: keyFromSeed(0), signal: new AbortController().signal, episode }
      const said = await byName.get(name)!.call(args, context)()
      heard.push(E.isRight(said) ? said.right.content : `${said.left.kind}: ${said.left.reason}`)
    }
    environment.release(episode)
    return heard
  }
  const call = (name: string, args: object = {}) => [name, args as never] as const // arguments as JSON

  it('reads, finds, edits, runs and undoes', async () => {
    expect(
      await conversation(
        'a',
        call('list_files'),
        call('run_python', { path: 'main.py' }),
        call('grep_files', { pattern: 'a . b' }),
        call('edit_file', { path: 'src/sum.py', old: 'a - b', new: 'a + b' }),
        call('run_shell_command', { command: 'python3 main.py; exit 3' }),
        call('read_file', { path: 'src/sum.py', start: 2, end: 2 }),
        call('undo_edit', { path: 'src/sum.py' }),
        call('run_python', { path: 'main.py' }),
        call('create_file', { path: 'new/note.txt', text: 'hello' }),
        call('undo_edit', { path: 'new/note.txt' }),
        call('list_files', { path: 'new' }),
      ),
    ).toEqual([
      'main.py\nsrc/sum.py',
      '-1\n',
      'src/sum.py:2:    return a - b',
      'edited src/sum.py',
      '5\n[exit code 3]',
      '2\t    return a + b',
      'undid the last change of src/sum.py',
      '-1\n',
      'created new/note.txt',
      'undid the last change of new/note.txt',
      '[no files]',
    ])
  })

  it('tells the policy what is wrong with a path, an edit or a pattern, and bounds results with a marker', async () => {
    const heard = await conversation(
      'b',
      call('read_file', { path: '../../etc/passwd' }),
      call('edit_file', { path: 'main.py', old: 'sum', new: 'x' }),
      call('create_file', { path: 'main.py', text: '' }),
      call('grep_files', { pattern: '(' }),
      call('undo_edit', { path: 'main.py' }),
      call('run_shell_command', { command: "printf '%0300d' 7" }),
    )
    expect(heard.slice(0, 5)).toEqual([
      'failed: ../../etc/passwd is outside of the folder',
      'failed: the text to replace occurs 3 times in main.py, and must occur once',
      'failed: main.py exists already',
      'failed: missing ), unterminated subpattern at position 0',
      'failed: there is no edit of main.py to undo',
    ])
    expect(heard[5]).toBe(`${'0'.repeat(200)}...\n[100 more characters]`)
  })

  it('keeps conversations apart, and leaves no process', async () => {
    await conversation('c', call('create_file', { path: 'mine.txt', text: 'x' }))
    expect(await conversation('d', call('read_file', { path: 'mine.txt' }))).toEqual([
      expect.stringContaining('No such file'),
    ])
    await settle()
    await environment.pool.drain()
    expect([environment.pool.stats().leased, processesWith(MARK)]).toEqual([0, []])
  })
})
