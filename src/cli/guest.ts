/** Parts of commands that are in packages of their own, imported when a flag needs them. */
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { importPackage, type Resolves } from '@tandem-rl/base/host'
import { CommandError } from './failure.js'
import { projectOf } from './guests.js'

/** Returns the URL of a module of a package, or `undefined` if the package is not found. */
const found = (name: string, from: Resolves): string | undefined => {
  try {
    return from.resolve(name)
  } catch {
    return undefined
  }
}

/** Finds packages as the project of the current folder does, if there is one. */
const ofProject = (): readonly Resolves[] => {
  const project = projectOf(process.cwd())
  if (project === undefined) return []
  const { resolve } = createRequire(project)
  return [{ resolve: (name) => pathToFileURL(resolve(name)).href }]
}

/**
 * Imports a module of another package, such as `@tandem-rl/tracking/command`. It is found beside
 * this package, or in the project of the current folder.
 *
 * Errors   rejects with CommandError that names `purpose` and the command that installs the
 *          package, if it is not installed; otherwise like `import`.
 */
export const importGuest = async <T>(path: string, purpose: string): Promise<T> => {
  const from = [import.meta, ...ofProject()].find((each) => found(path, each) !== undefined)
  if (from !== undefined) return importPackage<T>(path, from)
  const name = path.split('/').slice(0, 2).join('/')
  throw new CommandError(`${purpose} needs the package ${name}, which is not installed: npm i -D ${name}`)
}
