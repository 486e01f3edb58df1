/**
 * A decoder's parameters in the formats of servers: an adapter, a checkpoint folder, or numbers.
 */
import { checkOptions, describe, type Failure, type Files } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import type { AdapterWeights, WeightFailure } from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { adapterModules, type LoraParams, mergeLora } from '../../modules/lora/adapter.js'
import { loraConfig } from '../../modules/lora/config.js'
import { adapterWeights } from '../../modules/lora/weights.js'
import { hostArrays, type ModelText } from '../../modules/pretrained/pretrained.js'
import { type PretrainedFilesOptions, pretrainedFiles } from '../../modules/pretrained/saveModel.js'
import { hasHeadBesideTied, untieEmbeddings } from '../../modules/pretrained/untie.js'
import { loraNames, moduleOfLora } from '../../modules/transformer/applyLora.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import type { Params } from '../../modules/transformer/params.js'
import { makeScorer } from '../../modules/transformer/scorer.js'
import { DECODER_FORMS_OPTIONS } from '../optionKinds.js'
import type { PlacedWeights, WeightForms } from './settings.js'

export interface DecoderFormsOptions {
  readonly config: DecoderConfig
  /**
   * Folder for whole weights, and the tokenizer files stored with them. Each version gets a
   * subfolder such as `v3`, which servers read. Without it, the weights are sent as numbers in the
   * call, which in-process engines support.
   */
  readonly checkpoints?: {
    readonly folder: string
    readonly text: ModelText
    /** The number format of checkpoints, which should match the servers'. Default F32. */
    readonly float?: PretrainedFilesOptions['float']
    /**
     * `own`: writes an output projection even if the model shares it with the embedding, for
     * servers of an untied copy (`untieEmbeddings`). vLLM 0.32 on CPUs needs it, because it keeps
     * the old projection of a tied model. An adapter on the output projection needs it too.
     * `tandem serve` takes such weights in either case. Default `as trained`, which refuses them.
     */
    readonly projection?: 'as trained' | 'own'
  }
  readonly files?: Files
}

/** The formats of a decoder. `release` frees the compiled scorer. */
export interface DecoderForms extends WeightForms<Params> {
  readonly release: () => void
}

/** Returns the only number of a tensor. */
const scalarOf = (params: Params, name: string): number => {
  const tensor = params[name]
  if (tensor === undefined) throw new RangeError(`decoderForms: parameter '${name}' is missing`)
  return tensor.dataSync()[0]!
}

/**
 * Splits parameters into an adapter and its base. The scale of each module comes from its scaling
 * scalar.
 */
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

/** vLLM reads no output projection into a tied model, and samples with the embedding. */
const TIED_SERVERS: WeightFailure = {
  _tag: 'WeightFailure',
  receiver: 'checkpoint folder',
  reason:
    'an adapter on the output projection gives this tied model a projection of its own, which servers of the tied model ignore: serve an untied copy (untieEmbeddings) or use tandem serve, and set checkpoints.projection to own',
}

const refusal = (failure: Failure): WeightFailure => ({
  _tag: 'WeightFailure',
  receiver: 'checkpoint folder',
  reason: describe(failure),
})

/**
 * Converts a decoder's parameters to the formats of servers. Parameters with an adapter consist of
 * base, matrices and scalings, as made by `withLora`.
 *
 * Shapes   rows of probes `[T]` give `[T - 1]` log-probabilities, at temperature 1.
 * Errors   throws RangeError if a tensor of the adapter is missing.
 * Effects  writes checkpoint folders atomically, and removes them. Compiles the scorer. Parameters
 *          are unchanged: an adapter is merged into a copy.
 * Cost     a whole push copies all numbers twice: as numbers and as bytes.
 */
export const decoderForms = (options: DecoderFormsOptions): DecoderForms => {
  checkOptions('decoderForms', options, DECODER_FORMS_OPTIONS)
  const { config, checkpoints, files = liveFiles } = options

  const scorer = makeScorer(config)
  const arraysOf = (params: Params) =>
    scope(() => {
      if (hasAdapter(params) === 'no') return hostArrays(params)
      const { base, lora } = splitLora(params)
      return hostArrays(mergeLora(config, base, lora))
    })
  return {
    vocabularySize: config.vocabularySize,
    hasAdapter,
    adapter: adapterOf,
    full: (params, version): TE.TaskEither<WeightFailure, PlacedWeights> => {
      const arrays = arraysOf(params)
      if (checkpoints === undefined) return TE.right({ source: { _tag: 'Arrays', arrays }, remove: async () => {} })
      const { folder, text, float = 'F32', projection = 'as trained' } = checkpoints
      const model = { config, arrays, text }
      if (projection !== 'own' && hasHeadBesideTied(config, arrays)) return TE.left(TIED_SERVERS)
      const path = `${folder.replace(/\/+$/, '')}/v${version}`
      return pipe(
        files.writeFolder(path, pretrainedFiles(projection === 'own' ? untieEmbeddings(model) : model, { float })),
        TE.bimap(refusal, () => ({
          source: { _tag: 'Folder', path },
          // A folder that cannot be removed does not fail the push. The next run replaces it.
          remove: async () => void (await files.remove(path)()),
        })),
      )
    },
    score: (params, rows) =>
      scorer.score(params, {
        prompts: rows.map((row) => row.slice(0, 1)),
        shared: 1,
        completions: rows.map((row) => row.slice(1)),
        temperature: 1,
      }),
    release: scorer.release,
  }
}
