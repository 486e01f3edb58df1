/** Parses messages of an MLGym agent: a discussion, and a command in a code block. */

/** A parsed message of the agent. */
export interface CommandBlock {
  readonly thought: string
  readonly command: string
}

/**
 * Parses a line that opens or closes a block: three backticks, followed by the name of a language
 * if it opens one.
 */
const fence = (line: string): { readonly language: string } | undefined => {
  if (!line.startsWith('```')) return undefined
  const rest = line.slice(3).trimEnd()
  return /\s/.test(rest) ? undefined : { language: rest }
}

/**
 * Returns the last code block of a message that is not inside another one, and the rest of the
 * message as the thought; undefined if there is no block.
 *
 * A fence without a language closes the innermost open block, or opens a block if none is open. A
 * fence with a language always opens one.
 *
 * Cost     linear in the text.
 * Source   the `ThoughtActionParser` of MLGym and SWE-agent.
 *
 * @example
 * commandBlock('Let us look.\n```\nls -l\n```') // { thought: 'Let us look.\n', command: 'ls -l\n' }
 */
export const commandBlock = (text: string): CommandBlock | undefined => {
  const open: { readonly start: number; readonly body: number }[] = []
  let last: { readonly start: number; readonly body: number; readonly close: number; readonly end: number } | undefined
  let at = 0
  for (const line of text.split('\n')) {
    const end = Math.min(at + line.length + 1, text.length)
    const mark = fence(line)
    if (mark !== undefined) {
      const block = mark.language === '' ? open.pop() : undefined
      if (block === undefined) open.push({ start: at, body: end })
      else if (open.length === 0) last = { ...block, close: at, end }
    }
    at = end
  }
  return last === undefined
    ? undefined
    : { thought: text.slice(0, last.start) + text.slice(last.end), command: text.slice(last.body, last.close) }
}

/** Commands that take several lines of text, each with the line that ends the text. */
export type MultiLineCommands = Readonly<Record<string, string>>

/** The commands of MLGym's tools. */
const MLGYM_MULTI_LINE: MultiLineCommands = { edit: 'end_of_edit', insert: 'end_of_insert' }

/**
 * Rewrites a command for the shell: the text of a multi-line command is passed as input, up to the
 * line that ends it.
 *
 * Cost     linear in the command.
 * Source   MLGym's agent, before it calls `step`.
 *
 * @example
 * guardMultiLine('edit 1:2\nx = 1\nend_of_edit') // "edit 1:2 << 'end_of_edit'\nx = 1\nend_of_edit"
 */
export const guardMultiLine = (command: string, multiLine: MultiLineCommands = MLGYM_MULTI_LINE): string => {
  const lines = command.split('\n')
  const ends = new Map(Object.values(multiLine).map((end) => [end, lines.findLastIndex((line) => line.trim() === end)]))
  let inside: string | undefined
  return lines
    .map((line, i) => {
      if (inside !== undefined) {
        if (line.trim() === inside) inside = undefined
        return line
      }
      const name = line.trimStart().split(/\s/, 1)[0] ?? ''
      const end = Object.hasOwn(multiLine, name) ? multiLine[name] : undefined
      if (end === undefined || ends.get(end)! <= i) return line
      inside = end
      return line.includes('<<') ? line : `${line.trimEnd()} << '${end}'`
    })
    .join('\n')
}
