/** `tandem init`: creates a small project. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { nearestName } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { Command, InvalidArgumentError } from 'commander'
import { version } from '../live/version.js'
import { CommandError, orFail } from './failure.js'
import { GUESTS } from './guests.js'
import { say } from './plan.js'

const TEMPLATE = fileURLToPath(new URL('../../assets/project/', import.meta.url))

/** Returns package versions for the project: this package's, and those of its dev dependencies. */
const versions = (): Readonly<Record<string, string>> => {
  const own = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    readonly devDependencies: Readonly<Record<string, string>>
  } // our own file
  return { ...own.devDependencies, 'tandem-rl': `^${version}` }
}

const pick = (from: Readonly<Record<string, string>>, names: readonly string[]): Readonly<Record<string, string>> =>
  Object.fromEntries(names.map((name) => [name, from[name] ?? '*']))

const packageJson = (name: string, guests: readonly string[]): string => {
  const known = versions()
  const contents = {
    name,
    private: true,
    type: 'module',
    scripts: { start: 'tandem train ./recipe.ts', test: 'tsc && vitest run' },
    dependencies: pick(known, ['tandem-rl']),
    devDependencies: {
      ...Object.fromEntries(['testing', ...guests].map((each) => [`@tandem-rl/${each}`, known['tandem-rl']])),
      ...pick(known, ['@types/node', 'fast-check', 'typescript', 'vitest']),
    },
  }
  return `${JSON.stringify(contents, undefined, 2)}\n`
}

/** Converts a folder name to a valid npm package name. */
const packageName = (folder: string): string =>
  basename(folder)
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]/g, '-')
    .replace(/^[._-]+/, '') || 'tandem-project'

/** Reads a list of packages: `view,games`. Throws for any other name. */
const guestNames = (text: string): readonly string[] => {
  const names = text.split(',').map((each) => each.trim().replace(/^@tandem-rl\//, ''))
  const wrong = names.find((each) => !Object.hasOwn(GUESTS, each))
  if (wrong === undefined) return [...new Set(names)]
  const near = nearestName(wrong, Object.keys(GUESTS))
  throw new InvalidArgumentError(
    `There is no package '${wrong}'${near === undefined ? '' : `: did you mean '${near}'?`} (${Object.keys(GUESTS).join(', ')})`,
  )
}

const action = async (given: string, { with: guests = [] }: { readonly with?: readonly string[] }): Promise<void> => {
  const folder = resolve(given)
  if (existsSync(folder) && readdirSync(folder).length > 0)
    throw new CommandError(`${folder} is not empty: give a new or empty folder`)
  const copied = readdirSync(TEMPLATE).map((name) => [name, readFileSync(`${TEMPLATE}${name}`, 'utf8')] as const)
  const files = {
    ...Object.fromEntries(copied),
    'package.json': packageJson(packageName(folder), guests),
    '.gitignore': 'node_modules/\nruns/\n',
    '.npmrc': 'ignore-scripts=true\n',
  }
  await orFail(liveFiles.makeFolder(folder))
  for (const [name, contents] of Object.entries(files)) await orFail(liveFiles.write(`${folder}/${name}`, contents))
  say(`created ${folder}: ${Object.keys(files).sort().join(', ')}\nnext: cd ${given} && npm install && npm start\n`)
}

export const initCommand = (): Command =>
  new Command('init')
    .argument('<folder>', 'a new or empty folder')
    .option('--with <packages>', `packages to add: ${Object.keys(GUESTS).join(', ')}`, guestNames)
    .action(action)
