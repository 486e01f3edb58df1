/** Adapters in PEFT's folder layout: adapter_config.json and adapter_model.safetensors. */
import { type ConfigFailure, checkOptions, type Files, type ModelFailure, modelFailure } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { checkStored } from '../../data/codecs/checkStored.js'
import { encodeSafetensors } from '../../data/codecs/safetensors.js'
import { readSafetensors } from '../../data/codecs/safetensorsFile.js'
import type { StoredArray } from '../../data/codecs/storage.js'
import { readJson } from '../../data/folderFiles.js'
import { ADAPTER_FILES_OPTIONS } from '../optionKinds.js'
import type { Projection } from '../transformer/config/description.js'
import type { DecoderConfig } from '../transformer/config.js'
import { HEAD } from '../transformer/params.js'
import { type Adapter, adapterModules, adapterShapes } from './adapter.js'
import { type AdapterConfig, formatAdapterConfig, parseAdapterConfig } from './adapterConfig.js'
import { adaptedProjections } from './config.js'

export const ADAPTER_CONFIG = 'adapter_config.json'
const WEIGHTS_FILE = 'adapter_model.safetensors'

/** The prefix of PEFT's wrappers in front of every module path. */
const PEFT_PREFIX = 'base_model.model.'

const failure =
  (folder: string, file: string) =>
  ({ reason }: { readonly reason: string }): ModelFailure =>
    modelFailure(folder, reason, file)

/**
 * The base's own output projection, which PEFT saves beside an adapter on it. It is checked, and
 * left out because the base has it.
 */
const COPY = `${HEAD}.base_layer.weight`

/** Returns the arrays of an adapter by the names that this project uses. */
const withoutPrefix = (arrays: ReadonlyMap<string, StoredArray>): ReadonlyMap<string, StoredArray> =>
  new Map(
    [...arrays].map(([name, array]) => [name.startsWith(PEFT_PREFIX) ? name.slice(PEFT_PREFIX.length) : name, array]),
  )

/**
 * Returns the settings with their target modules. If a file gives these as a regular expression,
 * they are taken from the tensors instead, because expressions from files are never run.
 */
const settled = ({ lora, targets }: AdapterConfig, arrays: ReadonlyMap<string, StoredArray>) =>
  targets === 'listed' ? lora : { ...lora, targetModules: adapterModules(arrays.keys()), layers: null }

const adapterOf = (
  config: DecoderConfig,
  read: AdapterConfig,
  arrays: ReadonlyMap<string, StoredArray>,
): E.Either<ConfigFailure, Adapter> => {
  const lora = settled(read, arrays)
  return pipe(
    adaptedProjections(config, lora),
    E.chain((adapted) => {
      const copy =
        adapted.has(HEAD) && arrays.has(COPY) ? [[COPY, [config.vocabularySize, config.hiddenSize]] as const] : []
      return checkStored(new Map<string, readonly number[]>([...adapterShapes(adapted), ...copy]), arrays)
    }),
    E.map((checked) => ({ config: lora, arrays: new Map([...checked].filter(([name]) => name !== COPY)) })),
  )
}

/** A loaded adapter, and its base model according to its files. */
export interface LoadedAdapter {
  readonly adapter: Adapter
  /** Name or folder of the base model, as written in the file. */
  readonly baseModel: string | null
}

/**
 * Loads an adapter for a model from a folder in PEFT's layout.
 *
 * Errors   `Left(ModelFailure)` that names the file and lists all problems: missing, truncated or
 *          malformed; an unsupported setting; a module that the model does not have; a tensor that
 *          is missing, extra, of another shape or not finite.
 * Source   PEFT 0.18, `PeftModel.from_pretrained`.
 */
export const loadAdapter = (
  folder: string,
  config: DecoderConfig,
  files: Files = liveFiles,
): TE.TaskEither<ModelFailure, LoadedAdapter> =>
  pipe(
    readJson(files, folder, ADAPTER_CONFIG),
    TE.chainEitherK((json) => pipe(parseAdapterConfig(json), E.mapLeft(failure(folder, ADAPTER_CONFIG)))),
    TE.bindTo('read'),
    TE.bind('arrays', () =>
      pipe(
        readSafetensors(`${folder}/${WEIGHTS_FILE}`, files),
        TE.bimap(failure(folder, WEIGHTS_FILE), (file) => withoutPrefix(file.arrays)),
      ),
    ),
    TE.chainEitherK(({ read, arrays }) =>
      pipe(
        adapterOf(config, read, arrays),
        E.bimap(failure(folder, WEIGHTS_FILE), (adapter) => ({ adapter, baseModel: read.baseModel })),
      ),
    ),
  )

export interface AdapterFilesOptions {
  /** Name or folder of the base model, recorded in the files. */
  readonly baseModel?: string | null
  /** The base's layout of projections, which PEFT's files record. Default `out-in`. */
  readonly layout?: Projection['layout']
  /** The number format of the file. 16-bit formats round. Default F32. */
  readonly float?: 'F32' | 'F16' | 'BF16'
}

/**
 * Returns the files of an adapter, for `Files.writeFolder`. PEFT can load them, and `loadAdapter`
 * restores equal numbers.
 */
export const adapterFiles = (
  { config, arrays }: Adapter,
  options: AdapterFilesOptions = {},
): Readonly<Record<string, Uint8Array | string>> => {
  checkOptions('adapterFiles', options, ADAPTER_FILES_OPTIONS)
  const { baseModel = null, layout = 'out-in', float = 'F32' } = options

  const modules = adapterModules(arrays.keys())
  const named = new Map([...arrays].map(([name, array]) => [PEFT_PREFIX + name, array]))
  return {
    [ADAPTER_CONFIG]: `${JSON.stringify(formatAdapterConfig(config, { modules, baseModel, layout }), undefined, 2)}\n`,
    [WEIGHTS_FILE]: encodeSafetensors(named, { metadata: { format: 'pt' }, float }),
  }
}
