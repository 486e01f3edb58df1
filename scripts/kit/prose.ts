/**
 * Finds sentences in the style that docs and comments must not have: noun clauses as openings,
 * things that talk, long lines.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/**
 * `opening`: a comment that begins with a noun clause. `words`: a word of the old style. `long`:
 * prose of more than 100 columns.
 */
export type ProseMark = 'opening' | 'words' | 'long'

/** A marked line. */
export interface MarkedLine {
  readonly mark: ProseMark
  readonly file: string
  readonly line: number
  readonly text: string
}

/** A line of prose, and whether a comment begins with it. */
interface ProseLine {
  readonly line: number
  readonly text: string
  readonly columns: number
  readonly isFirst: boolean
}

const OPENING = /^(what|whether|where|who|whose|how|which)\b[^?]*$/i
const WORDS = /\b(told|tells|says|nobody|(?:is|are|was|were) none|goes on|gone on|go on with|stands|hinders)\b/i
const WIDTH = 100

/** The lines of a Markdown page outside code, tables and links alone on their line. */
const markdownLines = (source: string): readonly ProseLine[] => {
  let isCode = false
  return source.split('\n').flatMap((text, i) => {
    if (/^\s*(```|~~~)/.test(text)) {
      isCode = !isCode
      return []
    }
    const isProse = !isCode && !/^\s*\|/.test(text) && !/^\s*\S*\]\(\S+\)\S*$/.test(text)
    return isProse ? [{ line: i + 1, text, columns: text.length, isFirst: false }] : []
  })
}

/** The comments of a TypeScript file, and the titles of its tests. Rows of tables may be wide. */
const sourceLines = (source: string): readonly ProseLine[] => {
  let isDoc = false
  let isFirst = false
  let isExample = false
  return source.split('\n').flatMap((line, i) => {
    const title = /^\s*(?:it|test|describe)(?:\.\w+)*(?:\([^'"`]*\))?\(\s*(['"`])(.*?)\1,/.exec(line)
    if (title !== null) return [{ line: i + 1, text: title[2]!, columns: 0, isFirst: false }]
    const begins = /^\s*\/\*\*?/.test(line)
    if (begins) [isDoc, isFirst, isExample] = [true, true, false]
    const comment = isDoc ? line : /(?:^|\s)\/\/ (.*)$/.exec(line)?.[0]
    if (comment === undefined) return []
    const text = comment.replace(/^\s*(?:\/\*\*?|\*\/|\*|\/\/)\s?/, '').replace(/\s*\*\/\s*$/, '')
    const isWide = /^\||^biome-ignore/.test(text)
    const columns = !isWide && (isDoc || /^\s*\/\//.test(line)) ? line.length : 0
    const opens = isDoc ? isFirst && text.trim() !== '' : true
    if (isDoc && text.trim() !== '') isFirst = false
    if (isDoc && text.startsWith('@')) isExample = true
    const found = isExample ? [] : [{ line: i + 1, text: text.trim(), columns, isFirst: opens }]
    if (isDoc && line.includes('*/')) isDoc = false
    return found
  })
}

const marksOf = (file: string, { line, text, columns, isFirst }: ProseLine): readonly MarkedLine[] => {
  const marks: readonly ProseMark[] = [
    ...(isFirst && OPENING.test(text) ? (['opening'] as const) : []),
    ...(WORDS.test(text) ? (['words'] as const) : []),
    ...(columns > WIDTH && !text.includes('https://') ? (['long'] as const) : []),
  ]
  return marks.map((mark) => ({ mark, file, line, text }))
}

/**
 * The pages and sources that people read. Generated reports and files of other projects are left
 * out.
 */
const READ = ['*.md', 'src', 'test', 'scripts', 'bench', 'recipes', 'examples', 'assets/project', 'packages']
const OTHERS = /^docs\/api\/|^test\/golden\/(?!generate)|^test\/fuzz\/corpus|^LICENSES/

/** All marked lines of the repository. */
export const markedLines = (): readonly MarkedLine[] =>
  execFileSync('git', ['ls-files', '-z', ...READ], { encoding: 'utf8' })
    .split('\0')
    .filter((file) => /\.(md|ts)$/.test(file) && !OTHERS.test(file))
    .flatMap((file) => {
      const source = readFileSync(file, 'utf8')
      const lines = file.endsWith('.md') ? markdownLines(source) : sourceLines(source)
      return lines.flatMap((line) => marksOf(file, line))
    })

/** The part of the repository that a file belongs to, such as `src/data`, `docs` or `test`. */
const areaOf = (file: string): string => {
  const [top = '', second = ''] = file.split('/')
  if (!file.includes('/')) return 'pages'
  if (top === 'packages') return `packages/${second}`
  return top === 'src' ? (file.split('/').length > 2 ? `src/${second}` : 'src') : top
}

/** The number of marked lines by area and mark. */
export const proseCounts = (
  lines: readonly MarkedLine[],
): Readonly<Record<string, Readonly<Record<ProseMark, number>>>> => {
  const areas = [...new Set(lines.map(({ file }) => areaOf(file)))].sort()
  const count = (area: string, mark: ProseMark): number =>
    lines.filter((line) => line.mark === mark && areaOf(line.file) === area).length
  return Object.fromEntries(
    areas.map((area) => [
      area,
      { opening: count(area, 'opening'), words: count(area, 'words'), long: count(area, 'long') },
    ]),
  )
}
