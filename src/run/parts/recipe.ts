/** Recipes: functions from validated, documented settings to a run. */
import { nearestName, unknownName } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { TaskSource } from '../../data/task.js'
import type { EnvOfTask } from '../../envs/envOfTask.js'
import type { OpenTraining } from './remoteTraining.js'
import type { AnyRun } from './run.js'

/** Invalid settings, with every reason. */
export interface SettingsFailure {
  readonly _tag: 'SettingsFailure'
  readonly reason: string
}

/** The context in which a recipe builds its run. */
export interface BuildContext {
  /** Aborted when the run is no longer needed. */
  readonly signal?: AbortSignal
  /**
   * `ignore` builds the run even if its estimated memory exceeds the machine's. Default `check`.
   */
  readonly memory?: 'check' | 'ignore'
  /** Called with progress messages of slow build steps, such as training a start model. */
  readonly onProgress?: (text: string) => void
  /** Trains and samples on a server, for recipes that use `grpoParts`. Default: in this process. */
  readonly training?: OpenTraining
}

/** An agent of `@tandem-rl/agents` with its conversations. */
export interface RecipeAgent {
  readonly agent: { readonly run: (options: never) => unknown; readonly close: () => Promise<void> }
  /** Returns the conversation, or the row, with this index. */
  readonly messages: (index: number) => unknown
  /** Turns per conversation. Default: that of `agent.run`. */
  readonly maxTurns?: number
}

/** A schema of settings: nested records whose fields all have a default and a description. */
export type SettingsSchema = z.ZodObject

/** A named function from settings to a run. */
export interface Recipe<S extends SettingsSchema = SettingsSchema> {
  readonly _tag: 'Recipe'
  readonly name: string
  /** One sentence for `tandem train --help`. */
  readonly summary: string
  readonly settings: S
  readonly build: (settings: z.output<S>, context: BuildContext) => AnyRun | Promise<AnyRun>
  /** Makes the recipe's agent for `tandem agent run`. Default: none. */
  readonly agent?: (settings: z.output<S>, context: BuildContext) => RecipeAgent | Promise<RecipeAgent>
  /** Makes the environment of a task for `tandem serve --env`, without a model. Default: none. */
  readonly envOfTask?: (settings: z.output<S>) => EnvOfTask
  /** Returns the tasks that clients of `tandem serve --env` select by a seed. Default: none. */
  readonly tasks?: (settings: z.output<S>) => TaskSource | Promise<TaskSource>
  /**
   * Settings that may change on resume, as dotted paths, because they do not affect earlier
   * results. `steps` and everything under `keep` may always change.
   */
  readonly mayChange: readonly string[]
}

/** One setting of a recipe, for flags and tables. */
export interface SettingLeaf {
  readonly path: readonly string[]
  readonly description: string
  readonly default: unknown
  /** `integer`, `number`, `string`, `boolean`, or the alternatives separated by ` | `. */
  readonly kind: string
  readonly isNullable: boolean
  /** The flag given by `.meta({ flag })`. */
  readonly flag?: string
}

type JsonSchema = Readonly<Record<string, unknown>>

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Returns the alternatives of a schema, except null. */
const alternatives = (schema: JsonSchema): readonly JsonSchema[] =>
  Array.isArray(schema.anyOf) ? schema.anyOf.filter(isRecord).filter(({ type }) => type !== 'null') : [schema]

const typesOf = ({ type = 'json' }: JsonSchema): readonly string[] => [type].flat().map(String)

const kindOf = (schema: JsonSchema): string =>
  alternatives(schema)
    .map((each) =>
      Array.isArray(each.enum)
        ? each.enum.map(String).join(' | ')
        : typesOf(each)
            .filter((type) => type !== 'null')
            .join(' | '),
    )
    .join(' | ')

const leavesOf = (schema: JsonSchema, path: readonly string[], inherited: unknown): readonly SettingLeaf[] => {
  const value = 'default' in schema ? schema.default : inherited
  if (isRecord(schema.properties))
    return Object.entries(schema.properties).flatMap(([name, inner]) =>
      isRecord(inner) ? leavesOf(inner, [...path, name], isRecord(value) ? value[name] : undefined) : [],
    )
  const description = typeof schema.description === 'string' ? schema.description : ''
  const all = Array.isArray(schema.anyOf) ? schema.anyOf.filter(isRecord) : [schema]
  const isNullable = all.some((each) => typesOf(each).includes('null'))
  const flag = typeof schema.flag === 'string' ? { flag: schema.flag } : {}
  return [{ path, description, default: value, kind: kindOf(schema), isNullable, ...flag }]
}

/** Lists the settings of a schema in order. */
export const settingLeaves = (schema: SettingsSchema): readonly SettingLeaf[] =>
  leavesOf(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }), [], undefined)

const at = (path: readonly PropertyKey[]): string => path.map(String).join('.')

/** Lists the field names of the schema's record at a path. */
const namesAt = (schema: SettingsSchema, path: readonly PropertyKey[]): readonly string[] => {
  const depth = path.length
  const below = settingLeaves(schema).filter((leaf) => path.every((name, i) => leaf.path[i] === String(name)))
  return [...new Set(below.flatMap((leaf) => leaf.path.slice(depth, depth + 1)))]
}

/** Suggests the allowed value nearest to the one at a path. */
const suggestion = (given: unknown, path: readonly PropertyKey[], allowed: readonly unknown[]): string => {
  const value = path.reduce<unknown>((inner, name) => (isRecord(inner) ? inner[String(name)] : undefined), given)
  const near = typeof value === 'string' ? nearestName(value, allowed.map(String)) : undefined
  return near === undefined ? '' : `; did you mean '${near}'?`
}

/** Formats zod's problems: unknown names and values with the nearest, others with their path. */
export const schemaProblems = (schema: SettingsSchema, error: z.ZodError, given: unknown): readonly string[] =>
  error.issues.flatMap((issue) => {
    const place = at(issue.path)
    if (issue.code === 'unrecognized_keys')
      return issue.keys.map((key) => {
        const prefix = place === '' ? '' : `${place}.`
        return unknownName(
          'setting',
          `${prefix}${key}`,
          namesAt(schema, issue.path).map((name) => `${prefix}${name}`),
        )
      })
    const near = issue.code === 'invalid_value' ? suggestion(given, issue.path, issue.values) : ''
    const message = `${issue.message.replace(/^Invalid (?:input|option): /, '')}${near}`
    return [place === '' ? message : `${place}: ${message}`]
  })

/**
 * Validates settings against the schema of a recipe, and fills in defaults.
 *
 * Errors   `Left(SettingsFailure)` lists every setting whose name or value is unknown (with the
 *          nearest known one) or whose type is wrong.
 */
export const parseSettings = <S extends SettingsSchema>(
  { name, settings }: Pick<Recipe<S>, 'name' | 'settings'>,
  given: unknown,
): E.Either<SettingsFailure, z.output<S>> => {
  const parsed = settings.safeParse(given)
  return parsed.success
    ? E.right(parsed.data)
    : E.left({
        _tag: 'SettingsFailure',
        reason: `${name}: ${schemaProblems(settings, parsed.error, given).join('; ')}`,
      })
}

/**
 * Parses the text of a flag: `off` as null if the setting is nullable, numbers, booleans, and lists
 * and records as JSON.
 */
export const readSetting = ({ kind, isNullable }: Pick<SettingLeaf, 'kind' | 'isNullable'>, text: string): unknown => {
  if (isNullable && (text === 'off' || text === 'null')) return null
  const kinds = kind.split(' | ')
  const number = Number(text)
  if ((kinds.includes('number') || kinds.includes('integer')) && text.trim() !== '' && !Number.isNaN(number))
    return number
  if (kinds.includes('boolean') && (text === 'true' || text === 'false')) return text === 'true'
  if (!kinds.some((each) => each === 'array' || each === 'object' || each === 'json')) return text
  try {
    return JSON.parse(text) as unknown
  } catch {
    return text // the schema reports the problem
  }
}

/**
 * Returns the settings with the one at a path replaced. Missing records on the path are created.
 */
export const withSetting = (
  settings: Readonly<Record<string, unknown>>,
  [name, ...rest]: readonly string[],
  value: unknown,
): Readonly<Record<string, unknown>> => {
  if (name === undefined) return settings
  const inner = settings[name]
  return { ...settings, [name]: rest.length === 0 ? value : withSetting(isRecord(inner) ? inner : {}, rest, value) }
}

/**
 * Parses `path=value`, the argument of `--set`.
 *
 * Errors   `Left(SettingsFailure)` if the argument has no `=`, or the recipe has no such path (the
 *          nearest one is suggested).
 */
export const readAssignment = (
  { name, settings }: Pick<Recipe, 'name' | 'settings'>,
  text: string,
): E.Either<SettingsFailure, readonly [path: readonly string[], value: unknown]> => {
  const cut = text.indexOf('=')
  if (cut <= 0)
    return E.left({ _tag: 'SettingsFailure', reason: `--set takes path=value, such as steps=10, got '${text}'` })
  const path = text.slice(0, cut).trim()
  const leaves = settingLeaves(settings)
  const leaf = leaves.find((each) => each.path.join('.') === path)
  if (leaf === undefined) {
    const known = leaves.map((each) => each.path.join('.'))
    return E.left({ _tag: 'SettingsFailure', reason: `${name}: ${unknownName('setting', path, known)}` })
  }
  return E.right([leaf.path, readSetting(leaf, text.slice(cut + 1))])
}
