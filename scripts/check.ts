/**
 * Checks changed files alone: `npm run check -- src/envs/rewards/format.ts`. Without files, those
 * that git lists as changed. Formats and types, layers, the tests of the files and of what imports
 * them directly, and the tests of rules that the files can break. `npm test` runs everything.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { basename, dirname, relative } from 'node:path'
import { isSource, TEST_FOLDERS, typeScriptBelow } from './kit/workspace.js'

/** Most test files that run because they import a changed file. */
const MOST_TESTS = 12

const git = (...args: readonly string[]): readonly string[] =>
  spawnSync('git', args, { encoding: 'utf8' }).stdout.split('\n').filter(Boolean)

const changed = (): readonly string[] => [
  ...git('diff', '--name-only', '--diff-filter=d', 'HEAD'),
  ...git('ls-files', '--others', '--exclude-standard'),
]

const given = process.argv.slice(2).map((path) => relative('.', path))
const files = given.length > 0 ? given : changed()
const missing = files.filter((file) => !existsSync(file))
if (missing.length > 0 || files.length === 0) {
  process.stderr.write(missing.length > 0 ? `no such file: ${missing.join(', ')}\n` : 'no file has changed\n')
  process.exit(1)
}

const sources = files.filter((file) => isSource(file) && file.endsWith('.ts'))
const allTests = TEST_FOLDERS.flatMap(typeScriptBelow).filter((name) => name.endsWith('.test.ts'))

/** Returns true if a test is named after a source: `test/envs/x.test.ts`, `x.golden.test.ts`. */
const isOwnTest = (test: string, source: string): boolean => {
  const name = basename(source, '.ts')
  return (
    dirname(test) === dirname(source).replace(/(^|\/)src(?=\/|$)/, '$1test') && basename(test).startsWith(`${name}.`)
  )
}

const imports = (test: string, source: string): boolean =>
  readFileSync(test, 'utf8').includes(`/${source.replace(/^.*?(?=src\/)/, '').replace(/\.ts$/, '.js')}'`)

const own = allTests.filter((test) => sources.some((source) => isOwnTest(test, source)))
const importing = allTests.filter((test) => !own.includes(test) && sources.some((source) => imports(test, source)))

/** Tests of rules, and the files that can break them. */
const RULES: readonly (readonly [RegExp, readonly string[]])[] = [
  [/^(src|packages\/[^/]+\/src)\//, ['test/architecture.test.ts', 'test/prose.test.ts']],
  [/^(src\/doors\/|(packages\/[^/]+\/)?src\/index\.ts)/, ['test/doors.test.ts']],
  [/^src\/objectives\//, ['test/docs/objectives.test.ts']],
  [
    /^(docs|README|CHANGELOG|CONTRIBUTING)/,
    ['test/prose.test.ts', 'test/docs/readme.test.ts', 'test/docs/site.test.ts'],
  ],
  [/^src\/.*(Options|options)/, ['test/options.test.ts']],
]
const rules = RULES.flatMap(([path, tests]) => (files.some((file) => path.test(file)) ? tests : []))
const tests = [
  ...new Set([
    ...files.filter((file) => file.endsWith('.test.ts')),
    ...own,
    ...importing.slice(0, MOST_TESTS),
    ...rules,
  ]),
]

/** A check: its command, and the way out if it fails. */
const CHECKS: readonly (readonly [command: readonly string[], wayOut: string])[] = [
  [['biome', 'check', '--diagnostic-level=error', ...files], '`npm run fix` formats; other findings are errors'],
  [
    ['tsc', '-p', 'tsconfig.json'],
    'the first line of each error names the place; `npm run make -- options` writes tables that `optionKinds.js` lacks',
  ],
  ...(sources.length === 0
    ? []
    : ([
        [
          ['tsx', 'scripts/make/options.ts', '--check'],
          '`npm run make -- options` writes the tables of options from their types, for `checkOptions`',
        ],
        [
          ['depcruise', '--config', '.dependency-cruiser.mjs', ...sources],
          'imports point down: .dependency-cruiser.mjs has the table of layers',
        ],
      ] as const)),
  ...(tests.length === 0
    ? []
    : ([
        [
          ['vitest', 'run', ...tests],
          '`npm run make -- api` after new public names, `npm run make -- objectives` after new objectives, `npm run make -- prose FILE` for lines in the old style',
        ],
      ] as const)),
]

const failed = CHECKS.filter(([[name, ...args], wayOut]) => {
  const command = name === 'tsc' ? ['node', 'node_modules/typescript-7/bin/tsc', ...args] : ['npx', name!, ...args]
  process.stdout.write(`-- ${[name, ...args].join(' ').slice(0, 200)}\n`)
  const { status } = spawnSync(command[0]!, command.slice(1), { stdio: 'inherit' })
  if (status !== 0) process.stdout.write(`${name} failed: ${wayOut}\n`)
  return status !== 0
})
if (importing.length > MOST_TESTS)
  process.stdout.write(`${importing.length - MOST_TESTS} more test files import these files: npm test runs them\n`)
process.stdout.write(failed.length === 0 ? 'all checks passed\n' : `${failed.length} checks failed\n`)
process.exitCode = failed.length === 0 ? 0 : 1
