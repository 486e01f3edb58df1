/** The guide: every program type-checks and runs, and its commands and files exist. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe as describeFailure, type Failure } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import * as TE from 'fp-ts/lib/TaskEither.js'
import ts from 'typescript'
import { afterAll, describe, expect, it } from 'vitest'
import { agentCommand } from '../../packages/agents/src/commands/agent.js'
import { benchCommand } from '../../packages/bench/src/commands/bench.js'
import { launchCommand } from '../../packages/cluster/src/commands/launch.js'
import { workerCommand } from '../../packages/cluster/src/commands/worker.js'
import { arenaCommand } from '../../packages/games/src/commands/arena.js'
import { captureCommand } from '../../packages/serve/src/commands/capture.js'
import { connectUpstream } from '../../packages/serve/src/commands/captureUpstream.js'
import { serveCommand } from '../../packages/serve/src/commands/serve.js'
import { tinkerCommand } from '../../packages/tinker/src/commands/tinker.js'
import { viewCommand } from '../../packages/view/src/commands/view.js'
import { compilerOptions } from '../../scripts/kit/compilerOptions.js'
import { DOORS } from '../../scripts/kit/doors.js'
import { SOURCE_FOLDERS, typeScriptBelow } from '../../scripts/kit/workspace.js'
import { doctorCommand } from '../../src/cli/doctor.js'
import { evalCommand } from '../../src/cli/eval.js'
import { loadRecipe } from '../../src/cli/recipeFile.js'
import { replayCommand } from '../../src/cli/replay.js'
import { sampleCommand } from '../../src/cli/sample.js'
import { trainCommand } from '../../src/cli/train.js'
import { gsm8kTasks } from '../../src/data/datasets/gsm8k.js'
import { loadPretrained } from '../../src/modules/pretrained/pretrained.js'
import { parseSettings, settingLeaves } from '../../src/run/parts/recipe.js'
import { createRun } from '../../src/run/store/runFolder.js'
import { compiled } from '../kit/compiled.js'
import { codeBlocks, type GuidePage, guidePages, guidePrograms } from '../kit/guidePages.js'

// `runs` is a folder that git ignores, at a depth where `../../src` is the source.
mkdirSync('runs', { recursive: true })
const folder = mkdtempSync(join('runs', 'guide-'))
const fileOf = ({ name }: GuidePage): string => resolve(folder, `${name}.ts`)
for (const page of guidePrograms) {
  const local = page.program
    .replaceAll(/from 'tandem-rl\/([a-z]+)'/g, "from '../../src/doors/$1.js'")
    .replaceAll("from 'tandem-rl'", "from '../../src/index.js'")
  writeFileSync(fileOf(page), `${local}\nexport {}\n`)
}
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const sources = guidePrograms.map(fileOf)
const checked = ts.createProgram([...sources, ...[...DOORS.values()].map((file) => resolve(file))], {
  ...compilerOptions(),
  noUnusedLocals: false,
})

const problemsOf = (path: string): readonly string[] => {
  const file = checked.getSourceFile(path)
  return [...checked.getSyntacticDiagnostics(file), ...checked.getSemanticDiagnostics(file)].map(
    ({ messageText, start = 0 }) => {
      const line = file === undefined ? 0 : file.getLineAndCharacterOfPosition(start).line
      const code = file?.text.split('\n')[line] ?? ''
      return `${code.trim()}\n  ${ts.flattenDiagnosticMessageText(messageText, '\n  ')}`
    },
  )
}

describe('guide', () => {
  it('has pages in order, none over 240 lines, and all but those about commands and installation have a program', () => {
    const numbers = guidePages.map((page) => Number.parseInt(page.name, 10))
    expect(numbers).toEqual([...numbers].sort((one, other) => one - other))
    expect(new Set(numbers).size).toBe(guidePages.length)
    for (const page of guidePages) expect(page.text.split('\n').length, page.name).toBeLessThanOrEqual(241)
    expect(guidePages.filter((page) => page.program === '').map((page) => page.name)).toEqual([
      ...['01-installing', '05-runs', '06-viewing', '29-browser', '35-launching-jobs'],
    ])
  })

  it('tests a transform in ten lines, as on page 38', () => {
    const { text } = guidePages.find((page) => page.name === '38-testing')!
    const tests = codeBlocks(text, 'ts').filter((block) => block.includes('for (const law of laws) await law.check()'))
    expect(tests.map((block) => block.trimEnd().split('\n').length)).toEqual([10])
  })

  it.each(guidePrograms.map((page) => [page.name, page] as const))('%s: the program type-checks', (_, page) => {
    expect(problemsOf(fileOf(page))).toEqual([])
  })
})

const { recipe } = await loadRecipe('wordProblems')
const runs = guidePages.find((page) => page.name === '05-runs')!.text

const optionsIn = (text: string): readonly string[] => [
  ...new Set(Array.from(text.matchAll(/(?<![\w-])--([a-z][a-z-]*)/g), ([option]) => option)),
]

const commands = {
  ...{ train: await trainCommand([]), eval: await evalCommand([]), replay: replayCommand() },
  ...{ doctor: doctorCommand(), sample: sampleCommand(), bench: await benchCommand([]) },
}

/** Only its options are looked at: no engine is started. */
const start = () => TE.left({ _tag: 'EngineFailure', reason: 'not started here' })
const served = serveCommand(start)
const captured = captureCommand({ connect: connectUpstream, start })
const worker = await workerCommand([])
const arena = arenaCommand()
const view = viewCommand()
const agent = (await agentCommand(['run'])).commands[0]!
const tinker = tinkerCommand().commands[0]!

const knownOptions = (command: { readonly options: readonly { readonly long?: string | undefined }[] }): string[] => [
  '--help',
  ...command.options.flatMap(({ long }) => long ?? []),
]

/** The commands of the shell blocks of `pages`: program and options. */
const linesOf = (pages: readonly { readonly text: string }[]): readonly string[] =>
  pages.flatMap(({ text }) => codeBlocks(text, 'sh')).flatMap((code) => code.trim().split('\n'))
const shellLines = linesOf([{ text: runs }])

/** The programs of the repository that have options in the guide, with the file of each. */
const scripts = {
  'make -- model': 'scripts/make/model.ts',
  'bench -- profile': 'bench/profile.ts',
  'bench -- trainStep': 'bench/trainStep.ts',
  'bench -- generate': 'bench/generate.ts',
  'bench -- grpo': 'bench/grpo.ts',
}

const optionsOfScripts = new Map(
  Object.values(scripts).map((script) => [
    script,
    optionsIn(execFileSync(process.execPath, [compiled(script), '--help'], { encoding: 'utf8' })),
  ]),
)

describe('options in the guide', () => {
  it.each(Object.entries(commands))('tandem %s: every option exists', (name, command) => {
    const lines = shellLines.filter((line) => line.startsWith(`tandem ${name} `))
    expect(lines).not.toEqual([])
    for (const line of lines) for (const option of optionsIn(line)) expect(knownOptions(command)).toContain(option)
  })

  it.each(Object.entries(scripts))('%s: every option exists', (name, script) => {
    const lines = linesOf(guidePages).filter((line) => line.includes(` ${name} `))
    expect(lines).not.toEqual([])
    for (const line of lines)
      for (const option of optionsIn(line)) expect(optionsOfScripts.get(script)).toContain(option)
  })

  it('in the text of all pages exist in one of the commands', () => {
    const known = [
      ...Object.values({
        ...commands,
        served,
        captured,
        worker,
        arena,
        view,
        agent,
        tinker,
        launch: launchCommand(),
      }).flatMap(knownOptions),
      ...[...optionsOfScripts.values()].flat(),
      '--verbose', // of every command
    ]
    for (const { name, text } of guidePages) {
      const prose = text.replaceAll(/^```[\s\S]*?^```$/gm, '')
      for (const option of optionsIn(prose)) expect(known, `page ${name}`).toContain(option)
    }
  })
})

/** The names in the first column of the table whose header begins with `title`. */
const tableNames = (title: string): readonly string[] => {
  const lines = runs.split('\n')
  const start = lines.findIndex((line) => line.startsWith(`| ${title} |`))
  const rows = lines.slice(start + 2, lines.indexOf('', start))
  return rows.flatMap((row) => Array.from(row.split('|')[1]!.matchAll(/`([^`]+)`/g), ([, name]) => name!)).sort()
}

const checker = checked.getTypeChecker()

/** Names of all fields of a type; fields of records inside have dotted names. */
const fieldNames = (type: ts.Type, prefix = ''): readonly string[] =>
  checker.getPropertiesOfType(type).flatMap((property) => {
    const name = `${prefix}${property.name}`
    const field = checker.getTypeOfSymbol(property)
    const isRecord =
      (field.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)) !== 0 && !checker.isArrayLikeType(field)
    const inside = isRecord ? fieldNames(field, `${name}.`) : []
    return inside.length > 0 ? inside : [name]
  })

const exportedType = (name: string): ts.Type => {
  const found = [...DOORS.values()]
    .flatMap((door) => checker.getExportsOfModule(checker.getSymbolAtLocation(checked.getSourceFile(resolve(door))!)!))
    .find((symbol) => symbol.name === name)!
  return checker.getDeclaredTypeOfSymbol(
    (found.flags & ts.SymbolFlags.Alias) !== 0 ? checker.getAliasedSymbol(found) : found,
  )
}

describe('fields in the guide', () => {
  it.each([
    ['Step record', 'StepRecord'],
    ['Evaluation record', 'EvaluationRecord'],
    ['Trajectory record', 'TrajectoryRecord'],
    ['Summary', 'RunSummary'],
  ])('%s: exactly the fields of the type', (title, type) => {
    expect(tableNames(title)).toEqual([...fieldNames(exportedType(type))].sort())
  })

  it('Setting: exactly the settings, with their defaults', () => {
    const leaves = settingLeaves(recipe.settings)
    expect(tableNames('Setting')).toEqual(leaves.map(({ path }) => path.join('.')).sort())
    for (const row of runs.split('\n').filter((line) => /^\| `[a-zA-Z.]+`.*\| [\d., ]+ \|/.test(line))) {
      const [, names, defaults] = row.split('|') as [string, string, string]
      const documented = defaults.split(',').map(Number)
      const actual = Array.from(
        names.matchAll(/`([^`]+)`/g),
        ([, name]) => leaves.find(({ path }) => path.join('.') === name)?.default,
      )
      expect(documented, row).toEqual(actual)
    }
  })

  it('Metric: exactly the fields of StepMetrics, on the page about training', () => {
    const training = guidePages.find((page) => page.name === '02-training')!.text
    const rows = training.split('\n').slice(training.split('\n').findIndex((line) => line.startsWith('| Metric |')) + 2)
    const names = rows.flatMap((row) => /^\| `(\w+)`/.exec(row)?.[1] ?? [])
    expect(names.sort()).toEqual([...fieldNames(exportedType('StepMetrics'))].sort())
  })
})

describe('messages in the guide', () => {
  const messages = runs
    .split('\n')
    .slice(runs.split('\n').findIndex((line) => line.startsWith('| Bad input |')) + 2)
    .flatMap((row) => /^\| ([^|]+) \| `(.*)` \|$/.exec(row)?.slice(1, 3) ?? [])
  const said = (result: { readonly _tag: string; readonly left?: Failure }): string =>
    result.left === undefined ? 'nothing' : describeFailure(result.left)
  const config = { format: 2, recipe: null, settings: {}, run: {} } as const

  it('are those of the program', async () => {
    const used = join(folder, 'used')
    mkdirSync(used)
    writeFileSync(join(used, 'config.json'), '{}')
    const actual: Readonly<Record<string, string>> = {
      'no model': said((await loadPretrained('no-model')()) as never),
      'unusable row': said(
        gsm8kTasks('{"question":"a?","answer":"#### 1"}\n{"question":"b?","answer":"no"}', {
          name: 'rows.jsonl',
        }) as never,
      ),
      'folder in use': said((await createRun(liveFiles, used, config)()) as never),
      'unknown setting': said(parseSettings(recipe, { sampling: { temprature: 1 } }) as never),
    }
    expect(messages.length).toBe(2 * Object.keys(actual).length)
    for (let i = 0; i < messages.length; i += 2) expect(actual[messages[i]!]).toContain(messages[i + 1]!)
  })
})

const wordsOfSources = (): readonly string[] =>
  SOURCE_FOLDERS.flatMap(typeScriptBelow).flatMap((path) => readFileSync(path, 'utf8').match(/[\w-]+/g) ?? [])

describe('glossary and parity', () => {
  it('the glossary is in alphabetical order and has each term once', () => {
    const terms = Array.from(readFileSync('docs/glossary.md', 'utf8').matchAll(/^\*\*(.+?)\.\*\*/gm), ([, term]) =>
      term!.toLowerCase().replaceAll(/[^a-z0-9]/g, ''),
    )
    expect(terms.length).toBeGreaterThan(40)
    expect(terms).toEqual([...new Set(terms)].sort())
  })

  it('every name that parity.md gives for ours occurs in the sources', () => {
    const words = new Set(wordsOfSources())
    const rows = readFileSync('docs/parity.md', 'utf8').split('\n')
    const names = rows
      .filter((row) => /^\| .* \|$/.test(row))
      .flatMap((row) =>
        Array.from(row.split(' | ')[1]!.matchAll(/`([\w.-]+)`/g), ([, name]) => name!.split('.')).flat(),
      )
    expect(names.length).toBeGreaterThan(80)
    expect(names.filter((name) => !words.has(name))).toEqual([])
  })

  it('every test file that parity.md names exists', () => {
    const files = Array.from(readFileSync('docs/parity.md', 'utf8').matchAll(/`(test\/[^`]+)`/g), ([, file]) => file!)
    expect(files.length).toBeGreaterThan(50)
    expect(files.filter((file) => !existsSync(file))).toEqual([])
  })
})
