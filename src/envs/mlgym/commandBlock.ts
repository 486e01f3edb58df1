/** What an agent of MLGym writes: a discussion, and a command in a code block. */

/** A message of the agent, taken apart. */
export interface CommandBlock {
  readonly thought: string
  readonly command: string
}

/**
 * A line that opens or closes a block: three backticks, and the name of a language for those that
 * open.
 */
const fence = (line: string): { readonly language: string } | undefined => {
  if (!line.startsWith('```')) return undefined
  const rest = line.slice(3).trimEnd()
  return /\s/.test(rest) ? undefined : { language: rest }
}

/**
 * The last code block of a message that stands in no other block, and all the rest as the thought;
 * undefined if there is none.
 *
 * A fence without a language closes the innermost block that is open, or opens one where none is;
 * with a language it opens one inside.
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

/** Commands that take text of several lines, with the word on a line of its own that ends it. */
export type MultiLineCommands = Readonly<Record<string, string>>

/** Those of MLGym's tools. */
const MLGYM_MULTI_LINE: MultiLineCommands = { edit: 'end_of_edit', insert: 'end_of_insert' }

/**
 * A command as the shell takes it: the text of commands of several lines goes to their input, up to
 * the word that ends it.
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
