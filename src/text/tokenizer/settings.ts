/** What `tokenizer_config.json` says of a tokenizer, and what that changes in `tokenizer.json`. */
import type { Side } from './encoding.js'
import type { AddedTokenJson, ConfigFile, ModelJson, TokenizerFile } from './files.js'

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
 * The file as the config changes it: tokens that the config names are special. What is put around texts is what tokenizer.json says;
 * `add_bos_token`, `add_eos_token` and `add_prefix_space` of the config do not count where there is a tokenizer.json.
 *
 * Errors   throws RangeError for an additional special token that the vocabulary lacks.
 * Source   `PreTrainedTokenizerBase.from_pretrained` and `TokenizersBackend` of Transformers 5.17.
 */
export const configuredTokenizer = (file: TokenizerFile, config: ConfigFile): TokenizerFile => ({
  ...file,
  added_tokens: [...withSpecials(file, config)],
})
