/** Exports the trained weights in the formats of other tools. */
import type { FileContents } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import type { LocalLearner } from '../../learners/localLearner.js'
import type { LoraOptions } from '../../learners/trainable.js'
import { mergeLora } from '../../modules/lora/adapter.js'
import { loraConfig } from '../../modules/lora/config.js'
import { hostArrays, type Pretrained } from '../../modules/pretrained/pretrained.js'
import { type PretrainedFilesOptions, pretrainedFiles } from '../../modules/pretrained/saveModel.js'
import { sharedParams } from '../../modules/pretrained/sharedParams.js'
import { moduleOfLora } from '../../modules/transformer/applyLora.js'
import type { PolicySettings } from '../parts/settings.js'
import { loraOf } from './choices.js'

/** The exported formats. */
interface ExportOptions {
  readonly model: Pretrained
  /** `undefined` if all weights are trained. */
  readonly lora: LoraOptions | undefined
  /** The number format of the exported model. `null` exports no model. */
  readonly dtype: NonNullable<PretrainedFilesOptions['float']> | null
}

type Folders = Readonly<Record<string, Readonly<Record<string, FileContents>>>>

/** Files of the learner's own state, which are not exported. */
const OWN_FILES = ['optimizer.safetensors', 'learner.json']

const mergedModel = (
  learner: Pick<LocalLearner<never, unknown>, 'weights'>,
  { model, lora }: ExportOptions,
): Pretrained => {
  if (lora === undefined) return { ...model, arrays: hostArrays(learner.weights()) }
  const { adapter, baseModel: _, ...settings } = lora
  const config = adapter?.config ?? loraConfig(settings)
  using base = sharedParams(model)
  const tensors = Object.fromEntries(
    Object.entries(learner.weights()).filter(([name]) => moduleOfLora(name) !== undefined),
  )
  const arrays = scope(() => hostArrays(mergeLora(model.config, base.value, { config, tensors })))
  return { ...model, arrays }
}

/**
 * Returns the folders to export: `adapter` in PEFT's format, and `model` with the adapter merged.
 */
const exportedFolders = (
  learner: Pick<LocalLearner<never, unknown>, 'weights' | 'files'>,
  options: ExportOptions,
): Folders => {
  const { lora, dtype } = options
  const adapter = (): Readonly<Record<string, FileContents>> =>
    Object.fromEntries(Object.entries(learner.files()).filter(([name]) => !OWN_FILES.includes(name)))
  return {
    ...(lora !== undefined && { adapter: adapter() }),
    ...(dtype !== null && {
      model: pretrainedFiles(mergedModel(learner, options), { float: dtype }),
    }),
  }
}

/** Returns the exports that the settings ask for: the adapter, and the model in `compute.dtype`. */
export const exportsOf =
  (
    settings: Pick<PolicySettings, 'lora' | 'compute'> & Partial<Pick<PolicySettings, 'model'>>,
    model: Pretrained,
    learner: Pick<LocalLearner<never, unknown>, 'weights' | 'files'>,
  ): (() => Folders) =>
  () =>
    exportedFolders(learner, { model, lora: loraOf(settings), dtype: settings.compute.dtype })
