/** PEFT's `adapter_config.json`. */
import type { ConfigFailure } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { Projection } from '../transformer/config/description.js'
import type { LoraConfig } from './config.js'

/** The contents of an adapter_config.json. */
export interface AdapterConfig {
  /**
   * The settings. Without target modules if the file gives a pattern for them; they then follow
   * from the adapter's tensors.
   */
  readonly lora: LoraConfig
  readonly targets: 'listed' | 'in the tensors'
  /** The name or folder of the base model as written, or null if the file has none. */
  readonly baseModel: string | null
}

const count = z.number().int().positive()
const pattern = z.record(z.string(), z.number()).nullish()

/** The fields that are read. */
const schema = z.looseObject({
  peft_type: z.literal('LORA'),
  task_type: z.enum(['CAUSAL_LM']).nullish(),
  base_model_name_or_path: z.string().nullish(),
  r: count.default(8),
  lora_alpha: z.number().default(8),
  lora_dropout: z.number().min(0).lt(1).default(0),
  target_modules: z.union([z.string(), z.array(z.string())]),
  exclude_modules: z.union([z.string(), z.array(z.string())]).nullish(),
  use_rslora: z.boolean().nullish(),
  bias: z.enum(['none']).nullish(),
  layers_to_transform: z.union([z.number().int().nonnegative(), z.array(z.number().int().nonnegative())]).nullish(),
  layers_pattern: z.union([z.string(), z.array(z.string())]).nullish(),
  rank_pattern: pattern,
  alpha_pattern: pattern,
  init_lora_weights: z.union([z.boolean(), z.enum(['gaussian', 'eva', 'orthogonal'])]).nullish(),
})

const READ = new Set(Object.keys(schema.shape))

/**
 * Fields without an effect on the arithmetic. PEFT detects itself which weights are stored
 * transposed.
 */
const HARMLESS = new Set([
  ...['auto_mapping', 'peft_version', 'revision', 'inference_mode', 'fan_in_fan_out', 'megatron_core'],
  ...['loftq_config', 'eva_config', 'corda_config', 'qalora_group_size', 'ensure_weight_tying', 'runtime_config'],
])

/** Returns true if a field of PEFT is disabled and has no effect. */
const isOff = (value: unknown): boolean =>
  value === null || value === false || (typeof value === 'object' && Object.keys(value).length === 0) // an empty list or record

/** A plain pattern of PEFT, which is only the end of a path. */
const PLAIN = /^[\w.]+$/

const problemsOf = (raw: z.infer<typeof schema>): readonly string[] => {
  const others = Object.entries(raw).filter(([name, value]) => !READ.has(name) && !HARMLESS.has(name) && !isOff(value))
  const patterns = Object.keys({ ...raw.rank_pattern, ...raw.alpha_pattern })
  const layerPatterns = [raw.layers_pattern ?? []].flat()
  return [
    ...others.map(([name, value]) => `${name} ${JSON.stringify(value)} is not supported`),
    ...patterns
      .filter((key) => !PLAIN.test(key))
      .map((key) => `pattern ${JSON.stringify(key)} is not the name of a module`),
    ...layerPatterns
      .filter((name) => name !== 'layers' && name !== 'h')
      .map((name) => `layers_pattern ${JSON.stringify(name)} is not supported (layers, h)`),
  ]
}

const toLora = (raw: z.infer<typeof schema>): AdapterConfig => {
  const layers = raw.layers_to_transform
  const isAll = typeof raw.target_modules === 'string' && raw.target_modules.toLowerCase() === 'all-linear'
  const isPattern = (typeof raw.target_modules === 'string' && !isAll) || !isOff(raw.exclude_modules ?? null)
  return {
    lora: {
      rank: raw.r,
      alpha: raw.lora_alpha,
      targetModules: isAll ? 'all-linear' : typeof raw.target_modules === 'string' ? [] : raw.target_modules,
      scaling: raw.use_rslora === true ? 'alpha/sqrt(rank)' : 'alpha/rank',
      dropout: raw.lora_dropout,
      layers: layers == null || isOff(layers) ? null : [layers].flat(),
      rankPattern: raw.rank_pattern ?? {},
      alphaPattern: raw.alpha_pattern ?? {},
    },
    targets: isPattern ? 'in the tensors' : 'listed',
    baseModel: raw.base_model_name_or_path ?? null,
  }
}

/**
 * Reads a parsed `adapter_config.json`.
 *
 * Errors   `Left(ConfigFailure)` that lists all problems: a missing or ill-typed field; another
 *          method than LoRA; an enabled field that changes the arithmetic or is unknown
 *          (`use_dora`, `modules_to_save`, a `bias`, ...); a pattern that is not a plain name.
 */
export const parseAdapterConfig = (json: unknown): E.Either<ConfigFailure, AdapterConfig> => {
  const parsed = schema.safeParse(json)
  if (!parsed.success) return E.left({ _tag: 'ConfigFailure', reason: z.prettifyError(parsed.error) })
  const problems = problemsOf(parsed.data)
  return problems.length === 0
    ? E.right(toLora(parsed.data))
    : E.left({ _tag: 'ConfigFailure', reason: problems.join('; ') })
}

/** The parts of an adapter_config.json that do not follow from the settings. */
export interface AdapterConfigContext {
  /** The modules of the adapter, which replace 'all-linear', because PEFT needs names. */
  readonly modules: readonly string[]
  readonly baseModel?: string | null
  /** The layout of projections in the base model: `[in, out]` for GPT-2. */
  readonly layout: Projection['layout']
}

const lastName = (module: string): string => module.slice(module.lastIndexOf('.') + 1)

/**
 * Returns the `adapter_config.json` of settings for PEFT 0.18. `parseAdapterConfig` restores the
 * same modules and numbers.
 */
export const formatAdapterConfig = (
  lora: LoraConfig,
  { modules, baseModel = null, layout }: AdapterConfigContext,
): Readonly<Record<string, unknown>> => ({
  peft_type: 'LORA',
  task_type: 'CAUSAL_LM',
  base_model_name_or_path: baseModel,
  inference_mode: true,
  r: lora.rank,
  lora_alpha: lora.alpha,
  lora_dropout: lora.dropout,
  target_modules: lora.targetModules === 'all-linear' ? [...new Set(modules.map(lastName))].sort() : lora.targetModules,
  fan_in_fan_out: layout === 'in-out',
  bias: 'none',
  use_rslora: lora.scaling === 'alpha/sqrt(rank)',
  use_dora: false,
  modules_to_save: null,
  init_lora_weights: true,
  layers_to_transform: lora.layers,
  layers_pattern: null,
  rank_pattern: lora.rankPattern,
  alpha_pattern: lora.alphaPattern,
})
