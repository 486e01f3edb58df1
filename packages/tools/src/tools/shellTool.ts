import { checkOptions } from '@tandem-rl/base'
import { SHELL_TOOL_OPTIONS } from '../optionKinds.js'
import type { CellLanguage, CellTool, CellToolOptions } from './cellTool.js'
import { cellTool } from './cellTool.js'

/**
 * Runs commands in one shell. A request is two lines: the mark, and the commands encoded for
 * `printf %b`.
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

/** Encodes commands on one line for `printf %b`. Null characters are dropped. */
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
 * Makes a tool that runs a shell in the sandbox. Its argument is `command`; its result is the
 * output of the commands, and their exit code if it is not 0.
 *
 * With `memory: 'session'`, the calls of a conversation share their folder, variables and files. A
 * call that runs `exit` ends the shell and is dropped from the session.
 *
 * Errors   as `pythonTool`.
 * Effects  processes; `close` ends them.
 *
 * @example
 * shellTool({ memory: 'session' }).initial // []
 */
export const shellTool = (options: CellToolOptions = {}): CellTool => {
  checkOptions('shellTool', options, SHELL_TOOL_OPTIONS)
  return cellTool(SHELL, options)
}
