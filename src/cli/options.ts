/** Options shared by several commands. */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { countOf, type HubProgress, redact } from '@tandem-rl/base'
import { host, printError } from '@tandem-rl/base/host'
import { BACKENDS, type BackendName, NoBackend, type SelectedBackend, selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { InvalidArgumentError, Option } from 'commander'
import { EMBEDDED_MODEL } from '../live/embeddedModel.js'
import { letHeapGrow } from '../live/heap.js'
import { CommandError } from './failure.js'

/** Makes the parser of an integer within limits. */
export const integerBetween =
  (lowest: number, highest = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const value = Number(text)
    if (text.trim() === '' || !Number.isSafeInteger(value) || value < lowest || value > highest) {
      const limit = highest === Number.MAX_SAFE_INTEGER ? `of at least ${lowest}` : `from ${lowest} to ${highest}`
      throw new InvalidArgumentError(`expected an integer ${limit}.`)
    }
    return value
  }

export const positiveInteger = integerBetween(1)

/** Largest numbers of options that size an allocation. `docs/limits.md` lists them. */
export const OPTION_LIMITS = {
  '--count': 16_384,
  '--max-new-tokens': 2 ** 24,
  '--max-num-seqs': 2 ** 16,
  '--profile': 100,
  '--concurrent': 2 ** 16,
  '--conversations': 2 ** 20,
  '--chains': 2 ** 16,
  '--threads': 512,
} as const

/** Makes the parser of an option that sizes an allocation. */
export const countFor = (flag: keyof typeof OPTION_LIMITS) => integerBetween(1, OPTION_LIMITS[flag])

export const naturalNumber = integerBetween(0)

const positiveNumber = (text: string): number => {
  const value = Number(text)
  if (!(value > 0 && value < Number.POSITIVE_INFINITY)) throw new InvalidArgumentError('expected a number above 0.')
  return value
}

export const nonNegativeNumber = (text: string): number => {
  const value = Number(text)
  if (text.trim() === '' || !(value >= 0 && value < Number.POSITIVE_INFINITY)) {
    throw new InvalidArgumentError('expected a number of at least 0.')
  }
  return value
}

/** Parses a number above 0 and at most 1. */
export const share = (text: string): number => {
  const value = positiveNumber(text)
  if (value > 1) throw new InvalidArgumentError('expected a number of at most 1.')
  return value
}

/** Help text for options that name a model: the names that `loadPretrained` resolves. */
export const MODEL_HELP =
  'a folder of a model or a LoRA adapter, a file in GGUF, a run folder, OWNER/NAME on the hub, or embedded; MODEL+ADAPTER for both'

/** Makes the `--model` option. Default: the built-in model. */
export const modelOption = (help: string): Option =>
  new Option('--model <name>', `${help}: ${MODEL_HELP}`).default(EMBEDDED_MODEL, 'the built-in model')

/** Makes the `--adapter` option, for an adapter on the model that `model` names. */
export const adapterOption = (model: string): Option =>
  new Option('--adapter <folder>', `LoRA adapter to add to ${model}; a run or folder of an adapter needs none`)

/**
 * Returns the name of a model with an adapter, if given, with folders as absolute paths. Other
 * names stay unchanged.
 */
export const modelName = (given: string, adapter?: string): string => {
  if (adapter !== undefined) return `${modelName(given)}+${modelName(adapter)}`
  if (existsSync(given)) return resolve(given)
  const at = given.lastIndexOf('+')
  return at > 0 && existsSync(given.slice(at + 1)) ? modelName(given.slice(0, at), given.slice(at + 1)) : given
}

/**
 * Returns a listener that prints the progress of a download to standard error, in steps of 10 %.
 */
export const downloadLines = (): ((progress: HubProgress) => void) => {
  let last = ''
  return ({ path, bytes, totalBytes }) => {
    const line = `downloading ${path}: ${Math.floor((10 * bytes) / Math.max(1, totalBytes)) * 10} %`
    if (line !== last) printError(`${line}\n`)
    last = line
  }
}

/** Options of the tensor engine. */
export interface EngineOptions {
  readonly backend?: BackendName
  readonly threads?: number
}

export const engineOptions = (): readonly Option[] => [
  new Option('--backend <name>', 'tensor backend (default: the best that loads)')
    .choices([...BACKENDS])
    .env('TANDEM_BACKEND'),
  new Option('--threads <n>', 'threads for tensor operations (default: 2, or the number of cores if lower)').argParser(
    countFor('--threads'),
  ),
]

/** Starts the tensor engine. */
export const startEngine = async ({ backend, threads }: EngineOptions): Promise<SelectedBackend> => {
  letHeapGrow()
  const { cores } = host()
  if (threads !== undefined && threads > cores)
    printError(`${countOf(threads, 'thread')} on ${countOf(cores, 'core')}: more threads than cores are slower\n`)
  try {
    return await selectBackend({ ...(backend && { backend }), ...(threads !== undefined && { threads }) })
  } catch (error) {
    if (error instanceof NoBackend || error instanceof RangeError) throw new CommandError(error.message)
    throw error
  }
}

/**
 * Checks the address of a server that a flag gives. Throws CommandError unless it is an http or
 * https URL.
 */
export const checkServerUrl = (flag: string, url: string): void => {
  const { protocol } = URL.canParse(url) ? new URL(url) : { protocol: '' }
  if (protocol === 'http:' || protocol === 'https:') return
  throw new CommandError(`${flag}: '${redact(url)}' is not a server address such as http://127.0.0.1:8000`)
}
