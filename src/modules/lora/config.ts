/** The settings of a LoRA adapter: ranks, scaling and adapted projections. */
import { type ConfigFailure, problemList } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { Projection } from '../transformer/config/description.js'
import type { DecoderConfig } from '../transformer/config.js'
import { HEAD } from '../transformer/params.js'
import { projections } from './projections.js'

/**
 * The factor of the product of the two matrices: `alpha / rank`, or `alpha / sqrt(rank)`
 * (rank-stabilized, rsLoRA).
 */
export type LoraScaling = 'alpha/rank' | 'alpha/sqrt(rank)'

/** The settings of an adapter, with the same meaning as in PEFT. */
export interface LoraConfig {
  readonly rank: number
  readonly alpha: number
  /**
   * Paths of modules, ends of such paths (`q_proj`), or all projections except the output
   * projection.
   */
  readonly targetModules: readonly string[] | 'all-linear'
  readonly scaling: LoraScaling
  /**
   * Share of the inputs that PEFT drops in training. No effect on sampling and scoring; training
   * here requires 0.
   */
  readonly dropout: number
  /** Indices of the adapted layers, or null for all. */
  readonly layers: readonly number[] | null
  /** Ranks of modules by the end of their path. The first match applies. */
  readonly rankPattern: Readonly<Record<string, number>>
  /** Alphas of modules by the end of their path. The first match applies. */
  readonly alphaPattern: Readonly<Record<string, number>>
}

/** Largest rank of an adapter. */
export const MAX_LORA_RANK = 4096

/** Rank 8 and alpha 16 on every projection. */
export const DEFAULT_LORA: LoraConfig = {
  rank: 8,
  alpha: 16,
  targetModules: 'all-linear',
  scaling: 'alpha/rank',
  dropout: 0,
  layers: null,
  rankPattern: {},
  alphaPattern: {},
}

/** Returns the default settings with changes. */
export const loraConfig = (changes: Partial<LoraConfig>): LoraConfig => ({ ...DEFAULT_LORA, ...changes })

/** A projection with its adapter settings. */
export interface AdaptedProjection extends Projection {
  readonly rank: number
  /** The factor of the product of the two matrices. */
  readonly scaling: number
}

/** Returns true if a module's path equals `ending` or ends with it. */
const endsWithPath = (module: string, ending: string): boolean => module === ending || module.endsWith(`.${ending}`)

const fromPattern = (pattern: Readonly<Record<string, number>>, module: string, otherwise: number): number =>
  Object.entries(pattern).find(([ending]) => endsWithPath(module, ending))?.[1] ?? otherwise

/** Returns the rank of the adapter on a module. */
const rankOf = (lora: LoraConfig, module: string): number => fromPattern(lora.rankPattern, module, lora.rank)

/**
 * Returns the factor of the product of a module's two matrices.
 *
 * @example
 * scalingOf(loraConfig({ alpha: 16 }), 'model.layers.0.self_attn.q_proj', 8) // 2
 */
export const scalingOf = (lora: LoraConfig, module: string, rank: number): number =>
  fromPattern(lora.alphaPattern, module, lora.alpha) / (lora.scaling === 'alpha/rank' ? rank : Math.sqrt(rank))

const LAYER = /^.+?\.(\d+)\./

/**
 * Returns true if the settings select a module. As in PEFT, a complete path is selected regardless
 * of its layer.
 */
const isTarget = ({ targetModules, layers }: LoraConfig, module: string): boolean => {
  if (targetModules === 'all-linear') {
    if (module === HEAD) return false
  } else {
    if (targetModules.includes(module)) return true
    if (!targetModules.some((ending) => endsWithPath(module, ending))) return false
  }
  const layer = LAYER.exec(module)?.[1]
  return layers === null || (layer !== undefined && layers.includes(Number(layer)))
}

/** Returns how many numbers an adapter on projections has. */
export const adapterNumbers = (adapted: ReadonlyMap<string, AdaptedProjection>): number =>
  [...adapted.values()].reduce((sum, { rank, inputs, outputs }) => sum + rank * (inputs + outputs), 0)

const isRank = (x: number): boolean => Number.isInteger(x) && x > 0 && x <= MAX_LORA_RANK

const numberProblems = ({ rank, alpha, dropout, rankPattern, alphaPattern }: LoraConfig): readonly string[] => [
  ...[['rank', rank] as const, ...Object.entries(rankPattern).map(([k, r]) => [`rank of '${k}'`, r] as const)].flatMap(
    ([name, r]) => (isRank(r) ? [] : [`the ${name} is ${r}, not an integer from 1 to ${MAX_LORA_RANK}`]),
  ),
  ...[
    ['alpha', alpha] as const,
    ...Object.entries(alphaPattern).map(([k, a]) => [`alpha of '${k}'`, a] as const),
  ].flatMap(([name, a]) =>
    Number.isFinite(a) && a !== 0 ? [] : [`the ${name} is ${a}, not a finite number other than 0`],
  ),
  ...(dropout >= 0 && dropout < 1 ? [] : [`the dropout is ${dropout}, not in [0, 1)`]),
]

const targetProblems = (lora: LoraConfig, config: DecoderConfig, all: readonly string[]): readonly string[] => {
  const { targetModules, layers } = lora
  const known = [...new Set(all.map((module) => module.slice(module.lastIndexOf('.') + 1)))]
  const listed = targetModules === 'all-linear' ? [] : targetModules
  const patterns = [...Object.keys(lora.rankPattern), ...Object.keys(lora.alphaPattern)]
  const lost = [...listed, ...patterns].filter((ending) => !all.some((module) => endsWithPath(module, ending)))
  return [
    ...lost.map((ending) => `'${ending}' is not a projection of this model (it has ${known.join(', ')})`),
    ...(listed.length === 0 && targetModules !== 'all-linear' ? ['there are no target modules'] : []),
    ...(layers ?? [])
      .filter((layer) => !Number.isSafeInteger(layer) || layer < 0 || layer >= config.layers)
      .map((layer) => `there is no layer ${layer} among 0 to ${config.layers - 1}`),
  ]
}

/** Returns a problem for each pattern of projections of the model that are not adapted. */
const patternProblems = (
  { rankPattern, alphaPattern }: LoraConfig,
  all: readonly string[],
  chosen: readonly string[],
): readonly string[] =>
  Object.entries({ rank: rankPattern, alpha: alphaPattern }).flatMap(([kind, pattern]) =>
    Object.keys(pattern)
      .filter((ending) => all.some((module) => endsWithPath(module, ending)))
      .filter((ending) => !chosen.some((module) => endsWithPath(module, ending)))
      .map((ending) => `the ${kind} of '${ending}' has no effect, because no target module has this name`),
  )

/**
 * Returns the adapted projections of a model by path, in the order of the parameters.
 *
 * Errors   `Left(ConfigFailure)` that lists all problems: an invalid rank, alpha or dropout; a
 *          target, pattern or layer that the model does not have; a pattern that applies to no
 *          adapted projection; no adapted projection.
 */
export const adaptedProjections = (
  config: DecoderConfig,
  lora: LoraConfig,
): E.Either<ConfigFailure, ReadonlyMap<string, AdaptedProjection>> => {
  const all = projections(config)
  const chosen = new Map(
    [...all]
      .filter(([module]) => isTarget(lora, module))
      .map(([module, projection]) => {
        const rank = rankOf(lora, module)
        return [module, { ...projection, rank, scaling: scalingOf(lora, module, rank) }]
      }),
  )
  const modules = [...all.keys()]
  const general = [...numberProblems(lora), ...targetProblems(lora, config, modules)]
  const problems = chosen.size === 0 ? general : [...general, ...patternProblems(lora, modules, [...chosen.keys()])]
  if (problems.length === 0 && chosen.size > 0) return E.right(chosen)
  const reason =
    problems.length === 0 ? 'the targets and the layers have no projection in common' : problemList(problems)
  return E.left({ _tag: 'ConfigFailure', reason: `LoRA: ${reason}` })
}
