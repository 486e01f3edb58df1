/** The programs that `npm run make`, `npm run bench` and `npm run verify` start. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, parse } from 'node:path'

/** A file of a folder that is run by its name. */
export interface Program {
  readonly name: string
  readonly path: string
  /** The first sentence of its first comment. */
  readonly summary: string
}

const summaryOf = (code: string): string => {
  const [, comment = ''] = /^(?:\/\*\*|""")([\s\S]*?)(?:\*\/|""")/.exec(code) ?? []
  const text = comment.replaceAll(/\s*\n *\*?\s*/g, ' ').trim()
  return text.replace(/[.:](?: .*)?$/, '')
}

/** Lists the TypeScript and Python files of a folder, without those of folders in it. */
export const programsOf = (folder: string): readonly Program[] =>
  readdirSync(folder)
    .filter((file) => /\.(?:ts|py)$/.test(file))
    .sort()
    .map((file) => {
      const path = join(folder, file)
      return { name: parse(file).name, path, summary: summaryOf(readFileSync(path, 'utf8')) }
    })
