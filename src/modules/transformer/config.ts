/**
 * Conversion between a Hugging Face `config.json` and the description of a decoder-only
 * transformer.
 */
import type { ConfigFailure } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { Architecture, DecoderConfig } from './config/description.js'
import { gemma2, gemma3 } from './config/gemma.js'
import { gpt2, gptNeo } from './config/gpt.js'
import { llama, mistral, olmo2, phi3, qwen2, qwen3, smollm3 } from './config/llama.js'
import type { Family } from './config/parts.js'

export type { Architecture, DecoderConfig } from './config/description.js'

const FAMILIES: Readonly<Record<Architecture, Family>> = {
  gpt2,
  gpt_neo: gptNeo,
  llama,
  mistral,
  qwen2,
  qwen3,
  gemma2,
  gemma3_text: gemma3,
  phi3,
  olmo2,
  smollm3,
}

/** All values of `model_type` that `parseConfig` supports. */
export const ARCHITECTURES: readonly Architecture[] = Object.keys(FAMILIES) as Architecture[] // keys of the record above

/**
 * Parses a `config.json`. Missing fields have Transformers' defaults; sizes are required.
 *
 * Errors   `Left(ConfigFailure)` that names the field: missing or ill-typed, an unsupported
 *          architecture or setting, an unknown field that may change the arithmetic, or
 *          contradictory sizes.
 * Source   the configuration classes of Transformers 5.17.
 *
 * @example
 * parseConfig({ model_type: 'bert' })._tag // 'Left'
 */
export const parseConfig = (json: unknown): E.Either<ConfigFailure, DecoderConfig> => {
  const fail = (reason: string): E.Either<ConfigFailure, never> => E.left({ _tag: 'ConfigFailure', reason })
  if (typeof json !== 'object' || json === null || Array.isArray(json)) return fail('not a JSON object')
  const { model_type: name } = json as { readonly model_type?: unknown } // an object
  if (typeof name !== 'string') return fail(`model_type must be a string, got ${JSON.stringify(name)}`)
  if (!Object.hasOwn(FAMILIES, name)) {
    return fail(`not supported: model_type '${name}' (supported: ${ARCHITECTURES.join(', ')})`)
  }
  const described = FAMILIES[name as Architecture]({ ...json }) // a key of FAMILIES
  return E.isLeft(described) ? fail(described.left) : described
}

/**
 * Returns the `config.json` of a config, as Transformers 5 reads it, including uninterpreted
 * fields. It is the inverse of `parseConfig`. To change a config, parse a changed file:
 * `parseConfig({ ...formatConfig(config), vocab_size: 300 })`.
 *
 * Errors   throws for a config whose fields were changed without its file, and names them.
 *
 * @example
 * formatConfig(orThrow(parseConfig({ model_type: 'gpt2', vocab_size: 9, n_embd: 4, n_head: 1, n_layer: 1 }))).n_embd // 4
 */
export const formatConfig = (config: DecoderConfig): Readonly<Record<string, unknown>> => {
  const parsed = parseConfig(config.source)
  const generation: object = E.isLeft(parsed) ? {} : parsed.right
  const json = (value: object): ReadonlyMap<string, string> =>
    new Map(Object.entries(value).map(([name, field]) => [name, JSON.stringify(field)]))
  const [read, given] = [json(generation), json(config)]
  const changed = [...given.keys()].filter((name) => given.get(name) !== read.get(name))
  if (changed.length > 0) {
    throw new Error(
      `formatConfig: ${changed.join(', ')} differ from the file of the config: parse a changed file instead`,
    )
  }
  return config.source
}
