/** Values that other threads load from their modules. */

/**
 * The export of an ES module. A function is called with `input`, which must survive
 * `structuredClone`. Exports among the fields of `input` are loaded first.
 */
export interface ModuleExport {
  readonly _tag: 'ModuleExport'
  /** URL, such as `import.meta.url`. */
  readonly module: string
  readonly exportName: string
  readonly input?: unknown
}

/** A value whose module exports it under its name, or a function of its options. */
interface Exported {
  readonly name: string
  /** `import.meta.url`, or the whole export. */
  readonly module?: string | ModuleExport
  readonly options?: unknown
}

/** Returns the export of a value, or `undefined` if it names no module. */
export const exportOf = ({ name, module, options }: Exported): ModuleExport | undefined =>
  typeof module === 'string' ? moduleExport(module, name, options) : module

/** Returns the export `exportName` of a module, to be called with `input`. */
export const moduleExport = (module: string, exportName: string, input?: unknown): ModuleExport => ({
  _tag: 'ModuleExport',
  module,
  exportName,
  input,
})
