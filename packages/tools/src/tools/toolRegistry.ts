/** The tools that a policy may call, by name. */
import { clipped } from './clipped.js'
import type { Tool } from './tool.js'

/** An immutable set of tools with unique names, in the order in which they were given. */
export interface ToolRegistry {
  readonly tools: ReadonlyMap<string, Tool>
}

/** A tool in the form that chat templates and servers expect. */
export interface ToolSpec {
  readonly type: 'function'
  readonly function: {
    readonly name: string
    readonly description: string
    /** JSON schema. */
    readonly parameters: Readonly<Record<string, unknown>>
  }
}

/**
 * Makes a set of tools. To add a tool, make a new set: `ToolRegistry([...registry.tools.values(),
 * more])`.
 *
 * Errors   throws RangeError that lists every name that is empty or occurs twice.
 * Source   TorchRL `ToolRegistry`, which is changed in place and raises KeyError for an unknown
 *          name.
 *
 * @example
 * [...ToolRegistry([calculator()]).tools.keys()] // ['calculator']
 */
export const ToolRegistry = (tools: readonly Tool[]): ToolRegistry => {
  const byName = new Map(tools.map((tool) => [tool.name, tool]))
  const problems = [
    ...tools.flatMap(({ name }, i) => (name === '' ? [`tool ${i} has no name`] : [])),
    ...[...byName.keys()].flatMap((name) => {
      const count = tools.filter((tool) => tool.name === name).length
      return count > 1 ? [`${count} tools are named '${name}'`] : []
    }),
  ]
  if (problems.length > 0) throw new RangeError(`ToolRegistry: ${problems.join('; ')}`)
  return { tools: byName }
}

/**
 * Returns the descriptions of the tools, for chat templates and servers.
 *
 * @example
 * toolSpecs(ToolRegistry([calculator()]))[0]?.function.name // 'calculator'
 */
export const toolSpecs = (registry: ToolRegistry): readonly ToolSpec[] =>
  Array.from(registry.tools.values(), ({ name, description, parameters }) => ({
    type: 'function',
    function: { name, description, parameters },
  }))

/** Returns the error message for a call of an unknown tool. */
export const unknownTool = (registry: ToolRegistry, name: string): string => {
  const names = [...registry.tools.keys()]
  return `there is no tool ${clipped(JSON.stringify(name), 80)}; ${names.length === 0 ? 'no tools are available' : `available: ${names.join(', ')}`}`
}
