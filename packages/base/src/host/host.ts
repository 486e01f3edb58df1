/**
 * The machine and the event loop. Bundles for browsers have `browser/host.ts` in its place:
 * package.json lists the pair under "browser".
 */
import { availableParallelism, totalmem } from 'node:os'
import { setImmediate } from 'node:timers/promises'

/** The package with onnxruntime. */
export const ONNXRUNTIME_PACKAGE = 'onnxruntime-node'

/** Returns a variable of the environment. */
export const environmentVariable = (name: string): string | undefined => process.env[name]

/** Returns the number of threads inside one operation, if none is requested. */
export const defaultThreads = (): number => Math.min(2, availableParallelism())

/** Returns the memory of the machine in bytes. */
export const machineMemory = (): number => totalmem()

/** Resolves in the next turn of the event loop. */
export const nextTurn = (): Promise<void> => setImmediate()

/** Returns `true` if a module can import a package, by its `import.meta`. */
export const isInstalled = (packageName: string, from: Pick<ImportMeta, 'resolve'>): boolean => {
  try {
    from.resolve(packageName)
    return true
  } catch {
    return false // it throws only if the package is missing
  }
}

/** Prints a warning. */
export const warn = (text: string): void => process.emitWarning(text)
