/** Reads the files of a model's text side, with those that older versions of Transformers wrote. */
import type { Files, ModelFailure } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { fileProblem, fromFile, pathIn, readJson, readOptionalJson, readOptionalText } from '../../data/folderFiles.js'
import { ggufText, isGguf } from './ggufModel.js'

export const TEMPLATE_FILE = 'chat_template.jinja'
export const TOKENIZER_CONFIG = 'tokenizer_config.json'
export const TEMPLATE_FOLDER = 'additional_chat_templates'
export const TEMPLATE_EXTENSION = '.jinja'
const SPECIAL_TOKENS = 'special_tokens_map.json'
const PROCESSOR_TEMPLATE = 'chat_template.json'

/** The contents of the files of a model's text side. */
export interface TextFiles {
  /** The folder to name in failures. */
  readonly folder: string
  /** Parsed tokenizer.json. */
  readonly tokenizer: object
  /** Parsed tokenizer_config.json. */
  readonly settings: object
  /** chat_template.jinja. Without it, the template is in the settings. */
  readonly template: string | undefined
  /** The files of additional_chat_templates by template name. */
  readonly templates?: Readonly<Record<string, string>>
}

type Read<T> = TE.TaskEither<ModelFailure, T>

/** Adds special tokens to settings. They replace tokens of the same name and extend lists. */
const withTokens = (settings: object, tokens: object): object => {
  const known = new Map<string, unknown>(Object.entries(settings))
  const merged = Object.entries(tokens).map(([name, value]: [string, unknown]) => {
    const before = known.get(name)
    return [name, Array.isArray(before) && Array.isArray(value) ? [...new Set([...before, ...value])] : value] as const
  })
  return { ...settings, ...Object.fromEntries(merged) }
}

/**
 * Reads tokenizer_config.json, and special_tokens_map.json unless the former lists all added
 * tokens.
 *
 * Source   `PreTrainedTokenizerBase._from_pretrained` of Transformers 5.17.
 */
const readSettings = (files: Files, folder: string): Read<object> =>
  pipe(
    readOptionalJson(files, folder, TOKENIZER_CONFIG),
    TE.chain((settings) =>
      'added_tokens_decoder' in settings
        ? TE.right(settings)
        : pipe(
            readOptionalJson(files, folder, SPECIAL_TOKENS),
            TE.map((tokens) => withTokens(settings, tokens)),
          ),
    ),
  )

/** Reads the template of a processor. Returns `undefined` if its file is missing. */
const readProcessorTemplate = (files: Files, folder: string): Read<string | undefined> =>
  pipe(
    readOptionalJson(files, folder, PROCESSOR_TEMPLATE),
    TE.chainEitherK((json) => {
      const template = 'chat_template' in json ? json.chat_template : undefined
      return template === undefined || typeof template === 'string'
        ? E.right(template)
        : E.left(fileProblem(folder, PROCESSOR_TEMPLATE, "'chat_template' is not a text"))
    }),
  )

/** Reads the additional templates, by name. Returns no templates if their folder is missing. */
const readTemplates = (files: Files, folder: string): Read<Readonly<Record<string, string>>> =>
  pipe(
    files.list(pathIn(folder, TEMPLATE_FOLDER)),
    TE.mapLeft(fromFile(folder, TEMPLATE_FOLDER)),
    TE.chain((names) =>
      TE.traverseSeqArray((name: string) =>
        pipe(
          readOptionalText(files, folder, `${TEMPLATE_FOLDER}/${name}`),
          TE.map((source) => [name.slice(0, -TEMPLATE_EXTENSION.length), source ?? ''] as const),
        ),
      )(names.filter((name) => name.endsWith(TEMPLATE_EXTENSION))),
    ),
    TE.map((entries) => Object.fromEntries(entries)),
  )

const readFolder = (files: Files, folder: string): Read<TextFiles> =>
  pipe(
    TE.Do,
    TE.bind('tokenizer', () => readJson(files, folder, 'tokenizer.json')),
    TE.bind('settings', () => readSettings(files, folder)),
    TE.bind('own', () => readOptionalText(files, folder, TEMPLATE_FILE)),
    TE.bind('template', ({ settings, own }) =>
      own !== undefined || ('chat_template' in settings && settings.chat_template !== null)
        ? TE.right(own)
        : readProcessorTemplate(files, folder),
    ),
    TE.bind('templates', () => readTemplates(files, folder)),
    TE.map(({ tokenizer, settings, template, templates }) => ({ folder, tokenizer, settings, template, templates })),
  )

/**
 * Reads the files of a model's text side, or the metadata of a GGUF file. The template of a
 * processor (chat_template.json) counts if neither chat_template.jinja nor tokenizer_config.json
 * has one.
 *
 * Errors   `Left(ModelFailure)` that names a file that is missing, malformed, or a pointer of Git
 *          LFS.
 */
export const readTextFiles = (files: Files, folder: string): Read<TextFiles> =>
  isGguf(folder)
    ? pipe(
        ggufText(folder, files),
        TE.map((text) => ({ folder, ...text })),
      )
    : readFolder(files, folder)
