/** What `tokenizer_config.json` says of a tokenizer, and what that changes in `tokenizer.json`. */
import type { Side } from './encoding.js'
import type {
  AddedTokenJson,
  ConfigFile,
  ModelJson,
  SimplePostProcessor,
  TemplatePiece,
  TokenizerFile,
} from './files.js'

const ROLES = ['bos', 'eos', 'pad', 'unk', 'sep', 'cls', 'mask'] as const

/** What a special token is for. */
export type TokenRole = (typeof ROLES)[number]

export interface TokenizerSettings {
  /** The text of the token for each use that the files name. */
  readonly roles: Readonly<Partial<Record<TokenRole, string>>>
  /** The most tokens that the model was made for; undefined if the files do not say. */
  readonly maxLength: number | undefined
  readonly paddingSide: Side
  readonly truncationSide: Side
  /** Whether decoding leaves out the blanks before full stops, commas and endings such as 's. */
  readonly cleanUpSpaces: 'decoding' | 'never'
}

/** Transformers writes 10^30 for no limit. */
const NO_LIMIT = 2 ** 53

/** As Transformers 5.17 has it: BPE models are left alone, for their blanks are their own, unless the config insists. */
const cleansSpaces = (config: ConfigFile, model: ModelJson['type']): boolean =>
  config.clean_up_tokenization_spaces === true &&
  (model !== 'BPE' || config.clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output === true)

/** What the config says, for a kind of model. */
export const settingsOf = (config: ConfigFile, model: ModelJson['type']): TokenizerSettings => {
  const maxLength = config.model_max_length ?? NO_LIMIT
  return {
    roles: Object.fromEntries(
      ROLES.flatMap((role) => {
        const text = config[`${role}_token`]
        return text === undefined ? [] : [[role, text]]
      }),
    ),
    maxLength: maxLength < NO_LIMIT ? maxLength : undefined,
    paddingSide: config.padding_side ?? 'right',
    truncationSide: config.truncation_side ?? 'right',
    cleanUpSpaces: cleansSpaces(config, model) ? 'decoding' : 'never',
  }
}

const modelIdOf = (file: TokenizerFile, token: string): number | undefined => {
  const { model } = file
  if (model.type !== 'Unigram') return new Map(Object.entries(model.vocab)).get(token)
  const place = model.vocab.findIndex(([text]) => text === token)
  return place < 0 ? undefined : place
}

/** A token of the model that the config calls special, as Transformers adds it. */
const addedSpecial = (content: string, id: number): AddedTokenJson => ({
  id,
  content,
  single_word: false,
  lstrip: false,
  rstrip: false,
  normalized: false,
  special: true,
})

/** Added tokens with those that the config calls special. Errors: throws RangeError for one that has no id. */
const withSpecials = (file: TokenizerFile, config: ConfigFile): readonly AddedTokenJson[] => {
  const additional = (config.additional_special_tokens ?? []).map((token) =>
    typeof token === 'string' ? token : token.content,
  )
  const named = Object.values(settingsOf(config, file.model.type).roles)
  const special = new Set([...named, ...additional])
  const known = file.added_tokens.map((token) => (special.has(token.content) ? { ...token, special: true } : token))
  const others = [...special].filter((content) => !known.some((token) => token.content === content))
  const missing = others.filter((content) => additional.includes(content) && modelIdOf(file, content) === undefined)
  if (missing.length > 0) {
    throw new RangeError(`additional_special_tokens that are not in the vocabulary: ${missing.join(', ')}`)
  }
  return [
    ...known,
    ...others.flatMap((content) => {
      const id = modelIdOf(file, content)
      return id === undefined ? [] : [addedSpecial(content, id)]
    }),
  ]
}

/** The template of `add_bos_token` and `add_eos_token`, where the config gives either. */
const templateOf = (config: ConfigFile, idOf: (token: string) => number | undefined): SimplePostProcessor => {
  const used = (token: string | undefined, wanted: boolean | null | undefined): string | undefined =>
    wanted === true ? token : undefined
  const bos = used(config.bos_token, config.add_bos_token)
  const eos = used(config.eos_token, config.add_eos_token)
  const special = (id: string | undefined, type_id: number): readonly TemplatePiece[] =>
    id === undefined ? [] : [{ SpecialToken: { id, type_id } }]
  const around = (id: 'A' | 'B', type_id: number): readonly TemplatePiece[] => [
    ...special(bos, type_id),
    { Sequence: { id, type_id } },
    ...special(eos, type_id),
  ]
  const tokens = [bos, eos].filter((token) => token !== undefined)
  return {
    type: 'TemplateProcessing',
    single: [...around('A', 0)],
    pair: [...around('A', 0), ...around('B', 1)],
    special_tokens: Object.fromEntries(
      tokens.map((token) => {
        const id = idOf(token)
        if (id === undefined) throw new RangeError(`the token '${token}' that the config adds is not in the vocabulary`)
        return [token, { ids: [id] }]
      }),
    ),
  }
}

/**
 * The file as the config changes it: tokens that it names are special, and `add_bos_token` or `add_eos_token` replace the template.
 *
 * Errors   throws RangeError for an additional special token, or one that is to be added, that the vocabulary lacks.
 * Source   `PreTrainedTokenizerFast` of Transformers 5.17.
 */
export const configured = (file: TokenizerFile, config: ConfigFile): TokenizerFile => {
  const added = withSpecials(file, config)
  const idOf = (token: string): number | undefined =>
    added.find(({ content }) => content === token)?.id ?? modelIdOf(file, token)
  const isExplicit = typeof config.add_bos_token === 'boolean' || typeof config.add_eos_token === 'boolean'
  return {
    ...file,
    added_tokens: [...added],
    post_processor: isExplicit ? [templateOf(config, idOf)] : file.post_processor,
  }
}
