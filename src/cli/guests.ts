/**
 * Commands of other packages. A package.json names the export with its commands, for example
 * `"tandem": { "commands": "./commands" }`: a module whose `commands` is a list of `CommandEntry`.
 * Packages of the project and those beside this one count if `tandem` is in their names.
 */
import { existsSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { errorMessage } from '@tandem-rl/base'
import { printError } from '@tandem-rl/base/host'
import { readRegularText } from '@tandem-rl/host'
import { version } from '../live/version.js'
import type { CommandEntry } from './commandEntry.js'
import { CommandError } from './failure.js'

/** The packages of this project that are installed on request, and the commands that each has. */
export const GUESTS: Readonly<Record<string, readonly string[]>> = {
  agents: ['agent'],
  bench: ['bench'],
  cluster: ['worker', 'launch'],
  games: ['arena'],
  serve: ['serve', 'capture'],
  testing: [],
  tinker: ['tinker'],
  tools: [],
  tracking: [],
  view: ['view', 'runs', 'compare'],
}

/** Commands of these packages, and the package that has each. */
export const KNOWN_GUESTS: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(GUESTS).flatMap(([name, commands]) => commands.map((command) => [command, `@tandem-rl/${name}`])),
)

/** Names of packages that may have commands. */
const MAY_HAVE_COMMANDS = /tandem/

/** The part of a package.json that is read. */
interface Manifest {
  readonly version?: string
  readonly tandem?: { readonly commands?: string }
  readonly dependencies?: object
  readonly devDependencies?: object
  readonly optionalDependencies?: object
}

/** Reads a package.json; empty if it is missing or no object. */
const manifestAt = async (path: string): Promise<Manifest> => {
  try {
    const value: unknown = JSON.parse(await readRegularText(path))
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {} // npm reports a broken package.json; here it only means no commands
  }
}

/** The package.json of the project that a folder belongs to, if any. */
export const projectOf = (folder: string): string | undefined => {
  const path = join(folder, 'package.json')
  if (existsSync(path)) return path
  return dirname(folder) === folder ? undefined : projectOf(dirname(folder))
}

/** The names of packages that a project depends on. */
const dependenciesOf = ({ dependencies, devDependencies, optionalDependencies }: Manifest): readonly string[] =>
  [dependencies, devDependencies, optionalDependencies].flatMap((each) => Object.keys(each ?? {}))

/** The names of the packages of this scope in a `node_modules`. */
const scopeIn = (modules: string): readonly string[] =>
  existsSync(join(modules, '@tandem-rl'))
    ? readdirSync(join(modules, '@tandem-rl')).map((name) => `@tandem-rl/${name}`)
    : []

/** A package that may have commands, and a module of the package that depends on it. */
interface Candidate {
  readonly name: string
  readonly from: string
}

/** Lists packages of the project in a folder, then those beside this package and below it. */
const candidates = async (folder: string): Promise<readonly Candidate[]> => {
  const project = projectOf(folder)
  const root = fileURLToPath(new URL('../../', import.meta.url))
  const beside = join(root, 'package.json')
  return [
    ...(project === undefined
      ? []
      : dependenciesOf(await manifestAt(project)).map((name) => ({ name, from: project }))),
    ...[join(root, 'node_modules'), dirname(root)].flatMap(scopeIn).map((name) => ({ name, from: beside })),
  ].filter(({ name }, i, all) => MAY_HAVE_COMMANDS.test(name) && all.findIndex((each) => each.name === name) === i)
}

const isEntry = (value: unknown): value is CommandEntry =>
  typeof value === 'object' &&
  value !== null &&
  ['name', 'summary', 'group'].every((field) => typeof Reflect.get(value, field) === 'string') &&
  Array.isArray(Reflect.get(value, 'examples')) &&
  typeof Reflect.get(value, 'load') === 'function'

/** The path of a package's package.json, or `undefined` if it is not installed or not exported. */
const manifestPath = ({ name, from }: Candidate): string | undefined => {
  try {
    return createRequire(from).resolve(`${name}/package.json`)
  } catch {
    return undefined
  }
}

/** The commands of a package. A failure is a warning, because the other commands still work. */
const commandsOf = async (candidate: Candidate): Promise<readonly CommandEntry[]> => {
  const manifest = manifestPath(candidate)
  const { tandem, version: given } = manifest === undefined ? {} : await manifestAt(manifest)
  const path = tandem?.commands
  if (path === undefined) return []
  if (candidate.name.startsWith('@tandem-rl/') && given !== version)
    printError(
      `tandem: ${candidate.name} ${given} is beside tandem-rl ${version}: npm i -D ${candidate.name}@${version}\n`,
    )
  try {
    const file = createRequire(candidate.from).resolve(`${candidate.name}${path.replace(/^\./, '')}`)
    const { commands }: { readonly commands?: unknown } = await import(pathToFileURL(file).href)
    if (!Array.isArray(commands) || !commands.every(isEntry))
      throw new TypeError(`its export ${path} must have 'commands', a list of CommandEntry`)
    return commands
  } catch (error) {
    printError(`tandem: the commands of ${candidate.name} could not be loaded: ${errorMessage(error)}\n`)
    return []
  }
}

/**
 * Finds the commands of other packages, without those whose names are taken.
 *
 * Effects  imports their modules; warns on standard error about one that fails.
 */
export const guestCommands = async (folder: string, taken: readonly string[]): Promise<readonly CommandEntry[]> => {
  const found = (await Promise.all((await candidates(folder)).map(commandsOf))).flat()
  return found.filter(({ name }, i) => !taken.includes(name) && found.findIndex((each) => each.name === name) === i)
}

/** Throws a CommandError for a command of a known package that is not installed. */
export const refuseMissingGuest = (command: string | undefined): void => {
  const name = command === undefined ? undefined : KNOWN_GUESTS[command]
  if (name !== undefined)
    throw new CommandError(`tandem ${command} is in the package ${name}, which is not installed: npm i -D ${name}`)
}
