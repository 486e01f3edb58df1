/** The weights of a run: which there are at its start, which of them are trained, and what is written of them at its end. */
import type { HostArray } from '../data/codecs/safetensors.js'
import type { NamedTensors } from '../data/weights.js'
import { type Owned, own, scope } from '../engine/scope.js'
import { type Adapter, loraScalings, mergeLora } from '../modules/lora/adapter.js'
import { type AdapterFilesOptions, adapterFiles } from '../modules/lora/peft.js'
import { storedLayout } from '../modules/lora/projections.js'
import { hostArrays, makeParams, type Pretrained, pretrainedFiles } from '../modules/pretrained.js'
import { parameterCount } from '../modules/transformer/params.js'
import type { RunPaths } from './runFolder.js'
import type { RunSettings } from './settings.js'

/** What is trained: a model's own weights, or an adapter on them. */
export interface Trainable {
  readonly model: Pretrained
  /** The adapter to begin with; null trains the model's own weights. */
  readonly adapter: Adapter | null
}

/** The tensors that a run begins with. Each is there once, whoever uses it. */
export interface RunWeights {
  /** The model as it was before the run: the reference of the divergence. */
  readonly first: NamedTensors
  readonly trained: NamedTensors
  /** What a policy needs besides what is trained. */
  readonly frozen: NamedTensors
}

/** Weights of a checkpoint, or those of the model, or those of a new adapter on it. */
export const startWeights = (
  { model, adapter }: Trainable,
  saved: ReadonlyMap<string, HostArray> | undefined,
): Owned<RunWeights> =>
  own(
    scope(() => {
      const first = makeParams(model.arrays)
      if (adapter === null) return { first, trained: saved === undefined ? first : makeParams(saved), frozen: {} }
      const trained = makeParams(saved ?? adapter.arrays)
      const scalings = loraScalings({ config: adapter.config, tensors: trained })
      return { first, trained, frozen: { ...first, ...scalings } }
    }),
  )

/** How many numbers a model has, and how many of them, or beside them, are trained. */
export const countsOf = ({ config }: Pretrained, { trained }: RunWeights) => ({
  parameters: parameterCount(config),
  trained: Object.values(trained).reduce((sum, { size }) => sum + size, 0),
})

/** What the folder of a run's adapter says about the model that it is for. */
export const originOf = ({
  settings,
  model,
}: {
  readonly settings: RunSettings
  readonly model: Pretrained
}): Required<Pick<AdapterFilesOptions, 'baseModel' | 'layout'>> => ({
  baseModel: settings.model,
  layout: storedLayout(model.config),
})

/**
 * The folders that a run leaves behind, by path: the adapter, if it trained one, and the whole model if the settings name a storage type for
 * it. There an adapter is merged into the model.
 */
export const trainedFolders = (
  options: Trainable & { readonly settings: RunSettings; readonly paths: Pick<RunPaths, 'adapter' | 'model'> },
  { first }: RunWeights,
  params: NamedTensors,
): readonly (readonly [path: string, contents: Readonly<Record<string, Uint8Array | string>>])[] => {
  const { settings, paths, model, adapter } = options
  const whole = (): ReadonlyMap<string, HostArray> =>
    hostArrays(adapter === null ? params : mergeLora(model.config, first, { config: adapter.config, tensors: params }))
  return [
    ...(adapter === null
      ? []
      : [
          [
            paths.adapter,
            adapterFiles({ config: adapter.config, arrays: hostArrays(params) }, originOf(options)),
          ] as const,
        ]),
    ...(settings.dtype === null
      ? []
      : [[paths.model, pretrainedFiles({ ...model, arrays: scope(whole) }, { float: settings.dtype })] as const]),
  ]
}
