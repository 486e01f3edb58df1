/** Loads values from the modules that export them, in any thread. */
import type { ModuleExport } from '@tandem-rl/base'
import { importUserModule, isUserModule } from './userModules.js'

const isExport = (value: unknown): value is ModuleExport =>
  typeof value === 'object' && value !== null && '_tag' in value && value._tag === 'ModuleExport'

/** Loads the exports among the fields of a record. */
const loadedFields = async (input: unknown): Promise<unknown> => {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return input
  const loaded = Object.entries(input).map(
    async ([name, value]) => [name, isExport(value) ? await loadExport(value) : value] as const,
  )
  return Object.fromEntries(await Promise.all(loaded))
}

/**
 * Loads a value from its module.
 *
 * Errors   rejects if the module cannot be imported, and with TypeError if it has no such export.
 */
export const loadExport = async <T>({ module, exportName, input }: ModuleExport): Promise<T> => {
  const exported: Readonly<Record<string, unknown>> = isUserModule(module)
    ? await importUserModule(module)
    : await import(/* webpackIgnore: true */ /* @vite-ignore */ module)
  const value = exported[exportName]
  if (value === undefined) throw new TypeError(`${module} exports no '${exportName}'`)
  return (typeof value === 'function' ? value(await loadedFields(input)) : value) as T // by the export's name
}
