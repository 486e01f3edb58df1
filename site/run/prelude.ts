/** Prepares a page for a program of the guide: copies the model, and shows the program's output. */
import { fetchModel } from '../embeddedModel.js'

/** The messages to the page. */
export type FromProgram =
  | { readonly type: 'line'; readonly text: string }
  | { readonly type: 'end'; readonly problem: string | null }

/** The parts of a worker's global scope that Node has not. */
interface WorkerScope {
  readonly postMessage: (message: FromProgram) => void
  readonly addEventListener: (type: 'error' | 'unhandledrejection', listen: (event: Problem) => void) => void
}

interface Problem {
  readonly message?: string
  readonly reason?: unknown
}

const scope = globalThis as unknown as WorkerScope // the types of Node lack it

const shown = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

const messageOf = ({ message, reason }: Problem): string =>
  message ?? (reason instanceof Error ? reason.message : String(reason))

/** Copies the model, once, and sends what the program prints to the page. */
export const prepare = async (): Promise<void> => {
  console.log = (...values: readonly unknown[]) =>
    scope.postMessage({ type: 'line', text: values.map(shown).join(' ') })
  for (const type of ['error', 'unhandledrejection'] as const)
    scope.addEventListener(type, (event) => scope.postMessage({ type: 'end', problem: messageOf(event) }))
  await fetchModel()
}

/** Tells the page that the program has run to its end. */
export const finish = (): void => scope.postMessage({ type: 'end', problem: null })
