/** Overrides the defaults of shared settings. */
import { unknownName } from '@tandem-rl/base'
import { z } from 'zod'
import type { SettingsSchema } from './recipe.js'

/** A record with some of its fields, and some of the fields of nested records. */
export type Some<T> = T extends readonly unknown[]
  ? T
  : T extends object
    ? { readonly [K in keyof T]?: Some<T[K]> | undefined }
    : T

/** Returns the record of a settings group, or `null` for a single setting. */
const groupOf = (field: unknown): z.ZodObject | null => {
  const inner = field instanceof z.ZodPrefault ? field.unwrap() : field
  return inner instanceof z.ZodObject ? inner : null
}

/**
 * Overrides defaults of a schema's settings. Settings that are not named keep their defaults.
 *
 * Errors   throws RangeError for an unknown setting and suggests the nearest one.
 *
 * @example
 * withDefaults(policySettings, { steps: 10, learner: { learningRate: 3e-5 } }).parse({}).learner.epochs // 1
 */
export const withDefaults = <S extends SettingsSchema>(schema: S, defaults: Some<z.output<S>>): S => {
  const fields: Readonly<Record<string, z.ZodType>> = schema.shape
  const changed = Object.entries(defaults).map(([name, value]) => {
    const field = fields[name]
    if (field === undefined) throw new RangeError(`withDefaults: ${unknownName('setting', name, Object.keys(fields))}`)
    const group = groupOf(field)
    return [name, group === null ? field.default(value) : withDefaults(group, value as object).prefault({})] as const // a group has a record of defaults
  })
  return schema.extend(Object.fromEntries(changed)) as unknown as S // the same fields of the same types
}
