/** The settings in `tokenizer_config.json`, and their effect on `tokenizer.json`. */
import type { Side } from './encoding.js'
import type { AddedTokenJson, ConfigFile, ModelJson, TokenizerFile } from './files.js'

const ROLES = ['bos', 'eos', 'pad', 'unk', 'sep', 'cls', 'mask'] as const

/** The purpose of a special token. */
export type TokenRole = (typeof ROLES)[number]

export interface TokenizerSettings {
  /** The text of the token for each use that the files name. */
  readonly roles: Readonly<Partial<Record<TokenRole, string>>>
  /** The maximum number of tokens of the model; undefined if the files do not define it. */
  readonly maxLength: number | undefined
  readonly paddingSide: Side
  readonly truncationSide: Side
  /**
   * With 'decoding', decoding removes the blanks before full stops, commas and endings such as 's.
   */
  readonly cleanUpSpaces: 'decoding' | 'never'
}

/** Transformers writes 10^30 for no limit. */
const NO_LIMIT = 2 ** 53

/** Decides as Transformers 5.17 does: BPE models keep their blanks unless the config insists. */
const cleansSpaces = (config: ConfigFile, model: ModelJson['type']): boolean =>
  config.clean_up_tokenization_spaces === true &&
  (model !== 'BPE' || config.clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output === true)

/** Reads the settings for a type of model. */
export const tokenizerSettingsOf = (config: ConfigFile, model: ModelJson['type']): TokenizerSettings => {
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

/** Creates the added token for a special token of the config, as Transformers does. */
export const addedSpecial = (content: string, id: number): AddedTokenJson => ({
  id,
  content,
  single_word: false,
  lstrip: false,
  rstrip: false,
  normalized: false,
  special: true,
})

/**
 * Adds the special tokens of the config to the added tokens. Errors: throws RangeError for one that
 * has no id.
 */
const withSpecials = (file: TokenizerFile, config: ConfigFile): readonly AddedTokenJson[] => {
  const additional = (config.additional_special_tokens ?? []).map((token) =>
    typeof token === 'string' ? token : token.content,
  )
  const named = Object.values(tokenizerSettingsOf(config, file.model.type).roles)
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

/**
 * Applies the config to the file: tokens that the config names become special. The tokens around
 * texts come from tokenizer.json alone; `add_bos_token`, `add_eos_token` and `add_prefix_space` of
 * the config are ignored.
 *
 * Errors   throws RangeError for an additional special token that the vocabulary lacks.
 * Source   `PreTrainedTokenizerBase.from_pretrained` and `TokenizersBackend` of Transformers 5.17.
 */
export const configuredTokenizer = (file: TokenizerFile, config: ConfigFile): TokenizerFile => ({
  ...file,
  added_tokens: [...withSpecials(file, config)],
})
