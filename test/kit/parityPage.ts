/** The rows of `docs/parity.md`, and what is wrong with them. */
import { existsSync, readFileSync } from 'node:fs'

/** A row of a table of the page. */
export interface ParityRow {
  /** The cell of TorchRL's names. */
  readonly torchrl: string
  readonly here: string
  /** The intended difference, or the reason why there is no counterpart. */
  readonly difference: string
  readonly tests: string
  /** The line of the page, from 1. */
  readonly line: number
}

const COLUMNS = 4
const FIRST = '| TorchRL'

/** Splits a table line at the bars that are not escaped. */
const cellsOf = (line: string): readonly string[] =>
  line
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) => cell.trim())

/** Reads the rows of all tables. A line with another number of cells throws. */
export const parityRows = (page: string): readonly ParityRow[] =>
  page.split('\n').flatMap((text, i) => {
    if (!text.startsWith('|') || text.startsWith('| ---') || text.startsWith(FIRST)) return []
    const cells = cellsOf(text)
    if (cells.length !== COLUMNS) throw new RangeError(`line ${i + 1} has ${cells.length} cells instead of ${COLUMNS}`)
    const [torchrl = '', here = '', difference = '', tests = ''] = cells
    return [{ torchrl, here, difference, tests, line: i + 1 }]
  })

/** The texts in backticks. */
export const quoted = (cell: string): readonly string[] => [...cell.matchAll(/`([^`]+)`/g)].map(([, text]) => text!)

const placed = ({ line, torchrl }: ParityRow, problem: string): string => `line ${line} (${torchrl}): ${problem}`

const camel = (flag: string): string => flag.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())

const COMMAND = 'tandem '

/** The words that a test may mention: each name, member, option, literal, command or flag. */
const wordsOf = (expression: string): readonly string[] => {
  if (!expression.startsWith(COMMAND)) return expression.match(/[A-Za-z_][\w-]*/g) ?? []
  const [, command = '', ...flags] = expression.split(' ')
  return [`${command}Command`, ...flags.map((flag) => flag.slice(2)).flatMap((flag) => [flag, camel(flag)])]
}

const mentions = (text: string, words: readonly string[]): boolean => {
  const found = new Set(text.match(/\w[\w-]*/g) ?? [])
  return (
    words.some((word) => found.has(word)) || [...found].some((each) => each.split('-').some((w) => words.includes(w)))
  )
}

/**
 * Returns the names in the column `Here` that are not public. `problem` returns why, or
 * `undefined`.
 */
export const nameProblems = (
  rows: readonly ParityRow[],
  problem: (name: string) => string | undefined,
): readonly string[] =>
  rows.flatMap((row) =>
    quoted(row.here).flatMap((name) => {
      const wrong = problem(name)
      return wrong === undefined ? [] : [placed(row, wrong)]
    }),
  )

/**
 * Returns the rows without a test, the tests that do not exist, and those that mention no name of
 * their row.
 */
export const testProblems = (
  rows: readonly ParityRow[],
  read: (path: string) => string | undefined,
): readonly string[] =>
  rows.flatMap((row) => {
    const names = quoted(row.here)
    const paths = quoted(row.tests)
    const words = (names.length > 0 ? names : quoted(row.torchrl)).flatMap(wordsOf)
    if (names.length > 0 && paths.length === 0) return [placed(row, 'names no test')]
    return paths.flatMap((path) => {
      const text = read(path)
      if (text === undefined) return [placed(row, `there is no test ${path}`)]
      return mentions(text, words) ? [] : [placed(row, `${path} mentions none of ${words.join(', ')}`)]
    })
  })

const repeated = (items: readonly string[]): readonly string[] => [
  ...new Set(items.filter((item, i) => items.indexOf(item) !== i)),
]

/** Returns the names of TorchRL in two rows, and names that two rows without such a name share. */
export const rowProblems = (rows: readonly ParityRow[]): readonly string[] => [
  ...repeated(rows.flatMap(({ torchrl }) => [...new Set(quoted(torchrl))])).map((name) => `two rows have ${name}`),
  ...repeated(rows.filter(({ torchrl }) => torchrl === 'none').flatMap(({ here }) => quoted(here))).map(
    (name) => `two rows of what TorchRL does not have name ${name}`,
  ),
]

/** Returns the names of TorchRL that are in no row. */
export const missingNames = (rows: readonly ParityRow[], torchrl: readonly string[]): readonly string[] => {
  const there = new Set(rows.flatMap((row) => quoted(row.torchrl)).flatMap((text) => [text, ...text.split(/[^\w.:]+/)]))
  return torchrl.filter((name) => !there.has(name))
}

/** Reads a file of the checkout, if it exists. */
export const readIfThere = (path: string): string | undefined =>
  existsSync(path) ? readFileSync(path, 'utf8') : undefined
