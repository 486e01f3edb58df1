/** A decoder's parameters in the forms that servers take: its adapter, or all of them in a folder or as numbers. */
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Files } from '../../core/capabilities.js'
import { describe, type Failure } from '../../core/failure.js'
import { aRecord, checkOptions } from '../../core/options.js'
import type { AdapterWeights } from '../../data/generation.js'
import type { WeightFailure } from '../../data/weights.js'
import { scope } from '../../engine/scope.js'
import { liveFiles } from '../../live/files.js'
import { adapterModules, type LoraParams, mergeLora } from '../../modules/lora/adapter.js'
import { loraConfig } from '../../modules/lora/config.js'
import { adapterWeights } from '../../modules/lora/weights.js'
import {
  hostArrays,
  type ModelText,
  type PretrainedFilesOptions,
  pretrainedFiles,
} from '../../modules/pretrained/pretrained.js'
import { untieEmbeddings } from '../../modules/pretrained/untie.js'
import { loraNames, moduleOfLora } from '../../modules/transformer/applyLora.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import type { Params } from '../../modules/transformer/params.js'
import { makeScorer } from '../../modules/transformer/scorer.js'
import type { PlacedWeights, WeightForms } from './settings.js'

export interface DecoderFormsOptions {
  readonly config: DecoderConfig
  /**
   * Whole weights go into folders `v3` in it, which servers read, with these files of the text side. Without it they go through the call
   * itself, as numbers: SGLang and engines of this process take that.
   */
  readonly checkpoints?: {
    readonly folder: string
    readonly text: ModelText
    /** How numbers are stored: as the servers hold them. Default F32. */
    readonly float?: PretrainedFilesOptions['float']
    /**
     * `own`: with an output projection beside the embedding that the model shares with it, for servers that serve an untied copy
     * (`untieEmbeddings`). vLLM 0.32 on CPUs needs that: it goes on with the old projection of a tied model. Default `as trained`.
     */
    readonly projection?: 'as trained' | 'own'
  }
  readonly files?: Files
}

/** The forms of a decoder. `release` frees what scoring compiled. */
export interface DecoderForms extends WeightForms<Params> {
  readonly release: () => void
}

/** A single number of a tensor. */
const scalarOf = (params: Params, name: string): number => {
  const tensor = params[name]
  if (tensor === undefined) throw new RangeError(`decoderForms: parameter '${name}' is missing`)
  return tensor.dataSync()[0]!
}

/** The adapter in parameters that carry one, and the parameters under it. Each module has the scale that its scalar says. */
const splitLora = (params: Params): { readonly base: Params; readonly lora: LoraParams } => {
  const entries = Object.entries(params)
  const ofLora = entries.filter(([name]) => moduleOfLora(name) !== undefined)
  const tensors = Object.fromEntries(ofLora.filter(([name]) => name !== loraNames(moduleOfLora(name)!).scaling))
  const alphas = adapterModules(Object.keys(tensors)).map((module) => {
    const names = loraNames(module)
    const rank = params[names.a]?.shape[0] ?? 0 // [R, I]
    return [module, scalarOf(params, names.scaling) * rank] as const
  })
  return {
    base: Object.fromEntries(entries.filter(([name]) => moduleOfLora(name) === undefined)),
    lora: {
      config: loraConfig({
        targetModules: alphas.map(([module]) => module),
        alpha: alphas[0]?.[1] ?? 1,
        alphaPattern: Object.fromEntries(alphas),
      }),
      tensors,
    },
  }
}

const hasAdapter = (params: Params): 'yes' | 'no' =>
  Object.keys(params).some((name) => moduleOfLora(name) !== undefined) ? 'yes' : 'no'

const adapterOf = (params: Params): AdapterWeights => {
  const { config, tensors } = splitLora(params).lora
  return adapterWeights({ config, arrays: hostArrays(tensors) })
}

const refusal = (failure: Failure): WeightFailure => ({
  _tag: 'WeightFailure',
  receiver: 'checkpoint folder',
  reason: describe(failure),
})

/**
 * A decoder's parameters as servers take them. Parameters with an adapter are base, matrices and scalings, as `withLora` makes them.
 *
 * Shapes   rows of probes `[T]` give `[T - 1]` log-probabilities, at temperature 1.
 * Errors   throws RangeError for an adapter that lacks a tensor.
 * Effects  writes checkpoint folders, each whole or not at all, and removes them. Compiles the scorer. Parameters are not changed: an adapter
 *          is merged into a copy.
 * Cost     a whole push copies all numbers once, and once more for their bytes.
 */
export const decoderForms = (options: DecoderFormsOptions): DecoderForms => {
  checkOptions('decoderForms', options, { config: aRecord, checkpoints: aRecord, files: aRecord })
  const { config, checkpoints, files = liveFiles } = options

  const scorer = makeScorer(config)
  const arraysOf = (params: Params) =>
    scope(() => {
      if (hasAdapter(params) === 'no') return hostArrays(params)
      const { base, lora } = splitLora(params)
      return hostArrays(mergeLora(config, base, lora))
    })
  return {
    ...{ vocabularySize: config.vocabularySize, hasAdapter, adapter: adapterOf },
    full: (params, version): TE.TaskEither<WeightFailure, PlacedWeights> => {
      const arrays = arraysOf(params)
      if (checkpoints === undefined) return TE.right({ source: { _tag: 'Arrays', arrays }, remove: async () => {} })
      const { folder, text, float = 'F32', projection = 'as trained' } = checkpoints
      const model = { config, arrays, text }
      const path = `${folder.replace(/\/+$/, '')}/v${version}`
      return pipe(
        files.writeFolder(path, pretrainedFiles(projection === 'own' ? untieEmbeddings(model) : model, { float })),
        TE.bimap(refusal, () => ({
          source: { _tag: 'Folder', path },
          // A folder that stays is no reason to doubt the push; the next run replaces it.
          remove: async () => void (await files.remove(path)()),
        })),
      )
    },
    score: (params, rows) =>
      scorer.score(params, {
        groups: { prompts: rows.map((row) => row.slice(0, 1)), group: 1 },
        completions: rows.map((row) => row.slice(1)),
        temperature: 1,
      }),
    release: scorer.release,
  }
}
