/** The npm scripts, their programs, and every mention of one in the repository. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { programsOf } from '../../scripts/kit/programs.js'

const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as {
  readonly scripts: Readonly<Record<string, string>>
} // our own file

/** The folders whose programs `npm run NAME -- PROGRAM` starts. */
const FOLDERS: Readonly<Record<string, string>> = {
  make: 'scripts/make',
  bench: 'bench',
  verify: 'scripts/verify',
}

const programs = Object.entries(FOLDERS).flatMap(([script, folder]) =>
  programsOf(folder).map((program) => ({ script, ...program })),
)

/** The texts of the repository. Decisions and the changelog describe the past. */
const texts = execFileSync('git', ['ls-files', '-z'], { encoding: 'utf8' })
  .split('\0')
  .filter((path) => /\.(?:md|m?[jt]s|py|sh|json)$|^\.ci\//.test(path) && existsSync(path))
  .filter((path) => !/^docs\/decisions\/|^CHANGELOG|package-lock\.json$|^test\/golden\/(?!generate)/.test(path))
  .map((path) => ({ path, text: readFileSync(path, 'utf8') }))

/** Returns the mentions of scripts and programs that do not exist. */
const problemsOf = (text: string): readonly string[] => {
  const line = text.replaceAll(/\s*\n[ \t]*(?:\*|#|\/\/)?[ \t]*/g, ' ') // a comment may wrap within a command
  const commands = line.matchAll(/npm run (?:-s |--silent )?([a-z][\w:-]*)(?: -- ([a-z]\w*))?/g)
  return Array.from(commands, ([command, script = '', program]) => {
    if (scripts[script] === undefined) return [command]
    const isMissing = FOLDERS[script] !== undefined && program !== undefined
    return isMissing && !programs.some((each) => each.script === script && each.name === program) ? [command] : []
  }).flat()
}

/** Returns the mentions of files of `scripts` and `bench` that do not exist. */
const missingFiles = (text: string): readonly string[] =>
  Array.from(text.matchAll(/(?<![\w/])(?:scripts|bench)\/[\w/]+\.(?:ts|py|sh|mjs)\b/g), ([file]) => file).filter(
    (file) => !existsSync(file),
  )

describe('npm scripts', () => {
  it('are at most fifteen', () => {
    expect(Object.keys(scripts).length).toBeLessThanOrEqual(15)
  })

  it('mentioned in the repository exist, as do their programs', () => {
    expect(texts.flatMap(({ path, text }) => problemsOf(text).map((command) => `${path}: ${command}`))).toEqual([])
  })

  it('would be missed: an old name, an unknown program, a command that wraps', () => {
    const old = 'bench:grpo' // in pieces, because this file is among the texts
    expect(problemsOf(`\`npm run ${old} -- --peer\``)).toEqual([`npm run ${old}`])
    const unknown = 'make -- nothing'
    expect(problemsOf(` * \`npm run\n * ${unknown}\` writes it`)).toEqual([`npm run ${unknown}`])
    expect(problemsOf('`npm run -s bench -- grpo --peer`, `npm run make`, `npm run check -- src`')).toEqual([])
  })
})

describe('files of scripts and benchmarks', () => {
  it('mentioned in the repository exist', () => {
    expect(texts.flatMap(({ path, text }) => missingFiles(text).map((file) => `${path}: ${file}`))).toEqual([])
  })
})

describe('programs', () => {
  it.each(programs)('npm run $script -- $name has a summary', ({ summary }) => {
    expect(summary).toMatch(/^[A-Z][a-z]+s .{5,}/)
  })
})
