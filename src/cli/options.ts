/** Options that several commands share. */
import { InvalidArgumentError, Option } from 'commander'
import {
  BACKENDS,
  type BackendName,
  isBackendName,
  NoBackend,
  type SelectedBackend,
  selectBackend,
} from '../engine/select.js'
import { CommandError } from './failure.js'

const integer =
  (lowest: number) =>
  (text: string): number => {
    const value = Number(text)
    if (text.trim() === '' || !Number.isSafeInteger(value) || value < lowest) {
      throw new InvalidArgumentError(`expected an integer of at least ${lowest}.`)
    }
    return value
  }

export const positiveInteger = integer(1)
export const naturalNumber = integer(0)

export const positiveNumber = (text: string): number => {
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

/** Options of the engine. */
export interface EngineOptions {
  readonly backend?: BackendName
  readonly threads?: number
}

export const engineOptions = (): readonly Option[] => [
  new Option('--backend <name>', 'tensor backend (default: the best that loads)')
    .choices([...BACKENDS])
    .env('TANDEM_BACKEND'),
  new Option('--threads <n>', 'threads for tensor operations (default: 2, or the cores there are)').argParser(
    positiveInteger,
  ),
]

/** Starts the tensor engine. */
export const startEngine = async ({ backend, threads }: EngineOptions): Promise<SelectedBackend> => {
  if (backend !== undefined && !isBackendName(backend)) {
    throw new CommandError(`TANDEM_BACKEND is '${String(backend)}'; expected one of ${BACKENDS.join(', ')}`)
  }
  try {
    return await selectBackend({ ...(backend && { backend }), ...(threads !== undefined && { threads }) })
  } catch (error) {
    if (error instanceof NoBackend) throw new CommandError(error.message)
    throw error
  }
}
