/** Models in Hugging Face's folder layout: config, weights, tokenizer files, chat template. */
import { type Calendar, checkOptions, type Files, type HostArray, type ModelFailure } from '@tandem-rl/base'
import { liveCalendar } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import {
  type ChatTemplate,
  chatTemplate,
  type PlainArray,
  type TextTokenizer,
  templateSource,
  textTokenizer,
  turnEndOf,
} from '@tandem-rl/text'
import { adoptTensor } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { checkStored } from '../../data/codecs/checkStored.js'
import { readAll } from '../../data/codecs/safetensorsFile.js'
import { openCheckpoint } from '../../data/codecs/safetensorsShards.js'
import type { StoredArray } from '../../data/codecs/storage.js'
import { fileProblem, fromFile, fromPath, pathIn } from '../../data/folderFiles.js'
import { LOAD_PRETRAINED_OPTIONS, LOAD_TEXT_OPTIONS } from '../optionKinds.js'
import type { DecoderConfig } from '../transformer/config.js'
import { type Params, parameterShapes } from '../transformer/params.js'
import { checkFallback, type FallbackFormat, withFormat } from './chatFormats.js'
import { ggufArrays, isGguf } from './ggufModel.js'
import { mergeAdapters } from './mergeAdapters.js'
import { readConfig, withTextEnds } from './modelConfig.js'
import { type ModelAccess, type ModelFolders, modelFolders } from './modelFolder.js'
import {
  readTextFiles,
  TEMPLATE_EXTENSION,
  TEMPLATE_FILE,
  TEMPLATE_FOLDER,
  type TextFiles,
  TOKENIZER_CONFIG,
} from './readTextFiles.js'

/** The text side of a model: tokenizer and chat template. */
export interface ModelText {
  readonly tokenizer: TextTokenizer
  readonly template: ChatTemplate
  /** The token with which the template ends the assistant's turn, or else the `eos_token`. */
  readonly endOfTurn: string
  /** Other special tokens that end a turn if they are sampled: further end tokens of the model. */
  readonly otherEnds?: readonly string[]
  /** The original contents of the files, to be saved unchanged. */
  readonly files: Readonly<Record<string, string>>
}

export interface Pretrained {
  readonly config: DecoderConfig
  /** Arrays by parameter name. `makeParams` makes tensors of them. */
  readonly arrays: ReadonlyMap<string, HostArray>
  readonly text: ModelText
}

const readArrays = (files: Files, folder: string): TE.TaskEither<ModelFailure, ReadonlyMap<string, StoredArray>> => {
  if (isGguf(folder)) return ggufArrays(folder, files)
  const place = folder.replace(/(?<!\/)\/+$/, '')
  return pipe(
    openCheckpoint(place, files),
    TE.chainW(readAll),
    TE.bimap(fromPath(folder, place), ({ arrays }) => arrays),
  )
}

/** Computed tables in older files: frequencies, and causal masks of the GPT families. */
const BUFFER = /\.(rotary_emb\.inv_freq|attn\.(attention\.)?(bias|masked_bias))$/

/** Returns true for computed tables, and for the output projection if it is the embedding. */
const isRedundant = (name: string, config: DecoderConfig): boolean =>
  BUFFER.test(name) || (config.tiedEmbeddings && name === 'lm_head.weight')

/** Adds the prefix of all names (`transformer.`), which files of models without a head lack. */
const withPrefix = <A>(arrays: ReadonlyMap<string, A>, config: DecoderConfig): ReadonlyMap<string, A> => {
  const prefix = config.embedding.name.slice(0, config.embedding.name.lastIndexOf('.') + 1)
  const bare = `${config.embedding.name}.weight`.slice(prefix.length)
  if (!arrays.has(bare)) return arrays
  return new Map([...arrays].map(([name, array]) => [name.startsWith('lm_head.') ? name : `${prefix}${name}`, array]))
}

const checkArrays = (
  folder: string,
  config: DecoderConfig,
  arrays: ReadonlyMap<string, StoredArray>,
): E.Either<ModelFailure, ReadonlyMap<string, HostArray>> =>
  pipe(
    checkStored(
      parameterShapes(config),
      new Map([...withPrefix(arrays, config)].filter(([name]) => !isRedundant(name, config))),
    ),
    E.mapLeft(({ reason }) => fileProblem(folder, 'model.safetensors', reason)),
  )

const NO_END = "'eos_token' is missing: it ends the policy's turn; a fallbackFormat may have an endOfTurn instead"

export interface TextOptions {
  /** The name of the chat template, for a model with several. Default 'default'. */
  readonly templateName?: string
  /** The date for templates that need one. Without it, such templates fail to render. */
  readonly now?: Date
  /** The format of a model without a chat template. Default: such a model is rejected. */
  readonly fallbackFormat?: FallbackFormat
}

/** Returns the end of turn of a fallback format or of the template, or else the `eos_token`. */
const endOfTurnOf = (
  { template, tokenizer }: Pick<ModelText, 'template' | 'tokenizer'>,
  format: FallbackFormat | undefined,
): string | undefined => {
  const { eos } = tokenizer.settings.roles
  if (eos === undefined || (template.source === format?.template && format.endOfTurn !== undefined)) return eos
  return turnEndOf(template, tokenizer.addedTokens) ?? eos
}

/**
 * Makes the text side of a model from the contents of its files.
 *
 * Errors   `Left(ModelFailure)` that names the file, for an invalid tokenizer or template, or a
 *          missing template or end token.
 */
export const textFromFiles = (given: TextFiles, options: TextOptions = {}): E.Either<ModelFailure, ModelText> => {
  const { templateName, now, fallbackFormat } = options
  const known = fallbackFormat === undefined ? given : withFormat(given, fallbackFormat)
  const { folder, tokenizer, settings, template, templates = {} } = known
  const files = {
    'tokenizer.json': JSON.stringify(tokenizer),
    [TOKENIZER_CONFIG]: `${JSON.stringify(settings, undefined, 2)}\n`,
    ...(template !== undefined && { [TEMPLATE_FILE]: template }),
    ...Object.fromEntries(
      Object.entries(templates).map(([name, s]) => [`${TEMPLATE_FOLDER}/${name}${TEMPLATE_EXTENSION}`, s]),
    ),
  }
  const choice = {
    others: templates,
    ...(template !== undefined && { file: template }),
    ...(templateName !== undefined && { name: templateName }),
  }
  return pipe(
    textTokenizer(tokenizer, settings),
    E.mapLeft(({ format, reason }) => fileProblem(folder, format, reason)),
    E.bindTo('tokenizer'),
    E.bind('template', () =>
      pipe(
        templateSource(settings, choice),
        E.chain(({ source, variables }) => chatTemplate(source, variables, now === undefined ? {} : { now })),
        E.mapLeft(({ reason }) => fileProblem(folder, TEMPLATE_FILE, reason)),
      ),
    ),
    E.bind('endOfTurn', (made) =>
      E.fromNullable(fileProblem(folder, TOKENIZER_CONFIG, NO_END))(endOfTurnOf(made, fallbackFormat)),
    ),
    E.chainFirst((made) => checkFallback(folder, fallbackFormat, made)),
    E.map((parts) => ({ ...parts, files })),
  )
}

export interface LoadOptions extends Pick<TextOptions, 'templateName' | 'fallbackFormat'>, Omit<ModelAccess, 'files'> {
  /** Read once, when the model is loaded. Templates use that date from then on. */
  readonly calendar?: Calendar
}

const readText = (files: Files, folder: string, options: LoadOptions): TE.TaskEither<ModelFailure, ModelText> => {
  const { calendar = liveCalendar, templateName, fallbackFormat } = options
  const choice = {
    ...(templateName !== undefined && { templateName }),
    ...(fallbackFormat !== undefined && { fallbackFormat }),
  }
  return pipe(
    readTextFiles(files, folder),
    TE.chainEitherK((parts) => textFromFiles(parts, { now: calendar.today(), ...choice })),
  )
}

/** Checks that the model has embeddings for all ids, and the tokenizer the end of turn. */
export const checkFit = (folder: string, config: DecoderConfig, text: ModelText): E.Either<ModelFailure, ModelText> => {
  const { vocabularySize } = text.tokenizer
  if (vocabularySize > config.vocabularySize) {
    return E.left(
      fileProblem(
        folder,
        'tokenizer.json',
        `the tokenizer has ids up to ${vocabularySize - 1}, but the model has only ${config.vocabularySize}`,
      ),
    )
  }
  const { eos = text.endOfTurn } = text.tokenizer.settings.roles
  return text.tokenizer.idOf(eos) === undefined
    ? E.left(fileProblem(folder, TOKENIZER_CONFIG, `eos_token '${eos}' is not in the tokenizer's vocabulary`))
    : E.right(text)
}

/** Loads the config of a model by name. Errors: those of `loadPretrained`. */
export const loadConfig = (
  name: string,
  files: Files = liveFiles,
  access: Omit<ModelAccess, 'files'> = {},
): TE.TaskEither<ModelFailure, DecoderConfig> =>
  pipe(
    modelFolders(name, { files, ...access }),
    TE.chain(({ folder }) => readConfig(folder, files)),
  )

/** Loads the config and the arrays of a folder, without its tokenizer. Does not use the hub. */
export const loadWeights = (
  folder: string,
  files: Files = liveFiles,
): TE.TaskEither<ModelFailure, Omit<Pretrained, 'text'>> =>
  pipe(
    readConfig(folder, files),
    TE.chain((config) =>
      pipe(
        readArrays(files, folder),
        TE.chainEitherK((arrays) => checkArrays(folder, config, arrays)),
        TE.map((arrays) => ({ config, arrays })),
      ),
    ),
  )

/** Returns the folder with the tokenizer: that of the last adapter with one, else the model's. */
const textFolder = ({ folder, adapters }: ModelFolders, files: Files): TE.TaskEither<ModelFailure, string> =>
  pipe(
    adapters,
    TE.traverseSeqArray((adapter) => files.exists(pathIn(adapter, 'tokenizer.json'))),
    TE.bimap(fromFile(folder, 'tokenizer.json'), (exist) => adapters[exist.lastIndexOf(true)] ?? folder),
  )

/** Adds the text side of a model and checks that it matches the config. */
const withText =
  (found: ModelFolders, files: Files, options: LoadOptions) =>
  <T extends { readonly config: DecoderConfig }>(
    model: T,
  ): TE.TaskEither<ModelFailure, T & { readonly text: ModelText }> =>
    pipe(
      textFolder(found, files),
      TE.chain((folder) =>
        pipe(
          readText(files, folder, options),
          TE.chainEitherK((text) => checkFit(folder, model.config, text)),
          TE.chainEitherK((text) => withTextEnds(folder, model.config, text)),
          TE.map((ended) => ({ ...model, ...ended })),
        ),
      ),
    )

/** Like `loadPretrained` without the arrays, for clients of an engine. */
export const loadText = (
  name: string,
  files: Files = liveFiles,
  options: LoadOptions = {},
): TE.TaskEither<ModelFailure, Omit<Pretrained, 'arrays'>> => {
  checkOptions('loadText', options, LOAD_TEXT_OPTIONS)
  return pipe(
    modelFolders(name, { files, ...options }),
    TE.chain((found) =>
      pipe(readConfig(found.folder, files), TE.bindTo('config'), TE.chain(withText(found, files, options))),
    ),
  )
}

/** Loads the config and the arrays of a model, with its adapters merged. */
export const loadArrays = (
  found: ModelFolders,
  files: Files = liveFiles,
): TE.TaskEither<ModelFailure, Omit<Pretrained, 'text'>> =>
  pipe(loadWeights(found.folder, files), TE.chain(mergeAdapters(found.adapters, files)))

/**
 * Loads a model by name: weights, tokenizer and chat template.
 *
 * The name is a folder in Hugging Face's layout, a file in GGUF, a run folder (its best checkpoint,
 * else its newest), `OWNER/NAME` or `hub:OWNER/NAME` for a hub repository (with `@REVISION` for
 * another revision than `main`), or `embedded` for the built-in model. An existing path comes
 * before a repository of the same name. An adapter by such a name is merged into its base model,
 * and `MODEL+ADAPTER` merges an adapter into another model. The template is `chat_template.jinja`,
 * or that of tokenizer_config.json, or one of `additional_chat_templates`, by its name, or that of
 * chat_template.json. A base model without a template needs `fallbackFormat`. The end tokens of the
 * config are those of `config.json` and `generation_config.json`, the `eos_token`, and the token
 * with which the template ends turns.
 *
 * Errors   `Left(ModelFailure)`: an unknown name, with all attempts; a missing, truncated or
 *          malformed file; an unsupported architecture or setting; a parameter that is missing,
 *          extra, of another shape or not finite; a tokenizer that does not match the model; no
 *          chat template.
 * Effects  downloads a repository into the hub's cache, which is used while the hub is unreachable.
 */
export const loadPretrained = (
  name: string,
  files: Files = liveFiles,
  options: LoadOptions = {},
): TE.TaskEither<ModelFailure, Pretrained> => {
  checkOptions('loadPretrained', options, LOAD_PRETRAINED_OPTIONS)
  return pipe(
    modelFolders(name, { files, ...options }),
    TE.chain((found) => pipe(loadArrays(found, files), TE.chain(withText(found, files, options)))),
  )
}

/** Returns true if native code can use the array in place: 32-bit floats, not in shared memory. */
const canAdopt = (data: HostArray['data']): data is Float32Array<ArrayBuffer> =>
  data instanceof Float32Array && data.buffer instanceof ArrayBuffer

/**
 * Makes tensors of a checkpoint's arrays. They belong to the enclosing scope.
 *
 * Effects  where the backend allows it, tensors use the arrays without a copy. Do not modify an
 *          array while its tensor, or a recording of it, is alive. Arrays of integers or in shared
 *          memory are copied.
 */
export const makeParams = (arrays: ReadonlyMap<string, HostArray>): Params =>
  Object.fromEntries(
    [...arrays].map(([name, { data, shape }]) => [
      name,
      canAdopt(data) ? adoptTensor(data, shape, 'float32') : tf.tensor(data, [...shape], 'float32'),
    ]),
  )

/** Copies the data of tensors. The copies outlive the tensors. */
export const hostArrays = (tensors: Readonly<Record<string, tf.Tensor>>): ReadonlyMap<string, PlainArray> =>
  new Map(
    Object.entries(tensors).map(([name, tensor]) => [
      name,
      { shape: [...tensor.shape], data: Float32Array.from(tensor.dataSync()) },
    ]),
  )
