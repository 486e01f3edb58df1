/** Tools that read and change the files of a conversation in the sandbox. */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import type { Ids } from '../../core/capabilities.js'
import { parseJson } from '../../core/json.js'
import { aFunction, aNumber, aRecord, checkOptions } from '../../core/options.js'
import type { Sandbox, SandboxLimits, SandboxSession } from '../../core/sandbox.js'
import type { Task } from '../../data/task.js'
import { liveIds } from '../../live/ids.js'
import { sandboxResource } from '../../live/resources/runners.js'
import { liveSandbox } from '../../live/sandbox/liveSandbox.js'
import type { ToolFailure } from '../base/toolFailure.js'
import { type ToolEnvironment, toolEnvironment } from '../resources/toolEnvironment.js'
import { clipped } from './clipped.js'
import { type Tool, type ToolReply, tool, toolFailure } from './tool.js'

export interface FileToolsOptions {
  /** Default: its own bubblewrap sandbox. */
  readonly sandbox?: Sandbox
  readonly limits?: Partial<SandboxLimits>
  /** Returns the initial files of a conversation, by relative path. Default: no files. */
  readonly files?: (task: Task | undefined) => Readonly<Record<string, string>>
  /** Maximum number of concurrent conversations with files. Default 8. */
  readonly poolSize?: number
  /** Maximum characters of a result; a marker counts the omitted ones. Default 10,000. */
  readonly maxLength?: number
  readonly ids?: Ids
}

/**
 * A Python server that reads one request as a line of JSON and writes one line of JSON, followed by
 * the mark of the request. It refuses paths outside its folder.
 */
const DRIVER = `
import json, os, re, subprocess, sys
root = os.path.realpath(os.getcwd())
undo = {}
def place(path):
    full = os.path.realpath(os.path.join(root, path))
    if full != root and not full.startswith(root + os.sep):
        raise ValueError('%s is outside of the folder' % path)
    return full
def read(path):
    with open(place(path), encoding='utf-8', errors='replace') as f:
        return f.read()
def write(path, text):
    full = place(path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, 'w', encoding='utf-8') as f:
        f.write(text)
def remember(path):
    full = place(path)
    undo.setdefault(full, []).append(read(path) if os.path.exists(full) else None)
def shown(text, start, end):
    lines = text.split('\\n')
    last = len(lines) if end is None else end
    return '\\n'.join('%d\\t%s' % (i, line) for i, line in enumerate(lines, 1) if start <= i <= last)
def walk(path):
    top = place(path)
    if os.path.isfile(top):
        yield top
    for folder, folders, names in os.walk(top):
        folders.sort()
        for name in sorted(names):
            yield os.path.join(folder, name)
def run(args):
    done = subprocess.run(args, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = done.stdout.decode('utf-8', 'replace')
    return text + ('' if done.returncode == 0 else '[exit code %d]' % done.returncode)
def do(r):
    op, path = r['op'], r.get('path', '.')
    if op == 'seed':
        for name, text in r['files'].items():
            write(name, text)
        return 'ready'
    if op == 'read':
        return shown(read(path), r['start'], r.get('end'))
    if op == 'create':
        if os.path.exists(place(path)):
            raise ValueError('%s exists already' % path)
        remember(path)
        write(path, r['text'])
        return 'created %s' % path
    if op == 'edit':
        before = read(path)
        count = before.count(r['old']) if r['old'] else 0
        if count != 1:
            raise ValueError('the text to replace occurs %d times in %s, and must occur once' % (count, path))
        remember(path)
        write(path, before.replace(r['old'], r['new']))
        return 'edited %s' % path
    if op == 'undo':
        full = place(path)
        if not undo.get(full):
            raise ValueError('there is no edit of %s to undo' % path)
        before = undo[full].pop()
        if before is None:
            os.remove(full)
        else:
            write(path, before)
        return 'undid the last change of %s' % path
    if op == 'list':
        return '\\n'.join(os.path.relpath(name, root) for name in walk(path)) or '[no files]'
    if op == 'grep':
        pattern = re.compile(r['pattern'])
        found = ['%s:%d:%s' % (os.path.relpath(name, root), i, line)
                 for name in walk(path) for i, line in enumerate(read(os.path.relpath(name, root)).split('\\n'), 1)
                 if pattern.search(line)]
        return '\\n'.join(found) or '[no matches]'
    return run([sys.executable, '-s', place(path)] if op == 'python' else ['sh', '-c', r['command']])
for line in sys.stdin:
    r = json.loads(line)
    try:
        out = {'ok': do(r) or '[no output]'}
    except Exception as error:
        out = {'error': str(error) or type(error).__name__}
    sys.stdout.write(json.dumps(out) + r['mark'])
    sys.stdout.flush()
`

const replySchema = z.union([z.object({ ok: z.string() }), z.object({ error: z.string() })])

/**
 * Converts the driver's response to a tool reply. A response that cannot be parsed is an
 * `infrastructure` failure.
 */
const replied = (name: string, text: string, maxLength: number): E.Either<ToolFailure, ToolReply<null>> => {
  const json = parseJson(text)
  const said = E.isRight(json) ? replySchema.safeParse(json.right) : undefined
  if (said === undefined || !said.success)
    return E.left(
      toolFailure(name, 'infrastructure', `the file server sent an invalid response: ${clipped(text, 200)}`),
    )
  if ('error' in said.data) return E.left(toolFailure(name, 'failed', said.data.error))
  const { ok } = said.data
  const note = ok.length > maxLength ? `\n[${ok.length - maxLength} more characters]` : ''
  return E.right({ content: `${note === '' ? ok : clipped(ok, maxLength)}${note}`, state: null })
}

const path = z.string().min(1).max(1000).describe('relative to the folder of the conversation')

/** The tools by name, with their descriptions and arguments. `op` is the driver's operation. */
const TOOLS = {
  read_file: {
    ...{ op: 'read', description: 'Reads a file, with the numbers of its lines.' },
    parameters: { path, start: z.number().int().min(1).default(1), end: z.number().int().min(1).optional() },
  },
  edit_file: {
    ...{ op: 'edit', description: 'Replaces a text that occurs once in a file.' },
    parameters: { path, old: z.string(), new: z.string() },
  },
  create_file: { op: 'create', description: 'Creates a file.', parameters: { path, text: z.string() } },
  list_files: { op: 'list', description: 'Lists all files of a folder.', parameters: { path: path.default('.') } },
  grep_files: {
    ...{ op: 'grep', description: 'Finds lines that a regular expression matches.' },
    parameters: { pattern: z.string().max(1000), path: path.default('.') },
  },
  undo_edit: { op: 'undo', description: 'Undoes the last change of a file.', parameters: { path } },
  run_python: { op: 'python', description: 'Runs a Python file and returns what it prints.', parameters: { path } },
  run_shell_command: {
    ...{ op: 'shell', description: 'Runs a shell command in the folder and returns what it prints.' },
    parameters: { command: z.string().max(100_000) },
  },
} as const

const asked = (
  session: SandboxSession,
  request: object,
  { ids, signal }: { readonly ids: Ids; readonly signal: AbortSignal },
): TaskEither<string, string> => {
  const mark = ids.fresh()
  return async () => {
    const said = await session.ask(`${JSON.stringify({ ...request, mark })}\n`, mark, { signal })()
    if (E.isLeft(said)) return E.left(said.left.reason)
    if (said.right._tag === 'Ended') return E.left(`the file server ended (${said.right.stopped ?? said.right.code})`)
    return E.right(said.right.said.text)
  }
}

/**
 * Makes the tools of a software engineer: `read_file`, `edit_file`, `create_file`, `list_files`,
 * `grep_files`, `undo_edit`, `run_python` and `run_shell_command`. They share one sandbox per
 * conversation, which is closed after the reward. Pass `environment` to rewards that inspect the
 * files.
 *
 * Errors   calls return `Left(ToolFailure)`: `failed` for an invalid path or edit, with the reason;
 *          `infrastructure` if the sandbox is not available or a program ended it.
 * Effects  processes in the sandbox, until `environment.close()`.
 * Source   AgentFly's file tools, which work on the files of the user.
 *
 * @example
 * fileTools().tools.map(({ name }) => name)[0] // 'read_file'
 */
export const fileTools = (
  options: FileToolsOptions = {},
): { readonly tools: readonly Tool[]; readonly environment: ToolEnvironment<SandboxSession> } => {
  checkOptions('fileTools', options, {
    ...{ sandbox: aRecord, limits: aRecord, files: aFunction, poolSize: aNumber, maxLength: aNumber, ids: aRecord },
  })
  const { sandbox = liveSandbox(), limits = {}, files, poolSize = 8, maxLength = 10_000, ids = liveIds } = options
  const program = {
    ...{ command: 'python3', args: ['-s', '-c', DRIVER], limits: { cpuSeconds: 600, ...limits } },
    // Python compares compiled files by second and size: an edit of equal length would be missed.
    env: { PYTHONDONTWRITEBYTECODE: '1' },
  }
  const environment = toolEnvironment(sandboxResource('files', sandbox, program), {
    poolSize,
    prepare: async (session, episode) => {
      const seeded = await asked(
        session,
        { op: 'seed', files: files?.(episode?.task) ?? {} },
        { ids, signal: new AbortController().signal },
      )()
      if (E.isLeft(seeded)) throw new Error(seeded.left)
    },
  })
  const made = Object.entries(TOOLS).map(([name, { op, description, parameters }]) =>
    tool({
      ...{ name, description, parameters: parameters as z.ZodRawShape, initial: null, environment }, // one of the shapes above
      run:
        (args, { environment: session, signal }) =>
        async () => {
          const said = await asked(session, { ...args, op }, { ids, signal })()
          return E.isLeft(said)
            ? E.left(toolFailure(name, 'infrastructure', said.left))
            : replied(name, said.right, maxLength)
        },
    }),
  )
  return { tools: made, environment }
}
