/** Programs in the sandbox that work on the files of one folder. */
import {
  type Ids,
  parseJson,
  type ResourceSpec,
  type Sandbox,
  type SandboxLimits,
  type SandboxSession,
} from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { sandboxResource } from '../processes/runners.js'
import { clipped } from './clipped.js'

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
    if op == 'check':
        done = subprocess.run(['sh', '-c', r['command']], cwd=root, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return str(done.returncode)
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

/** An operation of the driver. */
export interface FileRequest {
  readonly op: 'seed' | 'read' | 'create' | 'edit' | 'undo' | 'list' | 'grep' | 'python' | 'shell' | 'check'
  readonly [argument: string]: unknown
}

/** The folder of one conversation, in a sandbox. */
export interface FileSession {
  /**
   * Runs an operation. The inner `Left` is an error of the request, such as an unknown path; the
   * outer one is a failure of the sandbox.
   */
  readonly ask: (request: FileRequest, signal: AbortSignal) => TE.TaskEither<string, E.Either<string, string>>
  readonly isAlive: () => boolean
  readonly close: () => Promise<void>
}

const read = (text: string): E.Either<string, E.Either<string, string>> => {
  const json = parseJson(text)
  const reply = E.isRight(json) ? replySchema.safeParse(json.right) : undefined
  if (reply === undefined || !reply.success)
    return E.left(`the file server sent an invalid response: ${clipped(text, 200)}`)
  return E.right('error' in reply.data ? E.left(reply.data.error) : E.right(reply.data.ok))
}

const fileSession = (session: SandboxSession, ids: Ids): FileSession => ({
  ask: (request, signal) => async () => {
    const mark = ids.fresh()
    const result = await session.ask(`${JSON.stringify({ ...request, mark })}\n`, mark, { signal })()
    if (E.isLeft(result)) return E.left(result.left.reason)
    if (result.right._tag === 'Ended')
      return E.left(`the file server ended (${result.right.stopped ?? result.right.code})`)
    return read(result.right.output.text)
  },
  isAlive: session.isAlive,
  close: session.close,
})

/**
 * Writes files, by path relative to the folder. Rejects with the reason if one cannot be written.
 */
export const seeded = async (
  session: FileSession,
  files: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<void> => {
  const result = await session.ask({ op: 'seed', files }, signal)()
  if (E.isLeft(result)) throw new Error(result.left)
  if (E.isLeft(result.right)) throw new Error(result.right.left)
}

/** Makes a spec of folders in a sandbox. */
export const fileResource = (
  sandbox: Sandbox,
  { limits, ids }: { readonly limits: Partial<SandboxLimits>; readonly ids: Ids },
): ResourceSpec<FileSession> => {
  const { start, ...program } = sandboxResource('files', sandbox, {
    command: 'python3',
    args: ['-s', '-c', DRIVER],
    limits: { cpuSeconds: 600, ...limits },
    // Python compares compiled files by second and size: an edit of equal length would be missed.
    env: { PYTHONDONTWRITEBYTECODE: '1' },
  })
  return {
    name: program.name,
    start: (args, signal) => TE.map((session: SandboxSession) => fileSession(session, ids))(start(args, signal)),
    end: (session) => session.close(),
    isAlive: (session) => session.isAlive(),
  }
}
