/** The pages of the guide and their programs. */
import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'

const GUIDE = 'docs/guide'

export interface GuidePage {
  readonly name: string
  readonly text: string
  /** All blocks of TypeScript, one after the other. */
  readonly program: string
}

/** The blocks of code of a language. */
export const codeBlocks = (text: string, language: string): readonly string[] =>
  [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(([, code]) => code!)

export const guidePages: readonly GuidePage[] = readdirSync(GUIDE)
  .filter((file) => file.endsWith('.md'))
  .sort()
  .map((file) => {
    const text = readFileSync(join(GUIDE, file), 'utf8')
    return { name: basename(file, '.md'), text, program: codeBlocks(text, 'ts').join('\n') }
  })

/** The pages that have a program. */
export const guidePrograms: readonly GuidePage[] = guidePages.filter((page) => page.program !== '')
