/** What a program of the guide needs in a page: the model in the browser's files, and its output. */
import { orThrow } from 'tandem-rl'
import { EMBEDDED_MODEL } from '../../src/live/embeddedModel.js'
import { liveFiles } from '../../src/live/files.js'

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

const MODEL_FILES = [
  ...['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja'],
]

const shown = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

const messageOf = ({ message, reason }: Problem): string =>
  message ?? (reason instanceof Error ? reason.message : String(reason))

/** Copies the model, once, and sends what the program prints to the page. */
export const prepare = async (): Promise<void> => {
  console.log = (...values: readonly unknown[]) =>
    scope.postMessage({ type: 'line', text: values.map(shown).join(' ') })
  for (const type of ['error', 'unhandledrejection'] as const)
    scope.addEventListener(type, (event) => scope.postMessage({ type: 'end', problem: messageOf(event) }))
  for (const name of MODEL_FILES) {
    const path = `${EMBEDDED_MODEL}/${name}`
    if (orThrow(await liveFiles.exists(path)())) continue
    const answer = await fetch(`model/${name}`)
    if (!answer.ok) throw new Error(`model/${name}: the server answered with status ${answer.status}`)
    orThrow(await liveFiles.makeFolder(EMBEDDED_MODEL)())
    orThrow(await liveFiles.write(path, new Uint8Array(await answer.arrayBuffer()))())
  }
}

/** Tells the page that the program has run to its end. */
export const finish = (): void => scope.postMessage({ type: 'end', problem: null })
