/** Conversion of engine arguments to the command line of `vllm serve`. */
import { problemList } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'

/** The value of an engine argument. Records are sent as JSON, lists as several words. */
export type EngineArgument = string | number | boolean | null | undefined | readonly EngineArgument[] | EngineRecord

/** A record in engine arguments. */
interface EngineRecord {
  readonly [name: string]: EngineArgument
}

/**
 * The arguments of a vLLM engine: `model`, and any other of `vllm serve`, named in camel case or
 * with underscores. Other names are passed on unchanged, and vLLM refuses unknown ones.
 */
export interface VLLMEngineArguments {
  /** A folder, or a name on the hub. */
  readonly model: string
  readonly servedModelName?: string | readonly string[]
  readonly dtype?: 'auto' | 'bfloat16' | 'float16' | 'float32'
  readonly maxModelLen?: number
  readonly maxNumSeqs?: number
  readonly gpuMemoryUtilization?: number
  readonly tensorParallelSize?: number
  readonly pipelineParallelSize?: number
  readonly dataParallelSize?: number
  readonly trustRemoteCode?: boolean
  readonly enablePrefixCaching?: boolean
  readonly enforceEager?: boolean
  readonly enableLora?: boolean
  readonly maxLoras?: number
  readonly maxLoraRank?: number
  readonly logprobsMode?: 'raw_logprobs' | 'processed_logprobs'
  readonly maxLogprobs?: number
  readonly seed?: number
  readonly [name: string]: EngineArgument
}

/** Arguments that must be given as options of the worker, because it uses them. */
const RESERVED: ReadonlySet<string> = new Set(['host', 'port', 'api-key', 'model'])

/** Lists that vLLM reads as one JSON text instead of several words. */
const JSON_LISTS: ReadonlySet<string> = new Set(['allowed-origins', 'allowed-methods', 'allowed-headers'])

/** Converts `maxModelLen` and `max_model_len` to `max-model-len`. */
const flagOf = (name: string): string =>
  name
    .replaceAll('_', '-')
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1-$2')
    .toLowerCase()

const isList = (value: EngineArgument): value is readonly EngineArgument[] => Array.isArray(value)

/** Returns why a value cannot be an argument, if so. */
const valueProblem = (path: string, value: unknown): readonly string[] => {
  switch (typeof value) {
    case 'boolean':
    case 'undefined':
      return []
    case 'string':
      return value === '' || value.includes('\0') ? [`${path} must be a text that is not empty`] : []
    case 'number':
      return Number.isFinite(value) ? [] : [`${path} must be a finite number, got ${value}`]
    case 'object':
      return value === null ? [] : Object.entries(value).flatMap(([key, item]) => valueProblem(`${path}.${key}`, item))
    default:
      return [`${path} must be a text, a number, a boolean, a list or a record, got a ${typeof value}`]
  }
}

/** Returns one word of the command line. */
const wordOf = (value: EngineArgument): string =>
  typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value)

const wordsOf = (flag: string, value: EngineArgument): readonly string[] => {
  if (value === null || value === undefined) return []
  if (value === true) return [`--${flag}`]
  if (value === false) return [`--no-${flag}`]
  if (!isList(value)) return [`--${flag}`, wordOf(value)]
  if (JSON_LISTS.has(flag)) return [`--${flag}`, JSON.stringify(value)]
  return value.length === 0 ? [] : [`--${flag}`, ...value.map(wordOf)]
}

/**
 * Converts engine arguments to the words of a command line, in the order of the record: `true`
 * becomes `--flag`, `false` becomes `--no-flag`, lists become several words, records JSON; null and
 * undefined are left out.
 *
 * Errors   `Left` with every name that is invalid, occurs twice in two spellings, or is an option
 *          of the worker (host, port, API key), and with every invalid value: NaN, empty texts,
 *          functions.
 *
 * @example
 * engineArguments({ model: 'm', maxModelLen: 64, enable_lora: true }) // right(['--max-model-len', '64', '--enable-lora'])
 */
export const engineArguments = (config: VLLMEngineArguments): E.Either<string, readonly string[]> => {
  const { model, ...rest } = config
  const given = Object.entries(rest).filter(([, value]) => value !== undefined && value !== null)
  const flags = given.map(([name]) => flagOf(name))
  const problems = [
    ...(typeof model === 'string' ? valueProblem('model', model) : ['model must be a folder or a name on the hub']),
    ...(typeof model === 'string' && model.startsWith('-') ? [`model must not begin with a dash, got ${model}`] : []),
    ...given.flatMap(([name, value], i) => {
      const flag = flags[i]!
      if (!/^[a-zA-Z][a-zA-Z0-9_]*$/.test(name)) return [`'${name}' is not the name of an engine argument`]
      if (RESERVED.has(flag)) return [`${name} is an option of the worker, not an engine argument`]
      if (flags.indexOf(flag) !== i) return [`--${flag} is given twice`]
      return valueProblem(name, value)
    }),
  ]
  return problems.length > 0
    ? E.left(problemList(problems))
    : E.right(given.flatMap(([, value], i) => wordsOf(flags[i]!, value)))
}

/** Adds those of `defaults` that the arguments do not set themselves, in any spelling. */
export const withEngineDefaults = (
  config: VLLMEngineArguments,
  defaults: Omit<VLLMEngineArguments, 'model'>,
): VLLMEngineArguments => {
  const given = Object.entries(config).filter(([, value]) => value !== undefined)
  const named = new Set(given.map(([name]) => flagOf(name)))
  const missing = Object.entries(defaults).filter(([name]) => !named.has(flagOf(name)))
  return { ...config, ...Object.fromEntries(missing) }
}
