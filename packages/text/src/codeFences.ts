/** Fenced code blocks of Markdown. */

/** A fenced code block. */
interface CodeFence {
  /** The first word after the opening fence, in lower case, or an empty string. */
  readonly language: string
  readonly code: string
  /** False if the text ends before the closing fence. */
  readonly isClosed: boolean
}

interface Opening {
  readonly mark: string
  readonly language: string
  readonly lines: readonly string[]
}

const OPENING = /^ {0,3}(`{3,}(?!`)|~{3,}(?!~))([^`]*)$/

const openingOf = (line: string): Opening | undefined => {
  const parts = OPENING.exec(line)
  if (parts === null) return undefined
  return { mark: parts[1]!, language: parts[2]!.trim().split(/\s/, 1)[0]!.toLowerCase(), lines: [] }
}

/** Returns true for a closing fence: only the opening's character, at least as many times. */
const closes = (line: string, { mark }: Opening): boolean => {
  const text = line.trim()
  return text.length >= mark.length && text === mark.charAt(0).repeat(text.length)
}

/**
 * Returns the fenced code blocks of a text, in order. Fences are three or more backticks or tildes
 * on their own line. A shorter fence inside a longer one is part of its code.
 *
 * Cost     linear in the text.
 * Source   CommonMark 0.31, section 4.5, without indentation of blocks.
 *
 * @example
 * codeFences('```python\nx = 1\n```') // [{ language: 'python', code: 'x = 1', isClosed: true }]
 */
export const codeFences = (text: string): readonly CodeFence[] => {
  const found: CodeFence[] = []
  let open: (Opening & { readonly lines: string[] }) | undefined
  const end = (isClosed: CodeFence['isClosed']): void => {
    if (open !== undefined) found.push({ language: open.language, code: open.lines.join('\n'), isClosed })
    open = undefined
  }
  for (const line of text.split(/\r?\n/)) {
    const opening = open === undefined ? openingOf(line) : undefined
    if (opening !== undefined) open = { ...opening, lines: [] }
    else if (open !== undefined && closes(line, open)) end(true)
    else open?.lines.push(line)
  }
  end(false)
  return found
}
