/** Command-line flags of a recipe: one per setting, `--set`, `--config`, and `--trust-recipe`. */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { type Command, Option } from 'commander'
import * as E from 'fp-ts/lib/Either.js'
import { mayBeHubName } from '../data/datasets/open.js'
import {
  parseSettings,
  type Recipe,
  readAssignment,
  readSetting,
  type SettingLeaf,
  settingLeaves,
  withSetting,
} from '../run/parts/recipe.js'
import { CommandError } from './failure.js'
import { adapterOption, modelName } from './options.js'
import { trustOption } from './recipeTrust.js'
import { readSettingsFile } from './settingsFile.js'

type Settings = Readonly<Record<string, unknown>>

/** A setting and its flag. */
interface Flag {
  readonly leaf: SettingLeaf
  /** The flag in camel case, as commander stores it. */
  readonly attribute: string
  readonly option: Option
}

const kebab = (name: string): string => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

const camel = (name: string): string => name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())

/** Returns the flag of a setting: its `flag`, else its name if unique, else its full path. */
const flagName = (leaf: SettingLeaf, all: readonly SettingLeaf[]): string => {
  const last = leaf.path.at(-1)!
  if (leaf.flag !== undefined) return leaf.flag
  const isUnique = all.filter((each) => each.path.at(-1) === last).length === 1
  return kebab(isUnique ? last : leaf.path.join('-'))
}

const argumentOf = ({ kind }: SettingLeaf): string => {
  if (kind.includes('integer')) return '<n>'
  if (kind.includes('number')) return '<x>'
  return kind.includes('object') || kind.includes('array') ? '<json>' : '<value>'
}

const defaultText = (value: unknown): string => (value === null ? 'off' : JSON.stringify(value))

/** The heading of a setting in help texts: that of its group, such as `Settings (sampling):`. */
const groupOf = ({ path }: SettingLeaf): string => (path.length > 1 ? `Settings (${path[0]}):` : 'Settings:')

/** Returns the flags of a recipe's settings. */
export const recipeFlags = ({ settings }: Pick<Recipe, 'settings'>): readonly Flag[] => {
  const leaves = settingLeaves(settings)
  return leaves.map((leaf) => {
    const name = flagName(leaf, leaves)
    const words = leaf.kind.includes(' | ') && !leaf.kind.includes('integer') ? ` (${leaf.kind})` : ''
    const help = `${leaf.description}${words} [${leaf.path.join('.')}, default ${defaultText(leaf.default)}]`
    const option = new Option(`--${name} ${argumentOf(leaf)}`, help).helpGroup(groupOf(leaf))
    return { leaf, attribute: camel(name), option }
  })
}

const collect = (value: string, before: readonly string[] = []): readonly string[] => [...before, value]

/** Returns the setting of a flag in camel case. Throws RangeError for an unknown flag. */
export const settingOfFlag = (recipe: Pick<Recipe, 'settings'>, name: string): SettingLeaf => {
  const found = recipeFlags(recipe).find(({ attribute }) => attribute === name)
  if (found === undefined) throw new RangeError(`there is no flag for ${name}`)
  return found.leaf
}

/** Returns true if `--adapter` adds an adapter to the setting `model`. */
const hasAdapterFlag = (flags: readonly Flag[]): boolean =>
  flags.some(({ leaf }) => leaf.path.join('.') === 'model') && flags.every(({ attribute }) => attribute !== 'adapter')

/** Adds the flags of a recipe to a command. */
export const addRecipeFlags = (command: Command, recipe: Recipe): Command => {
  command
    .addOption(
      new Option('--set <path=value>', 'set one setting by its path, such as learner.learningRate=3e-5').argParser(
        collect,
      ),
    )
    .option('--config <file>', 'read settings from a .json or .yaml file; flags and --set override it')
  const flags = recipeFlags(recipe)
  for (const { option } of flags) command.addOption(option)
  if (hasAdapterFlag(flags)) command.addOption(adapterOption('--model').helpGroup('Settings:'))
  return command.addOption(trustOption())
}

/** Reads a settings file. Throws CommandError with the file and the reason. */
const fileSettings = async (path: string): Promise<Settings> => {
  const value = await readSettingsFile(path, `--config ${path}`)
  if (!isRecord(value)) throw new CommandError(`--config ${path}: expected names and values of settings`)
  return value
}

/** Settings that name a model. */
const MODELS: readonly string[] = ['model', 'teacher', 'from']

/** Makes paths of data sets and models absolute, so that a run can be used from another folder. */
const absolute = ({ path }: Pick<SettingLeaf, 'path'>, value: unknown): unknown => {
  if (typeof value !== 'string') return value
  if (path.length === 1 && MODELS.includes(path[0]!)) return modelName(value)
  const isName = ['dataset', 'evalDataset'].includes(path.at(-1) ?? '')
  if (!isName || value.startsWith('hub:')) return value
  return existsSync(value) || !mayBeHubName(value) ? resolve(value) : value
}

/** Merges the settings of the command line into `base`: `--config`, then flags, then `--set`. */
export const givenSettings = async (
  recipe: Recipe,
  flags: Readonly<Record<string, unknown>>,
  base: Settings = {},
): Promise<Settings> => {
  const { config, set } = flags
  let given: Settings = base
  if (typeof config === 'string')
    for (const [path, value] of flatten(await fileSettings(resolve(config)))) given = withSetting(given, path, value)
  const all = recipeFlags(recipe)
  for (const { leaf, attribute } of all) {
    const text = flags[attribute]
    if (typeof text === 'string') given = withSetting(given, leaf.path, absolute(leaf, readSetting(leaf, text)))
  }
  for (const text of Array.isArray(set) ? set : []) {
    const read = readAssignment(recipe, String(text))
    if (E.isLeft(read)) throw new CommandError(read.left.reason)
    const [path, value] = read.right
    given = withSetting(given, path, absolute({ path }, value))
  }
  if (typeof flags.adapter !== 'string' || !hasAdapterFlag(all)) return given
  const model = given.model ?? all.find(({ leaf }) => leaf.path[0] === 'model')?.leaf.default
  return withSetting(given, ['model'], modelName(String(model), flags.adapter))
}

const isRecord = (value: unknown): value is Settings =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const flatten = (record: Settings, path: readonly string[] = []): readonly (readonly [readonly string[], unknown])[] =>
  Object.entries(record).flatMap(([name, value]) =>
    isRecord(value) && Object.keys(value).length > 0
      ? flatten(value, [...path, name])
      : [[[...path, name], value] as const],
  )

/** Validates settings against the recipe. Throws CommandError that lists every invalid one. */
export const checkedSettings = (recipe: Recipe, given: Settings): Settings => {
  const parsed = parseSettings(recipe, given)
  if (E.isLeft(parsed)) throw new CommandError(parsed.left.reason)
  return parsed.right
}
