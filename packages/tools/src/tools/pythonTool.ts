import { checkOptions } from '@tandem-rl/base'
import { PYTHON_TOOL_OPTIONS } from '../optionKinds.js'
import type { CellLanguage, CellTool, CellToolOptions } from './cellTool.js'
import { cellTool } from './cellTool.js'

/**
 * Runs cells in one namespace. Requests are lines of JSON. The driver communicates over copies of
 * the file descriptors, which cells do not have under their usual numbers. Output and input are
 * reopened for each cell, because the previous one may have closed them.
 */
const DRIVER = `
import sys
def serve():
    import io, json, linecache, os, random, traceback
    asked = os.fdopen(os.dup(0), 'r', encoding='utf-8')
    told = os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    main = vars(sys.modules['__main__'])
    main.pop('serve', None)
    random.seed(0)
    def stream(descriptor, mode):
        raw = io.FileIO(descriptor, mode, closefd=False)
        wrapped = io.BufferedWriter(raw) if mode == 'w' else io.BufferedReader(raw)
        return io.TextIOWrapper(wrapped, encoding='utf-8', errors='backslashreplace', line_buffering=True)
    def run(code, name):
        try:
            exec(compile(code, name, 'exec'), main)
            return 0
        except SystemExit as end:
            if end.code is None or isinstance(end.code, int):
                return end.code or 0
            print(end.code, file=sys.stderr)
            return 1
        except BaseException as error:
            trace = error.__traceback__.tb_next
            traceback.print_exception(type(error), error, trace)
            return 1
    for count, line in enumerate(asked, 1):
        request = json.loads(line)
        code, name = request['code'], '<cell %d>' % count
        os.dup2(empty, 0)
        os.dup2(told, 1)
        os.dup2(told, 2)
        sys.stdin, sys.stdout, sys.stderr = stream(0, 'r'), stream(1, 'w'), stream(2, 'w')
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        status = 1
        try:
            status = run(code, name)
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            pass
        os.write(told, (request['mark'] + str(status) + '\\n').encode())
serve()
`

const PYTHON: CellLanguage = {
  name: 'python',
  description: 'Runs Python code and returns what it prints, and its error if there is one.',
  argument: 'code',
  program: () => ({
    command: 'python3',
    args: ['-s', '-X', 'utf8', '-c', DRIVER],
    // Makes equal cells return equal outputs: fixes the order of sets, and the number of threads of
    // numerical libraries.
    env: { PYTHONHASHSEED: '0', OMP_NUM_THREADS: '1', OPENBLAS_NUM_THREADS: '1', MKL_NUM_THREADS: '1' },
  }),
  request: (code, mark) => `${JSON.stringify({ code, mark })}\n`,
}

/**
 * Makes a tool that runs Python in the sandbox. Its argument is `code`; its result is the printed
 * output, including the traceback of an exception.
 *
 * With `memory: 'session'`, the calls of a conversation share variables and files. Random numbers
 * start from the same seed in every session, so that equal calls return equal results.
 *
 * Errors   as `cellTool`: without bubblewrap or Python, no code runs and the rollout fails.
 * Effects  processes; `close` ends them.
 * Source   TorchRL `PythonInterpreter`, which runs code as the user of the training process.
 *
 * @example
 * pythonTool().name // 'python'
 */
export const pythonTool = (options: CellToolOptions = {}): CellTool => {
  checkOptions('pythonTool', options, PYTHON_TOOL_OPTIONS)
  return cellTool(PYTHON, options)
}
