/** Adapters for tests: drawn at random, on disk, and what a model computes with them. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { child, type Key, normals } from '@tandem-rl/base'
import { requireRight } from '@tandem-rl/testing'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import type { Adapter } from '../../src/modules/lora/adapter.js'
import { adapterShapes } from '../../src/modules/lora/adapter.js'
import { adaptedProjections, type LoraConfig } from '../../src/modules/lora/config.js'
import { projections } from '../../src/modules/lora/projections.js'
import type { DecoderConfig } from '../../src/modules/transformer/config.js'
import { packCompletions, packedBatch } from '../../src/modules/transformer/pack.js'
import { HEAD, type Params } from '../../src/modules/transformer/params.js'
import { completionLogits } from '../../src/modules/transformer/score.js'
import { anySmallConfig } from './configs.js'

/**
 * An adapter of random numbers in both of its matrices, so that it changes what the model computes.
 */
export const randomAdapter = (config: DecoderConfig, lora: LoraConfig, key: Key): Adapter => ({
  config: lora,
  arrays: new Map(
    [...adapterShapes(requireRight(adaptedProjections(config, lora)))].map(([name, shape]) => [
      name,
      { shape, data: normals(child(key, name), shape[0] * shape[1]).map((x) => x * 0.2) },
    ]),
  ),
})

/** Tokens of rows that are given as a prompt; logits are asked for the rest. */
export const PROMPT = 4

/**
 * The predictions of a model for each token of equally long rows after their first `PROMPT`:
 * `[B, T - PROMPT, V]`, flat.
 */
export const logitsOfRows = (
  params: Params,
  config: DecoderConfig,
  rows: readonly (readonly number[])[],
): Float32Array =>
  scope(() => {
    const packed = packCompletions({
      prompts: rows.map((row) => row.slice(0, PROMPT)),
      completions: rows.map((row) => row.slice(PROMPT)),
      shared: 1,
    })
    const all = completionLogits(params, config, packedBatch(packed, config)).dataSync()
    const wanted = (rows[0]!.length - PROMPT) * config.vocabularySize
    const stride = packed.completionLength * config.vocabularySize
    const result = new Float32Array(rows.length * wanted)
    for (const i of rows.keys()) result.set(all.subarray(i * stride, i * stride + wanted) as Float32Array, i * wanted) // float32 logits
    return result
  })

/**
 * The results of PEFT with an adapter, written by `test/golden/generate/lora.py` and
 * `scripts/verify/peers/lora.py`.
 */
export interface AdaptedLogits {
  readonly input_ids: readonly (readonly number[])[]
  /** Of the tokens after the first `PROMPT`. */
  readonly logits: readonly (readonly (readonly number[])[])[]
  /** Largest difference that the adapter makes. */
  readonly change: number
}

export const readAdaptedLogits = (folder: string): AdaptedLogits =>
  JSON.parse(readFileSync(join(folder, 'expected.json'), 'utf8')) as AdaptedLogits // written by the generators

/** Settings of adapters on a decoder, of every kind. */
const anyLoraOn = (config: DecoderConfig): fc.Arbitrary<LoraConfig> => {
  const paths = [...projections(config).keys()]
  const names = [...new Set(paths.map((path) => path.slice(path.lastIndexOf('.') + 1)))]
  const targets = fc.oneof(
    fc.constant('all-linear' as const),
    fc.subarray([...names, paths[0]!.replace(/^.*?\.0\./, ''), paths.at(-2)!], { minLength: 1 }),
  )
  /** Patterns of targets, because others are refused. */
  const patterns = (targetModules: LoraConfig['targetModules']) =>
    fc.oneof(
      fc.constant({}),
      fc
        .tuple(
          fc.constantFrom(...(targetModules === 'all-linear' ? names.filter((name) => name !== HEAD) : targetModules)),
          fc.integer({ min: 1, max: 3 }),
        )
        .map((pair) => Object.fromEntries([pair])),
    )
  const settings = fc.record({
    rank: fc.integer({ min: 1, max: 4 }),
    alpha: fc.constantFrom(1, 3, 16, 0.5),
    scaling: fc.constantFrom('alpha/rank' as const, 'alpha/sqrt(rank)' as const),
    dropout: fc.constantFrom(0, 0.1),
    layers: fc.constantFrom(null, null, [0, config.layers - 1]),
  })
  return targets.chain((targetModules) =>
    fc
      .record({ settings, rankPattern: patterns(targetModules), alphaPattern: patterns(targetModules) })
      .map(({ settings: given, ...own }) => ({ ...given, targetModules, ...own })),
  )
}

/** A small decoder of any family, and an adapter that fits it. */
export const anyAdapted: fc.Arbitrary<readonly [DecoderConfig, LoraConfig]> = anySmallConfig.chain((config) =>
  anyLoraOn(config).map((lora) => [config, lora] as const),
)
