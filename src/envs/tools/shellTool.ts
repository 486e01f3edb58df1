import { checkOptions } from '../../core/options.js'
import type { CellLanguage, CellTool, CellToolOptions } from './cellTool.js'
import { CELL_TOOL_OPTIONS, cellTool } from './cellTool.js'

/**
 * Runs commands in one shell. Requests are two lines: the mark, and the commands as `printf %b`
 * reads them.
 */
const DRIVER = `
exec 8<&0 9>&1
while IFS= read -r TANDEM_MARK <&8 && IFS= read -r TANDEM_CODE <&8; do
  TANDEM_CODE=$(printf '%b.' "$TANDEM_CODE")
  exec 0</dev/null 1>&9 2>&9
  eval "\${TANDEM_CODE%.}" 8<&- 9>&-
  printf '%s%s\\n' "$TANDEM_MARK" "$?" >&9
done
`

/** On one line, for `printf %b`. A shell has no character 0. */
const encoded = (code: string): string =>
  code.replaceAll('\0', '').replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('\r', '\\r')

const SHELL: CellLanguage = {
  name: 'shell',
  description: 'Runs commands in a bash shell and returns what they print.',
  argument: 'command',
  program: () => ({ command: 'bash', args: ['--norc', '--noprofile', '-c', DRIVER] }),
  request: (code, mark) => `${mark}\n${encoded(code)}\n`,
}

/**
 * A shell as a tool, in the sandbox: its argument is `command`, and its result what the commands
 * printed, and their exit code if it is not 0.
 *
 * With `memory: 'session'` the calls of a conversation share their folder, variables and files.
 * `exit` ends the shell, and its call is forgotten.
 *
 * Errors   as `pythonTool`.
 * Effects  processes; end them with `close`.
 *
 * @example
 * shellTool({ memory: 'session' }).initial // []
 */
export const shellTool = (options: CellToolOptions = {}): CellTool => {
  checkOptions('shellTool', options, CELL_TOOL_OPTIONS)
  return cellTool(SHELL, options)
}
