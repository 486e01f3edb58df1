/** Saves models in Hugging Face's folder layout. */
import { checkOptions, type FileFailure, type Files } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import type * as TE from 'fp-ts/lib/TaskEither.js'
import { encodeSafetensors } from '../../data/codecs/safetensors.js'
import { PRETRAINED_FILES_OPTIONS, SAVE_MODEL_OPTIONS } from '../optionKinds.js'
import { type DecoderConfig, formatConfig } from '../transformer/config.js'
import type { Pretrained } from './pretrained.js'
import { hasHeadBesideTied, untieEmbeddings } from './untie.js'

export interface PretrainedFilesOptions {
  /** The number format of the file. 16-bit formats round to nearest. Default F32. */
  readonly float?: 'F32' | 'BF16' | 'F16'
}

export interface SaveOptions extends PretrainedFilesOptions {
  /** Default: the file system. */
  readonly files?: Pick<Files, 'writeFolder'>
}

/** Transformers' names of storage types, for `dtype` in config.json. */
const DTYPES = { F32: 'float32', BF16: 'bfloat16', F16: 'float16' } as const

/** Returns the config with another storage type. */
const configWith = (config: DecoderConfig, dtype: string): Readonly<Record<string, unknown>> => {
  const { torch_dtype: _, ...rest } = formatConfig(config)
  return { ...rest, dtype }
}

/**
 * Returns the files of a model folder. `loadPretrained` and Transformers load equal numbers from
 * them, rounded if a 16-bit format is used. A model with tied embeddings whose weights have an
 * output projection is written as one with a projection of its own.
 */
export const pretrainedFiles = (
  model: Pretrained,
  options: PretrainedFilesOptions = {},
): Readonly<Record<string, Uint8Array | string>> => {
  checkOptions('pretrainedFiles', options, PRETRAINED_FILES_OPTIONS)
  const { float = 'F32' } = options
  const { config, arrays, text } = hasHeadBesideTied(model.config, model.arrays) ? untieEmbeddings(model) : model
  return {
    ...text.files,
    'config.json': `${JSON.stringify(configWith(config, DTYPES[float]), undefined, 2)}\n`,
    'model.safetensors': encodeSafetensors(arrays, { metadata: { format: 'pt' }, float }),
  }
}

/**
 * Saves a model as a folder for `loadPretrained` and Transformers: config, weights, tokenizer and
 * chat template.
 *
 * Errors   `Left(FileFailure)` if it cannot be written.
 * Effects  writes the folder atomically. An existing folder of that name is replaced.
 */
export const saveModel = (
  folder: string,
  model: Pretrained,
  given: SaveOptions = {},
): TE.TaskEither<FileFailure, void> => {
  checkOptions('saveModel', given, SAVE_MODEL_OPTIONS)
  const { files = liveFiles, ...options } = given
  return files.writeFolder(folder, pretrainedFiles(model, options))
}
